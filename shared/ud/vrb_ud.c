/* The UD QP that carries handshakes: buffers, sending, and checking where a datagram came from.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ud/vrb_ud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "address/vrb_ah.h"
#include "peer/vrb_peer.h"
#include "util/vrb_clock.h"

#define UD_RECV 128
#define UD_SEND 32
#define UD_GRH 40   /* bytes before every received payload, used or not (ibv_post_recv(3)) */
#define UD_SLOT 256 /* holds a GRH and a HELLO */

struct vrb_ud {
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *mem;          /* UD_RECV receive slots, then UD_SEND send slots */
    uint32_t send_busy;    /* bit i: send slot i is in flight */
    uint32_t recv_pending; /* receives that could not be posted again */
};

_Static_assert(UD_SEND <= 32, "send_busy has 32 bits");
_Static_assert(UD_GRH + VRB_HELLO_SIZE <= UD_SLOT, "a HELLO fits its slot");

int vrb_ud_cq_entries(void)
{
    return UD_RECV + UD_SEND;
}

static int post_recv(struct vrb_rail *rail, unsigned slot)
{
    struct vrb_ud *ud = rail->ud;
    struct ibv_sge sge = {
        .addr = (uintptr_t)(ud->mem + slot * UD_SLOT), .length = UD_SLOT, .lkey = ud->mr->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = (uint64_t)slot << 3 | VRB_WR_UD_RECV, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    return abs(ibv_post_recv(ud->qp, &wr, &bad));
}

/* Q_Keys with the top bit set mean "use the QP's own" in a send (IBTA 10.2.5): never choose one. */
static uint32_t random_qkey(void)
{
    uint32_t key = 0;

    while (key == 0) {
        if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
            key = (uint32_t)vrb_clock_ns();
        }
        key &= 0x7fffffff;
    }
    return key;
}

static int to_rts(struct vrb_rail *rail)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = rail->pkey_index,
        .port_num = rail->port.port,
        .qkey = rail->address.qkey,
    };
    struct ibv_qp *qp = rail->ud->qp;
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    if (rc == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    }
    if (rc == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 0};
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    return rc == -1 ? errno : rc;
}

static int open_qp(struct vrb_rail *rail, const char **what)
{
    struct vrb_ud *ud = rail->ud;
    size_t size = (UD_RECV + UD_SEND) * UD_SLOT;
    struct ibv_qp_init_attr init = {
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = UD_SEND,
                .max_recv_wr = UD_RECV,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    int err;

    *what = "memory for the handshake buffers";
    ud->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ud->mem == MAP_FAILED) {
        ud->mem = NULL;
        return errno;
    }
    madvise(ud->mem, size, MADV_DONTFORK);
    *what = "registering the handshake buffers";
    ud->mr = ibv_reg_mr(rail->pd, ud->mem, size, IBV_ACCESS_LOCAL_WRITE);
    if (ud->mr == NULL) {
        return errno;
    }
    rail->stats.reg_bytes += size;
    *what = "creating the UD queue pair";
    ud->qp = ibv_create_qp(rail->pd, &init);
    if (ud->qp == NULL) {
        return errno;
    }
    rail->address.ud_qpn = ud->qp->qp_num;
    rail->address.qkey = random_qkey();
    *what = "bringing up the UD queue pair";
    err = to_rts(rail);
    for (unsigned i = 0; err == 0 && i < UD_RECV; i++) {
        err = post_recv(rail, i);
    }
    return err;
}

int vrb_ud_open(struct vrb_rail *rail, char *detail, size_t len)
{
    const char *what = "memory";
    int err = ENOMEM;

    rail->ud = calloc(1, sizeof(*rail->ud));
    if (rail->ud != NULL) {
        err = open_qp(rail, &what);
    }
    if (err != 0) {
        snprintf(detail, len, "%s: %s", what, strerror(err));
        errno = err;
        return err == ENOMEM ? VRB_ERR_NOMEM : VRB_ERR_DEVICE;
    }
    return VRB_OK;
}

void vrb_ud_close(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;

    if (ud == NULL) {
        return;
    }
    if (ud->qp != NULL) {
        ibv_destroy_qp(ud->qp);
    }
    if (ud->mr != NULL) {
        ibv_dereg_mr(ud->mr);
    }
    if (ud->mem != NULL) {
        munmap(ud->mem, (UD_RECV + UD_SEND) * UD_SLOT);
    }
    free(ud);
    rail->ud = NULL;
}

static int peer_ah(struct vrb_peer *peer, char *detail, size_t len)
{
    struct ibv_ah_attr attr;
    char text[80];

    if (peer->ah != NULL) {
        return VRB_OK;
    }
    vrb_ah_fill(&attr, &peer->path, peer->rail->port.port);
    peer->ah = ibv_create_ah(peer->rail->pd, &attr);
    if (peer->ah != NULL) {
        return VRB_OK;
    }
    if (errno == ETIMEDOUT || errno == EAGAIN) {
        return VRB_ERR_AGAIN; /* the neighbour did not resolve yet: the next HELLO tries again */
    }
    snprintf(detail, len, "no address handle for %s: %s",
             vrb_address_text(&peer->remote, peer->path.use_grh ? &peer->path.dgid : NULL, text,
                              sizeof(text)),
             strerror(errno));
    return VRB_ERR_UNREACH;
}

