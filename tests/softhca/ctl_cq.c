/* Completion queues, completion channels and shared receive queues as objects.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs_impl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNCE_SLOTS = 256 }; /* per CQ: enough for a burst, small enough for the cache */

SHCA_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibctx)
{
    struct shca_context *ctx = shca_ctx(ibctx);
    struct shca_channel *ch = calloc(1, sizeof(*ch));
    int rc;

    if (!ch) {
        return NULL;
    }
    rc = shca_chan_create(ctx, SM_CHAN_COMP, &ch->idx, &ch->gen, &ch->ch.fd);
    if (rc) {
        free(ch);
        errno = rc;
        return NULL;
    }
    ch->ch.context = ibctx;
    atomic_fetch_add(&ctx->nchan, 1);
    return &ch->ch;
}

SHCA_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct shca_channel *ch = (struct shca_channel *)channel;

    if (shca_foreign()) {
        return 0;
    }
    if (channel->refcnt) {
        return shca_strict(EBUSY, "ibv_destroy_comp_channel: %d CQs use it", channel->refcnt);
    }
    shca_chan_destroy(ch->idx, channel->fd);
    atomic_fetch_sub(&shca_ctx(channel->context)->nchan, 1);
    free(ch);
    return 0;
}

static int alloc_bounce(struct sm_cq *c)
{
    if (!shca.bounce) {
        return 0;
    }
    c->bmax = shca.bounce + 40;
    c->bstride = (uint32_t)((sizeof(struct sm_bounce) + c->bmax + 63) & ~(size_t)63);
    c->nbounce = c->cqe < BOUNCE_SLOTS ? c->cqe : BOUNCE_SLOTS;
    c->bbytes = (uint64_t)c->nbounce * c->bstride;
    c->boff = shca_heap_alloc(c->bbytes);
    if (!c->boff) {
        c->nbounce = 0;
        return ENOMEM;
    }
    return 0;
}

static int alloc_cq(struct shca_context *ctx, struct shca_cq *cq, uint32_t cqe)
{
    int i = shca_obj_alloc(SM_T_CQ, ctx->dev_idx, ctx->idx);

    if (i < 0) {
        return ENOMEM;
    }
    cq->idx = (uint32_t)i;
    cq->sm = &shca.seg->cqs[i];
    cq->gen = atomic_load(&cq->sm->o.gen);
    cq->sm->chan = UINT32_MAX;
    if (shca_cq_ring_init(cq->sm, cqe) || alloc_bounce(cq->sm)) {
        shca_heap_free(cq->sm->off, cq->sm->bytes);
        shca_obj_free(SM_T_CQ, cq->idx);
        return ENOMEM;
    }
    return 0;
}

/* Recursive: between start_poll and end_poll a program may deregister memory, which looks at CQs.
 */
static void init_poll_lock(struct shca_cq *cq)
{
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&cq->poll_lock, &a);
    pthread_mutexattr_destroy(&a);
}

struct ibv_cq *shca_new_cq(struct ibv_context *ibctx, int cqe, void *cq_context,
                           struct ibv_comp_channel *channel, int vector)
{
    struct shca_context *ctx = shca_ctx(ibctx);
    const struct sm_limits *l = &ctx->sm->lim;
    struct shca_cq *cq;
    int rc = 0;

