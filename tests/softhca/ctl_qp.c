/* Queue pairs: creation, state changes, queries, destruction.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"
#include "verbs_impl.h"

#include <stdlib.h>
#include <string.h>

/* 24 bits: generation above the index, so that packets to a recycled QP miss. */
static uint32_t make_qpn(uint32_t idx, uint32_t gen)
{
    return (gen & 0x3ff) << 14 | idx;
}

static int check_caps(const struct shca_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
    const struct sm_limits *l = &ctx->sm->lim;
    const struct ibv_qp_cap *c = &a->cap;

    if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UD) {
        return EOPNOTSUPP;
    }
    if (a->qp_type == IBV_QPT_UD && l->no_ud) {
        return EOPNOTSUPP;
    }
    if (!a->send_cq || !a->recv_cq) {
        return shca_strict(EINVAL, "ibv_create_qp: a CQ is missing");
    }
    if (c->max_send_wr > l->max_qp_wr || c->max_send_sge > l->max_sge ||
        c->max_inline_data > l->max_inline ||
        (!a->srq && (c->max_recv_wr > l->max_qp_wr || c->max_recv_sge > l->max_sge))) {
        return EINVAL; /* programs probe for the limits this way */
    }
    if (atomic_load(&ctx->sm->nqp) >= l->max_qp) {
        return ENOMEM;
    }
    return 0;
}

static int alloc_sq(struct shca_qp *qp)
{
    size_t body = qp->cap.max_send_sge * sizeof(struct ibv_sge);

    if (body < qp->cap.max_inline_data) {
        body = qp->cap.max_inline_data;
    }
    qp->sq_stride = (uint32_t)((sizeof(struct shca_wqe) + body + 63) & ~(size_t)63);
    qp->sq_size = 1;
    while (qp->sq_size < qp->cap.max_send_wr) {
        qp->sq_size *= 2;
    }
    qp->sq = calloc(qp->sq_size, qp->sq_stride);
    return qp->sq ? 0 : ENOMEM;
}

static void init_qp(struct shca_qp *qp, struct ibv_qp_init_attr_ex *a)
{
    struct sm_qp *sm = qp->sm;
    struct ibv_qp *q = &qp->v.qp;

    sm->qpn = make_qpn(qp->idx, qp->gen);
    sm->pd = ((struct shca_pd *)a->pd)->id;
    sm->type = a->qp_type;
    sm->scq = qp->scq->idx;
    sm->scq_gen = qp->scq->gen;
    sm->rcq = qp->rcq->idx;
    sm->rcq_gen = qp->rcq->gen;
    sm->srq = qp->srq ? qp->srq->idx : UINT32_MAX;
    sm->srq_gen = qp->srq ? qp->srq->gen : 0;
    q->context = &qp->ctx->v.context;
    q->qp_context = a->qp_context;
    q->pd = a->pd;
    q->send_cq = a->send_cq;
    q->recv_cq = a->recv_cq;
    q->srq = a->srq;
    q->handle = qp->idx;
    q->qp_num = sm->qpn;
    q->state = IBV_QPS_RESET;
    q->qp_type = a->qp_type;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->cond, NULL);
    pthread_mutex_init(&qp->sq_lock, NULL);
    pthread_mutex_init(&qp->rq_lock, NULL);
}

static void hold_parents(struct shca_qp *qp, int n)
{
    atomic_fetch_add(&qp->ctx->sm->nqp, (uint32_t)n);
    atomic_fetch_add(&qp->ctx->nqp, (uint32_t)n);
    atomic_fetch_add(&((struct shca_pd *)qp->v.qp.pd)->refs, (uint32_t)n);
    atomic_fetch_add(&qp->scq->refs, (uint32_t)n);
    atomic_fetch_add(&qp->rcq->refs, (uint32_t)n);
    if (qp->srq) {
        atomic_fetch_add(&qp->srq->refs, (uint32_t)n);
        atomic_fetch_add(&qp->srq->sm->nqp, (uint32_t)n);
    }
}

static struct shca_qp *new_qp(struct shca_context *ctx, struct ibv_qp_init_attr_ex *a)
{
    struct shca_qp *qp = calloc(1, sizeof(*qp) + SHCA_TAIL);
    int i;

