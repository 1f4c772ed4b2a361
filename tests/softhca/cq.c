/* Completion queues: rings in the segment that any process pushes into and the owner polls.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <string.h>

static struct sm_cqe *slot(const struct sm_cq *c, uint64_t i)
{
    return (struct sm_cqe *)shca_at(c->off) + (i & (c->size - 1));
}

static struct sm_bounce *bounce_slot(const struct sm_cq *c, uint64_t i)
{
    return (struct sm_bounce *)((char *)shca_at(c->boff) + (i % c->nbounce) * c->bstride);
}

static void notify(struct sm_cq *c, uint32_t idx, uint32_t gen, bool solicited)
{
    uint32_t arm;

    /* Either we see the arming, or the armer's next poll sees the entry (see shca_req_notify_cq).
     */
    atomic_thread_fence(memory_order_seq_cst);
    arm = atomic_load_explicit(&c->armed, memory_order_relaxed);
    if (SHCA_LIKELY(arm == SM_ARM_NONE) || (arm == SM_ARM_SOLICITED && !solicited)) {
        return;
    }
    if (atomic_exchange(&c->armed, SM_ARM_NONE) != SM_ARM_NONE) {
        struct sm_event ev = {.type = UINT32_MAX, .index = idx, .gen = gen};

        shca_chan_send(c->chan, c->chan_gen, &ev);
    }
}

static void overrun(struct sm_cq *c, uint32_t idx, uint32_t gen)
{
    if (!atomic_exchange(&c->overrun, 1)) {
        shca_log("CQ overrun: %u entries, all unpolled", c->cqe);
        shca_event_ctx(c->o.ctx, IBV_EVENT_CQ_ERR, idx, gen, 0);
    }
}

static bool fill_bounce(struct sm_cq *c, struct sm_cqe *e, const struct shca_payload *p)
{
    struct sm_bounce *b;
    uint8_t *d;

    uint64_t at = atomic_load_explicit(&c->bprod, memory_order_relaxed);

    if (p->len + (p->grh ? 40u : 0u) > c->bmax) {
        return false;
    }
    if (at - c->bcons_seen >= c->nbounce) {
        c->bcons_seen = atomic_load_explicit(&c->bcons, memory_order_acquire);
        if (at - c->bcons_seen >= c->nbounce) {
            return false;
        }
    }
    b = bounce_slot(c, at);
    d = b->data;
    if (p->grh) {
        memcpy(d, p->grh, 40);
        d += 40;
    }
    for (uint32_t i = 0; i < p->nsrc; i++) {
        memcpy(d, (const void *)(uintptr_t)p->src[i].addr, p->src[i].length);
        d += p->src[i].length;
    }
    b->len = (uint32_t)(d - b->data);
    b->nsegs = p->ndst;
    memcpy(b->seg, p->dst, p->ndst * sizeof(b->seg[0]));
    atomic_store_explicit(&c->bprod, at + 1, memory_order_relaxed); /* published with the CQE */
    e->bounce = 1;
    return true;
}

bool shca_cq_push(uint32_t cq, uint32_t gen, const struct sm_cqe *cqe, const struct shca_payload *p)
{
    struct sm_cq *c = &shca.seg->cqs[cq];
    struct sm_cqe *e;
    uint64_t prod;

    shca_lock(&c->lock);
    if (!atomic_load_explicit(&c->o.state, memory_order_relaxed) ||
        atomic_load_explicit(&c->o.gen, memory_order_relaxed) != gen ||
        atomic_load_explicit(&c->overrun, memory_order_relaxed)) {
        shca_unlock(&c->lock);
        return true; /* nobody is there to see it */
    }
    prod = atomic_load_explicit(&c->prod, memory_order_relaxed);
    if (prod - c->cons_seen >= c->cqe) {
        c->cons_seen = atomic_load_explicit(&c->cons, memory_order_acquire);
    }
    if (SHCA_UNLIKELY(
            prod - c->cons_seen >= c->cqe ||
            (shca_fault_any() &&
             shca_fault_hit(SHCA_FAULT_CQ_OVERRUN, &SHCA_FAULT_SITE(.qpn = cqe->qp_num), NULL)))) {
        overrun(c, cq, gen);
        shca_unlock(&c->lock);
        return true;
    }
    e = slot(c, prod);
    *e = *cqe;
    e->bounce = 0;
    if (p && !fill_bounce(c, e, p)) {
        shca_unlock(&c->lock);
        return false;
    }
    atomic_store_explicit(&c->prod, prod + 1, memory_order_release);
    notify(c, cq, gen, (cqe->flags & SM_CQE_SOLICITED) || cqe->status != IBV_WC_SUCCESS);
    shca_unlock(&c->lock);
    return true;
}

