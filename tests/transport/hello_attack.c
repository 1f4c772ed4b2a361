/* A stranger on the fabric sends forged and damaged handshakes to a UD QP whose Q_Key it knows.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A plain verbs program. The job that it attacks must not notice, and must not answer: prints how
 * many answers came.
 *   hello_attack --lid L|--gid G --qpn N --qkey K --job J --ranks R [--count C] [--seed S]
 * On RoCE G is the victim's address, and ours is the same entry of our GID table (--sgid, 3). */
#include <arpa/inet.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/vrb_hello.h"

#define ROOM 1024
#define RECVS 64

static uint64_t lid, qpn, qkey, job, ranks = 2, count = 20000, seed = 1, sgid = 3;
static const char *gid;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_mr *mr;
static uint8_t *mem; /* ROOM bytes to send, then RECVS receive buffers */
static uint64_t answers;

static uint32_t rnd(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void post_recv(uint64_t i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(mem + ROOM * (1 + i)), .length = ROOM, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

    if (ibv_post_recv(qp, &wr, &bad) != 0) {
        die("ibv_post_recv");
    }
}

static void open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = list != NULL && list[0] != NULL ? ibv_open_device(list[0]) : NULL;
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 4, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = (uint32_t)qkey};
    struct ibv_ah_attr to = {.dlid = (uint16_t)lid, .port_num = 1};

    if (gid != NULL) {
        to.is_global = 1;
        to.grh.sgid_index = (uint8_t)sgid;
        to.grh.hop_limit = 64;
        if (inet_pton(AF_INET6, gid, to.grh.dgid.raw) != 1) {
            die("--gid");
        }
    }

    if (ctx == NULL) {
        die("no device");
    }
    mem = calloc(1 + RECVS, ROOM);
    pd = ibv_alloc_pd(ctx);
    cq = ibv_create_cq(ctx, 2 * RECVS, NULL, NULL, 0);
    init.send_cq = init.recv_cq = cq;
    mr = pd == NULL ? NULL : ibv_reg_mr(pd, mem, (1 + RECVS) * ROOM, IBV_ACCESS_LOCAL_WRITE);
    qp = cq == NULL ? NULL : ibv_create_qp(pd, &init);
    if (mem == NULL || mr == NULL || qp == NULL) {
        die("no queue pair");
    }
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) !=
        0) {
        die("INIT");
    }
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0) {
        die("RTR");
    }
    attr.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) != 0) {
        die("RTS");
    }
    ah = ibv_create_ah(pd, &to);
    if (ah == NULL) {
        die("ibv_create_ah");
    }
    for (uint64_t i = 0; i < RECVS; i++) {
        post_recv(i);
    }
}

/* Waits until the last send is done; takes what arrived meanwhile. */
static void drain(int sends)
{
    struct ibv_wc wc;

    do {
        while (ibv_poll_cq(cq, 1, &wc) == 1) {
            if (wc.wr_id == RECVS) {
                sends--;
            } else {
                answers++;
                post_recv(wc.wr_id);
            }
        }
    } while (sends > 0);
}

/* Somebody of the job, somebody that it would have if it were larger, somebody of another one. */
static uint64_t any_name(void)
{
    switch (rnd(3)) {
    case 0:
        return job << 32 | rnd((uint32_t)ranks);
    case 1:
        return job << 32 | (rnd(2) ? ranks + rnd(1000000) : UINT32_MAX - rnd(3));
    default:
        return (uint64_t)rnd(UINT32_MAX) << 32 | rnd(100);
    }
}

static uint32_t forge(uint8_t *p)
{
    static const uint8_t types[] = {VRB_HELLO, VRB_REJECT, VRB_INTRO, VRB_HELLO, 0, 255};
    struct vrb_hello h = {
        .type = types[rnd(sizeof(types))],
        .flags = (uint8_t)rnd(256),
        .reason = (uint8_t)rnd(256),
        .mtu = (uint8_t)(1 + rnd(5)),
        .rd_in = (uint8_t)rnd(256),
        .src_rail = (uint8_t)rnd(rnd(8) ? 1 : 256),
        .dst_rail = (uint8_t)rnd(rnd(8) ? 1 : 256),
        .grant = (uint16_t)(1 + rnd(8192)),
        .src_id = 1 + rnd(UINT32_MAX - 1),
        .dst_id = rnd(2) ? 0 : rnd(UINT32_MAX),
        .qpn = 1 + rnd(0xfffffe),
        .psn = rnd(0xffffff),
        .recv_size = 16384,
        .src_name = any_name(),
        .dst_name = job << 32 | rnd((uint32_t)ranks),
    };
    uint32_t len = VRB_HELLO_SIZE;

    memset(p, 0xa5, ROOM);
    vrb_hello_put(&h, p);
    if (rnd(4) == 0) {
        p[4] = (uint8_t)rnd(256); /* version */
    }
    if (rnd(4) == 0) {
        p[rnd(VRB_HELLO_SIZE)] ^= (uint8_t)(1u << rnd(8));
    }
    if (rnd(4) == 0) {
        len = rnd(ROOM);
    }
    return len;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"lid", 1, NULL, 'l'},   {"qpn", 1, NULL, 'q'},
                                            {"qkey", 1, NULL, 'k'},  {"job", 1, NULL, 'j'},
                                            {"ranks", 1, NULL, 'r'}, {"count", 1, NULL, 'c'},
                                            {"seed", 1, NULL, 's'},  {"sgid", 1, NULL, 'i'},
                                            {"gid", 1, NULL, 'g'},   {NULL, 0, NULL, 0}};
    uint64_t *const values[] = {&lid, &qpn, &qkey, &job, &ranks, &count, &seed, &sgid};
    static const char letters[] = "lqkjrcsi";
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        const char *at = strchr(letters, c);

        if (c == 'g') {
            gid = optarg;
            continue;
        }
        if (at == NULL) {
            return 2;
        }
        *values[at - letters] = strtoull(optarg, NULL, 0);
    }
    open_device();
    for (uint64_t i = 0; i < count; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)mem, .length = forge(mem), .lkey = mr->lkey};
        struct ibv_send_wr wr = {.wr_id = RECVS,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.ud = {.ah = ah,
                                           .remote_qpn = (uint32_t)qpn,
                                           .remote_qkey = (uint32_t)qkey ^ (rnd(16) == 0)}};
        struct ibv_send_wr *bad;

        if (ibv_post_send(qp, &wr, &bad) != 0) {
            die("ibv_post_send");
        }
        drain(1);
        if (i % 100 == 0) {
            usleep(2000); /* more than its receive queue holds would only be lost */
        }
    }
    usleep(200000);
    drain(0);
    printf("sent %llu, answers %llu\n", (unsigned long long)count, (unsigned long long)answers);
    return 0;
}
