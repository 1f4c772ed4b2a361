/* Round-trip time: smoothed, its variation, and the least one, which is that of an empty network.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure; nanoseconds in 32 bits (4.29 s; longer times count as that). srtt and var as in RFC 6298
 * and RFC 9002 5.3.
 *
 * Two kinds of samples. Every sample goes into srtt and var, which timers are made of. Only CLEAN
 * samples, during which neither process was away computing, go into the base and into congestion
 * control: a process that does not look at its queue for a millisecond is not a full switch. */
#ifndef VRB_REL_RTT_H
#define VRB_REL_RTT_H

#include <stdint.h>

#define VRB_REL_NO_RTT UINT32_MAX

struct vrb_rel_rtt {
    uint32_t srtt, var;   /* VRB_REL_NO_RTT and the configured guess before the first sample */
    uint32_t latest;      /* last sample */
    uint32_t least[2];    /* least clean sample of this and of the last period */
    uint64_t least_since; /* start of this period */
};

void vrb_rel_rtt_init(struct vrb_rel_rtt *rtt, uint64_t now);

/* A sample. period_ns: how long a least one counts (once to twice as long). */
void vrb_rel_rtt_sample(struct vrb_rel_rtt *rtt, uint32_t sample, int clean, uint64_t now,
                        uint64_t period_ns);

/* The RTT of the empty network; VRB_REL_NO_RTT if there was no clean sample yet. */
static inline uint32_t vrb_rel_rtt_base(const struct vrb_rel_rtt *rtt)
{
    return rtt->least[0] < rtt->least[1] ? rtt->least[0] : rtt->least[1];
}

/* The smoothed RTT, or the guess before the first sample. */
static inline uint32_t vrb_rel_rtt_smoothed(const struct vrb_rel_rtt *rtt, uint32_t guess)
{
    return rtt->srtt == VRB_REL_NO_RTT ? guess : rtt->srtt;
}

#endif