    if (!qp) {
        return NULL;
    }
    qp->ctx = ctx;
    qp->cap = a->cap;
    qp->sq_sig_all = a->sq_sig_all;
    qp->scq = shca_cq(a->send_cq);
    qp->rcq = shca_cq(a->recv_cq);
    qp->srq = (struct shca_srq *)a->srq;
    if (qp->srq) {
        qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
    }
    if (alloc_sq(qp)) {
        free(qp);
        return NULL;
    }
    i = shca_obj_alloc(SM_T_QP, ctx->dev_idx, ctx->idx);
    if (i < 0) {
        free(qp->sq);
        free(qp);
        return NULL;
    }
    qp->idx = (uint32_t)i;
    qp->sm = &shca.seg->qps[i];
    qp->gen = atomic_load(&qp->sm->o.gen);
    if (shca_rq_init(&qp->sm->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge)) {
        shca_obj_free(SM_T_QP, qp->idx);
        free(qp->sq);
        free(qp);
        return NULL;
    }
    return qp;
}

struct ibv_qp *shca_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *a)
{
    const uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    struct shca_context *ctx = shca_ctx(ibctx);
    struct shca_qp *qp = NULL;
    int rc = 0;

    if (atomic_load(&ctx->sm->fatal)) {
        rc = EIO;
    } else if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd) {
        rc = shca_strict(EINVAL, "ibv_create_qp: no PD");
    } else if ((a->comp_mask & ~known) ||
               ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && a->create_flags)) {
        rc = EOPNOTSUPP;
    } else {
        rc = check_caps(ctx, a);
    }
    rc = rc ? rc
            : shca_fault_ctl_on(ctx, SHCA_FAULT_CREATE_QP_FAIL,
                                SHCA_FAULT_SITE(.qp_type = (int)a->qp_type));
    if (!rc) {
        qp = new_qp(ctx, a);
        rc = qp ? 0 : ENOMEM;
    }
    if (rc) {
        errno = rc;
        return NULL;
    }
    init_qp(qp, a);
    if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        rc = shca_qp_ex_init(qp, a->send_ops_flags);
        if (rc) {
            shca_rq_fini(&qp->sm->rq);
            shca_obj_free(SM_T_QP, qp->idx);
            free(qp->sq);
            free(qp);
            errno = rc;
            return NULL;
        }
    }
    hold_parents(qp, 1);
    a->cap = qp->cap;
    atomic_store_explicit(&shca.qps[qp->idx], qp, memory_order_release);
    return &qp->v.qp;
}

SHCA_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };
    struct ibv_qp *qp = shca_create_qp_ex(pd->context, &ex);

    if (qp) {
        attr->cap = ex.cap;
    }
    return qp;
}

/* ---- modify ---- */

static int check_values(const struct shca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
    const struct sm_dev *d = qp->ctx->sm;
    uint8_t port = mask & IBV_QP_PORT ? a->port_num : qp->sm->port_num;

    if ((mask & IBV_QP_PORT) && (port < 1 || port > d->nports)) {
        return shca_strict(EINVAL, "ibv_modify_qp: port %u of %s", port, d->name);
    }
    if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= d->ports[port - 1].npkeys) {
        return shca_strict(EINVAL, "ibv_modify_qp: P_Key index %u of %u", a->pkey_index,
                           d->ports[port - 1].npkeys);
    }
    if ((mask & IBV_QP_PATH_MTU) &&
        (a->path_mtu < IBV_MTU_256 || a->path_mtu > d->ports[port - 1].active_mtu)) {
        return shca_strict(EINVAL, "ibv_modify_qp: path MTU code %d, the port's is %d", a->path_mtu,
                           d->ports[port - 1].active_mtu);
    }
    if (((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > d->lim.max_rd_atom) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > d->lim.max_init_rd_atom)) {
        return shca_strict(EINVAL, "ibv_modify_qp: RDMA read/atomic depth beyond the device's");
    }
    if (((mask & IBV_QP_TIMEOUT) && a->timeout > 31) ||
        ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) ||
        ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31)) {
        return shca_strict(EINVAL, "ibv_modify_qp: timer or retry count does not fit its field");
    }
    if ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > 0xffffff) {
        return shca_strict(EINVAL, "ibv_modify_qp: destination QPN has more than 24 bits");
    }
    if (mask & IBV_QP_ALT_PATH) {
        return EOPNOTSUPP;
    }
    return 0;
}