    if (atomic_load(&ctx->sm->fatal)) {
        rc = EIO;
    } else if (cqe < 1 || (uint32_t)cqe > l->max_cqe) {
        rc = EINVAL;
    } else if (vector < 0 || vector >= (int)l->comp_vectors) {
        rc = shca_strict(EINVAL, "ibv_create_cq: completion vector %d of %u", vector,
                         l->comp_vectors);
    } else if (channel && channel->context != ibctx) {
        rc = shca_strict(EINVAL, "ibv_create_cq: completion channel of another context");
    } else if (atomic_load(&ctx->sm->ncq) >= l->max_cq) {
        rc = ENOMEM;
    }
    rc = rc ? rc : shca_fault_ctl(ctx, SHCA_FAULT_CREATE_CQ_FAIL);
    cq = rc ? NULL : calloc(1, sizeof(*cq) + SHCA_TAIL);
    if (!rc) {
        rc = cq ? alloc_cq(ctx, cq, (uint32_t)cqe) : ENOMEM;
    }
    if (rc) {
        free(cq);
        errno = rc;
        return NULL;
    }
    cq->v.cq.context = ibctx;
    cq->v.cq.channel = channel;
    cq->v.cq.cq_context = cq_context;
    cq->v.cq.handle = cq->idx;
    cq->v.cq.cqe = cqe;
    pthread_mutex_init(&cq->v.cq.mutex, NULL);
    pthread_cond_init(&cq->v.cq.cond, NULL);
    init_poll_lock(cq);
    if (channel) {
        cq->sm->chan_gen = ((struct shca_channel *)channel)->gen;
        cq->sm->chan = ((struct shca_channel *)channel)->idx;
        channel->refcnt++;
    }
    atomic_fetch_add(&ctx->ncq, 1);
    atomic_fetch_add(&ctx->sm->ncq, 1);
    pthread_mutex_lock(&shca.lock);
    shca.cqs[cq->idx] = cq;
    pthread_mutex_unlock(&shca.lock);
    return &cq->v.cq;
}

SHCA_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
                                         struct ibv_comp_channel *channel, int vector)
{
    return shca_new_cq(ctx, cqe, cq_context, channel, vector);
}

SHCA_EXPORT int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
    struct shca_context *ctx = shca_ctx(ibcq->context);
    int rc;

    if (atomic_load(&ctx->sm->fatal)) {
        return EIO;
    }
    if (cqe < 1 || (uint32_t)cqe > ctx->sm->lim.max_cqe) {
        return EINVAL;
    }
    rc = shca_cq_resize(shca_cq(ibcq), (uint32_t)cqe);
    if (!rc) {
        ibcq->cqe = cqe;
    }
    return rc;
}

SHCA_EXPORT int ibv_destroy_cq(struct ibv_cq *ibcq)
{
    struct shca_cq *cq = shca_cq(ibcq);
    struct sm_cq *c = cq->sm;

    if (shca_foreign()) {
        return 0;
    }
    if (atomic_load(&cq->refs)) {
        return shca_strict(EBUSY, "ibv_destroy_cq: %u QP queues use it", atomic_load(&cq->refs));
    }
    shca_lock(&c->lock);
    atomic_store(&c->overrun, 1); /* pushes miss from here on */
    shca_unlock(&c->lock);
    pthread_mutex_lock(&shca.lock);
    shca.cqs[cq->idx] = NULL;
    pthread_mutex_unlock(&shca.lock);
    while (atomic_load(&cq->users)) {
        sched_yield();
    }
    shca_wait_events(&ibcq->mutex, &ibcq->cond, &ibcq->comp_events_completed, &cq->comp_events);
    shca_wait_events(&ibcq->mutex, &ibcq->cond, &ibcq->async_events_completed, &cq->async_events);
    if (ibcq->channel) {
        ibcq->channel->refcnt--;
    }
    shca_heap_free(c->off, c->bytes);
    shca_heap_free(c->boff, c->bbytes);
    shca_obj_free(SM_T_CQ, cq->idx);
    atomic_fetch_sub(&shca_ctx(ibcq->context)->ncq, 1);
    atomic_fetch_sub(&shca_ctx(ibcq->context)->sm->ncq, 1);
    pthread_mutex_destroy(&cq->poll_lock);
    free(cq);
    return 0;
}

/* ---- SRQ ---- */

static int check_srq(const struct shca_context *ctx, const struct ibv_srq_attr *a)
{
    const struct sm_limits *l = &ctx->sm->lim;

    if (atomic_load(&ctx->sm->fatal)) {
        return EIO;
    }
    if (!l->max_srq) {
        return EOPNOTSUPP;
    }
    if (a->max_wr < 1 || a->max_wr > l->max_srq_wr || a->max_sge > l->max_srq_sge) {
        return EINVAL;
    }
    return atomic_load(&ctx->sm->nsrq) >= l->max_srq ? ENOMEM : 0;
}

