/* ibv_post_send: checks, the building of work requests, the checksum of their sources.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

static uint64_t checksum(const struct shca_wqe *w)
{
    uint64_t h = UINT64_C(14695981039346656037);

    if ((w->flags & IBV_SEND_INLINE) || w->opcode == IBV_WR_RDMA_READ ||
        w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        return 0;
    }
    for (uint32_t i = 0; i < w->nsge; i++) {
        const struct sm_mr *m = shca_mr_by_lkey(w->sge[i].lkey);
        const uint8_t *p;

        if (!m || w->sge[i].addr < m->iova || w->sge[i].length > m->length ||
            w->sge[i].addr - m->iova > m->length - w->sge[i].length) {
            continue; /* execution will report it */
        }
        p = (const uint8_t *)(uintptr_t)(w->sge[i].addr - m->iova + m->addr);
        for (uint32_t k = 0; k < w->sge[i].length; k++) {
            h = (h ^ p[k]) * UINT64_C(1099511628211);
        }
    }
    return h;
}

void shca_check_source(const struct shca_qp *qp, const struct shca_wqe *w)
{
    if (w->csum != checksum(w)) {
        shca_log("check: the source buffer of a work request (qp 0x%x wr_id 0x%llx opcode %u, "
                 "%llu bytes) changed before the request completed",
                 qp->sm->qpn, (unsigned long long)w->wr_id, w->opcode, (unsigned long long)w->len);
        abort();
    }
}

static int build_inline(struct shca_qp *qp, const struct ibv_send_wr *wr, struct shca_wqe *w)
{
    char *d = (char *)w->sge;

    if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        return shca_strict(EINVAL, "ibv_post_send: IBV_SEND_INLINE with opcode %u", wr->opcode);
    }
    for (int i = 0; i < wr->num_sge; i++) {
        w->len += wr->sg_list[i].length;
        if (w->len > qp->cap.max_inline_data) {
            return shca_strict(ENOMEM, "ibv_post_send: inline data beyond the %u bytes granted",
                               qp->cap.max_inline_data);
        }
        if (wr->sg_list[i].length) { /* UCX posts empty elements with no address */
            memcpy(d, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            d += wr->sg_list[i].length;
        }
    }
    w->nsge = 0;
    return 0;
}

/* The handle keeps the route for the datagrams to come; threads may share it. */
static void ah_route(const struct shca_qp *qp, struct shca_ah *ah, struct shca_route *out)
{
    uint64_t now = atomic_load_explicit(&shca.seg->epoch, memory_order_relaxed);

    if (SHCA_UNLIKELY(atomic_load_explicit(&ah->epoch, memory_order_acquire) != now)) {
        pthread_mutex_lock(&shca.lock);
        shca_route_resolve(qp->ctx->dev_idx, &ah->path, &ah->route);
        *out = ah->route;
        atomic_store_explicit(&ah->epoch, ah->route.epoch, memory_order_release);
        pthread_mutex_unlock(&shca.lock);
    } else {
        *out = ah->route;
    }
}

static int build(struct shca_qp *qp, const struct ibv_send_wr *wr, struct shca_wqe *w)
{
    int n = wr->num_sge;

    if (n < 0 || (uint32_t)n > qp->cap.max_send_sge) {
        return shca_strict(EINVAL, "ibv_post_send: %d SGEs, %u granted", n, qp->cap.max_send_sge);
    }
    w->wr_id = wr->wr_id;
    w->opcode = wr->opcode;
    w->flags = (uint32_t)wr->send_flags;
    w->imm_data = wr->imm_data;
    w->len = 0;
    w->nsge = (uint32_t)n;
    if (qp->sm->type == IBV_QPT_UD) {
        struct shca_ah *ah = (struct shca_ah *)wr->wr.ud.ah;

        if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
            return shca_strict(EINVAL, "ibv_post_send: opcode %u on a UD QP", wr->opcode);
        }
        if (!ah) {
            return shca_strict(EINVAL, "ibv_post_send: UD request without an address handle");
        }
        if (ah->ah.pd != qp->v.qp.pd) {
            return shca_strict(EINVAL, "ibv_post_send: address handle of another PD");
        }
        w->path = ah->path;
        ah_route(qp, ah, &w->route);
        w->qpn = wr->wr.ud.remote_qpn & 0xffffff;
        w->qkey = wr->wr.ud.remote_qkey;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        w->remote_addr = wr->wr.atomic.remote_addr;
        w->rkey = wr->wr.atomic.rkey;
        w->compare_add = wr->wr.atomic.compare_add;
        w->swap = wr->wr.atomic.swap;
    } else {
        w->remote_addr = wr->wr.rdma.remote_addr;
        w->rkey = wr->wr.rdma.rkey;
    }
    if (wr->send_flags & IBV_SEND_INLINE) {
        return build_inline(qp, wr, w);
    }
    for (int i = 0; i < n; i++) {
        w->sge[i] = wr->sg_list[i];
        w->len += wr->sg_list[i].length;
    }
    return 0;
}

static int may_post(const struct shca_qp *qp)
{
    uint32_t state = atomic_load_explicit(&qp->sm->o.state, memory_order_relaxed);

    if (SHCA_UNLIKELY(shca_foreign() ||
                      atomic_load_explicit(&qp->ctx->sm->fatal, memory_order_relaxed))) {
        return EIO;
    }
    if (SHCA_UNLIKELY(state < IBV_QPS_RTS + 1)) {
        return shca_strict(EINVAL, "ibv_post_send: QP 0x%x is in state %d, before RTS", qp->sm->qpn,
                           (int)state - 1);
    }
    return 0;
}

int shca_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct shca_qp *qp = shca_qp(ibqp);
    int rc = may_post(qp);

    pthread_mutex_lock(&qp->sq_lock);
    for (; !rc && wr; wr = wr->next) {
        struct shca_wqe *w = shca_sq_slot(qp, qp->sq_prod);

        if (SHCA_UNLIKELY(shca_fault_any())) {
            rc = shca_fault_post_send(qp, wr);
        }
        if (qp->sq_prod - atomic_load_explicit(&qp->sq_released, memory_order_acquire) >=
            qp->cap.max_send_wr) {
            rc = ENOMEM; /* a full queue is for the caller to know, not misuse */
        }
        rc = rc ? rc : build(qp, wr, w);
        if (rc) {
            break;
        }
        if (SHCA_UNLIKELY(shca.check)) {
            w->csum = checksum(w);
        }
        qp->sq_prod++;
        if (SHCA_UNLIKELY(shca.deferred)) {
            if (!qp->on_pending) {
                shca_pend(qp, shca_now() + SHCA_DEFER_NS);
            }
        } else if (qp->stall == SHCA_RUN) {
            shca_sq_run(qp);
        }
    }
    if (SHCA_UNLIKELY(atomic_load(&qp->sm->o.state) == IBV_QPS_ERR + 1)) {
        shca_sq_flush(qp);
    }
    pthread_mutex_unlock(&qp->sq_lock);
    if (rc && bad) {
        *bad = wr;
    }
    return rc;
}
