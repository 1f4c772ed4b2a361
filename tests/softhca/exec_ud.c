/* Execution of one datagram of a UD QP, and the datagrams that fault rules hold back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* One datagram on the wire. */
struct packet {
    const struct sm_qp *from;
    struct sm_path path;
    struct shca_route route;
    uint32_t src_qpn, qpn, qkey, imm_data, opcode, flags;
    uint32_t from_idx;
    uint16_t pkey;
    struct shca_iov data;
    uint8_t grh[40];
    bool has_grh;
};

/* Held back by a fault rule. */
struct late {
    struct late *next;
    uint64_t due;      /* CLOCK_MONOTONIC ns */
    uint32_t overtake; /* datagrams that still may pass */
    struct packet p;
    uint8_t payload[];
};

static struct late *held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static uint16_t ip_sum(const uint8_t *h)
{
    uint32_t s = 0;

    for (int i = 0; i < 20; i += 2) {
        s += (uint32_t)(h[i] << 8 | h[i + 1]);
    }
    while (s >> 16) {
        s = (s & 0xffff) + (s >> 16);
    }
    return (uint16_t)~s;
}

/* RoCE v2 over IPv4 leaves the IPv4 header in the last 20 of the 40 bytes. */
static void make_grh(struct packet *p, const struct sm_dev *d)
{
    const struct sm_gid *sgid = &d->ports[p->path.port_num - 1].gids[p->path.sgid_index];
    uint8_t *g = p->grh;

    memset(g, 0, 40);
    p->has_grh = p->path.is_grh;
    if (!p->has_grh) {
        return;
    }
    if (sgid->type == SM_GID_ROCE2 && !memcmp(sgid->raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
        uint16_t len = htons((uint16_t)(20 + 8 + 20 + p->data.len + 4)), sum;

        g += 20;
        g[0] = 0x45;
        g[1] = p->path.tclass;
        memcpy(g + 2, &len, 2);
        g[6] = 0x40; /* do not fragment */
        g[8] = p->path.hop_limit;
        g[9] = 17; /* UDP */
        memcpy(g + 12, sgid->raw + 12, 4);
        memcpy(g + 16, p->path.dgid + 12, 4);
        sum = htons(ip_sum(g));
        memcpy(g + 10, &sum, 2);
    } else {
        uint32_t first =
            htonl(6u << 28 | (uint32_t)p->path.tclass << 20 | (p->path.flow & 0xfffff));
        uint16_t len = htons((uint16_t)(20 + p->data.len + 4));

        memcpy(g, &first, 4);
        memcpy(g + 4, &len, 2);
        g[6] = sgid->type == SM_GID_ROCE2 ? 17 : 0x1b; /* UDP, or IBTA's next header */
        g[7] = p->path.hop_limit;
        memcpy(g + 8, sgid->raw, 16);
        memcpy(g + 24, p->path.dgid, 16);
    }
}

/* Annex A17 wants the completion to tell the kind of RoCE packet. Adapters of the mlx5 family put
 * it into the service level, and UCX counts on that: bit 3 UDP, bits 0-2 GRH, IPv6 or IPv4. */
static uint8_t wc_sl(const struct packet *p, const struct sm_port *port)
{
    if (port->link == SM_LINK_IB) {
        return p->path.sl;
    }
    if (p->grh[0] == 0 && p->grh[20] == 0x45) {
        return 8 | 2;
    }
    return p->grh[6] == 17 ? 8 | 1 : 0;
}

static bool accepts(const struct sm_qp *to, const struct packet *p)
{
    uint32_t state = atomic_load_explicit(&to->o.state, memory_order_acquire);
    const struct sm_dev *d = &shca.seg->devs[to->o.dev];
    uint16_t k;

    if (to->qpn != p->qpn || to->type != IBV_QPT_UD || to->port_num != p->route.port ||
        state < IBV_QPS_RTR + 1 || state == IBV_QPS_ERR + 1 || state == SM_QP_DYING) {
        return false;
    }
    if (to->qkey != p->qkey) {
        atomic_fetch_add(&shca.seg->devs[to->o.dev].ports[to->port_num - 1].qkey_viol, 1);
        return false;
    }
    k = to->pkey_index < SM_MAX_PKEYS ? d->ports[to->port_num - 1].pkeys[to->pkey_index] : 0;
    return (k & 0x7fff) == (p->pkey & 0x7fff) && ((k | p->pkey) & 0x8000);
}

static void put(struct sm_qp *to, const struct packet *p)
{
    const struct sm_port *port = &shca.seg->devs[to->o.dev].ports[to->port_num - 1];
    struct sm_cqe e = {
        .opcode = IBV_WC_RECV,
        .byte_len = (uint32_t)p->data.len + 40,
        .src_qp = p->src_qpn,
        .slid = p->route.slid,
        .sl = wc_sl(p, port),
        .pkey_index = to->pkey_index,
        .dlid_path_bits = (uint8_t)(p->route.dlid & ((1u << port->lmc) - 1)),
        .wc_flags = p->has_grh ? IBV_WC_GRH : 0,
    };
    struct shca_rwqe rw;
    int err;

    if (p->opcode == IBV_WR_SEND_WITH_IMM) {
        e.imm_data = p->imm_data;
        e.wc_flags |= IBV_WC_WITH_IMM;
    }
    if (p->flags & IBV_SEND_SOLICITED) {
        e.flags = SM_CQE_SOLICITED;
    }
    if (!shca_rq_take(to, &rw)) {
        shca_count(&shca.seg->devs[to->o.dev], SM_CNT_UD_DROP, 1);
        return;
    }
    if (shca_deliver(&shca.seg->devs[p->from->o.dev], to, &rw, &p->data, 40,
                     p->has_grh ? p->grh : NULL, &e, &err) != IBV_WC_SUCCESS) {
        shca_strict(0, "UD QP 0x%x: a datagram of %llu bytes (and 40) met a bad receive request",
                    to->qpn, (unsigned long long)p->data.len);
        shca_qp_error(to, IBV_EVENT_QP_FATAL);
    }
}

static void transmit(struct packet *p)
{
    struct sm_qp *to = p->route.port ? shca_target(&p->route, p->qpn) : NULL;

    if (!to) {
        shca_count(&shca.seg->devs[p->from->o.dev], SM_CNT_UD_DROP, 1);
        return;
    }
    shca_qp_lock(to);
    if (SHCA_LIKELY(accepts(to, p))) {
        put(to, p);
    } else {
        shca_count(&shca.seg->devs[to->o.dev], SM_CNT_UD_DROP, 1);
    }
    shca_unlock(&to->resp);
}

static struct late *copy_packet(const struct packet *p)
{
    struct late *l = malloc(sizeof(*l) + p->data.len);
    uint8_t *d;

    if (!l) {
        return NULL;
    }
    l->next = NULL;
    l->due = 0;
    l->overtake = 0;
    l->p = *p;
    d = l->payload;
    for (uint32_t i = 0; i < p->data.n; i++) {
        memcpy(d, p->data.v[i].iov_base, p->data.v[i].iov_len);
        d += p->data.v[i].iov_len;
    }
    l->p.data.n = p->data.len ? 1 : 0;
    l->p.data.v[0].iov_base = l->payload;
    l->p.data.v[0].iov_len = p->data.len;
    return l;
}

/* Takes the held datagrams that are due; `passed`: a datagram of this QP just went by (or ~0u). */
static struct late *take_due(uint64_t now, uint32_t passed, uint64_t *next)
{
    struct late **pp, *out = NULL, **tail = &out;

    *next = UINT64_MAX;
    pthread_mutex_lock(&held_lock);
    for (pp = &held; *pp;) {
        struct late *l = *pp;
        bool go = l->due <= now;

        if (l->p.from_idx == passed && l->overtake && --l->overtake == 0) {
            go = true;
        }
        if (go) {
            *pp = l->next;
            l->next = NULL;
            *tail = l;
            tail = &l->next;
            continue;
        }
        if (l->due < *next) {
            *next = l->due;
        }
        pp = &l->next;
    }
    pthread_mutex_unlock(&held_lock);
    return out;
}

static void release(struct late *l)
{
    while (l) {
        struct late *next = l->next;

        transmit(&l->p);
        free(l);
        l = next;
    }
}

uint64_t shca_ud_late(uint64_t now)
{
    uint64_t next;

    if (SHCA_LIKELY(!__atomic_load_n(&held, __ATOMIC_RELAXED))) {
        return UINT64_MAX;
    }
    release(take_due(now, UINT32_MAX, &next));
    return next;
}

void shca_ud_forget(uint32_t qp_idx)
{
    struct late **pp;

    pthread_mutex_lock(&held_lock);
    for (pp = &held; *pp;) {
        struct late *l = *pp;

        if (l->p.from_idx == qp_idx) {
            *pp = l->next;
            free(l);
        } else {
            pp = &l->next;
        }
    }
    pthread_mutex_unlock(&held_lock);
}

static void hold(const struct packet *p, uint64_t us, uint32_t window)
{
    struct late *l = copy_packet(p);

    if (!l) {
        return; /* datagrams may get lost */
    }
    l->due = shca_now() + us * 1000u;
    l->overtake = window;
    pthread_mutex_lock(&held_lock);
    l->next = held;
    held = l;
    pthread_mutex_unlock(&held_lock);
    shca_helper_wake();
}

/* Passes the fault rules; false: the datagram is gone or held back. */
static bool through_faults(struct shca_qp *qp, struct shca_wqe *w, struct packet *p)
{
    struct shca_fault_site site = shca_fault_site(qp, w, &p->route);
    struct shca_fault_args a;

    shca_fault_passing(qp, &site);
    shca_route_resolve(qp->ctx->dev_idx, &p->path, &p->route);
    if (shca_fault_hit(SHCA_FAULT_UD_DROP, &site, NULL) ||
        shca_fault_hit(SHCA_FAULT_PATH_MTU, &site, NULL)) {
        shca_count(qp->ctx->sm, SM_CNT_UD_DROP, 1);
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        return false;
    }
    if (p->data.len && shca_fault_hit(SHCA_FAULT_UD_CORRUPT, &site, &a)) {
        struct late *l = copy_packet(p);

        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        if (l) {
            l->payload[a.index % p->data.len] ^= 0x10;
            release(l);
        }
        return false;
    }
    if (shca_fault_hit(SHCA_FAULT_UD_DUP, &site, NULL)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        transmit(p);
    }
    if (shca_fault_hit(SHCA_FAULT_UD_REORDER, &site, &a)) {
        /* At the latest after 10 ms, should nothing come to overtake it. */
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        hold(p, a.us ? a.us : 10000, a.window ? a.window : 1);
        return false;
    }
    if (shca_fault_hit(SHCA_FAULT_UD_DELAY, &site, &a)) {
        shca_count(qp->ctx->sm, SM_CNT_FAULTS, 1);
        hold(p, a.us, 0);
        return false;
    }
    return true;
}

static bool local_ok(struct shca_qp *qp, struct shca_wqe *w, struct packet *p,
                     struct shca_result *res)
{
    const struct sm_port *port = &qp->ctx->sm->ports[qp->sm->port_num - 1];

    if (w->len > (128u << port->active_mtu)) {
        shca_strict(0, "UD message of %llu bytes: the MTU is %u", (unsigned long long)w->len,
                    128u << port->active_mtu);
        res->status = IBV_WC_LOC_LEN_ERR;
        return false;
    }
    if (w->path.port_num != qp->sm->port_num) {
        shca_strict(0, "UD QP 0x%x of port %u with an address handle of port %u", qp->sm->qpn,
                    qp->sm->port_num, w->path.port_num);
        res->status = IBV_WC_LOC_QP_OP_ERR;
        return false;
    }
    if (!shca_wqe_gather(qp, w, 0, &p->data)) {
        shca_strict(0, "UD QP 0x%x wr_id 0x%llx: local key or bounds are wrong", qp->sm->qpn,
                    (unsigned long long)w->wr_id);
        res->status = IBV_WC_LOC_PROT_ERR;
        return false;
    }
    return true;
}

enum shca_outcome shca_exec_ud(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res)
{
    struct sm_dev *d = qp->ctx->sm;
    struct packet p;
    uint64_t next;

    if (!local_ok(qp, w, &p, res)) {
        return SHCA_DONE;
    }
    p.from = qp->sm;
    p.from_idx = qp->idx;
    p.path = w->path;
    qp->sm->path = w->path; /* for softhca-ctl queues */
    p.route = w->route;
    p.src_qpn = qp->sm->qpn;
    p.qpn = w->qpn;
    p.qkey = w->qkey & 0x80000000u ? qp->sm->qkey : w->qkey;
    p.imm_data = w->imm_data;
    p.opcode = w->opcode;
    p.flags = w->flags;
    p.pkey = d->ports[qp->sm->port_num - 1].pkeys[qp->sm->pkey_index];
    shca_route_resolve(qp->ctx->dev_idx, &p.path, &p.route);
    make_grh(&p, d);
    res->status = IBV_WC_SUCCESS;
    shca_count(d, SM_CNT_UD_SEND, 1);
    shca_count(d, SM_CNT_BYTES, w->len);
    if (SHCA_UNLIKELY(shca_fault_any()) && !through_faults(qp, w, &p)) {
        return SHCA_DONE;
    }
    transmit(&p);
    if (SHCA_UNLIKELY(__atomic_load_n(&held, __ATOMIC_RELAXED) != NULL)) {
        release(take_due(shca_now(), qp->idx, &next));
    }
    return SHCA_DONE;
}