int vrb_ud_hello(struct vrb_peer *peer, const struct vrb_hello *h, char *detail, size_t len)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_ud *ud = rail->ud;
    struct ibv_sge sge = {.length = VRB_HELLO_SIZE, .lkey = ud->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    unsigned slot;
    int rc = peer_ah(peer, detail, len);

    if (rc == VRB_ERR_AGAIN || ud->send_busy == UINT32_MAX) {
        return VRB_OK;
    }
    if (rc != VRB_OK) {
        return rc;
    }
    slot = (unsigned)__builtin_ctz(~ud->send_busy);
    sge.addr = (uintptr_t)(ud->mem + (UD_RECV + slot) * UD_SLOT);
    vrb_hello_put(h, (uint8_t *)(uintptr_t)sge.addr);
    wr.wr_id = (uint64_t)slot << 3 | VRB_WR_UD_SEND;
    wr.wr.ud.ah = peer->ah;
    wr.wr.ud.remote_qpn = peer->remote.ud_qpn;
    wr.wr.ud.remote_qkey = peer->remote.qkey;
    rc = ibv_post_send(ud->qp, &wr, &bad);
    if (rc != 0) {
        snprintf(detail, len, "sending on the UD queue pair: %s", strerror(abs(rc)));
        return VRB_ERR_DEVICE;
    }
    ud->send_busy |= 1u << slot;
    rail->stats.hellos_tx++;
    return VRB_OK;
}

void vrb_ud_send_done(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    unsigned slot = (unsigned)(wc->wr_id >> 3);

    if (slot < UD_SEND) {
        rail->ud->send_busy &= ~(1u << slot);
    }
}

/* A datagram must come from where the peer said that it lives. */
static int source_matches(const struct vrb_peer *peer, const struct ibv_wc *wc, const uint8_t *grh)
{
    const struct vrb_address *r = &peer->remote;
    uint8_t raw[VRB_GID_LEN];

    if (wc->src_qp != r->ud_qpn) {
        return 0;
    }
    if (r->link == VRB_LINK_IB && !(wc->wc_flags & IBV_WC_GRH)) {
        return wc->slid >> r->lmc == r->lid >> r->lmc;
    }
    if (!(wc->wc_flags & IBV_WC_GRH) || !vrb_grh_source(grh, raw)) {
        return r->link == VRB_LINK_ROCE; /* the provider shows no address: the QPN must do */
    }
    for (unsigned i = 0; i < r->num_gids; i++) {
        if (memcmp(raw, r->gids[i].raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return 0;
}

static struct vrb_peer *hello_peer(struct vrb_rail *rail, const struct vrb_hello *h)
{
    struct vrb_peer *peer = vrb_peer_find(rail, h->src_name, h->src_rail);

    if (peer == NULL && h->type == VRB_HELLO && !rail->closing && rail->cb.unknown != NULL) {
        rail->cb.unknown(rail->cb.ctx, rail, h->src_name);
        /* The upper layer pairs rails by itself: what counts is whether this pair exists now. */
        peer = vrb_peer_find(rail, h->src_name, h->src_rail);
    }
    return peer;
}

static void handle(struct vrb_rail *rail, const struct ibv_wc *wc, const uint8_t *grh,
                   const struct vrb_hello *h)
{
    struct vrb_peer *peer;

    rail->stats.hellos_rx++;
    if (h->dst_name != rail->cfg.name || h->dst_rail != rail->index) {
        rail->stats.hellos_stale++;
        return;
    }
    peer = hello_peer(rail, h);
    if (peer == NULL || !source_matches(peer, wc, grh)) {
        rail->stats.hellos_stale++;
        return;
    }
    vrb_peer_hello(peer, h);
}

void vrb_ud_recv(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    unsigned slot = (unsigned)(wc->wr_id >> 3);
    uint8_t copy[UD_GRH + VRB_HELLO_SIZE];
    struct vrb_hello h;
    size_t len = wc->byte_len;
    int rc = VRB_ERR_MALFORMED;

    if (slot >= UD_RECV) {
        return;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        return; /* flushed: the QP is going away */
    }
    if (len >= sizeof(copy)) {
        memcpy(copy, rail->ud->mem + slot * UD_SLOT, sizeof(copy));
        rc = vrb_hello_get(copy + UD_GRH, VRB_HELLO_SIZE, &h);
    }
    (void)post_recv(rail, slot);
    if (rc == VRB_OK) {
        handle(rail, wc, copy, &h);
    } else if (rc == VRB_ERR_NOTSUP) {
        struct vrb_peer *peer = vrb_peer_find(rail, h.src_name, h.src_rail);

        if (peer != NULL && source_matches(peer, wc, copy)) {
            vrb_peer_reject(peer, &h, VRB_REJECT_VERSION);
        }
    } else {
        rail->stats.hellos_stale++;
    }
}
