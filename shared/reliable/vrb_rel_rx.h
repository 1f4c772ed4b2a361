/* The receiving half's memory: which data sequence numbers have arrived, in a bounded window.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. 128 bytes tell new from duplicate exactly: below `base` everything has arrived; from base
 * on a bit per number. What is further ahead than the window cannot come from a correct sender and
 * is refused, so no input makes this grow. */
#ifndef VRB_REL_RX_H
#define VRB_REL_RX_H

#include <stdint.h>

#include "reliable/vrb_rel_tx.h"
#include "wire/vrb_ud_wire.h"

enum vrb_rel_verdict {
    VRB_REL_NEW = 1,       /* deliver it: it is the first copy */
    VRB_REL_DUP,           /* drop it, but acknowledge: it arrived before */
    VRB_REL_STALE,         /* drop it: older than any packet that could still be under way */
    VRB_REL_OUT_OF_WINDOW, /* drop it: no correct sender sends that now */
};

/* Where a new packet stands among those that arrived before it. */
enum vrb_rel_order {
    VRB_REL_IN_ORDER,    /* nothing is missing */
    VRB_REL_OPENS_HOLE,  /* beyond the largest, and not next to it */
    VRB_REL_FILLS_HOLE,  /* below the largest */
    VRB_REL_BEHIND_HOLE, /* next to the largest, but something below is missing */
};

struct vrb_rel_rx {
    uint64_t base; /* the first number that has not arrived */
    uint64_t top;  /* one more than the largest number that has arrived; >= base */
    uint64_t
        bits[VRB_REL_WINDOW / 64]; /* by number modulo the window; set only in base ... top - 1 */
};

void vrb_rel_rx_init(struct vrb_rel_rx *rx, uint32_t start);

/* Takes a data sequence number from the wire. *order is set for a new one, else VRB_REL_IN_ORDER.
 */
enum vrb_rel_verdict vrb_rel_rx_take(struct vrb_rel_rx *rx, uint32_t wire,
                                     enum vrb_rel_order *order);

/* True if this number from the wire has arrived, or is too old to be told apart. */
int vrb_rel_rx_has(const struct vrb_rel_rx *rx, uint32_t wire);

/* Words that the ack block's bitmap needs now. */
static inline unsigned vrb_rel_rx_words(const struct vrb_rel_rx *rx)
{
    return rx->top <= rx->base + 1 ? 0 : (unsigned)((rx->top - rx->base - 1 + 63) / 64);
}

/* Fills cum, words and bits. */
void vrb_rel_rx_tell(const struct vrb_rel_rx *rx, struct vrb_ud_ack *ack);

#endif
