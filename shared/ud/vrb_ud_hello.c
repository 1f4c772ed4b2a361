/* Handshake datagrams in: checks the sender and hands the message to its peer.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ud/vrb_ud_hello.h"

#include <string.h>

#include "address/vrb_ah.h"
#include "peer/vrb_peer_addr.h"
#include "ud/vrb_ud.h"

/* A datagram must come from where the peer said that it lives. */
static int source_matches(const struct vrb_peer *peer, const struct ibv_wc *wc, const uint8_t *grh)
{
    const struct vrb_address *r = &peer->remote;
    uint8_t raw[VRB_GID_LEN];

    if (wc == NULL) {
        return 1;
    }
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

    if (peer == NULL && h->type != VRB_REJECT) {
        peer = vrb_peer_ask_for(rail, h->src_name, h->src_rail);
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
    if (!vrb_peer_follow(peer, h)) {
        return; /* our own next one, by the clock, lets it follow */
    }
    if (h->type != VRB_INTRO) { /* which has done its work: we know the peer now */
        vrb_peer_hello(peer, h);
    }
}

void vrb_hello_take(struct vrb_rail *rail, const uint8_t *p, size_t len, const struct ibv_wc *wc,
                    const uint8_t *grh)
{
    struct vrb_hello h;
    int rc = vrb_hello_get(p, len, &h);

    if (rc == VRB_OK) {
        handle(rail, wc, grh, &h);
    } else if (rc == VRB_ERR_NOTSUP) {
        struct vrb_peer *peer = vrb_peer_find(rail, h.src_name, h.src_rail);

        if (peer != NULL && source_matches(peer, wc, grh)) {
            vrb_peer_reject(peer, &h, VRB_REJECT_VERSION);
        }
    } else {
        rail->stats.hellos_stale++;
    }
}

/* The receive slot stays ours until this returns, whatever progresses meanwhile. */
void vrb_ud_hello_recv(struct vrb_rail *rail, const struct ibv_wc *wc, const uint8_t *grh)
{
    vrb_hello_take(rail, grh + VRB_UD_GRH, wc->byte_len - VRB_UD_GRH, wc, grh);
}
