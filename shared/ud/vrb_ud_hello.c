/* Handshake datagrams in: checks the sender and hands the message to its peer.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ud/vrb_ud_hello.h"

#include <string.h>

#include "address/vrb_ah.h"
#include "dgram/vrb_dgram.h"
#include "peer/vrb_peer_addr.h"
#include "peer/vrb_peer_mtu.h"
#include "ud/vrb_ud.h"
#include "wire/vrb_ud_wire.h"

/* Only who knows what both ends published can make the token. */
static int is_of_the_job(const struct vrb_peer *peer, const struct vrb_hello *h)
{
    return h->token == vrb_ud_token(peer->remote.nonce, peer->rail->address.nonce);
}

/* A datagram must come from where the peer published that it lives, or from where the message says
 * that it lives now; whose message it is was seen from its token. h: NULL if it cannot say. */
static int source_matches(const struct vrb_peer *peer, const struct ibv_wc *wc, const uint8_t *grh,
                          const struct vrb_hello *h)
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
        return wc->slid >> r->lmc == r->lid >> r->lmc ||
               (h != NULL && wc->slid >> r->lmc == h->lid >> r->lmc);
    }
    if (!(wc->wc_flags & IBV_WC_GRH) || !vrb_grh_source(grh, raw)) {
        return r->link == VRB_LINK_ROCE; /* the provider shows no address: the QPN must do */
    }
    for (unsigned i = 0; i < r->num_gids; i++) {
        if (memcmp(raw, r->gids[i].raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return h != NULL && h->has_gid && memcmp(raw, h->gid, VRB_GID_LEN) == 0;
}

static struct vrb_peer *hello_peer(struct vrb_rail *rail, const struct vrb_hello *h)
{
    struct vrb_peer *peer = vrb_peer_find(rail, h->src_name, h->src_rail);

    if (peer == NULL && h->type != VRB_REJECT) {
        peer = vrb_peer_ask_for(rail, h->src_name, h->src_rail);
    }
    return peer;
}

static void introduced(struct vrb_peer *peer, const struct vrb_hello *h, uint8_t length)
{
    if (h->heard != 0) {
        vrb_peer_mtu_proven(peer, h->heard);
    }
    if (h->flags & VRB_HELLO_NEED) {
        vrb_dgram_introduce(peer, 0, length, 0);
    }
}

static void handle(struct vrb_rail *rail, const struct ibv_wc *wc, const uint8_t *grh,
                   const struct vrb_hello *h, uint8_t length)
{
    struct vrb_peer *peer;

    rail->stats.hellos_rx++;
    if (h->dst_name != rail->cfg.name || h->dst_rail != rail->index) {
        rail->stats.hellos_stale++;
        return;
    }
    peer = hello_peer(rail, h);
    if (peer == NULL || !is_of_the_job(peer, h) || !source_matches(peer, wc, grh, h)) {
        rail->stats.hellos_stale++;
        return;
    }
    vrb_peer_learn(peer, h);
    if (!vrb_peer_follow(peer, h)) {
        return; /* our own next one, by the clock, lets it follow */
    }
    if (h->type == VRB_INTRO) {
        introduced(peer, h, length);
    } else {
        vrb_peer_hello(peer, h, length);
    }
}

/* The head of a message is the same in every version. An answer is not answered: two versions would
 * never stop. */
static void other_version(struct vrb_peer *peer, struct vrb_hello *h)
{
    if (h->type == VRB_REJECT) {
        h->reason = VRB_REJECT_VERSION;
        vrb_peer_hello(peer, h, 0);
    } else {
        vrb_peer_reject(peer, h, VRB_REJECT_VERSION);
    }
}

void vrb_hello_take(struct vrb_rail *rail, const uint8_t *p, size_t len, const struct ibv_wc *wc,
                    const uint8_t *grh)
{
    struct vrb_hello h;
    int rc = vrb_hello_get(p, len, &h);

    if (rc == VRB_OK) {
        handle(rail, wc, grh, &h, wc == NULL ? VRB_PMTU_MAX : vrb_pmtu_of(len));
    } else if (rc == VRB_ERR_NOTSUP) {
        struct vrb_peer *peer = vrb_peer_find(rail, h.src_name, h.src_rail);

        if (peer != NULL && source_matches(peer, wc, grh, NULL)) {
            other_version(peer, &h);
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