static int alloc_srq(struct shca_context *ctx, struct shca_srq *srq, struct ibv_pd *pd,
                     const struct ibv_srq_attr *a)
{
    int i = shca_obj_alloc(SM_T_SRQ, ctx->dev_idx, ctx->idx);

    if (i < 0) {
        return ENOMEM;
    }
    srq->idx = (uint32_t)i;
    srq->sm = &shca.seg->srqs[i];
    srq->gen = atomic_load(&srq->sm->o.gen);
    srq->sm->pd = ((struct shca_pd *)pd)->id;
    if (shca_rq_init(&srq->sm->rq, a->max_wr, a->max_sge)) {
        shca_obj_free(SM_T_SRQ, srq->idx);
        return ENOMEM;
    }
    return 0;
}

static struct ibv_srq *new_srq(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *a)
{
    struct shca_context *ctx = shca_ctx(pd->context);
    struct shca_srq *srq = NULL;
    int rc = check_srq(ctx, a);

    rc = rc ? rc : shca_fault_ctl(ctx, SHCA_FAULT_CREATE_SRQ_FAIL);
    if (!rc) {
        srq = calloc(1, sizeof(*srq) + SHCA_TAIL);
        rc = srq ? alloc_srq(ctx, srq, pd, a) : ENOMEM;
    }
    if (rc) {
        free(srq);
        errno = rc;
        return NULL;
    }
    srq->srq.context = pd->context;
    srq->srq.srq_context = srq_context;
    srq->srq.pd = pd;
    srq->srq.handle = srq->idx;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    pthread_mutex_init(&srq->lock, NULL);
    atomic_fetch_add(&((struct shca_pd *)pd)->refs, 1);
    atomic_fetch_add(&ctx->nsrq, 1);
    atomic_fetch_add(&ctx->sm->nsrq, 1);
    pthread_mutex_lock(&shca.lock);
    shca.srqs[srq->idx] = srq;
    pthread_mutex_unlock(&shca.lock);
    return &srq->srq;
}

SHCA_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return new_srq(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *shca_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
    (void)ctx;
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
        ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    return new_srq(attr->pd, attr->srq_context, &attr->attr);
}

SHCA_EXPORT int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
    struct shca_srq *srq = (struct shca_srq *)ibsrq;

    if (mask & IBV_SRQ_MAX_WR) {
        return EOPNOTSUPP;
    }
    if (mask & IBV_SRQ_LIMIT) {
        if (attr->srq_limit > srq->sm->rq.max_wr) {
            return shca_strict(EINVAL, "ibv_modify_srq: limit %u of %u", attr->srq_limit,
                               srq->sm->rq.max_wr);
        }
        shca_lock(&srq->sm->lock);
        atomic_store(&srq->sm->limit, attr->srq_limit);
        shca_srq_limit(srq->sm, srq->idx); /* it may be below already */
        shca_unlock(&srq->sm->lock);
    }
    return 0;
}

SHCA_EXPORT int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
    const struct sm_srq *s = ((struct shca_srq *)ibsrq)->sm;

    attr->max_wr = s->rq.max_wr;
    attr->max_sge = s->rq.max_sge;
    attr->srq_limit = atomic_load(&s->limit);
    return 0;
}

SHCA_EXPORT int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
    struct shca_srq *srq = (struct shca_srq *)ibsrq;

    if (shca_foreign()) {
        return 0;
    }
    if (atomic_load(&srq->refs)) {
        return shca_strict(EBUSY, "ibv_destroy_srq: %u QPs use it", atomic_load(&srq->refs));
    }
    pthread_mutex_lock(&shca.lock);
    shca.srqs[srq->idx] = NULL;
    pthread_mutex_unlock(&shca.lock);
    shca_wait_events(&ibsrq->mutex, &ibsrq->cond, &ibsrq->events_completed, &srq->async_events);
    shca_rq_fini(&srq->sm->rq);
    shca_obj_free(SM_T_SRQ, srq->idx);
    atomic_fetch_sub(&((struct shca_pd *)ibsrq->pd)->refs, 1);
    atomic_fetch_sub(&shca_ctx(ibsrq->context)->nsrq, 1);
    atomic_fetch_sub(&shca_ctx(ibsrq->context)->sm->nsrq, 1);
    free(srq);
    return 0;
}
