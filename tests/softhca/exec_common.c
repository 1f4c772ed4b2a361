/* The send queue: running, retrying and flushing of work requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TIMEOUT_NS = 500000000 /* one response timeout; hardware goes on for hours */ };

/* ---- pending list ---- */

void shca_pend(struct shca_qp *qp, uint64_t deadline)
{
    qp->deadline = deadline;
    pthread_mutex_lock(&shca.lock);
    if (!qp->on_pending) {
        qp->on_pending = true;
        qp->next_pending = shca.pending;
        shca.pending = qp;
        atomic_fetch_add(&shca.npending, 1);
    }
    pthread_mutex_unlock(&shca.lock);
    if (deadline < atomic_load(&shca.helper_next)) {
        shca_helper_wake();
    }
}

void shca_unpend(struct shca_qp *qp)
{
    struct shca_qp **p;

    pthread_mutex_lock(&shca.lock);
    for (p = &shca.pending; qp->on_pending && *p; p = &(*p)->next_pending) {
        if (*p == qp) {
            *p = qp->next_pending;
            qp->on_pending = false;
            atomic_fetch_sub(&shca.npending, 1);
            break;
        }
    }
    pthread_mutex_unlock(&shca.lock);
}

/* ---- completion ---- */

static uint32_t wc_opcode(uint32_t op)
{
    switch (op) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

static void complete(struct shca_qp *qp, const struct shca_wqe *w, enum ibv_wc_status status,
                     uint32_t byte_len)
{
    struct sm_cqe e = {
        .wr_id = w->wr_id,
        .status = status,
        .opcode = wc_opcode(w->opcode),
        .byte_len = byte_len,
        .qp_num = qp->sm->qpn,
        .flags = SM_CQE_SEND,
        .qp = qp->idx,
        .sq_idx = qp->sq_done,
    };

    if (status == IBV_WC_SUCCESS && !qp->sq_sig_all && !(w->flags & IBV_SEND_SIGNALED)) {
        return;
    }
    if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR) {
        shca_count(qp->ctx->sm, SM_CNT_ERR_WC, 1);
    }
    shca_cq_push(qp->sm->scq, qp->sm->scq_gen, &e, NULL);
}

void shca_sq_flush(struct shca_qp *qp)
{
    atomic_store(&qp->sm->sq_flush, 0);
    for (; qp->sq_done != qp->sq_prod; qp->sq_done++) {
        complete(qp, shca_sq_slot(qp, qp->sq_done), IBV_WC_WR_FLUSH_ERR, 0);
    }
    qp->stall = SHCA_RUN;
}

void shca_qp_error(struct sm_qp *sm, uint32_t event)
{
    uint32_t idx = (uint32_t)(sm - shca.seg->qps), gen = atomic_load(&sm->o.gen);

    if (atomic_load(&sm->o.state) == IBV_QPS_ERR + 1) {
        return;
    }
    atomic_store(&sm->o.state, IBV_QPS_ERR + 1);
    atomic_thread_fence(memory_order_seq_cst);
    shca_rq_flush(sm);
    if (event != UINT32_MAX) {
        shca_event_ctx(sm->o.ctx, event, idx, gen, 0);
    }
    if (sm->srq != UINT32_MAX) {
        shca_event_ctx(sm->o.ctx, IBV_EVENT_QP_LAST_WQE_REACHED, idx, gen, 0);
    }
    atomic_store(&sm->sq_flush, 1);
    shca_proc_poke(sm->o.proc);
}

/* A request of ours failed: RC QPs go to the error state, UD QPs to SQE (receiving goes on) unless
 * it is `fatal`. */
static void fail(struct shca_qp *qp, const struct shca_wqe *w, enum ibv_wc_status status,
                 bool fatal)
{
    complete(qp, w, status, 0);
    qp->sq_done++;
    shca_qp_lock(qp->sm);
    if (qp->sm->type != IBV_QPT_RC && status != IBV_WC_WR_FLUSH_ERR && !fatal) {
        if (atomic_load(&qp->sm->o.state) == IBV_QPS_RTS + 1) {
            atomic_store(&qp->sm->o.state, IBV_QPS_SQE + 1);
        }
    } else {
        shca_qp_error(qp->sm, UINT32_MAX);
    }
    shca_unlock(&qp->sm->resp);
    shca_sq_flush(qp);
}

