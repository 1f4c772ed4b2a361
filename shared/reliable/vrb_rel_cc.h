/* Congestion control: how many packets may be in flight, from delay, from heavy loss, and from the
 * receiver's buffers.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. The window counts packets and is decided once per round trip:
 *
 *   queueing delay = least clean RTT of the round - RTT of the empty network (vrb_rel_rtt_base)
 *
 *   - far below the target: grow, doubling at the start, by 1/8 later; near it: by one packet;
 *   - above it: shrink by 0.8 * (excess / RTT), at most to half (the decrease of Swift, SIGCOMM
 *     2020). The least RTT of a round, not each one, so that jitter does not count: a standing
 *     queue delays every packet. The target is larger for small windows, which makes flows that
 *     share a bottleneck converge (Swift's flow scaling).
 *   - Loss alone is NOT a sign of congestion below 1 packet in 8: networks that lose at random are
 *     what this transport is for. IRN (SIGCOMM 2018) shows that bounding the window by the
 *     bandwidth-delay product is enough, and that is what the delay target does. Heavier loss (a
 *     queue too short to show as delay) shrinks the window, until it is so small that it tolerates
 *     that loss: 3 packets in a window's worth, at most 2 in 5.
 *   - Delay alone does not push the window below cfg.cc.floor: a host that is late in serving its
 *     queue looks like a full switch. Delay and heavy loss together push it to 1/16 packet, that is
 *     one packet every 16 RTTs (many-to-one with more senders than buffers).
 *   - Every 64 rounds the window dips to half for two rounds, so that the share of a standing queue
 *     that is ours drains and the RTT of the empty network is seen again. Without it, a flow that
 *     started on top of another's queue would take that queue for distance for ever, and get more
 *     than its share.
 *
 * The receiver's advertised buffers bound the packets in flight at once, never below one: a
 * receiver can slow a sender to one packet per RTT, not stop it, so there is no closed window to
 * reopen and nothing to deadlock on.
 *
 * A window that was not used up does not grow.
 *
 * What this costs: two streams that start together share a link within about 1 : 2 at first, and
 * converge; tests/unit/reliable_report prints figures. */
#ifndef VRB_REL_CC_H
#define VRB_REL_CC_H

#include <stdint.h>

#define VRB_REL_CWND_ONE 256 /* one packet: windows are fixed-point */
#define VRB_REL_CWND_MIN (VRB_REL_CWND_ONE / 16)
#define VRB_REL_DIP_EVERY 64 /* rounds */

struct vrb_rel_cc_limits {
    uint32_t initial, floor, max; /* packets */
    uint32_t target_ns;           /* queueing delay aimed at */
};

struct vrb_rel_cc {
    uint64_t round_end;   /* the round is over when this packet number has arrived */
    uint64_t pace_until;  /* windows below one packet: nothing leaves before; 0 = free */
    uint32_t cwnd;        /* VRB_REL_CWND_ONE = one packet */
    uint32_t round_least; /* least clean RTT of this round; VRB_REL_NO_RTT = none */
    uint16_t acked, lost; /* packets of this round; stay at 65535 */
    uint16_t loss_rate;   /* smoothed, 65535 = all */
    uint16_t buffers;     /* advertised by the peer */
    uint8_t doubling;     /* at the start, or after a blackout */
    uint8_t full;         /* as much was in flight as may be, at some moment of this round */
    uint8_t used_up;      /* and the limit was the window, not the peer's buffers */
    uint8_t rounds;       /* since the last dip; wraps, which is only another dip's time */
    uint8_t dip;          /* rounds that a dip goes on */
    uint32_t before_dip;  /* the window to return to */
};

void vrb_rel_cc_init(struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits,
                     uint16_t buffers, uint64_t next_pn);

/* Packets that may be in flight: at least 1. */
static inline uint32_t vrb_rel_cc_allows(const struct vrb_rel_cc *cc)
{
    uint32_t packets = cc->cwnd / VRB_REL_CWND_ONE;

    if (packets > cc->buffers) {
        packets = cc->buffers;
    }
    return packets ? packets : 1;
}

/* A packet left, in_flight are out now. */
void vrb_rel_cc_sent(struct vrb_rel_cc *cc, uint32_t in_flight, uint32_t srtt, uint64_t now);

void vrb_rel_cc_acked(struct vrb_rel_cc *cc, uint32_t packets);
void vrb_rel_cc_lost(struct vrb_rel_cc *cc);
void vrb_rel_cc_not_lost(struct vrb_rel_cc *cc); /* it had arrived after all */
void vrb_rel_cc_clean_rtt(struct vrb_rel_cc *cc, uint32_t rtt);

/* The round is over. base: RTT of the empty network or VRB_REL_NO_RTT. */
void vrb_rel_cc_round(struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits, uint32_t base,
                      uint64_t next_pn);

/* Several probe timeouts in a row, or a long silence: what was known of the path is old. */
void vrb_rel_cc_restart(struct vrb_rel_cc *cc, uint32_t packets);

#endif
