/* Receive queues and shared receive queues: the owner posts, initiators take.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"
#include "verbs_impl.h"

#include <string.h>

enum { POISON = 256 /* bytes of a posted receive buffer that SOFTHCA_CHECK overwrites */ };

int shca_rq_init(struct sm_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
    uint32_t size = 1;

    rq->max_wr = max_wr;
    rq->max_sge = max_sge;
    rq->stride = (uint32_t)(sizeof(struct sm_rwqe) + max_sge * sizeof(struct sm_sge));
    while (size < max_wr) {
        size *= 2;
    }
    rq->size = size;
    rq->bytes = (uint64_t)size * rq->stride;
    rq->off = max_wr ? shca_heap_alloc(rq->bytes) : 0;
    return max_wr && !rq->off ? ENOMEM : 0;
}

void shca_rq_fini(struct sm_rq *rq)
{
    shca_heap_free(rq->off, rq->bytes);
    rq->off = 0;
}

static struct sm_rwqe *slot(const struct sm_rq *rq, uint64_t i)
{
    return (struct sm_rwqe *)((char *)shca_at(rq->off) + (i & (rq->size - 1)) * rq->stride);
}

/* A posted buffer belongs to the device: whoever reads it before the completion shall notice. Only
 * the start of it: UCX 1.13 posts buffers that run into the header of the next one, and is right in
 * that no message of its peers is so long. */
static void poison(const struct ibv_recv_wr *wr)
{
    struct shca_iov v;

    if (!shca_gather((const struct sm_sge *)wr->sg_list, (uint32_t)wr->num_sge, 0, shca.proc_idx,
                     IBV_ACCESS_LOCAL_WRITE, &v)) {
        return; /* execution will report it */
    }
    shca_iov_cut(&v, 0, POISON);
    for (uint32_t i = 0; i < v.n; i++) {
        memset(v.v[i].iov_base, 0xdb, v.v[i].iov_len);
    }
}

/* Posts one request. `released`: slots whose completion was polled (real providers free a slot
 * only then). Caller holds the posting lock. */
static int put(struct sm_rq *rq, const struct ibv_recv_wr *wr, uint64_t released, const char *what)
{
    uint64_t prod = atomic_load_explicit(&rq->prod, memory_order_relaxed);
    struct sm_rwqe *w;

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
        return shca_strict(EINVAL, "%s: %d SGEs, %u granted", what, wr->num_sge, rq->max_sge);
    }
    if (prod - released >= rq->max_wr) {
        return ENOMEM; /* a full queue is for the caller to know, not misuse */
    }
    if (SHCA_UNLIKELY(shca.check)) {
        poison(wr);
    }
    w = slot(rq, prod);
    w->wr_id = wr->wr_id;
    w->nsge = (uint32_t)wr->num_sge;
    for (uint32_t i = 0; i < w->nsge; i++) {
        w->sge[i].addr = wr->sg_list[i].addr;
        w->sge[i].len = wr->sg_list[i].length;
        w->sge[i].lkey = wr->sg_list[i].lkey;
    }
    atomic_store_explicit(&rq->prod, prod + 1, memory_order_release);
    return 0;
}

int shca_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct shca_qp *qp = shca_qp(ibqp);
    struct sm_qp *sm = qp->sm;
    uint32_t state = atomic_load(&sm->o.state);
    int rc = 0;

    if (qp->srq) {
        rc = shca_strict(EINVAL, "ibv_post_recv: the QP uses an SRQ");
    } else if (state == IBV_QPS_RESET + 1) {
        rc = shca_strict(EINVAL, "ibv_post_recv: the QP is in RESET");
    } else if (atomic_load(&qp->ctx->sm->fatal)) {
        rc = EIO;
    }
    pthread_mutex_lock(&qp->rq_lock);
    for (; !rc && wr; wr = wr->next) {
        rc = shca_fault_post_recv(qp->ctx, sm->qpn);
        if (!rc) {
            rc = put(&sm->rq, wr, atomic_load_explicit(&qp->rq_released, memory_order_acquire),
                     "ibv_post_recv");
        }
        if (rc) {
            break;
        }
    }
    /* Either we see the error state here, or who sets it sees the new request. */
    atomic_thread_fence(memory_order_seq_cst);
    if (SHCA_UNLIKELY(atomic_load(&sm->o.state) == IBV_QPS_ERR + 1)) {
        shca_qp_lock(sm);
        shca_rq_flush(sm);
        shca_unlock(&sm->resp);
    }
    pthread_mutex_unlock(&qp->rq_lock);
    if (rc && bad) {
        *bad = wr;
    }
    return rc;
}

