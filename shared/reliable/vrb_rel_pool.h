/* Records of packets in flight, in chunks, from a pool that all peers of a rail share.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. An idle peer holds no chunk, a peer with one packet in flight one chunk, a peer with a full
 * window VRB_REL_WINDOW / 16 of them. The pool's memory is taken in one piece at the start and
 * never touched before it is used, so an operating system that hands out pages on first touch
 * spends what was needed at the busiest moment, not the limit. */
#ifndef VRB_REL_POOL_H
#define VRB_REL_POOL_H

#include <stdint.h>

#define VRB_REL_CHUNK 16       /* packets per chunk */
#define VRB_REL_NIL UINT16_MAX /* no chunk, no packet */

enum vrb_rel_pkt_flags {
    VRB_REL_PKT_LOST = 1,  /* in the list of those to send again, not in flight */
    VRB_REL_PKT_PROBE = 2, /* sent again to probe, with no evidence of loss */
};

/* One packet that is not acknowledged yet. */
struct vrb_rel_pkt {
    uint64_t pn;         /* number of its last transmission */
    uint64_t sent;       /* ns, of its last transmission */
    void *cookie;        /* the carrier's */
    uint16_t prev, next; /* neighbours in its list, by slot (data sequence modulo window) */
    uint8_t flags;       /* enum vrb_rel_pkt_flags */
    uint8_t again;       /* retransmissions so far; stays at 255 */
};

struct vrb_rel_chunk {
    struct vrb_rel_pkt pkt[VRB_REL_CHUNK];
    uint16_t live; /* bit i: pkt[i] is in use */
    uint16_t next; /* free list */
};

struct vrb_rel_pool {
    struct vrb_rel_chunk *chunks;
    uint16_t total;   /* chunks there are, at most VRB_REL_NIL */
    uint16_t touched; /* of them were ever used: chunks[touched ...] are pristine */
    uint16_t free;    /* head of the list of those given back */
    uint16_t in_use;
};

/* Makes a pool of `chunks` chunks (brought into 1 .. 65535). To let every one of n packet buffers
 * be in flight, whoever sends them, n chunks are enough. Returns VRB_OK or VRB_ERR_NOMEM. */
int vrb_rel_pool_init(struct vrb_rel_pool *pool, uint32_t chunks);
void vrb_rel_pool_fini(struct vrb_rel_pool *pool);

/* Returns a chunk with live == 0, or VRB_REL_NIL. */
uint16_t vrb_rel_pool_get(struct vrb_rel_pool *pool);
void vrb_rel_pool_put(struct vrb_rel_pool *pool, uint16_t chunk);

static inline int vrb_rel_pool_empty(const struct vrb_rel_pool *pool)
{
    return pool->in_use == pool->total;
}

#endif
