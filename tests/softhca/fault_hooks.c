/* Where the fault rules meet the device: what a rule that hits does.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <signal.h>
#include <string.h>

int shca_fault_ctl(const struct shca_context *ctx, enum shca_fault_point point)
{
    return shca_fault_ctl_on(ctx, point, (struct shca_fault_site){0});
}

int shca_fault_ctl_on(const struct shca_context *ctx, enum shca_fault_point point,
                      struct shca_fault_site site)
{
    struct shca_fault_args a;

    if (SHCA_LIKELY(!shca_fault_any())) {
        return 0;
    }
    site.host = shca.seg->hosts[ctx->sm->host].name;
    site.dev = ctx->sm->name;
    if (!shca_fault_hit(point, &site, &a)) {
        return 0;
    }
    shca_count(ctx->sm, SM_CNT_FAULTS, 1);
    return a.err ? a.err : EIO;
}

int shca_fault_post_recv(const struct shca_context *ctx, uint32_t qpn)
{
    struct shca_fault_args a;

    if (SHCA_LIKELY(!shca_fault_any()) ||
        !shca_fault_hit(SHCA_FAULT_POST_RECV_FAIL,
                        &SHCA_FAULT_SITE(.host = shca.seg->hosts[ctx->sm->host].name,
                                         .dev = ctx->sm->name, .qpn = qpn,
                                         .op = SHCA_FAULT_OP_RECV),
                        &a)) {
        return 0;
    }
    shca_count(ctx->sm, SM_CNT_FAULTS, 1);
    return a.err ? a.err : ENOMEM;
}

struct shca_fault_site shca_fault_site(const struct shca_qp *qp, const struct shca_wqe *w,
                                       const struct shca_route *r)
{
    return (struct shca_fault_site){
        .host = shca.seg->hosts[qp->ctx->sm->host].name,
        .dev = qp->ctx->sm->name,
        .peer = r && r->port ? shca.seg->hosts[shca.seg->devs[r->dev].host].name : NULL,
        .bytes = w->len,
        .qpn = qp->sm->qpn,
        .port = qp->sm->port_num,
        .op = SHCA_FAULT_OP(w->opcode),
        .qp_type = (int)qp->sm->type,
    };
}

int shca_fault_post_send(const struct shca_qp *qp, const struct ibv_send_wr *wr)
{
    struct shca_wqe w = {.opcode = wr->opcode};
    struct shca_fault_site site;
    struct shca_fault_args a;

    for (int i = 0; i < wr->num_sge; i++) {
        w.len += wr->sg_list[i].length;
    }
    site = shca_fault_site(qp, &w, &qp->route);
    if (!shca_fault_hit(SHCA_FAULT_POST_SEND_FAIL, &site, &a)) {
        return 0;
    }
    shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
    return a.err ? a.err : ENOMEM;
}

/* Port `a->port` (0: all) of every device that the rule names; empty names: that of the passer. */
static void act(const struct shca_fault_args *a, const char *host, const char *dev, int port)
{
    for (uint32_t i = 0; i < SM_MAX_DEVS; i++) {
        struct sm_dev *d = &shca.seg->devs[i];

        if (!atomic_load(&d->used) ||
            (host && *host && strcmp(host, shca.seg->hosts[d->host].name)) ||
            (dev && *dev && strcmp(dev, d->name))) {
            continue;
        }
        if (a->point == SHCA_FAULT_DEV_FATAL) {
            shca_set_fatal(i);
            continue;
        }
        for (int p = 1; p <= (int)d->nports; p++) {
            if (port && port != p) {
                continue;
            }
            switch (a->point) {
            case SHCA_FAULT_PORT_DOWN:
                shca_set_port_state(i, p, IBV_PORT_DOWN);
                break;
            case SHCA_FAULT_PORT_UP:
                shca_set_port_state(i, p, IBV_PORT_ACTIVE);
                break;
            case SHCA_FAULT_GID_SET:
                shca_set_gid(i, p, a->index, a->gid, -1);
                break;
            case SHCA_FAULT_GID_CLEAR:
                shca_set_gid(i, p, a->index, (const uint8_t[16]){0}, -1);
                break;
            case SHCA_FAULT_LID_SET:
                shca_set_lid(i, p, a->lid);
                break;
            default:
                break;
            }
        }
    }
}

/* Ports that a rule took down for a while. */
static struct {
    uint64_t due;
    char host[SM_NAME_LEN], dev[SM_NAME_LEN];
    int port;
} back_up[8];

static void schedule_up(const struct shca_fault_args *a, const char *host, const char *dev,
                        int port)
{
    for (size_t i = 0; i < sizeof(back_up) / sizeof(back_up[0]); i++) {
        if (!back_up[i].due) {
            snprintf(back_up[i].host, SM_NAME_LEN, "%s", host ? host : "");
            snprintf(back_up[i].dev, SM_NAME_LEN, "%s", dev ? dev : "");
            back_up[i].port = port;
            back_up[i].due = shca_now() + a->for_ns;
            shca_helper_wake();
            return;
        }
    }
}

