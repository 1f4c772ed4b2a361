/* The hot way out: one small packet, built in its place for a replay (rc/vrb_replay.h) and posted
 * inline with the rail's prepared work request.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything here is inlined into the senders, because an 8-byte message costs about as many
 * instructions as a few calls do. Internal to the core. */
#ifndef VRB_RC_INLINE_H
#define VRB_RC_INLINE_H

#include <string.h>

#include "rc/vrb_rc.h"
#include "wire/vrb_wire.h"

/* The header of the packet that leaves now: takes its number and its credit, tells our grant. */
static inline void vrb_rc_number(struct vrb_peer *peer, uint8_t *hdr, enum vrb_kind kind,
                                 uint8_t tag)
{
    vrb_hdr_put(hdr, kind, tag, vrb_credit_tell(&peer->credit), peer->tx_seq++);
    vrb_credit_sent(&peer->credit);
}

static inline void vrb_rc_count_tx(struct vrb_rail *rail, uint32_t payload)
{
    rail->stats.tx_packets++;
    rail->stats.tx_bytes += payload;
}

/* ob1's headers and the smallest messages have 8 to 16 bytes: two moves that overlap. */
static inline void vrb_rc_copy(uint8_t *to, const void *from, size_t len)
{
    if (__builtin_expect(len - 8 <= 8, 1)) {
        const uint8_t *p = from;
        uint64_t first, last;

        memcpy(&first, p, 8);
        memcpy(&last, p + len - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + len - 8, &last, 8);
    } else {
        memcpy(to, from, len);
    }
}

/* What post_inline undoes when the provider did not take the packet. Returns VRB_ERR_AGAIN, or
 * VRB_ERR_PEER after failing the peer. told: credit.rx_told before; slots: what vrb_rc_take_slot
 * returned. */
int vrb_rc_inline_refused(struct vrb_peer *peer, int err, uint32_t payload, uint16_t told,
                          uint16_t slots);

/* Sends header and data by copy; the caller has seen vrb_rc_may_send() and that they fit:
 * VRB_HDR_SIZE + hdr_len + data_len <= rail->inline_max. Returns VRB_OK; VRB_ERR_AGAIN and nothing
 * has changed; VRB_ERR_PEER. */
static inline int vrb_rc_send_inline(struct vrb_peer *peer, uint8_t tag, const void *hdr,
                                     uint32_t hdr_len, const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_tx_inline *tx = &rail->tx;
    uint8_t *pkt = vrb_replay_place(&peer->replay, peer->tx_seq);
    uint32_t payload = hdr_len + data_len;
    uint16_t told = peer->credit.rx_told, slots;
    struct ibv_send_wr *bad;
    int err;

    vrb_rc_number(peer, pkt, VRB_KIND_DATA, tag);
    vrb_rc_copy(pkt + VRB_HDR_SIZE, hdr, hdr_len);
    if (data_len > 0) {
        vrb_rc_copy(pkt + VRB_HDR_SIZE + hdr_len, data, data_len);
    }
    vrb_rc_count_tx(rail, payload);
    rail->stats.tx_inline++;
    vrb_replay_set_len(pkt, VRB_HDR_SIZE + payload);
    tx->sge.addr = (uintptr_t)pkt;
    tx->sge.length = VRB_HDR_SIZE + payload;
    tx->wr.wr_id = vrb_wr_id(peer, VRB_WR_INLINE);
    tx->wr.send_flags = IBV_SEND_INLINE;
    slots = vrb_rc_take_slot(peer, 0, &tx->wr.send_flags);
    err = ibv_post_send(peer->qp, &tx->wr, &bad);
    if (__builtin_expect(err != 0, 0)) {
        return vrb_rc_inline_refused(peer, err, payload, told, slots);
    }
    return VRB_OK;
}

#endif
