/* Conformance under fault rules: each scenario expects the rules that the group gives it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_context *ctx;
static const struct opts plain;
static const struct opts patient = {.timeout = 1 + 15 /* 134 ms */, .retry_cnt = 1 + 7};
static const struct opts quick = {.timeout = 1 + 8, .retry_cnt = 1 + 2};

static void make_pair(struct end **a, struct end **b, const struct opts *o)
{
    *a = t_end_on(ctx, o);
    *b = t_end_on(ctx, o);
    t_pair(*a, *b, o);
}

static enum ibv_port_state port_state(void)
{
    struct ibv_port_attr p;

    return ibv_query_port(ctx, 1, &p) ? IBV_PORT_NOP : p.state;
}

/* port.down at=100ms for=300ms */
static void port_flap(void)
{
    struct end *a, *b, *c, *d;

    make_pair(&a, &b, &patient);
    make_pair(&c, &d, &quick);
    t_recv(b, 1, 0, 64);
    t_recv(d, 1, 0, 64);
    t_ok(t_async(ctx, IBV_EVENT_PORT_ERR, 5000), "the port goes down: PORT_ERR");
    t_ok(port_state() == IBV_PORT_DOWN, "... and says so");
    t_send(a, 2, 0, 8);
    t_send(c, 2, 0, 8);
    t_expect(c->scq, IBV_WC_RETRY_EXC_ERR, 2, "a short retry time runs out");
    t_ok(t_async(ctx, IBV_EVENT_PORT_ACTIVE, 5000), "it comes up: PORT_ACTIVE");
    t_ok(port_state() == IBV_PORT_ACTIVE, "... and says so");
    t_expect(a->scq, IBV_WC_SUCCESS, 2, "a long retry time outlives it");
    t_free(a);
    t_free(b);
    t_free(c);
    t_free(d);
}

static int send_ud(struct end *from, struct ibv_ah *ah, const struct end *to)
{
    struct t_wr w;

    t_wr(from, &w, IBV_WR_SEND, 3, 0, 8);
    w.wr.wr.ud.ah = ah;
    w.wr.wr.ud.remote_qpn = to->qp->qp_num;
    w.wr.wr.ud.remote_qkey = 0x1234;
    return t_post(from, &w);
}

/* port.down at=100ms for=300ms, SOFTHCA_DOWN=error */
static void down_breaks(void)
{
    static const struct opts ud = {.type = IBV_QPT_UD};
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct end *a, *b, *c, *d, *idle, *peer;
    struct ibv_ah_attr attr;
    struct ibv_ah *ah;
    struct addr to;

    make_pair(&a, &b, &patient);
    make_pair(&c, &d, &ud);
    make_pair(&idle, &peer, &ud);
    to = t_addr(d);
    t_ah(c, &to, &attr);
    ah = ibv_create_ah(c->pd, &attr);
    t_recv(a, 1, 0, 64);
    t_recv(c, 2, 0, 64);
    t_ok(t_async(ctx, IBV_EVENT_PORT_ERR, 5000), "the port goes down: PORT_ERR");
    t_send(a, 2, 0, 8);
    t_expect(a->scq, IBV_WC_LOC_QP_OP_ERR, 2, "a request on an RC QP fails at once");
    t_expect(a->rcq, IBV_WC_WR_FLUSH_ERR, 1, "... and its receives are flushed");
    send_ud(c, ah, d);
    t_expect(c->scq, IBV_WC_LOC_QP_OP_ERR, 3, "one on a UD QP as well");
    t_ok(t_state(c) == IBV_QPS_ERR, "... which is in error");
    t_expect(c->rcq, IBV_WC_WR_FLUSH_ERR, 2, "... and its receives are flushed");
    t_ok(t_state(idle) == IBV_QPS_RTS, "a QP that sent nothing is not touched");
    t_ok(t_async(ctx, IBV_EVENT_PORT_ACTIVE, 5000), "it comes up: PORT_ACTIVE");
    t_ok(t_state(c) == IBV_QPS_ERR, "which mends nothing");
    t_ok(!ibv_modify_qp(c->qp, &reset, IBV_QP_STATE), "but the QP can be reset");
    t_connect(c, &to, &ud);
    t_recv(d, 4, 0, 2048);
    send_ud(c, ah, d);
    t_expect(d->rcq, IBV_WC_SUCCESS, 4, "... and sends again");
    ibv_destroy_ah(ah);
    t_free(a);
    t_free(b);
    t_free(c);
    t_free(d);
    t_free(idle);
    t_free(peer);
}

