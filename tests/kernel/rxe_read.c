/* Do RDMA reads over soft-RoCE bring what they say they bring? Verbs only, nothing of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *   rxe_read [--reads N] [--size BYTES] [--alone] [DEVICE DEVICE]
 *
 * One process in a guest of the kernel bed connects a queue pair of rxe0 with one of rxe1, sends a
 * message and reads BYTES by RDMA right behind it, N times, and compares every byte. --alone leaves
 * the message out. It counts reads that were right, that failed, and that were completed with
 * success though the data is not there; of the last it tells more. Status 1 if there were any.
 * After an error the queue pairs are set up anew. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SIZE (1U << 20)
#define MESSAGE 64
#define GID_INDEX 0 /* the link-local one: its hardware address is in it */
#define WAIT_S 20.0
#define STALE 0xee

enum { SEND = 1, READ = 2, RECV = 3 };

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    enum ibv_mtu mtu;
    unsigned char *memory; /* what is read or read into, then the message */
};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void open_end(struct end *e, const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_port_attr port;
    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            e->context = ibv_open_device(list[i]);
        }
    }
    if (e->context == NULL || ibv_query_port(e->context, 1, &port) != 0 ||
        ibv_query_gid(e->context, 1, GID_INDEX, &e->gid) != 0) {
        die(name);
    }
    ibv_free_device_list(list);
    e->mtu = port.active_mtu;
    e->memory = aligned_alloc(4096, MAX_SIZE + 4096);
    e->pd = ibv_alloc_pd(e->context);
    e->cq = ibv_create_cq(e->context, 64, NULL, NULL, 0);
    if (e->memory == NULL || e->pd == NULL || e->cq == NULL) {
        die("resources");
    }
    e->mr = ibv_reg_mr(e->pd, e->memory, MAX_SIZE + 4096,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    if (e->mr == NULL) {
        die("memory region");
    }
}

static void make_qp(struct end *e)
{
    struct ibv_qp_init_attr init = {
        .send_cq = e->cq,
        .recv_cq = e->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    e->qp = ibv_create_qp(e->pd, &init);
    if (e->qp == NULL ||
        ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        die("queue pair");
    }
}

static void connect_qp(struct end *e, const struct end *to)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = e->mtu,
        .dest_qp_num = to->qp->qp_num,
        .rq_psn = 7,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = to->gid, .sgid_index = GID_INDEX, .hop_limit = 64}}};
    if (ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
        die("queue pair to RTR");
    }
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = 7,
                                .max_rd_atomic = 4,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7};
    if (ibv_modify_qp(e->qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY) != 0) {
        die("queue pair to RTS");
    }
}

static void set_up(struct end *reader, struct end *owner)
{
    make_qp(reader);
    make_qp(owner);
    connect_qp(reader, owner);
    connect_qp(owner, reader);
}

static void take_down(struct end *e)
{
    struct ibv_wc wc;
    ibv_destroy_qp(e->qp);
    while (ibv_poll_cq(e->cq, 1, &wc) > 0) {
    }
}

static const char *state_of(struct end *e)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if (ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init) != 0 || attr.qp_state > IBV_QPS_ERR) {
        return "?";
    }
    return names[attr.qp_state];
}

static unsigned char pattern(unsigned long turn, size_t i)
{
    return (unsigned char)((turn * 31 + i / 1024 * 7 + i) % 127); /* never STALE */
}

