/* Conformance: state machine, limits, registration, completion queues, SRQ and asynchronous events.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct ibv_context *ctx;
static const struct opts plain;

static int to_state(struct end *e, enum ibv_qp_state s, int more, struct ibv_qp_attr *a)
{
    a->qp_state = s;
    return ibv_modify_qp(e->qp, a, IBV_QP_STATE | more);
}

/* ---- state machine ---- */

static void transitions(void)
{
    const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct end *e = t_end_on(ctx, &plain);
    struct addr self = t_addr(e);
    struct ibv_qp_attr a = {.port_num = 1};

    t_ok(to_state(e, IBV_QPS_RTR, init, &a) == EINVAL, "RESET to RTR is refused");
    t_ok(to_state(e, IBV_QPS_RTS, 0, &a) == EINVAL, "RESET to RTS is refused");
    for (int bit = 0; bit < 21; bit++) {
        if (init & (1 << bit) && to_state(e, IBV_QPS_INIT, init & ~(1 << bit), &a) != EINVAL) {
            t_ok(false, "INIT without attribute bit %d is refused", bit);
        }
    }
    t_ok(t_state(e) == IBV_QPS_RESET, "INIT with any attribute missing is refused");
    t_ok(to_state(e, IBV_QPS_INIT, init | IBV_QP_TIMEOUT, &a) == EINVAL,
         "INIT with an attribute that does not belong there is refused");
    a.port_num = 9;
    t_ok(to_state(e, IBV_QPS_INIT, init, &a) == EINVAL, "INIT on a port that is not there");
    a.port_num = 1;
    a.pkey_index = 77;
    t_ok(to_state(e, IBV_QPS_INIT, init, &a) == EINVAL, "INIT with a P_Key index beyond the table");
    t_ok(t_recv(e, 1, 0, 64) == EINVAL, "a receive in RESET is refused");
    t_ok(!t_init(e, &plain) && !t_recv(e, 1, 0, 64), "a receive in INIT is accepted");
    t_ok(t_send(e, 1, 0, 8) == EINVAL, "a send in INIT is refused");
    t_ok(!t_rtr(e, &self, &plain) && t_send(e, 1, 0, 8) == EINVAL, "a send in RTR is refused");
    t_ok(t_rtr(e, &self, &plain) == EINVAL, "RTR to RTR is refused");
    t_ok(!t_rts(e, &plain) && t_state(e) == IBV_QPS_RTS, "RTS is reached");
    t_ok(t_init(e, &plain) == EINVAL, "RTS to INIT is refused");
    t_ok(!t_send(e, 2, 0, 8), "a QP connected to itself sends");
    t_expect(e->rcq, IBV_WC_SUCCESS, 1, "... to itself");
    memset(&a, 0, sizeof(a));
    t_ok(!to_state(e, IBV_QPS_RESET, 0, &a) && t_state(e) == IBV_QPS_RESET, "back to RESET");
    t_ok(t_none(e->scq, 5), "RESET removes what was not polled");
    t_connect(e, &self, &plain);
    t_recv(e, 3, 0, 64);
    t_ok(!t_send(e, 4, 0, 8), "and a second life");
    t_expect(e->rcq, IBV_WC_SUCCESS, 3, "... works");
    t_free(e);
}

static void paths(void)
{
    struct end *e = t_end_on(ctx, &plain);
    struct addr self = t_addr(e), other;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = e->port.active_mtu};
    const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

    t_init(e, &plain);
    if (e->gid_index >= 0) {
        t_ah(e, &self, &a.ah_attr);
        a.ah_attr.is_global = 0;
        a.ah_attr.dlid = 1;
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == EINVAL, "RoCE without a GRH is refused");
        t_ah(e, &self, &a.ah_attr);
        a.ah_attr.grh.sgid_index = 9;
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == EINVAL, "an empty source GID is refused");
        a.ah_attr.grh.sgid_index = 200;
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == EINVAL, "a source GID beyond the table is refused");
        other = self;
        other.gid.raw[15] = 99;
        t_ah(e, &other, &a.ah_attr);
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == ETIMEDOUT, "nobody owns the destination: ETIMEDOUT");
        other.gid.raw[13] ^= 0x40;
        t_ah(e, &other, &a.ah_attr);
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == EHOSTUNREACH, "no route to it: EHOSTUNREACH");
    } else {
        other = self;
        other.lid = 0;
        t_ah(e, &other, &a.ah_attr);
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == EINVAL, "a zero LID is refused");
        other.lid = 0x7777;
        t_ah(e, &other, &a.ah_attr);
        t_ok(ibv_modify_qp(e->qp, &a, rtr) == 0, "a LID that nobody has is nobody's fault");
        t_rts(e, &plain);
        t_send(e, 1, 0, 8);
        t_expect(e->scq, IBV_WC_RETRY_EXC_ERR, 1, "... but nobody answers");
    }
    t_free(e);
}