/* dev.fatal at=100ms */
static void fatal(void)
{
    struct ibv_device_attr da;
    struct end *a, *b;
    struct t_wr w;

    make_pair(&a, &b, &plain);
    t_recv(a, 1, 0, 64);
    t_recv(b, 2, 0, 64);
    t_ok(t_async(ctx, IBV_EVENT_DEVICE_FATAL, 5000), "the device breaks: DEVICE_FATAL");
    t_expect(a->rcq, IBV_WC_WR_FLUSH_ERR, 1, "... receives are flushed");
    t_expect(b->rcq, IBV_WC_WR_FLUSH_ERR, 2, "... on every QP");
    t_wr(a, &w, IBV_WR_SEND, 3, 0, 8);
    t_ok(t_post(a, &w) == EIO, "... posting says EIO");
    t_ok(ibv_query_device(ctx, &da) == EIO, "... so do queries");
    errno = 0;
    t_ok(!ibv_alloc_pd(ctx) && errno == EIO, "... and new objects");
    t_free(a); /* destroying works */
    t_free(b);
    t_ok(true, "... but everything can be destroyed");
}

/* gid.set at=50ms index=5 gid=::ffff:10.9.9.9; lid.set at=150ms lid=0x99 */
static void addresses(void)
{
    struct ibv_port_attr p;
    union ibv_gid g;

    ibv_query_port(ctx, 1, &p);
    t_ok(t_async(ctx, IBV_EVENT_GID_CHANGE, 5000), "an address is added: GID_CHANGE");
    t_ok(!ibv_query_gid(ctx, 1, 5, &g) && g.raw[15] == 9 && g.raw[12] == 10, "... and is there");
    if (p.link_layer == IBV_LINK_LAYER_INFINIBAND) {
        t_ok(t_async(ctx, IBV_EVENT_LID_CHANGE, 5000), "another LID: LID_CHANGE");
        t_ok(!ibv_query_port(ctx, 1, &p) && p.lid == 0x99, "... and it is there");
    }
}

/* rc.read_short bytes=1000: an RDMA read of 3000 bytes */
static void read_short(void)
{
    struct end *a, *b;
    struct addr to;
    struct t_wr w;

    make_pair(&a, &b, &plain);
    to = t_addr(b);
    memset(a->buf, 0, 3000);
    memset(b->buf, 7, 3000);
    t_wr(a, &w, IBV_WR_RDMA_READ, 1, 0, 3000);
    t_remote(&w, &to, 0);
    t_post(a, &w);
    t_expect(a->scq, IBV_WC_SUCCESS, 1, "a short read says that it succeeded");
    t_ok(a->buf[999] == 7 && a->buf[1000] == 0, "... though only its first bytes came");
    t_ok(t_state(a) == IBV_QPS_ERR, "... and the QP is in error");
    t_send(a, 2, 0, 8);
    t_expect(a->scq, IBV_WC_WR_FLUSH_ERR, 2, "... so that nothing behind it succeeds");
    t_free(a);
    t_free(b);
}

/* rc.rnr count=2; wc.error status=12 nth=2 ...: one rule at a time, named by argv[2] */
static void rc_rule(const char *rule)
{
    const struct opts o = {.rnr_retry = 1 + 7};
    struct end *a, *b;
    uint64_t t;

    make_pair(&a, &b, !strcmp(rule, "rnr-exceeded") ? &(struct opts){.rnr_retry = 1 + 1} : &o);
    for (int i = 0; i < 4; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
    }
    t = t_now_ms();
    t_send(a, 1, 0, 8);
    if (!strcmp(rule, "rnr")) {
        t_expect(a->scq, IBV_WC_SUCCESS, 1, "two RNR NAKs, then success");
    } else if (!strcmp(rule, "rnr-exceeded")) {
        t_expect(a->scq, IBV_WC_RNR_RETRY_EXC_ERR, 1, "RNR without end");
    } else if (!strcmp(rule, "retry")) {
        t_expect(a->scq, IBV_WC_RETRY_EXC_ERR, 1, "retry exceeded by rule");
        t_ok(t_state(a) == IBV_QPS_ERR && t_state(b) == IBV_QPS_RTS, "... breaks one side only");
    } else if (!strcmp(rule, "ack")) {
        t_expect(a->scq, IBV_WC_RETRY_EXC_ERR, 1, "a lost acknowledgement: retry exceeded");
        t_expect(b->rcq, IBV_WC_SUCCESS, 0, "... although the message has arrived");
        t_ok(t_state(a) == IBV_QPS_ERR && t_state(b) == IBV_QPS_RTS, "... breaks one side only");
    } else if (!strcmp(rule, "delay")) {
        t_ok(t_none(a->scq, 50), "a delayed request is not done at once");
        t_expect(a->scq, IBV_WC_SUCCESS, 1, "... but later");
        t_ok(t_now_ms() - t >= 100, "... after the delay");
    } else if (!strcmp(rule, "wc")) {
        t_expect(a->scq, IBV_WC_SUCCESS, 1, "the first request passes");
        t_send(a, 2, 0, 8);
        t_expect(a->scq, IBV_WC_REM_OP_ERR, 2, "the second gets the status of the rule");
        t_send(a, 3, 0, 8);
        t_expect(a->scq, IBV_WC_WR_FLUSH_ERR, 3, "... and the rest is flushed");
    }
    t_free(a);
    t_free(b);
}

