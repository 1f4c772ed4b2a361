/* Packet and data sequence numbers: 64 bits inside, the low 32 on the wire.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. Inside, numbers never wrap, so they are compared with < and no state grows stale however
 * long a peer is silent. A number from the wire is read as the one nearest to the number that is
 * expected (as RFC 9000 A.3 does), which is right as long as both are less than 2^31 apart.
 *
 * Both ends start at a number of the sender's choice (random, published), so that a packet of an
 * earlier job is out of every window. */
#ifndef VRB_REL_NUM_H
#define VRB_REL_NUM_H

#include <stdint.h>

/* The first number, for a 32-bit start as published: far enough from 0 that "somewhat below the
 * first one" exists. */
static inline uint64_t vrb_rel_first(uint32_t start)
{
    return (UINT64_C(1) << 32) + start;
}

/* The number nearest to `near` whose low 32 bits are `wire`. */
static inline uint64_t vrb_rel_expand(uint32_t wire, uint64_t near)
{
    return near + (uint64_t)(int64_t)(int32_t)(wire - (uint32_t)near);
}

#endif
