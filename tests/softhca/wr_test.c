/* Test of the ibv_wr_* calls: two RC and two UD queue pairs of one process talk to each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain verbs, so that it runs on the software HCA and on any other device. Prints TAP.
 * Usage: wr_test DEVICE [GID-INDEX]
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALF = 65536, GRH = 40, QKEY = 0x1234, DEPTH = 8 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *memory; /* first half: sources, second half: destinations */
static int gid_index;
static struct ibv_port_attr port;
static union ibv_gid gid;
static int tests, failed;

static void ok(int good, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    printf("%sok %d - ", good ? "" : "not ", ++tests);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
    failed += !good;
}

static void must(int good, const char *what)
{
    if (!good) {
        printf("Bail out! %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct ibv_qp_ex *make_qp(enum ibv_qp_type type, uint64_t ops)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = type,
        .send_cq = cq,
        .recv_cq = cq,
        .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = ops,
        .cap = {.max_send_wr = DEPTH,
                .max_recv_wr = DEPTH,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64},
    };
    struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);

    return qp ? ibv_qp_to_qp_ex(qp) : NULL;
}

static struct ibv_ah_attr address(void)
{
    struct ibv_ah_attr ah = {.dlid = port.lid, .port_num = 1};

    if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        ah.is_global = 1;
        ah.grh.dgid = gid;
        ah.grh.sgid_index = (uint8_t)gid_index;
        ah.grh.hop_limit = 64;
    }
    return ah;
}

static void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qkey = QKEY,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    must(ibv_modify_qp(qp, &a, mask) == 0, "to INIT");
}

static void connect_rc(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = port.active_mtu,
                            .dest_qp_num = peer,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = address()};

    to_init(qp);
    must(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "to RTR");
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    must(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "to RTS");
}

static void start_ud(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};

    to_init(qp);
    must(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0, "to RTR");
    a.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
}

static void post_recv(struct ibv_qp *qp, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)memory + HALF + offset, length, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 0x1000 + offset, .sg_list = &sge, .num_sge = 1}, *bad;

    must(ibv_post_recv(qp, &wr, &bad) == 0, "post_recv");
}

/* Waits for n completions; returns how many were successful, the last receive in *recv. */
static int wait_for(int n, struct ibv_wc *recv)
{
    int good = 0;

    for (long spin = 0; n > 0 && spin < 200 * 1000 * 1000L; spin++) {
        struct ibv_wc wc;

        if (ibv_poll_cq(cq, 1, &wc) == 1) {
            n--;
            good += wc.status == IBV_WC_SUCCESS;
            if (wc.opcode & IBV_WC_RECV && recv) {
                *recv = wc;
            }
        }
    }
    return good;
}

static void fresh(void)
{
    for (size_t i = 0; i < HALF; i++) {
        memory[i] = (uint8_t)(i * 7 + i / 256);
    }
    memset(memory + HALF, 0xee, HALF);
}

static int same(size_t to, const void *from, size_t length)
{
    return memcmp(memory + HALF + to, from, length) == 0 && memory[HALF + to + length] == 0xee;
}

static void begin(struct ibv_qp_ex *qp, uint64_t id, unsigned int flags)
{
    qp->wr_id = id;
    qp->wr_flags = flags;
}

