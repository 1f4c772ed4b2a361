/* Conformance: what requests do, what they refuse, and how errors look on both sides.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *ctx;
static const struct opts plain;

static void make_pair(struct end **a, struct end **b, const struct opts *o)
{
    *a = t_end_on(ctx, o);
    *b = t_end_on(ctx, o);
    t_pair(*a, *b, o);
}

static void free_pair(struct end *a, struct end *b)
{
    t_free(a);
    t_free(b);
}

/* ---- what works ---- */

static void sends(void)
{
    static const uint32_t sizes[] = {0, 1, 8, 64, 1024, 1025, 5000};
    struct opts o = {.size = 16384};
    struct end *a, *b;
    bool good = true;

    make_pair(&a, &b, &o);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct ibv_wc wc;

        t_fill(a->buf, sizes[i], (uint32_t)i);
        good = good && !t_recv(b, 100 + i, 0, 8192);
        memset(b->buf, 0xee, 8192);
        good = good && !t_send(a, i, 0, sizes[i]);
        good = good && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
               wc.wr_id == i && wc.opcode == IBV_WC_SEND && wc.qp_num == a->qp->qp_num;
        good = good && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
               wc.wr_id == 100 + i && wc.opcode == IBV_WC_RECV && wc.byte_len == sizes[i] &&
               wc.qp_num == b->qp->qp_num && !(wc.wc_flags & IBV_WC_WITH_IMM);
        good = good && t_same(b->buf, sizes[i], (uint32_t)i) && b->buf[sizes[i]] == 0xee;
    }
    t_ok(good, "sends of 0 B to 5000 B arrive whole, with their completions");
    free_pair(a, b);
}

