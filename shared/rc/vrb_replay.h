/* Packets that left inline, kept until they are known to have arrived, and which of them to send
 * again over the next connection.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. An inline packet is built here instead of on the stack: the device takes a copy when it is
 * posted, and this one stays until its place is needed. It has one place, by its number, and there
 * are as many places as a send queue has slots. A packet holds a slot until its arrival is known,
 * so a place is not used again before that, and nothing has to be freed.
 *
 * Whether the packet in a place is the one looked for is told by the number in its header: packets
 * too long to be inline lie in buffers, and their places hold an older one. */
#ifndef VRB_REPLAY_H
#define VRB_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/vrb_wire.h"

#define VRB_REPLAY_PREFIX 8 /* before each packet: its length; keeps packets 8-byte aligned */

struct vrb_replay {
    uint8_t *mem;
    uint32_t mask;   /* places - 1 */
    uint32_t stride; /* bytes from one place to the next */
    uint32_t next;   /* the next packet to send again */
    uint32_t end;    /* the first that never left: == next when there is nothing to send again */
};

/* Places for the packets of a send queue of depth slots (1: nothing is ever sent again, the one
 * place is where packets are built). most: bytes of a packet. VRB_OK or VRB_ERR_NOMEM. */
int vrb_replay_init(struct vrb_replay *r, uint32_t depth, uint32_t most);
void vrb_replay_free(struct vrb_replay *r);

/* Where packet seq is built. */
static inline uint8_t *vrb_replay_place(const struct vrb_replay *r, uint32_t seq)
{
    return r->mem + (size_t)(seq & r->mask) * r->stride + VRB_REPLAY_PREFIX;
}

/* len: header included. */
static inline void vrb_replay_set_len(uint8_t *pkt, uint32_t len)
{
    *(uint32_t *)(void *)(pkt - VRB_REPLAY_PREFIX) = len;
}

/* Whether places are kept at all. */
static inline int vrb_replay_keeps(const struct vrb_replay *r)
{
    return r->mask > 0;
}

/* The packet of that number and its length; NULL if it did not leave inline. */
uint8_t *vrb_replay_find(const struct vrb_replay *r, uint32_t seq, uint32_t *len);

/* The peer has received all packets below rx_seq; we have sent those below tx_seq. VRB_OK, or
 * VRB_ERR_MALFORMED if that cannot be: it would be missing one whose arrival was acknowledged, or
 * have one that was never sent. */
int vrb_replay_begin(struct vrb_replay *r, uint32_t tx_seq, uint32_t rx_seq);

static inline int vrb_replay_pending(const struct vrb_replay *r)
{
    return r->next != r->end;
}

#endif
