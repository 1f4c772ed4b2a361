/* When the receiving half acknowledges.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. An acknowledgement rides on any packet that leaves anyway; it leaves alone
 *   - at once when the peer asked (ASK: a quarter of its window has left since it last asked, or
 * the packet is a retransmission), when a hole opens or is filled, and for a duplicate;
 *   - after `every` packets, or every second one while there is a hole;
 *   - else `delay` after the first packet that was not acknowledged.
 * Since the sender asks, small windows are acknowledged often and large ones seldom, without the
 * receiver knowing the window. */
#ifndef VRB_REL_ACK_H
#define VRB_REL_ACK_H

#include <stdint.h>

#define VRB_REL_ACK_EVERY_IN_HOLE 2

struct vrb_rel_ack {
    uint64_t deadline;   /* an acknowledgement is due; UINT64_MAX: none; 0: at once */
    uint64_t largest;    /* largest packet number that arrived */
    uint64_t largest_at; /* when; UINT64_MAX: not known (this process was away) */
    uint16_t pending;    /* packets that arrived since the last acknowledgement */
    uint16_t buffers;    /* what the peer is told that it may have in flight */
    uint8_t repeats;     /* needless retransmissions, modulo 256 */
    uint8_t any;         /* a packet has arrived ever: there is something to acknowledge */
};

/* A packet arrived that has to be acknowledged. */
static inline void vrb_rel_ack_note(struct vrb_rel_ack *a, int now_please, int hole, uint16_t every,
                                    uint64_t by)
{
    if (a->pending < UINT16_MAX) {
        a->pending++;
    }
    if (now_please || a->pending >= (hole ? VRB_REL_ACK_EVERY_IN_HOLE : every)) {
        a->deadline = 0;
    } else if (by < a->deadline) {
        a->deadline = by;
    }
}

static inline void vrb_rel_ack_told(struct vrb_rel_ack *a)
{
    a->pending = 0;
    a->deadline = UINT64_MAX;
}

#endif