static void scatter(void)
{
    struct end *a, *b;
    struct ibv_sge out[3], in[4];
    struct ibv_send_wr w = {.wr_id = 1,
                            .sg_list = out,
                            .num_sge = 3,
                            .opcode = IBV_WR_SEND_WITH_IMM,
                            .imm_data = 0x11223344,
                            .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    struct ibv_recv_wr r = {.wr_id = 2, .sg_list = in, .num_sge = 4}, *badr;
    struct ibv_wc wc;
    bool good = true;

    for (int big = 0; big < 2; big++) {
        uint32_t unit = big ? 900 : 50;

        make_pair(&a, &b, &plain);
        t_fill(a->buf, 3 * unit, 9);
        for (uint32_t i = 0; i < 4; i++) {
            if (i < 3) {
                out[i] =
                    (struct ibv_sge){(uint64_t)(uintptr_t)a->buf + i * unit, unit, a->mr->lkey};
            }
            in[i] = (struct ibv_sge){(uint64_t)(uintptr_t)b->buf + 4096 - i * 1000, unit - 10 + i,
                                     b->mr->lkey};
        }
        good = good && !ibv_post_recv(b->qp, &r, &badr) && !ibv_post_send(a->qp, &w, &bad);
        good = good && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
               (wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == 0x11223344;
        for (uint32_t i = 0, at = 0; i < 4 && at < 3 * unit; at += in[i++].length) {
            uint32_t n = in[i].length < 3 * unit - at ? in[i].length : 3 * unit - at;

            good = good && !memcmp(b->buf + 4096 - i * 1000, a->buf + at, n);
        }
        free_pair(a, b);
    }
    t_ok(good, "gather and scatter lists of different shapes, with immediate data");
}

static void inline_send(void)
{
    struct end *a, *b;
    struct t_wr w;
    struct ibv_wc wc;
    uint8_t local[64];
    bool good;

    make_pair(&a, &b, &plain);
    t_fill(local, 64, 5);
    good = !t_recv(b, 1, 0, 64);
    t_wr(a, &w, IBV_WR_SEND, 2, 0, 64);
    w.sge.addr = (uint64_t)(uintptr_t)local;
    w.sge.lkey = 0; /* inline data needs no key */
    w.wr.send_flags |= IBV_SEND_INLINE;
    good = good && !t_post(a, &w);
    memset(local, 0, sizeof(local)); /* and may be reused at once */
    good = good && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
    t_ok(good && t_same(b->buf, 64, 5), "inline data is taken at the post");
    w.sge.length = 65;
    t_ok(t_post(a, &w) != 0, "inline data beyond the grant is refused at the post");
    free_pair(a, b);
}

static void rdma(void)
{
    struct end *a, *b;
    struct addr to;
    struct t_wr w;
    struct ibv_wc wc;

    make_pair(&a, &b, &plain);
    to = t_addr(b);
    t_fill(a->buf, 4000, 3);
    t_wr(a, &w, IBV_WR_RDMA_WRITE, 1, 0, 4000);
    t_remote(&w, &to, 100);
    t_ok(!t_post(a, &w) && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
             wc.opcode == IBV_WC_RDMA_WRITE && t_same(b->buf + 100, 4000, 3),
         "RDMA write");
    t_wr(a, &w, IBV_WR_RDMA_READ, 2, 4096, 4000);
    t_remote(&w, &to, 100);
    t_ok(!t_post(a, &w) && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
             wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == 4000 && t_same(a->buf + 4096, 4000, 3),
         "RDMA read");
    t_wr(a, &w, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 0, 16);
    t_remote(&w, &to, 0);
    w.wr.imm_data = 77;
    t_recv(b, 9, 6000, 100);
    b->buf[6000] = 0x33;
    t_ok(!t_post(a, &w) && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
             wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 9 && wc.imm_data == 77 &&
             wc.byte_len == 16 && t_same(b->buf, 16, 3) && b->buf[6000] == 0x33,
         "RDMA write with immediate takes a receive request, not its buffer");
    free_pair(a, b);
}

static void atomics(void)
{
    struct end *a, *b;
    struct addr to;
    struct t_wr w;
    struct ibv_wc wc;
    uint64_t *far, *near;
    bool good;

    make_pair(&a, &b, &plain);
    to = t_addr(b);
    far = (uint64_t *)(void *)(b->buf + 64);
    near = (uint64_t *)(void *)a->buf;
    *far = 40;
    t_wr(a, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
    t_remote(&w, &to, 64);
    w.wr.wr.atomic.compare_add = 2;
    good = !t_post(a, &w) && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
    t_ok(good && wc.opcode == IBV_WC_FETCH_ADD && *near == 40 && *far == 42, "fetch and add");
    t_wr(a, &w, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0, 8);
    t_remote(&w, &to, 64);
    w.wr.wr.atomic.compare_add = 41;
    w.wr.wr.atomic.swap = 7;
    good = !t_post(a, &w) && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
    t_ok(good && wc.opcode == IBV_WC_COMP_SWAP && *near == 42 && *far == 42,
         "compare and swap of another value leaves it");
    w.wr.wr.atomic.compare_add = 42;
    good = !t_post(a, &w) && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
    t_ok(good && *near == 42 && *far == 7, "compare and swap of the right value swaps");
    t_remote(&w, &to, 68);
    good = !t_post(a, &w);
    t_ok(good && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_REM_INV_REQ_ERR,
         "an atomic on an unaligned address is an invalid request");
    free_pair(a, b);
}

/* ---- errors ---- */

static void remote_access(void)
{
    static const struct {
        const char *what;
        int qp_access, status;
        uint32_t key_xor;
        size_t off;
        enum ibv_event_type event;
    } t[] = {
        {"write with a wrong rkey", 0, IBV_WC_REM_ACCESS_ERR, 0x100, 0, IBV_EVENT_QP_ACCESS_ERR},
        {"write with a stale rkey", 0, IBV_WC_REM_ACCESS_ERR, 1, 0, IBV_EVENT_QP_ACCESS_ERR},
        {"write beyond the region", 0, IBV_WC_REM_ACCESS_ERR, 0, 8190, IBV_EVENT_QP_ACCESS_ERR},
        {"write to a QP without that right", IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR, 0, 0,
         IBV_EVENT_QP_REQ_ERR},
    };

    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct opts o = {.qp_access = t[i].qp_access};
        struct end *a, *b;
        struct addr to;
        struct t_wr w;

        make_pair(&a, &b, &o);
        to = t_addr(b);
        to.rkey ^= t[i].key_xor;
        t_recv(b, 50, 0, 64);
        t_wr(a, &w, IBV_WR_RDMA_WRITE, 1, 0, 8);
        t_remote(&w, &to, t[i].off);
        t_post(a, &w);
        t_expect(a->scq, (enum ibv_wc_status)t[i].status, 1, t[i].what);
        t_ok(t_state(a) == IBV_QPS_ERR && t_state(b) == IBV_QPS_ERR, "... breaks both QPs");
        t_expect(b->rcq, IBV_WC_WR_FLUSH_ERR, 50, "... flushes the responder's receives");
        t_ok(t_async(ctx, t[i].event, 5000), "... and raises the event");
        free_pair(a, b);
    }
}

static void wrong_keys(void)
{
    struct end *a, *b;
    struct addr to;
    struct t_wr w;

    make_pair(&a, &b, &plain);
    to = t_addr(b);
    to.rkey = b->mr->lkey;
    t_wr(a, &w, IBV_WR_RDMA_READ, 1, 0, 8);
    t_remote(&w, &to, 0);
    t_post(a, &w);
    t_expect(a->scq, IBV_WC_REM_ACCESS_ERR, 1, "an lkey is no rkey");
    free_pair(a, b);

    make_pair(&a, &b, &plain);
    t_recv(b, 1, 0, 64);
    t_wr(a, &w, IBV_WR_SEND, 2, 0, 8);
    w.sge.lkey = a->mr->rkey;
    t_post(a, &w);
    t_expect(a->scq, IBV_WC_LOC_PROT_ERR, 2, "an rkey is no lkey");
    t_ok(t_state(b) == IBV_QPS_RTS, "... and the responder never knows");
    free_pair(a, b);

    make_pair(&a, &b, &plain);
    t_recv(b, 1, 0, 64);
    t_wr(a, &w, IBV_WR_SEND, 2, 0, 8);
    w.sge.lkey = b->mr->lkey; /* other PD */
    w.sge.addr = (uint64_t)(uintptr_t)b->buf;
    t_post(a, &w);
    t_expect(a->scq, IBV_WC_LOC_PROT_ERR, 2, "a key of another PD is refused");
    free_pair(a, b);
}

static void recv_errors(void)
{
    struct end *a, *b;
    struct ibv_sge sge;
    struct ibv_recv_wr r = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;

    make_pair(&a, &b, &plain);
    t_recv(b, 1, 0, 32);
    t_send(a, 2, 0, 33);
    t_expect(b->rcq, IBV_WC_LOC_LEN_ERR, 1, "a message longer than its buffer: local length error");
    t_expect(a->scq, IBV_WC_REM_INV_REQ_ERR, 2, "... invalid request for the sender");
    free_pair(a, b);

    make_pair(&a, &b, &plain);
    sge = (struct ibv_sge){(uint64_t)(uintptr_t)b->buf, 64, b->mr->lkey ^ 0x100};
    ibv_post_recv(b->qp, &r, &bad);
    t_send(a, 2, 0, 33);
    t_expect(b->rcq, IBV_WC_LOC_PROT_ERR, 5, "a receive with a wrong lkey: local protection error");
    t_expect(a->scq, IBV_WC_REM_OP_ERR, 2, "... remote operation error for the sender");
    free_pair(a, b);
}

static void rnr(void)
{
    struct opts o = {.rnr_retry = 1 + 2, .rnr_timer = 1 + 10 /* 0.32 ms */};
    struct end *a, *b;
    uint64_t t;

    make_pair(&a, &b, &o);
    t_send(a, 1, 0, 8);
    t_send(a, 2, 0, 8);
    t_expect(a->scq, IBV_WC_RNR_RETRY_EXC_ERR, 1, "no receive request: RNR retries run out");
    t_expect(a->scq, IBV_WC_WR_FLUSH_ERR, 2, "... the next request is flushed");
    t_ok(t_state(b) == IBV_QPS_RTS, "... the responder goes on");
    free_pair(a, b);

    o.rnr_retry = 1 + 7;
    o.rnr_timer = 1 + 14; /* 1.28 ms */
    make_pair(&a, &b, &o);
    t = t_now_ms();
    t_send(a, 1, 0, 8);
    t_ok(t_none(a->scq, 100), "with 7 retries it waits on");
    t_recv(b, 9, 0, 64);
    t_expect(a->scq, IBV_WC_SUCCESS, 1, "... until there is a receive request");
    t_expect(b->rcq, IBV_WC_SUCCESS, 9, "... which gets the message");
    t_ok(t_now_ms() - t < 5000, "... soon");
    free_pair(a, b);
}

static void silence(void)
{
    struct opts o = {.timeout = 1 + 8 /* 1 ms */, .retry_cnt = 1 + 3};
    struct end *a, *b;
    struct addr aa, ab;

    /* The peer is not ready yet. */
    a = t_end_on(ctx, &o);
    b = t_end_on(ctx, &o);
    aa = t_addr(a);
    ab = t_addr(b);
    t_connect(a, &ab, &o);
    t_init(b, &o);
    t_recv(b, 3, 0, 64);
    t_send(a, 1, 0, 8);
    t_expect(a->scq, IBV_WC_RETRY_EXC_ERR, 1, "a peer in INIT does not answer: retry exceeded");
    free_pair(a, b);

    o.timeout = 1 + 14; /* 67 ms, 4 times */
    a = t_end_on(ctx, &o);
    b = t_end_on(ctx, &o);
    aa = t_addr(a);
    ab = t_addr(b);
    t_connect(a, &ab, &o);
    t_init(b, &o);
    t_recv(b, 3, 0, 64);
    t_send(a, 1, 0, 8);
    t_none(a->scq, 20);
    t_connect(b, &aa, &o);
    t_expect(a->scq, IBV_WC_SUCCESS, 1, "a peer that gets ready in time is reached");
    free_pair(a, b);

    o.timeout = 1 + 8;
    make_pair(&a, &b, &o);
    t_error(b);
    t_send(a, 1, 0, 8);
    t_expect(a->scq, IBV_WC_RETRY_EXC_ERR, 1, "a peer in the error state: retry exceeded");
    free_pair(a, b);

    make_pair(&a, &b, &o);
    ibv_destroy_qp(b->qp);
    b->qp = NULL;
    t_send(a, 1, 0, 8);
    t_expect(a->scq, IBV_WC_RETRY_EXC_ERR, 1, "a destroyed peer: retry exceeded");
    free_pair(a, b);
}

static void flush(void)
{
    struct end *a, *b;
    struct ibv_wc wc;
    bool good;

    make_pair(&a, &b, &plain);
    t_recv(a, 1, 0, 64);
    t_recv(a, 2, 0, 64);
    t_error(a);
    t_expect(a->rcq, IBV_WC_WR_FLUSH_ERR, 1, "the error state flushes receives in order");
    t_expect(a->rcq, IBV_WC_WR_FLUSH_ERR, 2, "... all of them");
    good = !t_recv(a, 3, 0, 64) && t_wait(a->rcq, &wc, 5000) == 1 &&
           wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 3;
    t_ok(good, "... and those posted later");
    t_ok(!t_send(a, 4, 0, 8), "a send in the error state is accepted");
    t_expect(a->scq, IBV_WC_WR_FLUSH_ERR, 4, "... and flushed");
    free_pair(a, b);
}

static void slots(void)
{
    struct opts o = {.send_wr = 4, .recv_wr = 16};
    struct end *a, *b;
    struct t_wr w;
    struct ibv_wc wc;
    int n = 0, rc = 0;

    make_pair(&a, &b, &o);
    for (int i = 0; i < 10; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
    }
    t_wr(a, &w, IBV_WR_SEND, 1, 0, 8);
    w.wr.send_flags = 0;
    while (n < 8 && !(rc = t_post(a, &w))) {
        n++;
    }
    t_ok(n == 4 && rc == ENOMEM, "unsignalled sends never give their slots back by themselves");
    free_pair(a, b);

    make_pair(&a, &b, &o);
    for (int i = 0; i < 10; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
    }
    t_wr(a, &w, IBV_WR_SEND, 1, 0, 8);
    w.wr.send_flags = 0;
    for (n = 0; n < 3; n++) {
        t_post(a, &w);
    }
    w.wr.send_flags = IBV_SEND_SIGNALED;
    rc = t_post(a, &w);
    t_ok(!rc && t_post(a, &w) == ENOMEM, "a full queue is full although the requests are done");
    t_ok(t_wait(a->scq, &wc, 5000) == 1 && !t_post(a, &w) && !t_post(a, &w) && !t_post(a, &w) &&
             !t_post(a, &w) && t_post(a, &w) == ENOMEM,
         "polling the signalled one frees it and those before it");
    free_pair(a, b);
}

static void key_life(void)
{
    struct end *a, *b;
    struct addr to;
    struct t_wr w;

    make_pair(&a, &b, &plain);
    to = t_addr(b);
    ibv_dereg_mr(b->mr);
    b->mr = ibv_reg_mr(b->pd, b->buf, b->size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    t_ok(b->mr && b->mr->rkey != to.rkey, "a region registered again has another key");
    t_wr(a, &w, IBV_WR_RDMA_WRITE, 1, 0, 8);
    t_remote(&w, &to, 0);
    t_post(a, &w);
    t_expect(a->scq, IBV_WC_REM_ACCESS_ERR, 1, "the old key opens nothing");
    free_pair(a, b);
}

int main(void)
{
    ctx = t_open();
    sends();
    scatter();
    inline_send();
    rdma();
    atomics();
    remote_access();
    wrong_keys();
    recv_errors();
    rnr();
    silence();
    flush();
    slots();
    key_life();
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