static void test_rc_sends(struct ibv_qp_ex *a, struct ibv_qp_ex *b)
{
    char text[32] = "inline data";
    struct ibv_data_buf bufs[2] = {{text, 6}, {text + 6, 6}};
    struct ibv_sge list[2] = {{(uintptr_t)memory, 100, mr->lkey},
                              {(uintptr_t)memory + 1000, 50, mr->lkey}};
    struct ibv_wc wc = {0};

    fresh();
    post_recv(&b->qp_base, 0, 1000);
    post_recv(&b->qp_base, 1000, 1000);
    post_recv(&b->qp_base, 2000, 1000);
    post_recv(&b->qp_base, 3000, 1000);
    ibv_wr_start(a);
    begin(a, 1, 0);
    ibv_wr_send(a);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory, 100);
    begin(a, 2, 0);
    ibv_wr_send(a);
    ibv_wr_set_sge_list(a, 2, list);
    begin(a, 3, IBV_SEND_SIGNALED);
    ibv_wr_send_imm(a, 0x12345678);
    ibv_wr_set_inline_data(a, text, sizeof(text));
    begin(a, 4, IBV_SEND_SIGNALED);
    ibv_wr_send(a);
    ibv_wr_set_inline_data_list(a, 2, bufs);
    memset(text, 'x', sizeof(text)); /* inline data may change once it is set */
    ok(ibv_wr_complete(a) == 0, "four sends in one batch");
    ok(wait_for(6, &wc) == 6, "six completions: two signalled sends, four receives");
    ok(wc.byte_len == 12, "length of the last receive");
    ok(same(0, memory, 100), "one scatter element");
    memcpy(text, "inline data", 12);
    ok(memcmp(memory + HALF + 1000, memory, 100) == 0 && same(1100, memory + 1000, 50),
       "two scatter elements");
    ok(memcmp(memory + HALF + 2000, "inline data", 12) == 0, "inline data");
    ok(same(3000, "inline data", 12), "inline data in two pieces");
}

static void test_rc_rdma(struct ibv_qp_ex *a, struct ibv_qp_ex *b)
{
    uint64_t remote = (uintptr_t)memory + HALF, value = 40;
    struct ibv_wc wc = {0};

    fresh();
    memcpy(memory + HALF + 8000, &value, 8);
    post_recv(&b->qp_base, 60000, 8);
    ibv_wr_start(a);
    begin(a, 1, 0);
    ibv_wr_rdma_write(a, mr->rkey, remote);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory, 4000);
    begin(a, 2, 0);
    ibv_wr_rdma_write_imm(a, mr->rkey, remote + 5000, 0x11223344);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory + 64, 64);
    begin(a, 3, 0);
    ibv_wr_atomic_fetch_add(a, mr->rkey, remote + 8000, 2);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory + HALF + 8100, 8);
    begin(a, 4, 0);
    ibv_wr_atomic_cmp_swp(a, mr->rkey, remote + 8000, 42, 99);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory + HALF + 8200, 8);
    begin(a, 5, IBV_SEND_SIGNALED);
    ibv_wr_rdma_read(a, mr->rkey, (uintptr_t)memory + 30000);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory + HALF + 30000, 3000);
    ok(ibv_wr_complete(a) == 0, "write, write with immediate, atomics and read in one batch");
    ok(wait_for(2, &wc) == 2, "one send and one receive completion");
    ok(wc.imm_data == 0x11223344 && wc.wc_flags & IBV_WC_WITH_IMM, "immediate data");
    ok(same(0, memory, 4000), "written");
    ok(same(5000, memory + 64, 64), "written with immediate");
    ok(same(30000, memory + 30000, 3000), "read");
    memcpy(&value, memory + HALF + 8100, 8);
    ok(value == 40, "fetch and add returns the old value");
    memcpy(&value, memory + HALF + 8200, 8);
    ok(value == 42, "compare and swap too");
    memcpy(&value, memory + HALF + 8000, 8);
    ok(value == 99, "the final value");
}

static void expect_refused(struct ibv_qp_ex *a, const char *what)
{
    struct ibv_wc wc;

    ok(ibv_wr_complete(a) != 0, "%s is refused", what);
    ok(ibv_poll_cq(cq, 1, &wc) == 0, "and nothing of it is posted");
}

static void send_one(struct ibv_qp_ex *qp, uint32_t length)
{
    begin(qp, 9, IBV_SEND_SIGNALED);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, length);
}