static void copy_out(struct sm_cq *c, struct sm_cqe *e)
{
    uint64_t at = atomic_load_explicit(&c->bcons, memory_order_relaxed);
    const struct sm_bounce *b = bounce_slot(c, at);
    const uint8_t *s = b->data;
    uint32_t left = b->len;

    for (uint32_t i = 0; i < b->nsegs && left; i++) {
        uint32_t n = b->seg[i].len < left ? b->seg[i].len : left;

        if (!(e->flags & SM_CQE_DEAD)) {
            memcpy((void *)(uintptr_t)b->seg[i].addr, s, n);
        }
        s += n;
        left -= n;
    }
    e->bounce = 0;
    atomic_store_explicit(&c->bcons, at + 1, memory_order_release);
}

static void release_slots(const struct sm_cqe *e)
{
    struct shca_qp *qp = atomic_load_explicit(&shca.qps[e->qp], memory_order_acquire);

    if (!qp) {
        return;
    }
    if (e->flags & SM_CQE_SEND) {
        atomic_store_explicit(&qp->sq_released, e->sq_idx + 1, memory_order_release);
    } else if (e->flags & SM_CQE_SRQ) {
        atomic_fetch_add_explicit(&qp->srq->released, 1, memory_order_release);
    } else {
        /* One poller at a time per CQ, and a QP has one receive CQ. */
        atomic_store_explicit(&qp->rq_released,
                              atomic_load_explicit(&qp->rq_released, memory_order_relaxed) + 1,
                              memory_order_release);
    }
}

/* The next live entry, its payload in place and its slots released; false when there is none. The
 * entry stays in the ring until shca_cq_advance. poll_lock held. */
bool shca_cq_next(struct shca_cq *cq, struct sm_cqe **out)
{
    struct sm_cq *c = cq->sm;
    uint64_t cons = atomic_load_explicit(&c->cons, memory_order_relaxed);

    while (cons != atomic_load_explicit(&c->prod, memory_order_acquire)) {
        struct sm_cqe *e = slot(c, cons);

        if (e->bounce) {
            copy_out(c, e);
        }
        if (SHCA_LIKELY(!(e->flags & SM_CQE_DEAD))) {
            release_slots(e);
            *out = e;
            return true;
        }
        atomic_store_explicit(&c->cons, ++cons, memory_order_release);
    }
    return false;
}

void shca_cq_advance(struct shca_cq *cq)
{
    struct sm_cq *c = cq->sm;

    atomic_store_explicit(&c->cons, atomic_load_explicit(&c->cons, memory_order_relaxed) + 1,
                          memory_order_release);
}

int shca_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
    struct shca_cq *cq = shca_cq(ibcq);
    struct sm_cqe *e;
    int got = 0;

    shca_poll_progress();
    pthread_mutex_lock(&cq->poll_lock);
    while (got < n && shca_cq_next(cq, &e)) {
        struct ibv_wc *w = &wc[got++];

        w->wr_id = e->wr_id;
        w->status = (enum ibv_wc_status)e->status;
        w->opcode = (enum ibv_wc_opcode)e->opcode;
        w->vendor_err = e->vendor_err;
        w->byte_len = e->byte_len;
        w->imm_data = e->imm_data;
        w->qp_num = e->qp_num;
        w->src_qp = e->src_qp;
        w->wc_flags = e->wc_flags;
        w->pkey_index = e->pkey_index;
        w->slid = e->slid;
        w->sl = e->sl;
        w->dlid_path_bits = e->dlid_path_bits;
        shca_cq_advance(cq);
    }
    pthread_mutex_unlock(&cq->poll_lock);
    return got;
}

/* An entry that is there already and that this kind of arming waits for. */
static bool entry_waits(struct sm_cq *c, bool solicited_only)
{
    uint64_t prod = atomic_load_explicit(&c->prod, memory_order_acquire);

    for (uint64_t i = atomic_load_explicit(&c->cons, memory_order_relaxed); i != prod; i++) {
        const struct sm_cqe *e = slot(c, i);

        if (!(e->flags & SM_CQE_DEAD) &&
            (!solicited_only || (e->flags & SM_CQE_SOLICITED) || e->status != IBV_WC_SUCCESS)) {
            return true;
        }
    }
    return false;
}

