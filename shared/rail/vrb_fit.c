/* The arithmetic of vrb_fit.h.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. */
#include "rail/vrb_fit.h"

#include <stdio.h>

#include "rc/vrb_credit.h"

/* A shared queue shorter than this is no use: a job of any size only collides. */
#define SRQ_WR_MIN 16

/* The shortest queues that the transport works with; the same as the least settings. */
#define RECV_BUFFERS_MIN 8
#define CREDITS_MIN 2

/* Without a shared queue every peer's receives take entries of the completion queue: room for this
 * many peers is worth shorter queues. */
#define PEERS_WANTED 4

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int too_short(char *detail, size_t len, const char *queue, int64_t has, int64_t needs,
                     const char *attribute)
{
    snprintf(detail, len, "its %s holds no more than %lld entries (%s); at least %lld are needed",
             queue, (long long)has, attribute, (long long)needs);
    return VRB_ERR_DEVICE;
}

int vrb_fit(struct vrb_config *cfg, const struct vrb_limits *d, char *detail, size_t len)
{
    const int64_t sends_min = VRB_FIT_MARGIN_QPS + 2;
    const int64_t own_min = CREDITS_MIN + VRB_CREDIT_RESERVE;
    /* Half for what arrives, half for what is sent. */
    int64_t half = ((int64_t)d->max_cqe - d->ud_cqes) / 2;
    int64_t n;

    if (d->max_srq <= 0 || d->max_srq_wr < SRQ_WR_MIN) {
        cfg->use_srq = 0;
    }
    n = cfg->use_srq ? RECV_BUFFERS_MIN : own_min;
    if (half < (n > sends_min ? n : sends_min)) {
        return too_short(detail, len, "completion queue", d->max_cqe,
                         d->ud_cqes + 2 * (n > sends_min ? n : sends_min), "max_cqe");
    }
    if (d->max_qp_wr < 1 || (!cfg->use_srq && d->max_qp_wr < own_min)) {
        return too_short(detail, len, cfg->use_srq ? "send queue" : "receive queue", d->max_qp_wr,
                         cfg->use_srq ? 1 : own_min, "max_qp_wr");
    }
    if (cfg->use_srq) {
        cfg->recv_buffers = (uint32_t)least(cfg->recv_buffers, least(d->max_srq_wr, half));
        cfg->credits = (uint32_t)least(cfg->credits, cfg->recv_buffers);
    } else {
        n = least(d->max_qp_wr, half / PEERS_WANTED > own_min ? half / PEERS_WANTED : own_min);
        cfg->credits = (uint32_t)least(cfg->credits, n - VRB_CREDIT_RESERVE);
    }
    cfg->sq_depth = (uint32_t)least(cfg->sq_depth, least(d->max_qp_wr, half / sends_min));
    n = d->max_qp_init_rd_atom > 0 ? d->max_qp_init_rd_atom : 1; /* 0 may mean "unknown" */
    cfg->rd_atomic = (uint32_t)least(cfg->rd_atomic, n);
    return VRB_OK;
}