static void do_action(const struct shca_fault_args *a, const char *host, const char *dev, int port)
{
    act(a, host, dev, port);
    if (a->point == SHCA_FAULT_PORT_DOWN && a->for_ns) {
        schedule_up(a, host, dev, port);
    }
}

uint64_t shca_fault_actions(uint64_t now)
{
    struct shca_fault_args a;
    uint64_t next = UINT64_MAX;

    while (shca_fault_next() <= now && shca_fault_due(now, &a)) {
        do_action(&a, a.host, a.dev, a.port);
    }
    for (size_t i = 0; i < sizeof(back_up) / sizeof(back_up[0]); i++) {
        if (back_up[i].due && back_up[i].due <= now) {
            a = (struct shca_fault_args){.point = SHCA_FAULT_PORT_UP};
            act(&a, back_up[i].host, back_up[i].dev, back_up[i].port);
            back_up[i].due = 0;
        } else if (back_up[i].due && back_up[i].due < next) {
            next = back_up[i].due;
        }
    }
    return shca_fault_next() < next ? shca_fault_next() : next;
}

/* Actions that hit as requests pass. */
void shca_fault_passing(struct shca_qp *qp, const struct shca_fault_site *site)
{
    static const enum shca_fault_point points[] = {
        SHCA_FAULT_PORT_DOWN, SHCA_FAULT_PORT_UP, SHCA_FAULT_GID_SET,
        SHCA_FAULT_GID_CLEAR, SHCA_FAULT_LID_SET, SHCA_FAULT_DEV_FATAL,
    };
    struct shca_fault_args a;

    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        if (shca_fault_hit(points[i], site, &a)) {
            shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
            do_action(&a, site->host, site->dev, site->port);
        }
    }
}

/* A link on the way does not take packets of this size. The answer to a read comes the other way.
 */
static bool too_long_for_path(const struct shca_qp *qp, const struct shca_wqe *w,
                              const struct shca_fault_site *at)
{
    struct shca_fault_site site = *at;
    uint64_t mtu = 128u << qp->sm->path_mtu;

    site.bytes = w->len < mtu ? w->len : mtu;
    if (w->opcode == IBV_WR_RDMA_READ) {
        site.host = at->peer;
        site.peer = at->host;
    }
    return shca_fault_hit(SHCA_FAULT_PATH_MTU, &site, NULL);
}

bool shca_fault_rc(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res,
                   enum shca_outcome *out)
{
    struct shca_fault_site site = shca_fault_site(qp, w, &qp->route);
    struct shca_fault_args a;

    shca_fault_passing(qp, &site);
    shca_route_resolve(qp->ctx->dev_idx, &qp->sm->path, &qp->route);
    if (qp->route.port && shca_fault_hit(SHCA_FAULT_PEER_KILL, &site, &a)) {
        struct sm_qp *to = shca_target(&qp->route, qp->sm->dest_qpn);

        if (to) {
            kill(shca.seg->procs[to->o.proc].pid, SIGKILL);
        }
    }
    if (qp->route.port && shca_fault_hit(SHCA_FAULT_SRQ_LIMIT, &site, &a)) {
        struct sm_qp *to = shca_target(&qp->route, qp->sm->dest_qpn);

        if (to && to->srq != UINT32_MAX) {
            shca_event_ctx(to->o.ctx, IBV_EVENT_SRQ_LIMIT_REACHED, to->srq, to->srq_gen, 0);
        }
    }
    if (shca_fault_hit(SHCA_FAULT_WC_ERROR, &site, &a)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        res->status = a.status ? (enum ibv_wc_status)a.status : IBV_WC_GENERAL_ERR;
        *out = SHCA_DONE;
        return true;
    }
    if (shca_fault_hit(SHCA_FAULT_RC_RETRY_EXC, &site, &a) || too_long_for_path(qp, w, &site)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        res->status = IBV_WC_RETRY_EXC_ERR;
        *out = SHCA_DONE;
        return true;
    }
    if (shca_fault_hit(SHCA_FAULT_RC_RNR, &site, &a)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        res->rnr_timer = 12; /* 0.64 ms */
        *out = SHCA_NO_RECV;
        return true;
    }
    /* A request that was delayed once goes through the next time. */
    if (qp->stall != SHCA_STALL_DELAY && shca_fault_hit(SHCA_FAULT_RC_DELAY, &site, &a)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        res->us = a.us;
        *out = SHCA_LATER;
        return true;
    }
    return false;
}

void shca_fault_rc_ack(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res)
{
    struct shca_fault_site site = shca_fault_site(qp, w, &qp->route);
    struct shca_fault_args a;

    if (shca_fault_hit(SHCA_FAULT_RC_ACK_LOST, &site, &a)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        res->status = IBV_WC_RETRY_EXC_ERR;
    }
}

uint64_t shca_fault_read(struct shca_qp *qp, struct shca_wqe *w)
{
    struct shca_fault_site site = shca_fault_site(qp, w, &qp->route);
    struct shca_fault_args a;
    uint64_t bytes;

    if (!shca_fault_hit(SHCA_FAULT_RC_READ_SHORT, &site, &a)) {
        return w->len;
    }
    bytes = a.bytes ? a.bytes : 1024;
    if (bytes >= w->len) {
        return w->len;
    }
    shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
    return bytes;
}