/* ---- running ---- */

static uint64_t rnr_ns(uint8_t code)
{
    /* IBTA volume 1, table "encoding for RNR NAK timer field", in 10 us. */
    static const uint32_t t[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                   16,    24,   32,   48,    64,    96,    128,   192,
                                   256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return (uint64_t)t[code & 31] * 10000u;
}

static uint64_t timeout_ns(const struct shca_qp *qp)
{
    uint64_t ns = qp->sm->timeout ? UINT64_C(4096) << qp->sm->timeout : MAX_TIMEOUT_NS;

    return ns < MAX_TIMEOUT_NS ? ns : MAX_TIMEOUT_NS;
}

/* One RNR NAK more; false when the retries are used up. */
static bool rnr(struct shca_qp *qp, const struct shca_result *res)
{
    shca_count(qp->ctx->sm, SM_CNT_RNR, 1);
    if (qp->stall != SHCA_STALL_RNR) {
        qp->stall = SHCA_STALL_RNR;
        qp->rnr_retries = 0;
    }
    if (qp->sm->rnr_retry != 7 && qp->rnr_retries++ >= qp->sm->rnr_retry) {
        return false;
    }
    shca_pend(qp, shca_now() + rnr_ns(res->rnr_timer));
    return true;
}

static bool silence(struct shca_qp *qp)
{
    if (qp->stall != SHCA_STALL_TIMEOUT) {
        qp->stall = SHCA_STALL_TIMEOUT;
        qp->retries = 0;
    } else {
        shca_count(qp->ctx->sm, SM_CNT_TIMEOUT, 1);
        if (qp->sm->timeout && qp->retries++ >= qp->sm->retry_cnt) {
            return false;
        }
    }
    shca_pend(qp, shca_now() + timeout_ns(qp));
    return true;
}

/* Runs the oldest request. False: it has to wait. */
static bool run_one(struct shca_qp *qp)
{
    struct shca_wqe *w = shca_sq_slot(qp, qp->sq_done);
    struct shca_result res = {.status = IBV_WC_SUCCESS};
    enum shca_outcome out;

    if (SHCA_UNLIKELY(shca.check)) {
        shca_check_source(qp, w);
    }
    if (SHCA_UNLIKELY(shca.down_breaks) &&
        qp->ctx->sm->ports[qp->sm->port_num - 1].state != IBV_PORT_ACTIVE) {
        fail(qp, w, IBV_WC_LOC_QP_OP_ERR, true);
        return true;
    }
    out = qp->sm->type == IBV_QPT_UD ? shca_exec_ud(qp, w, &res) : shca_exec_rc(qp, w, &res);
    switch (out) {
    case SHCA_DONE:
        break;
    case SHCA_NO_RECV:
        if (rnr(qp, &res)) {
            return false;
        }
        res.status = IBV_WC_RNR_RETRY_EXC_ERR;
        break;
    case SHCA_SILENCE:
        if (silence(qp)) {
            return false;
        }
        res.status = IBV_WC_RETRY_EXC_ERR;
        break;
    case SHCA_LATER:
        qp->stall = SHCA_STALL_DELAY;
        shca_pend(qp, shca_now() + res.us * 1000u);
        return false;
    }
    if (SHCA_UNLIKELY(res.status != IBV_WC_SUCCESS)) {
        fail(qp, w, res.status, false);
        return true;
    }
    complete(qp, w, IBV_WC_SUCCESS, res.byte_len);
    qp->stall = SHCA_RUN;
    qp->sq_done++;
    if (SHCA_UNLIKELY(res.breaks)) {
        shca_qp_lock(qp->sm);
        shca_qp_error(qp->sm, UINT32_MAX);
        shca_unlock(&qp->sm->resp);
    }
    if (SHCA_UNLIKELY(atomic_load_explicit(&qp->scq->sm->overrun, memory_order_relaxed))) {
        shca_qp_lock(qp->sm);
        shca_qp_error(qp->sm, IBV_EVENT_QP_FATAL);
        shca_unlock(&qp->sm->resp);
    }
    return true;
}

/* `budget`: requests to run at most. */
static void run(struct shca_qp *qp, uint64_t budget)
{
    while (qp->sq_done != qp->sq_prod && budget--) {
        uint32_t state = atomic_load_explicit(&qp->sm->o.state, memory_order_acquire);

        if (SHCA_UNLIKELY(state == IBV_QPS_ERR + 1 || state == IBV_QPS_SQE + 1)) {
            shca_sq_flush(qp);
            return;
        }
        if (SHCA_UNLIKELY(state == IBV_QPS_SQD + 1)) {
            return; /* goes on when the QP is back in RTS */
        }
        if (!run_one(qp)) {
            return;
        }
    }
}

void shca_sq_run(struct shca_qp *qp)
{
    run(qp, UINT64_MAX);
}

/* ---- progress ---- */

/* Small xorshift generator: how far deferred execution goes in one call. */
static uint32_t dice(void)
{
    static _Atomic uint32_t seed = 2463534242u;
    uint32_t x = atomic_load_explicit(&seed, memory_order_relaxed);

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    atomic_store_explicit(&seed, x, memory_order_relaxed);
    return x;
}

/* QPs that peers or a broken device moved to the error state. */
static void serve_attention(void)
{
    uint32_t n = shca.seg->hiwater[SM_T_QP];

    for (uint32_t i = 0; i < n; i++) {
        struct shca_qp *qp = atomic_load_explicit(&shca.qps[i], memory_order_acquire);

        if (!qp) {
            continue;
        }
        if (SHCA_UNLIKELY(atomic_load(&qp->ctx->sm->fatal)) &&
            atomic_load(&qp->sm->o.state) > IBV_QPS_RESET + 1) {
            shca_qp_lock(qp->sm);
            shca_qp_error(qp->sm, UINT32_MAX);
            shca_unlock(&qp->sm->resp);
        }
        if (atomic_load(&qp->sm->sq_flush)) {
            pthread_mutex_lock(&qp->sq_lock);
            shca_sq_flush(qp);
            pthread_mutex_unlock(&qp->sq_lock);
        }
    }
}

static void run_pending(struct shca_qp *qp, uint64_t now, bool helper)
{
    pthread_mutex_lock(&qp->sq_lock);
    if (qp->stall != SHCA_RUN) {
        if (qp->deadline <= now) {
            run(qp, UINT64_MAX);
        }
    } else if (!shca.deferred || (helper && qp->deadline <= now)) {
        run(qp, UINT64_MAX);
    } else if (!helper) {
        run(qp, dice() % 4);
    }
    if (qp->sq_done == qp->sq_prod) {
        shca_unpend(qp);
    } else if (qp->deadline <= now && qp->stall == SHCA_RUN) {
        qp->deadline = now + SHCA_DEFER_NS;
    }
    pthread_mutex_unlock(&qp->sq_lock);
}

uint64_t shca_progress(bool helper)
{
    uint64_t now, next = UINT64_MAX, late, fault;
    struct shca_qp *qp;
    uint32_t attn;

    if (!shca.proc) {
        return next;
    }
    if (!helper) {
        if (pthread_mutex_trylock(&shca.progress_lock) != 0) {
            return next; /* somebody is at it */
        }
    } else {
        pthread_mutex_lock(&shca.progress_lock);
    }
    if (helper) {
        /* Who adds work while we look has to wake us again. */
        atomic_store(&shca.helper_next, UINT64_MAX);
    }
    attn = atomic_load(&shca.proc->attn);
    if (attn != atomic_load(&shca.attn_seen)) {
        atomic_store(&shca.attn_seen, attn);
        serve_attention();
    }
    now = shca_now();
    fault = shca_fault_actions(now);
    late = shca_ud_late(now);
    pthread_mutex_lock(&shca.lock);
    qp = shca.pending;
    pthread_mutex_unlock(&shca.lock);
    while (qp) {
        struct shca_qp *after;

        pthread_mutex_lock(&shca.lock);
        after = qp->next_pending;
        pthread_mutex_unlock(&shca.lock);
        run_pending(qp, now, helper);
        pthread_mutex_lock(&shca.lock);
        if (qp->on_pending && atomic_load(&qp->deadline) < next) {
            next = atomic_load(&qp->deadline);
        }
        pthread_mutex_unlock(&shca.lock);
        qp = after;
    }
    if (late < next) {
        next = late;
    }
    if (fault < next) {
        next = fault;
    }
    if (helper) {
        atomic_store(&shca.helper_next, next);
    }
    pthread_mutex_unlock(&shca.progress_lock);
    return next;
}
