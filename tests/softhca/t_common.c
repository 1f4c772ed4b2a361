/* Helpers of the conformance tests: see t_common.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int t_failures;
static int number;

bool t_ok(bool ok, const char *fmt, ...)
{
    va_list ap;

    printf("%s %d - ", ok ? "ok" : "not ok", ++number);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    t_failures += !ok;
    return ok;
}

void t_note(const char *fmt, ...)
{
    va_list ap;

    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
}

void t_plan(void)
{
    printf("1..%d\n", number);
    fflush(stdout);
}

_Noreturn void t_bail(const char *what)
{
    int err = errno;

    printf("Bail out! %s: %s\n", what, strerror(err));
    fflush(stdout);
    _exit(3);
}

uint64_t t_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

void t_fill(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(seed * 31u + i * 7u + (i >> 8));
    }
}

bool t_same(const uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != (uint8_t)(seed * 31u + i * 7u + (i >> 8))) {
            t_note("byte %zu of %zu differs", i, n);
            return false;
        }
    }
    return true;
}

struct ibv_context *t_open(void)
{
    return t_open_named(getenv("T_DEV"));
}

struct ibv_context *t_open_named(const char *want)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = NULL;

    for (int i = 0; list && list[i] && !ctx; i++) {
        if (!want || !strcmp(want, ibv_get_device_name(list[i]))) {
            ctx = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    if (!ctx) {
        t_bail("no device");
    }
    return ctx;
}

static int orelse(int v, int dflt)
{
    return v ? v - 1 : dflt;
}

struct end *t_end_on(struct ibv_context *ctx, const struct opts *o)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                    IBV_ACCESS_REMOTE_ATOMIC;
    struct end *e = calloc(1, sizeof(*e));
    const char *gid = getenv("T_GID");
    struct ibv_qp_init_attr qa = {
        .qp_type = o->type ? o->type : IBV_QPT_RC,
        .sq_sig_all = o->sig_all,
        .cap = {.max_send_wr = o->send_wr ? o->send_wr : 16,
                .max_recv_wr = o->recv_wr ? o->recv_wr : 16,
                .max_send_sge = o->sge ? o->sge : 4,
                .max_recv_sge = o->sge ? o->sge : 4,
                .max_inline_data = o->inl ? o->inl : 64},
    };
    struct ibv_srq_init_attr sa = {
        .attr = {.max_wr = o->recv_wr ? o->recv_wr : 16, .max_sge = o->sge ? o->sge : 4}};
    int cqe = o->cqe ? o->cqe : 64;

    if (!e) {
        t_bail("memory");
    }
    e->ctx = ctx;
    e->num = o->port ? o->port : 1;
    if (ibv_query_port(ctx, e->num, &e->port)) {
        t_bail("ibv_query_port");
    }
    if (o->gid || gid) {
        e->gid_index = o->gid ? o->gid - 1 : atoi(gid);
    } else {
        e->gid_index = e->port.link_layer == IBV_LINK_LAYER_ETHERNET ? 3 : -1;
    }
    e->size = o->size ? o->size : 8192;
    e->buf = aligned_alloc(4096, (e->size + 4095) & ~(size_t)4095);
    e->pd = ibv_alloc_pd(ctx);
    if (!e->buf || !e->pd) {
        t_bail("pd");
    }
    memset(e->buf, 0, e->size);
    e->mr = ibv_reg_mr(e->pd, e->buf, e->size, o->access ? o->access : all);
    e->ch = o->channel ? ibv_create_comp_channel(ctx) : NULL;
    e->scq = ibv_create_cq(ctx, cqe, e, e->ch, 0);
    e->rcq = ibv_create_cq(ctx, cqe, e, e->ch, 0);
    e->srq = o->srq ? ibv_create_srq(e->pd, &sa) : NULL;
    qa.send_cq = e->scq;
    qa.recv_cq = e->rcq;
    qa.srq = e->srq;
    e->qp = ibv_create_qp(e->pd, &qa);
    if (!e->mr || !e->scq || !e->rcq || (o->srq && !e->srq) || !e->qp) {
        t_bail("an object");
    }
    return e;
}

struct end *t_end(const struct opts *o)
{
    return t_end_on(t_open(), o);
}

/* Keeps the context: several ends may share it. */
void t_free(struct end *e)
{
    int rc = 0;

    rc |= e->qp ? ibv_destroy_qp(e->qp) : 0;
    rc |= e->srq ? ibv_destroy_srq(e->srq) : 0;
    rc |= ibv_destroy_cq(e->scq);
    rc |= ibv_destroy_cq(e->rcq);
    rc |= e->ch ? ibv_destroy_comp_channel(e->ch) : 0;
    rc |= e->mr ? ibv_dereg_mr(e->mr) : 0;
    rc |= ibv_dealloc_pd(e->pd);
    if (rc) {
        t_ok(false, "destroying an end: %s", strerror(rc));
    }
    free(e->buf);
    free(e);
}

struct addr t_addr(const struct end *e)
{
    struct addr a = {.lid = e->port.lid,
                     .qpn = e->qp->qp_num,
                     .rkey = e->mr->rkey,
                     .buf = (uint64_t)(uintptr_t)e->buf};

    if (e->gid_index >= 0 && ibv_query_gid(e->ctx, e->num, e->gid_index, &a.gid)) {
        t_bail("ibv_query_gid");
    }
    return a;
}

void t_ah(const struct end *e, const struct addr *to, struct ibv_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    ah->port_num = e->num;
    ah->dlid = to->lid;
    if (e->gid_index >= 0) {
        ah->is_global = 1;
        ah->grh.sgid_index = (uint8_t)e->gid_index;
        ah->grh.dgid = to->gid;
        ah->grh.hop_limit = 64;
    }
}