static void limits(void)
{
    struct ibv_device_attr d;
    struct ibv_qp_init_attr qa;
    struct ibv_cq *cq;
    struct ibv_pd *pd = ibv_alloc_pd(ctx);

    ibv_query_device(ctx, &d);
    cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
    for (int i = 0; i < 3; i++) {
        static const char *const what[] = {"more send requests", "more SGEs", "more inline data"};

        qa = (struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC,
                                       .send_cq = cq,
                                       .recv_cq = cq,
                                       .cap = {.max_send_wr = 1, .max_send_sge = 1}};
        qa.cap.max_send_wr += i == 0 ? (uint32_t)d.max_qp_wr : 0;
        qa.cap.max_send_sge += i == 1 ? (uint32_t)d.max_sge : 0;
        qa.cap.max_inline_data = i == 2 ? 1u << 20 : 0;
        errno = 0;
        t_ok(!ibv_create_qp(pd, &qa) && errno == EINVAL, "a QP with %s than the device has",
             what[i]);
    }
    errno = 0;
    t_ok(!ibv_create_cq(ctx, d.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL,
         "a CQ with more entries than the device has");
    t_ok(!ibv_create_cq(ctx, 0, NULL, NULL, 0), "a CQ with no entries");
    t_ok(!ibv_create_cq(ctx, 4, NULL, NULL, ctx->num_comp_vectors), "a completion vector too far");
    qa = (struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC,
                                   .send_cq = cq,
                                   .recv_cq = cq,
                                   .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &qa);

    t_ok(ibv_destroy_cq(cq) == EBUSY, "a CQ in use is not destroyed");
    t_ok(ibv_dealloc_pd(pd) == EBUSY, "a PD in use is not freed");
    t_ok(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd), "unused they are");
}

/* ---- memory ---- */