/* path.mtu bytes=200: packets and not messages count, and a read's are those of its answer */
static void narrow_path(enum ibv_wr_opcode op)
{
    const struct opts o = {.retry_cnt = 1 + 1, .timeout = 1 + 8};
    struct end *a, *b;
    struct addr to;
    struct t_wr w;

    make_pair(&a, &b, &o);
    to = t_addr(b);
    for (uint32_t len = 200; len <= 201; len++) {
        t_recv(b, len, 0, 4096);
        t_wr(a, &w, op, len, 0, len);
        t_remote(&w, &to, 4096);
        t_post(a, &w);
        t_expect(a->scq, len == 200 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, len,
                 len == 200 ? "a packet that fits the path" : "... and one that does not");
    }
    t_free(a);
    t_free(b);
}

/* Two ends that cut messages differently: what takes one packet at both passes. */
static void cut_differently(void)
{
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &plain);
    struct addr at_a = t_addr(a), at_b = t_addr(b);

    a->port.active_mtu = IBV_MTU_256;
    t_connect(a, &at_b, &plain);
    t_connect(b, &at_a, &plain);
    for (int i = 0; i < 2; i++) {
        t_recv(b, (uint64_t)i, 0, 4096);
    }
    t_send(a, 1, 0, 256);
    t_expect(a->scq, IBV_WC_SUCCESS, 1, "different path MTUs: one packet");
    t_send(a, 2, 0, 257);
    t_expect(a->scq, IBV_WC_REM_INV_REQ_ERR, 2, "... and two, which are cut differently");
    t_free(a);
    t_free(b);
}

/* Sends 20 numbered datagrams; fills `got` with the order of arrival. Returns how many came. */
static int datagrams(int *got, bool *intact)
{
    const struct opts o = {.type = IBV_QPT_UD, .recv_wr = 64, .send_wr = 64, .size = 1 << 17};
    struct end *a, *b;
    struct ibv_ah_attr attr;
    struct addr to;
    struct ibv_wc wc;
    int n = 0;

    make_pair(&a, &b, &o);
    to = t_addr(b);
    t_ah(a, &to, &attr);
    for (int i = 0; i < 64; i++) {
        t_recv(b, (uint64_t)i, 2048 * (size_t)i, 2048);
    }
    for (int i = 0; i < 20; i++) {
        struct t_wr w;

        t_fill(a->buf, 500, (uint32_t)i);
        t_wr(a, &w, IBV_WR_SEND_WITH_IMM, (uint64_t)i, 0, 500);
        w.wr.imm_data = (uint32_t)i;
        w.wr.wr.ud.ah = ibv_create_ah(a->pd, &attr);
        w.wr.wr.ud.remote_qpn = to.qpn;
        w.wr.wr.ud.remote_qkey = 0x1234;
        t_post(a, &w);
        t_wait(a->scq, &wc, 5000);
        ibv_destroy_ah(w.wr.wr.ud.ah);
    }
    *intact = true;
    while (n < 64 && t_wait(b->rcq, &wc, 100) == 1) {
        got[n++] = (int)wc.imm_data;
        *intact = *intact && t_same(b->buf + 2048 * wc.wr_id + 40, 500, wc.imm_data);
    }
    t_free(a);
    t_free(b);
    return n;
}