static void apply(struct shca_qp *qp, const struct ibv_qp_attr *a, int mask,
                  const struct sm_path *path)
{
    struct sm_qp *s = qp->sm;

#define TAKE(bit, to, from) \
    do {                    \
        if (mask & (bit)) { \
            s->to = (from); \
        }                   \
    } while (0)
    TAKE(IBV_QP_PORT, port_num, a->port_num);
    TAKE(IBV_QP_PKEY_INDEX, pkey_index, a->pkey_index);
    TAKE(IBV_QP_QKEY, qkey, a->qkey);
    TAKE(IBV_QP_ACCESS_FLAGS, access, (uint32_t)a->qp_access_flags);
    TAKE(IBV_QP_PATH_MTU, path_mtu, (uint8_t)a->path_mtu);
    TAKE(IBV_QP_DEST_QPN, dest_qpn, a->dest_qp_num);
    TAKE(IBV_QP_RQ_PSN, rq_psn, a->rq_psn & 0xffffff);
    TAKE(IBV_QP_SQ_PSN, sq_psn, a->sq_psn & 0xffffff);
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, a->max_dest_rd_atomic);
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, a->max_rd_atomic);
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, a->min_rnr_timer);
    TAKE(IBV_QP_TIMEOUT, timeout, a->timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt, a->retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry, a->rnr_retry);
    TAKE(IBV_QP_AV, path, *path);
#undef TAKE
    if (mask & IBV_QP_AV) {
        qp->route.epoch = 0;
    }
}

/* Back to RESET: the queues are empty and their completions are gone. sq_lock and resp held. */
static void reset(struct shca_qp *qp)
{
    struct sm_qp *s = qp->sm;

    atomic_store(&s->o.state, IBV_QPS_RESET + 1);
    atomic_store(&s->rq.cons, atomic_load(&s->rq.prod));
    atomic_store(&s->sq_flush, 0);
    s->comm_est = 0;
    s->inflight = SM_TAKEN_NONE;
    qp->sq_done = qp->sq_prod;
    qp->stall = SHCA_RUN;
}

static void after_reset(struct shca_qp *qp)
{
    shca_unpend(qp);
    shca_ud_forget(qp->idx);
    shca_cq_purge(qp->scq, qp->idx);
    if (qp->rcq != qp->scq) {
        shca_cq_purge(qp->rcq, qp->idx);
    }
    atomic_store(&qp->sq_released, qp->sq_prod);
    if (!qp->srq) {
        atomic_store(&qp->rq_released, atomic_load(&qp->sm->rq.prod));
    }
}

static void change_state(struct shca_qp *qp, enum ibv_qp_state to)
{
    switch (to) {
    case IBV_QPS_RESET:
        reset(qp);
        break;
    case IBV_QPS_ERR:
        shca_qp_error(qp->sm, UINT32_MAX);
        break;
    default:
        atomic_store(&qp->sm->o.state, (uint32_t)to + 1);
    }
}

static int modify(struct shca_qp *qp, struct ibv_qp_attr *a, int mask)
{
    enum ibv_qp_state from = (enum ibv_qp_state)(atomic_load(&qp->sm->o.state) - 1);
    enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;
    struct sm_path path;
    int rc;

    /* A program may know better: after an asynchronous error RTS may already be SQE. */
    if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != from) {
        return shca_strict(EINVAL, "ibv_modify_qp: cur_qp_state is %s, the QP is in %s",
                           shca_qp_state_name((int)a->cur_qp_state), shca_qp_state_name((int)from));
    }
    rc = shca_qp_check(qp, from, to, mask);
    rc = rc ? rc : check_values(qp, a, mask);
    if (!rc && (mask & IBV_QP_AV)) {
        rc = shca_path_check(qp->ctx->sm, &a->ah_attr, &path);
        if (!rc && path.port_num != qp->sm->port_num) {
            rc = shca_strict(EINVAL, "ibv_modify_qp: the path's port is %u, the QP's %u",
                             path.port_num, qp->sm->port_num);
        }
    }
    if (rc) {
        return rc;
    }
    pthread_mutex_lock(&qp->sq_lock);
    shca_qp_lock(qp->sm);
    apply(qp, a, mask, &path);
    if (mask & IBV_QP_STATE) {
        change_state(qp, to);
    }
    shca_unlock(&qp->sm->resp);
    if (to == IBV_QPS_ERR) {
        shca_sq_flush(qp);
    }
    if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) {
        shca_sq_run(qp);
    }
    if (from == IBV_QPS_RTS && to == IBV_QPS_SQD && a->en_sqd_async_notify &&
        (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)) {
        /* Nothing is in flight: what was posted is done or stays queued. */
        shca_event_ctx(qp->ctx->idx, IBV_EVENT_SQ_DRAINED, qp->idx, qp->gen, 0);
    }
    pthread_mutex_unlock(&qp->sq_lock);
    if ((mask & IBV_QP_STATE) && to == IBV_QPS_RESET) {
        after_reset(qp);
    }
    qp->v.qp.state = to;
    return 0;
}