static void test_refusals(struct ibv_qp_ex *a, struct ibv_qp_ex *b)
{
    char big[128] = "";
    struct ibv_sge list[3] = {{(uintptr_t)memory, 1, mr->lkey},
                              {(uintptr_t)memory, 1, mr->lkey},
                              {(uintptr_t)memory, 1, mr->lkey}};
    struct ibv_wc wc;

    ibv_wr_start(a);
    send_one(a, 10);
    ibv_wr_abort(a);
    ok(ibv_poll_cq(cq, 1, &wc) == 0, "an aborted batch posts nothing");

    ibv_wr_start(a);
    send_one(a, 10);
    begin(a, 2, IBV_SEND_SIGNALED);
    ibv_wr_send(a);
    ibv_wr_set_inline_data(a, big, sizeof(big));
    expect_refused(a, "too much inline data");

    ibv_wr_start(a);
    send_one(a, 10);
    begin(a, 2, IBV_SEND_SIGNALED);
    ibv_wr_send(a);
    ibv_wr_set_sge_list(a, 3, list);
    expect_refused(a, "too many scatter elements");

    ibv_wr_start(a);
    for (int i = 0; i < 10000; i++) {
        send_one(a, 10);
    }
    expect_refused(a, "a batch longer than the queue");

    fresh();
    post_recv(&b->qp_base, 0, 100);
    ibv_wr_start(a);
    send_one(a, 100);
    ok(ibv_wr_complete(a) == 0 && wait_for(2, NULL) == 2 && same(0, memory, 100),
       "the queue pair still works");
}

static void test_ud(void)
{
    struct ibv_qp_ex *a = make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    struct ibv_qp_ex *b = make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
    struct ibv_ah_attr attr = address();
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    struct ibv_wc wc = {0};

    must(a && b && ah, "UD queue pairs");
    start_ud(&a->qp_base);
    start_ud(&b->qp_base);
    fresh();
    post_recv(&b->qp_base, 0, GRH + 200);
    post_recv(&b->qp_base, 1000, GRH + 200);
    ibv_wr_start(a);
    begin(a, 1, 0);
    ibv_wr_send(a);
    ibv_wr_set_ud_addr(a, ah, b->qp_base.qp_num, QKEY);
    ibv_wr_set_sge(a, mr->lkey, (uintptr_t)memory, 200);
    begin(a, 2, IBV_SEND_SIGNALED);
    ibv_wr_send_imm(a, 77);
    ibv_wr_set_ud_addr(a, ah, b->qp_base.qp_num, QKEY);
    ibv_wr_set_inline_data(a, memory + 300, 40);
    ok(ibv_wr_complete(a) == 0, "two datagrams in one batch");
    ok(wait_for(3, &wc) == 3, "three completions");
    ok(wc.byte_len == GRH + 40 && wc.imm_data == 77 && wc.src_qp == a->qp_base.qp_num,
       "length, immediate data and sender of the last one");
    ok(same(GRH, memory, 200), "payload");
    ok(same(1000 + GRH, memory + 300, 40), "inline payload");
    ok(make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE) == NULL, "UD with RDMA write is refused");
    ibv_destroy_qp(&a->qp_base);
    ibv_destroy_qp(&b->qp_base);
    ibv_destroy_ah(ah);
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                   IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    struct ibv_qp_ex *a, *b;

    if (argc < 2) {
        fputs("usage: wr_test DEVICE [GID-INDEX]\n", stderr);
        return 2;
    }
    gid_index = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; list && list[i]; i++) {
        if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0) {
            ctx = ibv_open_device(list[i]);
        }
    }
    must(ctx != NULL, "device");
    must(ibv_query_port(ctx, 1, &port) == 0, "port");
    must(ibv_query_gid(ctx, 1, gid_index, &gid) == 0, "GID");
    pd = ibv_alloc_pd(ctx);
    cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    memory = aligned_alloc(4096, 2 * HALF);
    must(pd && cq && memory, "resources");
    mr = ibv_reg_mr(pd, memory, 2 * HALF,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    must(mr != NULL, "memory region");
    a = make_qp(IBV_QPT_RC, ops);
    b = make_qp(IBV_QPT_RC, ops);
    must(a && b, "extended RC queue pairs");
    connect_rc(&a->qp_base, b->qp_base.qp_num);
    connect_rc(&b->qp_base, a->qp_base.qp_num);

    test_rc_sends(a, b);
    test_rc_rdma(a, b);
    test_refusals(a, b);
    test_ud();

    ibv_destroy_qp(&a->qp_base);
    ibv_destroy_qp(&b->qp_base);
    ok(ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 &&
           ibv_close_device(ctx) == 0,
       "everything can be destroyed");
    ibv_free_device_list(list);
    free(memory);
    printf("1..%d\n", tests);
    return failed != 0;
}