static void ud_rule(const char *rule)
{
    int got[64], n, twice = 0, swapped = 0;
    bool intact;

    n = datagrams(got, &intact);
    for (int i = 1; i < n; i++) {
        twice += got[i] == got[i - 1];
        swapped += got[i] < got[i - 1];
    }
    if (!strcmp(rule, "drop")) {
        t_ok(n == 10 && intact, "every second datagram is lost (%d)", n);
    } else if (!strcmp(rule, "dup")) {
        t_ok(n == 30 && twice == 10 && intact, "every second one comes twice (%d)", n);
    } else if (!strcmp(rule, "reorder")) {
        t_ok(n == 20 && swapped == 3 && intact, "every fifth but the last is overtaken (%d of %d)",
             swapped, n);
    } else if (!strcmp(rule, "delay")) {
        t_ok(n == 20 && got[19] == 0 && intact, "the first comes last");
    } else if (!strcmp(rule, "corrupt")) {
        t_ok(n == 20 && !intact, "one is damaged");
    } else if (!strcmp(rule, "toolong")) {
        t_ok(n == 0, "a path that is too narrow takes none (%d)", n);
    } else if (!strcmp(rule, "none")) {
        t_ok(n == 20 && !swapped && !twice && intact, "a rule that does not match does nothing");
    }
}

/* create_cq.fail nth=1; create_qp.fail nth=1 errno=ENOSPC; reg_mr.fail nth=1; create_ah.fail nth=1;
 * post_send.fail nth=1; post_recv.fail nth=1; reg_mr.limit bytes=100k */
static void control(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr qa = {.qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    char *mem = aligned_alloc(4096, 1 << 17);
    struct ibv_ah_attr attr;
    struct end *a, *b;
    struct addr to;
    struct ibv_mr *mr;
    struct ibv_ah *ah;

    t_ok(!cq, "the first CQ fails");
    cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
    t_ok(cq != NULL, "... the second does not");
    qa.send_cq = qa.recv_cq = cq;
    errno = 0;
    t_ok(!ibv_create_qp(pd, &qa) && errno == ENOSPC, "the first QP fails with the rule's errno");
    errno = 0;
    t_ok(!ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == ENOMEM, "the first region");
    mr = ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE);
    t_ok(mr && !ibv_reg_mr(pd, mem, 1 << 17, IBV_ACCESS_LOCAL_WRITE) && errno == ENOMEM,
         "a limit of the rules on registered memory");
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    free(mem);
    make_pair(&a, &b, &plain);
    to = t_addr(b);
    t_ah(a, &to, &attr);
    t_ok(!ibv_create_ah(a->pd, &attr), "the first address handle");
    ah = ibv_create_ah(a->pd, &attr);
    t_ok(ah != NULL, "... the second is made");
    ibv_destroy_ah(ah);
    t_ok(t_recv(b, 1, 0, 64) == ENOMEM && !t_recv(b, 1, 0, 64), "the first receive is refused");
    t_ok(t_send(a, 1, 0, 8) == ENOMEM && !t_send(a, 1, 0, 8), "the first send is refused");
    t_expect(a->scq, IBV_WC_SUCCESS, 1, "... the second goes through");
    t_free(a);
    t_free(b);
}

/* cq.overrun nth=3; srq.limit nth=2 */
static void queues(void)
{
    const struct opts o = {.srq = true};
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &o);

    t_pair(a, b, &plain);
    for (int i = 0; i < 4; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
    }
    t_send(a, 1, 0, 8); /* completions 1 and 2 */
    t_send(a, 2, 0, 8); /* 3: does not fit any more, says the rule */
    t_ok(t_async(ctx, IBV_EVENT_SRQ_LIMIT_REACHED, 5000), "SRQ_LIMIT_REACHED by rule");
    t_ok(t_async(ctx, IBV_EVENT_CQ_ERR, 5000), "CQ_ERR by rule");
    t_ok(t_state(b) == IBV_QPS_ERR, "... breaks the QP");
    t_free(a);
    t_free(b);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *rule = argc > 2 ? argv[2] : "";

    ctx = t_open();
    if (!strcmp(what, "port")) {
        port_flap();
    } else if (!strcmp(what, "down")) {
        down_breaks();
    } else if (!strcmp(what, "fatal")) {
        fatal();
    } else if (!strcmp(what, "addresses")) {
        addresses();
    } else if (!strcmp(what, "read-short")) {
        read_short();
    } else if (!strcmp(what, "rc")) {
        rc_rule(rule);
    } else if (!strcmp(what, "narrow")) {
        narrow_path(IBV_WR_SEND);
        narrow_path(IBV_WR_RDMA_WRITE);
        narrow_path(IBV_WR_RDMA_READ);
    } else if (!strcmp(what, "cut")) {
        cut_differently();
    } else if (!strcmp(what, "ud")) {
        ud_rule(rule);
    } else if (!strcmp(what, "control")) {
        control();
    } else if (!strcmp(what, "queues")) {
        queues();
    } else {
        fprintf(stderr,
                "usage: t_faults port|down|fatal|addresses|read-short|rc RULE|ud RULE|control|"
                "queues\n");
        return 2;
    }
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