SHCA_EXPORT int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
    struct shca_qp *qp = shca_qp(ibqp);
    int rc = atomic_load(&qp->ctx->sm->fatal) ? EIO : 0;

    rc = rc ? rc
            : shca_fault_ctl_on(qp->ctx, SHCA_FAULT_MODIFY_QP_FAIL,
                                SHCA_FAULT_SITE(.qp_type = (int)ibqp->qp_type, .qpn = ibqp->qp_num,
                                                .port = qp->sm->port_num));
    return rc ? rc : modify(qp, attr, mask);
}

SHCA_EXPORT int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask,
                             struct ibv_qp_init_attr *init)
{
    struct shca_qp *qp = shca_qp(ibqp);
    const struct sm_qp *s = qp->sm;

    (void)mask;
    if (atomic_load(&qp->ctx->sm->fatal)) {
        return EIO;
    }
    memset(a, 0, sizeof(*a));
    a->qp_state = a->cur_qp_state = (enum ibv_qp_state)(atomic_load(&s->o.state) - 1);
    a->path_mtu = (enum ibv_mtu)s->path_mtu;
    a->path_mig_state = IBV_MIG_MIGRATED;
    a->qkey = s->qkey;
    a->rq_psn = s->rq_psn;
    a->sq_psn = s->sq_psn;
    a->dest_qp_num = s->dest_qpn;
    a->qp_access_flags = s->access;
    a->cap = qp->cap;
    shca_path_to_attr(&s->path, &a->ah_attr);
    a->pkey_index = s->pkey_index;
    a->max_rd_atomic = s->max_rd_atomic;
    a->max_dest_rd_atomic = s->max_dest_rd_atomic;
    a->min_rnr_timer = s->min_rnr_timer;
    a->port_num = s->port_num;
    a->timeout = s->timeout;
    a->retry_cnt = s->retry_cnt;
    a->rnr_retry = s->rnr_retry;
    memset(init, 0, sizeof(*init));
    init->qp_context = ibqp->qp_context;
    init->send_cq = ibqp->send_cq;
    init->recv_cq = ibqp->recv_cq;
    init->srq = ibqp->srq;
    init->cap = qp->cap;
    init->qp_type = ibqp->qp_type;
    init->sq_sig_all = qp->sq_sig_all;
    ibqp->state = a->qp_state;
    return 0;
}

SHCA_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)flags;
    return op == IBV_WR_RDMA_WRITE && shca_qp(qp)->ctx->sm->lim.in_order;
}

SHCA_EXPORT int ibv_destroy_qp(struct ibv_qp *ibqp)
{
    struct shca_qp *qp = shca_qp(ibqp);
    struct sm_qp *s = qp->sm;

    if (shca_foreign()) {
        return 0;
    }
    pthread_mutex_lock(&shca.progress_lock);
    pthread_mutex_lock(&qp->sq_lock);
    shca_qp_lock(s);
    reset(qp);
    atomic_store(&s->o.state, SM_QP_DYING);
    shca_unlock(&s->resp);
    pthread_mutex_unlock(&qp->sq_lock);
    after_reset(qp);
    atomic_store(&shca.qps[qp->idx], NULL);
    pthread_mutex_unlock(&shca.progress_lock);
    shca_wait_events(&ibqp->mutex, &ibqp->cond, &ibqp->events_completed, &qp->async_events);
    shca_rq_fini(&s->rq);
    hold_parents(qp, -1);
    shca_obj_free(SM_T_QP, qp->idx);
    if (qp->ex) {
        shca_qp_ex_fini(qp);
    }
    pthread_mutex_destroy(&qp->sq_lock);
    pthread_mutex_destroy(&qp->rq_lock);
    free(qp->sq);
    free(qp);
    return 0;
}
