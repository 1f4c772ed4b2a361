/* Frees the objects of a process that is gone, or going.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

static bool owned(const struct sm_obj *o, uint32_t proc)
{
    return atomic_load(&o->state) && o->proc == proc;
}

static void free_qp(uint32_t i)
{
    struct sm_qp *q = &shca.seg->qps[i];
    struct sm_rq rq;

    shca_lock(&q->resp);
    atomic_store(&q->o.state, SM_QP_DYING);
    rq.off = q->rq.off;
    rq.bytes = q->rq.bytes;
    shca_unlock(&q->resp);
    shca_heap_free(rq.off, rq.bytes);
    atomic_fetch_sub(&shca.seg->devs[q->o.dev].nqp, 1);
    shca_obj_free(SM_T_QP, i);
}

static void free_srq(uint32_t i)
{
    struct sm_srq *s = &shca.seg->srqs[i];

    shca_lock(&s->lock);
    atomic_store(&s->limit, 0);
    shca_unlock(&s->lock);
    shca_heap_free(s->rq.off, s->rq.bytes);
    atomic_fetch_sub(&shca.seg->devs[s->o.dev].nsrq, 1);
    shca_obj_free(SM_T_SRQ, i);
}

static void free_cq(uint32_t i)
{
    struct sm_cq *c = &shca.seg->cqs[i];
    uint64_t off, bytes, boff, bbytes;

    shca_lock(&c->lock);
    atomic_store(&c->overrun, 1); /* pushes miss from here on */
    off = c->off;
    bytes = c->bytes;
    boff = c->boff;
    bbytes = c->bbytes;
    shca_unlock(&c->lock);
    shca_heap_free(off, bytes);
    shca_heap_free(boff, bbytes);
    atomic_fetch_sub(&shca.seg->devs[c->o.dev].ncq, 1);
    shca_obj_free(SM_T_CQ, i);
}

void shca_free_objects(uint32_t proc)
{
    const struct sm_seg *s = shca.seg;

    for (uint32_t i = 0; i < s->hiwater[SM_T_QP]; i++) {
        if (owned(&s->qps[i].o, proc)) {
            free_qp(i);
        }
    }
    for (uint32_t i = 0; i < s->hiwater[SM_T_SRQ]; i++) {
        if (owned(&s->srqs[i].o, proc)) {
            free_srq(i);
        }
    }
    for (uint32_t i = 0; i < s->hiwater[SM_T_CQ]; i++) {
        if (owned(&s->cqs[i].o, proc)) {
            free_cq(i);
        }
    }
    for (uint32_t i = 0; i < s->hiwater[SM_T_MR]; i++) {
        if (owned(&s->mrs[i].o, proc)) {
            atomic_fetch_sub(&shca.seg->devs[s->mrs[i].o.dev].nmr, 1);
            shca_obj_free(SM_T_MR, i);
        }
    }
    for (uint32_t i = 0; i < s->hiwater[SM_T_CTX]; i++) {
        if (owned(&s->ctxs[i].o, proc)) {
            shca_obj_free(SM_T_CTX, i);
        }
    }
    for (uint32_t i = 0; i < s->hiwater[SM_T_CHAN]; i++) {
        if (owned(&s->chans[i].o, proc)) {
            shca_chan_destroy(i, -1);
        }
    }
}
