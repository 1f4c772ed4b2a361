/* Events as the program sees them: reading, acknowledging, waiting for acknowledgements.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs_impl.h"

#include <string.h>
#include <unistd.h>

/* 0, or -1 with errno (EAGAIN on a non-blocking descriptor). Records are written whole. */
static int read_event(int fd, struct sm_event *ev)
{
    ssize_t n;

    do {
        n = read(fd, ev, sizeof(*ev));
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof(*ev)) {
        return 0;
    }
    if (n >= 0) {
        errno = EIO;
    }
    return -1;
}

SHCA_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                                 void **cq_context)
{
    for (;;) {
        struct shca_cq *c = NULL;
        struct sm_event ev;

        if (read_event(channel->fd, &ev)) {
            return -1;
        }
        pthread_mutex_lock(&shca.lock);
        if (ev.index < SM_MAX_CQ) {
            c = shca.cqs[ev.index];
        }
        if (c && c->gen == ev.gen) {
            c->comp_events++;
        } else {
            c = NULL;
        }
        pthread_mutex_unlock(&shca.lock);
        if (c) {
            *cq = &c->v.cq;
            *cq_context = c->v.cq.cq_context;
            return 0;
        } /* else: of a CQ that was destroyed since */
    }
}

static void ack(pthread_mutex_t *m, pthread_cond_t *c, uint32_t *completed, unsigned int n)
{
    pthread_mutex_lock(m);
    *completed += n;
    pthread_cond_signal(c);
    pthread_mutex_unlock(m);
}

SHCA_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, n);
}

void shca_wait_events(pthread_mutex_t *m, pthread_cond_t *c, const uint32_t *completed,
                      const uint32_t *delivered)
{
    pthread_mutex_lock(m);
    while (*completed != *delivered) {
        pthread_cond_wait(c, m);
    }
    pthread_mutex_unlock(m);
}

/* Fills in the object that an event is about; false: it is gone. */
static bool element(const struct sm_event *r, struct ibv_async_event *e)
{
    struct shca_qp *qp;
    struct shca_cq *cq;
    struct shca_srq *srq;

    switch (e->event_type) {
    case IBV_EVENT_CQ_ERR:
        cq = r->index < SM_MAX_CQ ? shca.cqs[r->index] : NULL;
        if (!cq || cq->gen != r->gen) {
            return false;
        }
        cq->async_events++;
        e->element.cq = &cq->v.cq;
        return true;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        qp = r->index < SM_MAX_QP ? shca.qps[r->index] : NULL;
        if (!qp || qp->gen != r->gen) {
            return false;
        }
        qp->async_events++;
        e->element.qp = &qp->v.qp;
        return true;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        srq = r->index < SM_MAX_SRQ ? shca.srqs[r->index] : NULL;
        if (!srq || srq->gen != r->gen) {
            return false;
        }
        srq->async_events++;
        e->element.srq = &srq->srq;
        return true;
    default:
        e->element.port_num = (int)r->port;
        return true;
    }
}

SHCA_EXPORT int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    for (;;) {
        struct sm_event ev;
        bool ok;

        if (read_event(ctx->async_fd, &ev)) {
            return -1;
        }
        memset(event, 0, sizeof(*event));
        event->event_type = (enum ibv_event_type)ev.type;
        pthread_mutex_lock(&shca.lock);
        ok = element(&ev, event);
        pthread_mutex_unlock(&shca.lock);
        if (ok) {
            return 0;
        }
    }
}

SHCA_EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
    switch (e->event_type) {
    case IBV_EVENT_CQ_ERR:
        ack(&e->element.cq->mutex, &e->element.cq->cond, &e->element.cq->async_events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        ack(&e->element.qp->mutex, &e->element.qp->cond, &e->element.qp->events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        ack(&e->element.srq->mutex, &e->element.srq->cond, &e->element.srq->events_completed, 1);
        break;
    default:
        break;
    }
}