int t_init(struct end *e, const struct opts *o)
{
    const int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = e->num,
                            .pkey_index = o->pkey_index,
                            .qkey = o->qkey ? o->qkey : 0x1234,
                            .qp_access_flags = (unsigned int)(o->qp_access ? o->qp_access : all)};

    return ibv_modify_qp(e->qp, &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (e->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int t_rtr(struct end *e, const struct addr *to, const struct opts *o)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = e->port.active_mtu,
                            .max_dest_rd_atomic = 4,
                            .min_rnr_timer = (uint8_t)orelse(o->rnr_timer, 1)};

    if (e->qp->qp_type == IBV_QPT_UD) {
        return ibv_modify_qp(e->qp, &a, IBV_QP_STATE);
    }
    a.dest_qp_num = to->qpn;
    t_ah(e, to, &a.ah_attr);
    return ibv_modify_qp(e->qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int t_rts(struct end *e, const struct opts *o)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
                            .timeout = (uint8_t)orelse(o->timeout, 10),
                            .retry_cnt = (uint8_t)orelse(o->retry_cnt, 7),
                            .rnr_retry = (uint8_t)orelse(o->rnr_retry, 7),
                            .max_rd_atomic = 4};

    return ibv_modify_qp(
        e->qp, &a,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (e->qp->qp_type == IBV_QPT_UD
                 ? 0
                 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

void t_connect(struct end *e, const struct addr *to, const struct opts *o)
{
    int rc = t_init(e, o);

    rc = rc ? rc : t_rtr(e, to, o);
    rc = rc ? rc : t_rts(e, o);
    if (rc) {
        errno = rc;
        t_bail("connecting");
    }
}

void t_pair(struct end *a, struct end *b, const struct opts *o)
{
    struct addr aa = t_addr(a), ab = t_addr(b);

    t_connect(a, &ab, o);
    t_connect(b, &aa, o);
}

int t_error(struct end *e)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

    return ibv_modify_qp(e->qp, &a, IBV_QP_STATE);
}

int t_recv(struct end *e, uint64_t wr_id, size_t off, uint32_t len)
{
    struct ibv_sge sge = {
        .addr = (uint64_t)(uintptr_t)(e->buf + off), .length = len, .lkey = e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

void t_wr(struct end *e, struct t_wr *w, enum ibv_wr_opcode op, uint64_t wr_id, size_t off,
          uint32_t len)
{
    memset(w, 0, sizeof(*w));
    w->sge.addr = (uint64_t)(uintptr_t)(e->buf + off);
    w->sge.length = len;
    w->sge.lkey = e->mr->lkey;
    w->wr.wr_id = wr_id;
    w->wr.num_sge = 1;
    w->wr.opcode = op;
    w->wr.send_flags = IBV_SEND_SIGNALED;
}

void t_remote(struct t_wr *w, const struct addr *to, size_t off)
{
    if (w->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        w->wr.wr.atomic.remote_addr = to->buf + off;
        w->wr.wr.atomic.rkey = to->rkey;
    } else {
        w->wr.wr.rdma.remote_addr = to->buf + off;
        w->wr.wr.rdma.rkey = to->rkey;
    }
}

int t_post(struct end *e, struct t_wr *w)
{
    struct ibv_send_wr *bad;

    w->wr.sg_list = &w->sge;
    return ibv_post_send(e->qp, &w->wr, &bad);
}

int t_send(struct end *e, uint64_t wr_id, size_t off, uint32_t len)
{
    struct t_wr w;

    t_wr(e, &w, IBV_WR_SEND, wr_id, off, len);
    return t_post(e, &w);
}

int t_wait(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
    uint64_t end = t_now_ms() + (uint64_t)ms;

    for (;;) {
        int n = ibv_poll_cq(cq, 1, wc);

        if (n) {
            return n;
        }
        if (t_now_ms() >= end) {
            return 0;
        }
        sched_yield();
    }
}

bool t_none(struct ibv_cq *cq, int ms)
{
    struct ibv_wc wc;

    return t_wait(cq, &wc, ms) == 0;
}

bool t_expect(struct ibv_cq *cq, enum ibv_wc_status status, uint64_t wr_id, const char *what)
{
    struct ibv_wc wc = {0};

    if (t_wait(cq, &wc, 10000) != 1) {
        t_note("%s: no completion within 10 s", what);
        return t_ok(false, "%s", what);
    }
    if (wc.status != status || (wr_id != UINT64_MAX && wc.wr_id != wr_id)) {
        t_note("%s: got status %d (%s) wr_id %llu, expected %d, %llu", what, wc.status,
               ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id, status,
               (unsigned long long)wr_id);
        return t_ok(false, "%s", what);
    }
    return t_ok(true, "%s", what);
}

bool t_async(struct ibv_context *ctx, enum ibv_event_type type, int ms)
{
    uint64_t end = t_now_ms() + (uint64_t)ms;

    while (t_now_ms() < end) {
        struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
        struct ibv_async_event ev;

        if (poll(&p, 1, (int)(end - t_now_ms())) != 1) {
            break;
        }
        if (ibv_get_async_event(ctx, &ev)) {
            break;
        }
        ibv_ack_async_event(&ev);
        if (ev.event_type == type) {
            return true;
        }
        t_note("event passed by: %s", ibv_event_type_str(ev.event_type));
    }
    return false;
}

int t_state(struct end *e)
{
    struct ibv_qp_init_attr ia;
    struct ibv_qp_attr a;

    return ibv_query_qp(e->qp, &a, IBV_QP_STATE, &ia) ? -1 : (int)a.qp_state;
}