/* Posts one turn. */
static void post(struct end *reader, struct end *owner, size_t size, int alone)
{
    struct ibv_sge taken = {(uintptr_t)owner->memory + MAX_SIZE, MESSAGE, owner->mr->lkey};
    struct ibv_recv_wr recv = {.wr_id = RECV, .sg_list = &taken, .num_sge = 1}, *bad_recv;
    struct ibv_sge message = {(uintptr_t)reader->memory + MAX_SIZE, MESSAGE, reader->mr->lkey};
    struct ibv_sge into = {(uintptr_t)reader->memory, (uint32_t)size, reader->mr->lkey};
    struct ibv_send_wr read = {.wr_id = READ,
                               .sg_list = &into,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_READ,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr.rdma = {(uintptr_t)owner->memory, owner->mr->rkey}};
    struct ibv_send_wr send = {.wr_id = SEND,
                               .next = &read,
                               .sg_list = &message,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    if (!alone && ibv_post_recv(owner->qp, &recv, &bad_recv) != 0) {
        die("post a receive");
    }
    if (ibv_post_send(reader->qp, alone ? &read : &send, &bad) != 0) {
        die("post");
    }
}

/* Status of the read; -1 if it never ended. */
static int wait_read(struct end *reader, struct end *owner)
{
    double end = now() + WAIT_S;
    struct ibv_wc wc;
    while (now() < end) {
        while (ibv_poll_cq(owner->cq, 1, &wc) > 0) {
        }
        if (ibv_poll_cq(reader->cq, 1, &wc) > 0 && wc.wr_id == READ) {
            return (int)wc.status;
        }
    }
    return -1;
}

/* Returns the number of wrong bytes and tells about them. */
static size_t check(struct end *reader, unsigned long turn, size_t size)
{
    size_t first = size, last = 0, wrong = 0, stale = 0;
    for (size_t i = 0; i < size; i++) {
        if (reader->memory[i] != pattern(turn, i)) {
            first = wrong == 0 ? i : first;
            last = i;
            wrong++;
            stale += reader->memory[i] == STALE;
        }
    }
    if (wrong > 0) {
        printf("read %lu: completed with success, but %zu of %zu bytes are wrong (%zu to %zu); "
               "%zu hold what was there before; the queue pair is in %s",
               turn, wrong, size, first, last, stale, state_of(reader));
        struct timespec moment = {0, 100000000};
        nanosleep(&moment, NULL);
        printf(", 0.1 s later in %s\n", state_of(reader));
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    unsigned long reads = 1000, right = 0, failed = 0, lied = 0;
    size_t size = 8183;
    int alone = 0, i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--alone") == 0) {
            alone = 1;
        } else if (strcmp(argv[i], "--reads") == 0 && i + 1 < argc) {
            reads = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            size = strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr,
                    "usage: rxe_read [--reads N] [--size BYTES] [--alone] [DEVICE DEVICE]\n");
            return 2;
        }
    }
    if (size < 1 || size > MAX_SIZE) {
        fprintf(stderr, "rxe_read: a size from 1 to %u\n", MAX_SIZE);
        return 2;
    }
    struct end reader = {.context = NULL}, owner = {.context = NULL};
    open_end(&reader, i + 1 < argc ? argv[i] : "rxe0");
    open_end(&owner, i + 1 < argc ? argv[i + 1] : "rxe1");
    set_up(&reader, &owner);
    for (unsigned long turn = 0; turn < reads; turn++) {
        for (size_t b = 0; b < size; b++) {
            owner.memory[b] = pattern(turn, b);
        }
        memset(reader.memory, STALE, size);
        post(&reader, &owner, size, alone);
        int status = wait_read(&reader, &owner);
        int wrong = status == IBV_WC_SUCCESS && check(&reader, turn, size) > 0;
        if (status != IBV_WC_SUCCESS && failed++ < 5) {
            printf("read %lu: %s\n", turn,
                   status < 0 ? "never ended" : ibv_wc_status_str((enum ibv_wc_status)status));
        }
        lied += (unsigned long)wrong;
        right += status == IBV_WC_SUCCESS && !wrong;
        if (status != IBV_WC_SUCCESS || wrong) {
            take_down(&reader);
            take_down(&owner);
            set_up(&reader, &owner);
        }
    }
    printf(
        "%lu reads of %zu bytes%s: %lu right, %lu failed, %lu completed with success but wrong\n",
        reads, size, alone ? "" : ", each behind a message", right, failed, lied);
    return lied > 0;
}
