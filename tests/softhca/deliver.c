/* The responder half shared by RC and UD: finding the target QP and filling its receive requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <string.h>

struct sm_qp *shca_target(const struct shca_route *r, uint32_t qpn)
{
    struct sm_qp *sm = &shca.seg->qps[qpn & (SM_MAX_QP - 1)];

    if (!atomic_load_explicit(&sm->o.state, memory_order_acquire) || sm->qpn != qpn ||
        sm->o.dev != r->dev || !shca_proc_alive(&shca.seg->procs[sm->o.proc])) {
        return NULL;
    }
    return sm;
}

static uint16_t pkey_of(const struct sm_qp *q)
{
    const struct sm_dev *d = &shca.seg->devs[q->o.dev];
    uint8_t port = q->port_num;

    return port >= 1 && port <= d->nports && q->pkey_index < SM_MAX_PKEYS
               ? d->ports[port - 1].pkeys[q->pkey_index]
               : 0;
}

bool shca_pkey_match(const struct sm_qp *a, const struct sm_qp *b)
{
    uint16_t ka = pkey_of(a), kb = pkey_of(b);

    return (ka & 0x7fff) && (ka & 0x7fff) == (kb & 0x7fff) && ((ka | kb) & 0x8000);
}

/* Destination segments for a bounce slot; false: too many. */
static bool bounce_segs(const struct shca_iov *dst, struct shca_payload *p)
{
    if (dst->n > SM_BOUNCE_SEGS) {
        return false;
    }
    p->ndst = dst->n;
    for (uint32_t i = 0; i < dst->n; i++) {
        p->dst[i].addr = (uint64_t)(uintptr_t)dst->v[i].iov_base;
        p->dst[i].len = (uint32_t)dst->v[i].iov_len;
        p->dst[i].lkey = 0;
    }
    return true;
}

static bool by_bounce(struct sm_qp *to, const struct shca_iov *src, const struct shca_iov *dst,
                      const void *grh, const struct sm_cqe *e)
{
    struct ibv_sge from[SHCA_MAX_IOV];
    struct shca_payload p = {.src = from, .grh = grh, .nsrc = src->n, .len = (uint32_t)src->len};

    if (!bounce_segs(dst, &p)) {
        return false;
    }
    for (uint32_t i = 0; i < src->n; i++) {
        from[i].addr = (uint64_t)(uintptr_t)src->v[i].iov_base;
        from[i].length = (uint32_t)src->v[i].iov_len;
    }
    return shca_cq_push(to->rcq, to->rcq_gen, e, &p);
}

static int by_copy(struct sm_qp *to, const struct shca_iov *src, const struct shca_iov *dst,
                   const void *grh)
{
    struct shca_iov all;

    if (!grh) {
        return shca_copy_to(to->o.proc, src, dst, false);
    }
    all.v[0].iov_base = (void *)(uintptr_t)grh;
    all.v[0].iov_len = 40;
    memcpy(all.v + 1, src->v, src->n * sizeof(src->v[0]));
    all.n = src->n + 1;
    all.len = src->len + 40;
    return shca_copy_to(to->o.proc, &all, dst, false);
}

enum ibv_wc_status shca_deliver(struct sm_dev *from, struct sm_qp *to, const struct shca_rwqe *rw,
                                const struct shca_iov *src, uint32_t skip, const void *grh,
                                struct sm_cqe *e, int *err)
{
    struct shca_iov dst;
    uint64_t need = src->len + skip;
    int hazard = -1;

    *err = 0;
    e->wr_id = rw->wr_id;
    e->qp_num = to->qpn;
    e->qp = (uint32_t)(to - shca.seg->qps);
    e->flags = (uint8_t)(e->flags | SM_CQE_RECV | (rw->srq ? SM_CQE_SRQ : 0));
    e->status = IBV_WC_SUCCESS;
    if (need && rw->nsge) {
        hazard = shca_hazard_set((rw->sge[0].lkey >> 8) & 0x7fffff);
    }
    if (!shca_gather(rw->sge, rw->nsge, to->pd, to->o.proc, IBV_ACCESS_LOCAL_WRITE, &dst)) {
        e->status = IBV_WC_LOC_PROT_ERR;
    } else if (dst.len < need) {
        e->status = IBV_WC_LOC_LEN_ERR;
    } else if (src->len + (grh ? 40u : 0u) > 0) {
        shca_iov_cut(&dst, grh ? 0 : skip, src->len + (grh ? 40u : 0u));
        if (need <= shca.bounce + 40u && src->len <= shca.bounce &&
            by_bounce(to, src, &dst, grh, e)) {
            shca_count(from, SM_CNT_BOUNCE, 1);
            to->inflight = SM_TAKEN_NONE;
            shca_hazard_clear(hazard);
            return atomic_load(&shca.seg->cqs[to->rcq].overrun) ? IBV_WC_LOC_QP_OP_ERR
                                                                : IBV_WC_SUCCESS;
        }
        *err = by_copy(to, src, &dst, grh);
        if (*err == EFAULT) {
            e->status = IBV_WC_LOC_PROT_ERR;
        }
    }
    if (hazard >= 0) {
        shca_hazard_clear(hazard);
    }
    if (!*err || *err == EFAULT) {
        shca_cq_push(to->rcq, to->rcq_gen, e, NULL);
        if (SHCA_UNLIKELY(atomic_load(&shca.seg->cqs[to->rcq].overrun))) {
            e->status = IBV_WC_LOC_QP_OP_ERR; /* lost: the QP cannot go on */
        }
    }
    to->inflight = SM_TAKEN_NONE;
    return (enum ibv_wc_status)e->status;
}