int shca_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
    struct sm_cq *c = shca_cq(ibcq)->sm;
    uint32_t want = solicited_only ? SM_ARM_SOLICITED : SM_ARM_ANY;
    uint32_t old = atomic_load(&c->armed);

    if (!ibcq->channel) {
        return shca_strict(EINVAL, "ibv_req_notify_cq: the CQ has no completion channel");
    }
    /* An earlier, wider arming stays. */
    while (old < want && !atomic_compare_exchange_weak(&c->armed, &old, want)) {
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (SHCA_UNLIKELY(shca.arm_pending) && entry_waits(c, solicited_only)) {
        notify(c, shca_cq(ibcq)->idx, shca_cq(ibcq)->gen, true);
    }
    return 0;
}

void shca_cq_purge(struct shca_cq *cq, uint32_t qp_idx)
{
    struct sm_cq *c = cq->sm;
    uint64_t prod;

    pthread_mutex_lock(&cq->poll_lock);
    shca_lock(&c->lock);
    prod = atomic_load(&c->prod);
    for (uint64_t i = atomic_load(&c->cons); i != prod; i++) {
        struct sm_cqe *e = slot(c, i);

        if (e->qp == qp_idx && !(e->flags & SM_CQE_DEAD)) {
            if (e->flags & SM_CQE_SRQ) {
                release_slots(e); /* the SRQ outlives the QP */
            }
            e->flags |= SM_CQE_DEAD;
        }
    }
    shca_unlock(&c->lock);
    pthread_mutex_unlock(&cq->poll_lock);
}

/* Copies out everything that waits in bounce slots, in order: the ring of slots is a queue. */
static void drain(struct shca_cq *cq)
{
    struct sm_cq *c = cq->sm;

    pthread_mutex_lock(&cq->poll_lock);
    for (uint64_t i = atomic_load(&c->cons);
         i != atomic_load_explicit(&c->prod, memory_order_acquire); i++) {
        struct sm_cqe *e = slot(c, i);

        if (e->bounce) {
            copy_out(c, e);
        }
    }
    pthread_mutex_unlock(&cq->poll_lock);
}

void shca_cq_drain_bounces(void)
{
    for (uint32_t i = 0; i < shca.seg->hiwater[SM_T_CQ]; i++) {
        struct shca_cq *cq;

        pthread_mutex_lock(&shca.lock);
        cq = shca.cqs[i];
        if (cq && atomic_load(&cq->sm->bcons) == atomic_load(&cq->sm->bprod)) {
            cq = NULL;
        }
        if (cq) {
            atomic_fetch_add(&cq->users, 1); /* its destruction waits */
        }
        pthread_mutex_unlock(&shca.lock);
        if (cq) {
            drain(cq);
            atomic_fetch_sub(&cq->users, 1);
        }
    }
}

int shca_cq_ring_init(struct sm_cq *c, uint32_t cqe)
{
    uint32_t size = 2;

    while (size < cqe) {
        size *= 2;
    }
    c->cqe = cqe;
    c->size = size;
    c->bytes = (uint64_t)size * sizeof(struct sm_cqe);
    c->off = shca_heap_alloc(c->bytes);
    return c->off ? 0 : ENOMEM;
}

int shca_cq_resize(struct shca_cq *cq, uint32_t cqe)
{
    struct sm_cq *c = cq->sm;
    struct sm_cq new = {0};
    uint64_t n = 0, cons, prod;
    int rc = shca_cq_ring_init(&new, cqe);

    if (rc) {
        return rc;
    }
    pthread_mutex_lock(&cq->poll_lock);
    shca_lock(&c->lock);
    cons = atomic_load(&c->cons);
    prod = atomic_load(&c->prod);
    if (prod - cons > cqe) {
        rc = EINVAL; /* unpolled entries would not fit */
    } else {
        uint64_t old_off = c->off, old_bytes = c->bytes;

        for (; cons + n != prod; n++) {
            ((struct sm_cqe *)shca_at(new.off))[n] = *slot(c, cons + n);
        }
        c->off = new.off;
        c->bytes = new.bytes;
        c->size = new.size;
        c->cqe = cqe;
        atomic_store(&c->cons, 0);
        c->cons_seen = 0;
        atomic_store(&c->prod, n);
        new.off = old_off;
        new.bytes = old_bytes;
    }
    shca_unlock(&c->lock);
    pthread_mutex_unlock(&cq->poll_lock);
    shca_heap_free(new.off, new.bytes);
    return rc;
}