int shca_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct shca_srq *srq = (struct shca_srq *)ibsrq;
    struct shca_context *ctx = shca_ctx(ibsrq->context);
    int rc = atomic_load(&ctx->sm->fatal) ? EIO : 0;

    pthread_mutex_lock(&srq->lock);
    for (; !rc && wr; wr = wr->next) {
        rc = shca_fault_post_recv(ctx, 0);
        if (!rc) {
            rc = put(&srq->sm->rq, wr, atomic_load_explicit(&srq->released, memory_order_acquire),
                     "ibv_post_srq_recv");
        }
        if (rc) {
            break;
        }
    }
    pthread_mutex_unlock(&srq->lock);
    if (rc && bad) {
        *bad = wr;
    }
    return rc;
}

static bool take(struct sm_rq *rq, struct shca_rwqe *out)
{
    uint64_t cons = atomic_load_explicit(&rq->cons, memory_order_relaxed);
    const struct sm_rwqe *w;

    if (cons == atomic_load_explicit(&rq->prod, memory_order_acquire)) {
        return false;
    }
    w = slot(rq, cons);
    out->wr_id = w->wr_id;
    out->nsge = w->nsge <= SM_MAX_SGE ? w->nsge : SM_MAX_SGE;
    memcpy(out->sge, w->sge, out->nsge * sizeof(w->sge[0]));
    atomic_store_explicit(&rq->cons, cons + 1, memory_order_release);
    return true;
}

void shca_srq_limit(struct sm_srq *s, uint32_t idx)
{
    uint32_t limit = atomic_load_explicit(&s->limit, memory_order_relaxed);

    if (SHCA_UNLIKELY(limit && atomic_load(&s->rq.prod) - atomic_load(&s->rq.cons) < limit) &&
        atomic_exchange(&s->limit, 0)) {
        shca_event_ctx(s->o.ctx, IBV_EVENT_SRQ_LIMIT_REACHED, idx, atomic_load(&s->o.gen), 0);
    }
}

bool shca_rq_take(struct sm_qp *sm, struct shca_rwqe *out)
{
    struct sm_srq *s;
    bool ok = false;

    out->srq = sm->srq != UINT32_MAX;
    if (!out->srq) {
        ok = take(&sm->rq, out);
        sm->inflight = ok ? SM_TAKEN_RQ : SM_TAKEN_NONE;
        return ok;
    }
    s = &shca.seg->srqs[sm->srq];
    shca_lock(&s->lock);
    if (atomic_load(&s->o.state) && atomic_load(&s->o.gen) == sm->srq_gen) {
        ok = take(&s->rq, out);
        if (ok) {
            sm->inflight_wr = out->wr_id;
            sm->inflight = SM_TAKEN_SRQ;
            shca_srq_limit(s, sm->srq);
        }
    }
    shca_unlock(&s->lock);
    return ok;
}

static void flush_one(struct sm_qp *sm, uint64_t wr_id, uint8_t flags)
{
    struct sm_cqe e = {
        .wr_id = wr_id,
        .status = IBV_WC_WR_FLUSH_ERR,
        .opcode = IBV_WC_RECV,
        .qp_num = sm->qpn,
        .flags = flags,
        .qp = (uint32_t)(sm - shca.seg->qps),
    };

    shca_cq_push(sm->rcq, sm->rcq_gen, &e, NULL);
}

void shca_rq_flush(struct sm_qp *sm)
{
    struct shca_rwqe w;

    if (sm->srq != UINT32_MAX) {
        if (sm->inflight == SM_ORPHAN) {
            sm->inflight = SM_TAKEN_NONE;
            flush_one(sm, sm->inflight_wr, SM_CQE_RECV | SM_CQE_SRQ);
        }
        return;
    }
    while (take(&sm->rq, &w)) {
        flush_one(sm, w.wr_id, SM_CQE_RECV);
    }
}

void shca_qp_lock(struct sm_qp *sm)
{
    if (SHCA_LIKELY(!shca_lock_recovered(&sm->resp))) {
        return;
    }
    if (sm->inflight == SM_TAKEN_RQ) {
        atomic_fetch_sub(&sm->rq.cons, 1);
        sm->inflight = SM_TAKEN_NONE;
    } else if (sm->inflight == SM_TAKEN_SRQ) {
        sm->inflight = SM_ORPHAN;
    }
}
