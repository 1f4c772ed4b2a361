/* Datagrams in: finds the sender, takes acknowledgements, delivers messages, places puts.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything here is hostile input: a packet counts only if its source is known, its token is of
 * this pair of incarnations, and reliable/ finds its numbers possible. */
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "mem/vrb_region.h"
#include "peer/vrb_path.h"
#include "wire/vrb_wire.h"

static void malformed(struct vrb_peer *peer, const char *what)
{
    peer->rail->stats.rx_malformed++;
    vrb_path_fail_in_words(peer, VRB_ERR_MALFORMED, "receiving a datagram", what);
}

static void deliver(struct vrb_peer *peer, uint8_t tag, const uint8_t *data, uint32_t len)
{
    struct vrb_rail *rail = peer->rail;

    /* The upper layer may write into what it gets: it is our receive buffer. */
    vrb_call_begin(rail);
    rail->cb.recv(rail->cb.ctx, peer, tag, (void *)(uintptr_t)data, len);
    vrb_call_end(rail);
}

static void deliver_records(struct vrb_peer *peer, const struct vrb_ud_packet *pkt)
{
    struct vrb_record rec;
    size_t off = 0;
    int rc;

    while ((rc = vrb_record_next(pkt->payload, pkt->len, &off, &rec)) == 1) {
        deliver(peer, rec.tag, rec.data, rec.len);
    }
    if (rc < 0) {
        malformed(peer, "a packet of joined messages does not add up");
    }
}

static void add_segment(struct vrb_dgram *d, const struct vrb_ud_packet *pkt)
{
    const struct vrb_ud_hdr *h = &pkt->hdr;
    struct vrb_reasm_msg *whole;
    int rc = vrb_reasm_add(&d->reasm, h->msg, h->tag, h->msg_len, h->offset, pkt->payload, pkt->len,
                           &whole);

    if (rc != VRB_OK) {
        malformed(d->peer, rc == VRB_ERR_NOMEM ? "out of memory for a long message"
                                               : "segments of a message do not fit together");
        return;
    }
    if (whole != NULL) {
        struct vrb_reasm *r = &d->reasm;

        deliver(d->peer, whole->tag, whole->data, whole->len);
        vrb_reasm_free(r, whole);
    }
}

static void place(struct vrb_peer *peer, const struct vrb_ud_packet *pkt)
{
    void *to = vrb_region_target(&peer->rail->regions, pkt->hdr.msg, pkt->hdr.address, pkt->len);

    if (to == NULL) {
        malformed(peer, "a put to memory that is not registered for it");
        return;
    }
    memcpy(to, pkt->payload, pkt->len);
}

static void take_data(struct vrb_dgram *d, const struct vrb_ud_packet *pkt)
{
    struct vrb_rail *rail = d->peer->rail;

    rail->stats.rx_packets += pkt->hdr.kind != VRB_UD_VOID;
    rail->stats.rx_bytes += pkt->len;
    switch (pkt->hdr.kind) {
    case VRB_UD_DATA:
        deliver(d->peer, pkt->hdr.tag, pkt->payload, pkt->len);
        break;
    case VRB_UD_COALESCED:
        deliver_records(d->peer, pkt);
        break;
    case VRB_UD_SEGMENT:
        add_segment(d, pkt);
        break;
    case VRB_UD_VOID:
        if (pkt->hdr.tag != 0) {
            vrb_reasm_void(&d->reasm, pkt->hdr.msg);
        }
        break;
    default:
        place(d->peer, pkt);
        break;
    }
}

static void take_ack(struct vrb_dgram *d, const struct vrb_ud_ack *ack, uint64_t now)
{
    struct vrb_rail *rail = d->peer->rail;
    void *done[VRB_REL_WINDOW];
    int n = vrb_rel_on_ack(&d->rel, ack, now, done);

    if (n < 0) {
        rail->stats.rx_malformed++; /* of another life, or forged: never a reason to fail */
        return;
    }
    for (int i = 0; i < n; i++) {
        vrb_dgram_release(rail, done[i]);
    }
}

/* For a peer that was dropped: what arrived before is acknowledged, so that the other end comes to
 * rest; for anything new the peer has to be made again. Returns it, or NULL. */
static struct vrb_peer *to_retired(struct vrb_peer *peer, const struct vrb_ud_packet *pkt,
                                   uint64_t now)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_dgram *d = peer->dgram;
    uint64_t name = peer->name;
    int remote_rail = peer->remote_rail;

    if (pkt->hdr.kind == VRB_UD_ACK || pkt->hdr.kind == VRB_UD_VOID ||
        vrb_rel_has(&d->rel, pkt->hdr.dseq)) {
        if (pkt->hdr.flags & VRB_UD_HAS_ACK) {
            take_ack(d, &pkt->ack, now);
        }
        if (pkt->hdr.kind != VRB_UD_ACK) {
            if (vrb_rel_receive(&d->rel, pkt->hdr.pn, pkt->hdr.dseq, pkt->hdr.flags, now) ==
                VRB_REL_NEW) {
                take_data(d, pkt); /* a VOID */
            }
            vrb_dgram_send_ack(d, now);
        }
        return NULL;
    }
    return vrb_peer_ask_for(rail, name, remote_rail);
}

void vrb_dgram_recv(struct vrb_rail *rail, const struct ibv_wc *wc, uint8_t *p, uint32_t len)
{
    struct vrb_ud_packet pkt;
    struct vrb_peer *peer;
    struct vrb_dgram *d;
    uint64_t now;

    if (vrb_ud_get(p, len, &pkt) != VRB_OK) {
        rail->stats.ud_stale++;
        return;
    }
    peer = vrb_map_get(&rail->dgram->by_src, (uint64_t)wc->src_qp << 32 | pkt.hdr.src);
    now = vrb_clock_ns();
    if (peer != NULL && peer->retired && pkt.hdr.token == peer->dgram->token_rx) {
        peer = to_retired(peer, &pkt, now);
        if (peer == NULL) {
            return;
        }
    }
    if (peer == NULL || peer->failed) {
        rail->stats.ud_stale++; /* its INTRO is missing: it is sent again */
        return;
    }
    d = vrb_dgram_of(peer, now);
    if (d == NULL || pkt.hdr.token != d->token_rx) {
        rail->stats.ud_stale++;
        return;
    }
    d->heard = d->arrived = 1;
    if (pkt.hdr.flags & VRB_UD_HAS_ACK) {
        take_ack(d, &pkt.ack, now);
    }
    if (pkt.hdr.kind != VRB_UD_ACK) {
        if (vrb_rel_receive(&d->rel, pkt.hdr.pn, pkt.hdr.dseq, pkt.hdr.flags, now) == VRB_REL_NEW) {
            take_data(d, &pkt);
        } else {
            rail->stats.ud_dup++;
        }
    }
    /* A callback may have failed the peer, or dropped it while the job ends. */
    if (vrb_map_get(&rail->dgram->by_src, (uint64_t)wc->src_qp << 32 | pkt.hdr.src) == peer &&
        !peer->failed) {
        vrb_dgram_push(d, now);
        vrb_path_promote(peer);
    }
}