static void registration(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;

    munmap(hole + 4096, 4096);
    errno = 0;
    t_ok(!ibv_reg_mr(pd, hole, 3 * 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT,
         "a region with a hole: EFAULT");
    errno = 0;
    t_ok(!ibv_reg_mr(pd, ro, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT,
         "read-only memory registered for writing: EFAULT");
    mr = ibv_reg_mr(pd, ro, 4096, IBV_ACCESS_REMOTE_READ);
    t_ok(mr != NULL, "... for reading it works");
    t_ok(mr && mr->lkey != mr->rkey, "lkey and rkey differ");
    if (mr) {
        ibv_dereg_mr(mr);
    }
    errno = 0;
    t_ok(!ibv_reg_mr(pd, hole, 4096, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL,
         "remote write without local write: EINVAL");
    errno = 0;
    t_ok(!ibv_reg_mr(pd, hole, 0, IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL, "an empty region");
    munmap(hole, 4096);
    munmap(hole + 8192, 4096);
    munmap(ro, 4096);
    ibv_dealloc_pd(pd);
}

/* SOFTHCA_MEMLOCK is 65536 when the group runs this part. */
static void memlock(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    char *p = aligned_alloc(4096, 128 << 10);
    struct ibv_mr *a, *b;

    errno = 0;
    t_ok(!ibv_reg_mr(pd, p, 68 << 10, IBV_ACCESS_LOCAL_WRITE) && errno == ENOMEM,
         "more than the memory lock limit: ENOMEM");
    a = ibv_reg_mr(pd, p, 40 << 10, IBV_ACCESS_LOCAL_WRITE);
    errno = 0;
    b = ibv_reg_mr(pd, p, 40 << 10, IBV_ACCESS_LOCAL_WRITE);
    t_ok(a && !b && errno == ENOMEM, "the limit counts all regions together");
    if (a) {
        ibv_dereg_mr(a);
    }
    b = ibv_reg_mr(pd, p + 100, (60 << 10), IBV_ACCESS_LOCAL_WRITE);
    t_ok(b != NULL, "and what is deregistered is free again");
    if (b) {
        ibv_dereg_mr(b);
    }
    b = ibv_reg_mr(pd, p + 4095, (60 << 10) + 2, IBV_ACCESS_LOCAL_WRITE);
    t_ok(!b, "whole pages count");
    ibv_dealloc_pd(pd);
    free(p);
}

/* ---- completion queues and events ---- */

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

/* Arming while an entry waits: silent, or an event at once with SOFTHCA_ARM=pending. */
static void arm_late(bool pending)
{
    struct opts o = {.channel = true};
    struct end *a = t_end_on(ctx, &o), *b = t_end_on(ctx, &o);
    struct ibv_cq *cq = NULL;
    struct ibv_wc wc;
    void *cookie;

    t_pair(a, b, &o);
    t_recv(b, 1, 0, 64);
    t_send(a, 1, 0, 8);
    t_wait(a->scq, &wc, 5000);
    ibv_req_notify_cq(b->rcq, 1);
    t_ok(!readable(b->ch->fd, 20), "armed for solicited ones: the entry that waits is none");
    ibv_req_notify_cq(b->rcq, 0);
    t_ok(readable(b->ch->fd, pending ? 5000 : 20) == pending,
         pending ? "arming tells of an entry that waits" : "arming is silent on what came before");
    if (pending && !ibv_get_cq_event(b->ch, &cq, &cookie)) {
        ibv_ack_cq_events(b->rcq, 1);
        t_wait(b->rcq, &wc, 5000);
        ibv_req_notify_cq(b->rcq, 0);
        t_ok(!readable(b->ch->fd, 20), "... and is silent once it was polled");
    }
    t_free(a);
    t_free(b);
}

static void cq_events(void)
{
    struct opts o = {.channel = true};
    struct end *a = t_end_on(ctx, &o), *b = t_end_on(ctx, &o);
    struct ibv_cq *cq = NULL;
    struct ibv_wc wc;
    struct t_wr w;
    void *cookie;

    t_pair(a, b, &o);
    for (int i = 0; i < 6; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
    }
    t_send(a, 1, 0, 8);
    t_ok(!readable(b->ch->fd, 20), "an unarmed CQ is silent");
    t_wait(b->rcq, &wc, 1000);
    ibv_req_notify_cq(b->rcq, 0);
    t_send(a, 2, 0, 8);
    t_ok(readable(b->ch->fd, 5000) && !ibv_get_cq_event(b->ch, &cq, &cookie) && cq == b->rcq &&
             cookie == b,
         "an armed CQ raises one event");
    t_send(a, 3, 0, 8);
    t_ok(!readable(b->ch->fd, 20), "... only one");
    ibv_ack_cq_events(b->rcq, 1);
    while (t_wait(b->rcq, &wc, 5)) {
    }
    ibv_req_notify_cq(b->rcq, 1);
    t_send(a, 4, 0, 8);
    t_ok(!readable(b->ch->fd, 20), "armed for solicited ones it ignores the others");
    t_wr(a, &w, IBV_WR_SEND, 5, 0, 8);
    w.wr.send_flags |= IBV_SEND_SOLICITED;
    t_post(a, &w);
    t_ok(readable(b->ch->fd, 5000) && !ibv_get_cq_event(b->ch, &cq, &cookie),
         "... until one comes");
    ibv_ack_cq_events(b->rcq, 1);
    ibv_req_notify_cq(b->rcq, 1);
    t_error(b);
    t_ok(readable(b->ch->fd, 5000) && !ibv_get_cq_event(b->ch, &cq, &cookie),
         "an error completion counts as solicited");
    ibv_ack_cq_events(b->rcq, 1);
    fcntl(b->ch->fd, F_SETFL, O_NONBLOCK);
    t_ok(ibv_get_cq_event(b->ch, &cq, &cookie) == -1 && errno == EAGAIN,
         "a non-blocking channel says EAGAIN");
    t_free(a);
    t_free(b);
}

static void cq_resize(void)
{
    struct opts o = {.cqe = 4, .recv_wr = 64};
    struct end *a = t_end_on(ctx, &o), *b = t_end_on(ctx, &o);
    struct ibv_wc wc;
    bool good = true;

    t_pair(a, b, &o);
    for (int i = 0; i < 3; i++) {
        t_recv(b, (uint64_t)i, 100 * (size_t)i, 64);
        t_fill(a->buf, 64, (uint32_t)i);
        t_send(a, (uint64_t)i, 0, 64);
        t_wait(a->scq, &wc, 5000);
    }
    t_ok(ibv_resize_cq(b->rcq, 2) != 0, "a CQ does not shrink below what it holds");
    t_ok(!ibv_resize_cq(b->rcq, 64) && b->rcq->cqe >= 64, "a CQ grows");
    for (int i = 3; i < 40; i++) {
        t_recv(b, (uint64_t)i, 100 * (size_t)i, 64);
        t_fill(a->buf, 64, (uint32_t)i);
        t_send(a, (uint64_t)i, 0, 64);
        t_wait(a->scq, &wc, 5000);
    }
    for (int i = 0; i < 40; i++) {
        good = good && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
               wc.wr_id == (uint64_t)i && t_same(b->buf + 100 * i, 64, (uint32_t)i);
    }
    t_ok(good, "... and keeps what it held, in order");
    t_free(a);
    t_free(b);
}

static void cq_overrun(void)
{
    struct opts o = {.cqe = 4, .recv_wr = 16};
    struct end *a = t_end_on(ctx, &o), *b = t_end_on(ctx, &o);
    struct ibv_wc wc;

    t_pair(a, b, &o);
    for (int i = 0; i < 6; i++) {
        t_recv(b, (uint64_t)i, 0, 64);
        t_send(a, (uint64_t)i, 0, 8);
        t_wait(a->scq, &wc, 5000);
    }
    t_ok(t_async(ctx, IBV_EVENT_CQ_ERR, 5000), "an overrun CQ raises CQ_ERR");
    t_ok(t_state(b) == IBV_QPS_ERR, "... and its QP breaks");
    t_free(a);
    t_free(b);
}

static void bounce_and_dereg(void)
{
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &plain);
    struct ibv_wc wc;
    bool good;

    t_pair(a, b, &plain);
    t_recv(b, 1, 0, 512);
    t_fill(a->buf, 512, 6);
    t_send(a, 1, 0, 512);
    t_wait(a->scq, &wc, 5000);
    ibv_dereg_mr(b->mr);
    b->mr = NULL;
    good = t_same(b->buf, 512, 6);
    t_ok(good, "what was received is in place once the region is deregistered");
    t_ok(t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS, "... and completes");
    t_free(a);
    t_free(b);
}

/* ---- SRQ ---- */

static void srq(void)
{
    struct opts o = {.srq = true};
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &o);
    struct ibv_srq_attr sa = {.srq_limit = 3};
    struct ibv_wc wc;
    bool good = true;

    t_pair(a, b, &plain);
    for (int i = 0; i < 16; i++) {
        good = good && !t_recv(b, (uint64_t)i, 64 * (size_t)i, 64);
    }
    t_ok(good && t_recv(b, 99, 0, 64) == ENOMEM, "an SRQ takes what it was made for, no more");
    t_ok(!ibv_modify_srq(b->srq, &sa, IBV_SRQ_LIMIT) && !ibv_query_srq(b->srq, &sa) &&
             sa.srq_limit == 3 && sa.max_wr == 16,
         "its limit is armed and can be asked for");
    for (int i = 0; i < 13; i++) {
        t_send(a, (uint64_t)i, 0, 8);
        t_wait(a->scq, &wc, 5000);
    }
    t_ok(!t_async(ctx, IBV_EVENT_SRQ_LIMIT_REACHED, 20), "not yet below the limit");
    t_send(a, 13, 0, 8);
    t_ok(t_async(ctx, IBV_EVENT_SRQ_LIMIT_REACHED, 5000), "below the limit: the event");
    ibv_query_srq(b->srq, &sa);
    t_ok(sa.srq_limit == 0, "... once");
    t_ok(t_recv(b, 50, 0, 64) == ENOMEM, "its slots come back through polling only");
    t_ok(t_wait(b->rcq, &wc, 5000) == 1 && !t_recv(b, 50, 0, 64), "... one by one");
    t_ok(ibv_destroy_srq(b->srq) == EBUSY, "an SRQ in use is not destroyed");
    t_ok(ibv_post_recv(b->qp, &(struct ibv_recv_wr){0}, &(struct ibv_recv_wr *){NULL}) != 0,
         "a QP with an SRQ takes no receives of its own");
    t_error(b);
    t_ok(t_async(ctx, IBV_EVENT_QP_LAST_WQE_REACHED, 5000), "its error raises LAST_WQE_REACHED");
    t_free(a);
    t_free(b);
}

static void comm_est(void)
{
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &plain);
    struct addr aa = t_addr(a), ab = t_addr(b);

    t_connect(a, &ab, &plain);
    t_init(b, &plain);
    t_recv(b, 1, 0, 64);
    t_rtr(b, &aa, &plain);
    t_send(a, 1, 0, 8);
    t_expect(b->rcq, IBV_WC_SUCCESS, 1, "a QP in RTR receives");
    t_ok(t_async(ctx, IBV_EVENT_COMM_EST, 5000), "... and raises COMM_EST");
    t_free(a);
    t_free(b);
}

int main(int argc, char **argv)
{
    ctx = t_open();
    if (argc > 1 && !strcmp(argv[1], "memlock")) {
        memlock();
    } else if (argc > 1 && !strcmp(argv[1], "pending")) {
        arm_late(true);
    } else {
        transitions();
        paths();
        limits();
        registration();
        cq_events();
        arm_late(false);
        cq_resize();
        cq_overrun();
        bounce_and_dereg();
        srq();
        comm_est();
    }
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
