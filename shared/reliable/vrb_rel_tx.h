/* The sending half's memory: which packets are in flight, which wait to be sent again.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. Packets are found by data sequence number in O(1) through a table of chunks. Each one that
 * is not acknowledged is in one of two lists:
 *   sent: in flight, in order of transmission, which is the order of packet numbers; loss detection
 *         looks at its head only;
 *   lost: to be sent again, in the order in which they were found lost.
 *
 * Invariants: una <= next_dseq <= una + VRB_REL_SPAN; the packet `una`, if it is below next_dseq,
 * is not acknowledged; a chunk is held while one of its packets is not acknowledged. */
#ifndef VRB_REL_TX_H
#define VRB_REL_TX_H

#include <stdint.h>

#include "reliable/vrb_rel_pool.h"

/* Data sequence numbers that a receiver tells apart. Fixed by the protocol version. */
#define VRB_REL_WINDOW 1024
/* From the oldest unacknowledged packet to the newest, at the most: one chunk less, so that a chunk
 * never holds packets of both ends of the window. */
#define VRB_REL_SPAN (VRB_REL_WINDOW - VRB_REL_CHUNK)

struct vrb_rel_tx {
    uint64_t next_pn;   /* number of the next transmission */
    uint64_t next_dseq; /* data sequence number of the next new packet */
    uint64_t una;       /* oldest not acknowledged; next_dseq if there is none */
    uint64_t echoed;    /* largest packet number that the peer has received */
    uint16_t sent_head, sent_tail;
    uint16_t lost_head, lost_tail;
    uint16_t in_flight, lost; /* lengths of the lists */
    uint16_t chunk[VRB_REL_WINDOW / VRB_REL_CHUNK];
};

void vrb_rel_tx_init(struct vrb_rel_tx *tx, uint32_t start);

/* True when a new packet can be recorded. */
int vrb_rel_tx_can_add(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool);

/* Records a new packet that leaves now; NULL when it cannot be. Its numbers are tx->next_pn and
 * tx->next_dseq before the call. */
struct vrb_rel_pkt *vrb_rel_tx_add(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, void *cookie,
                                   uint64_t now);

/* The packet in flight that was sent longest ago, NULL if none is. */
struct vrb_rel_pkt *vrb_rel_tx_oldest(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool);

/* Moves that one to the lost. */
void vrb_rel_tx_lose_oldest(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint8_t flags);

/* Takes the first lost packet: it leaves again now, under number tx->next_pn before the call.
 * NULL if none is lost. *dseq is its data sequence number. */
struct vrb_rel_pkt *vrb_rel_tx_again(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint64_t now,
                                     uint64_t *dseq);

/* Bits of the packets in the chunk that starts at `base` (a multiple of VRB_REL_CHUNK) that are not
 * acknowledged. */
uint16_t vrb_rel_tx_live(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                         uint64_t base);

/* The packet of an unacknowledged data sequence number. */
struct vrb_rel_pkt *vrb_rel_tx_find(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                                    uint64_t dseq);

/* Forgets an unacknowledged packet, and its chunk if that was the last one in it. */
void vrb_rel_tx_remove(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint64_t dseq);

/* Moves una on after removals. */
void vrb_rel_tx_advance(struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool);

#endif
