/* Congestion control: the decision of each round.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_cc.h"

#include "reliable/vrb_rel_rtt.h"

#define RATE_ONE 65535
#define RATE_MOST (RATE_ONE * 2 / 5)
#define BURST_ROUND 16 /* packets that make a single round's loss rate meaningful */
#define DIP_ROUNDS 2   /* the first one's packets still meet the old queue */

void vrb_rel_cc_init(struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits,
                     uint16_t buffers, uint64_t next_pn)
{
    cc->round_end = next_pn;
    cc->pace_until = 0;
    cc->cwnd = limits->initial * VRB_REL_CWND_ONE;
    cc->round_least = VRB_REL_NO_RTT;
    cc->acked = cc->lost = 0;
    cc->loss_rate = 0;
    cc->buffers = buffers;
    cc->before_dip = 0;
    cc->doubling = 1;
    cc->full = cc->used_up = 0;
    cc->rounds = cc->dip = 0;
}

void vrb_rel_cc_sent(struct vrb_rel_cc *cc, uint32_t in_flight, uint32_t srtt, uint64_t now)
{
    if (in_flight >= vrb_rel_cc_allows(cc)) {
        cc->full = 1;
        cc->used_up |= in_flight >= cc->cwnd / VRB_REL_CWND_ONE;
    }
    if (cc->cwnd < VRB_REL_CWND_ONE) {
        cc->pace_until = now + (uint64_t)srtt * VRB_REL_CWND_ONE / cc->cwnd;
    }
}

void vrb_rel_cc_acked(struct vrb_rel_cc *cc, uint32_t packets)
{
    cc->acked =
        (uint16_t)(packets > UINT16_MAX - (uint32_t)cc->acked ? UINT16_MAX : cc->acked + packets);
}

void vrb_rel_cc_lost(struct vrb_rel_cc *cc)
{
    if (cc->lost < UINT16_MAX) {
        cc->lost++;
    }
}

void vrb_rel_cc_not_lost(struct vrb_rel_cc *cc)
{
    if (cc->lost) {
        cc->lost--;
    }
}

void vrb_rel_cc_clean_rtt(struct vrb_rel_cc *cc, uint32_t rtt)
{
    if (rtt < cc->round_least) {
        cc->round_least = rtt;
    }
}

static uint32_t square_root(uint32_t x)
{
    uint32_t r = 1;

    while ((r + 1) * (r + 1) <= x) { /* x <= 1024: at most 32 steps, once per round trip */
        r++;
    }
    return r;
}

/* The queueing delay aimed at: half of the target plus four times it over the window's root, so the
 * target itself at 64 packets and 2.5 times it at 4. Long paths get a share of their RTT. */
static uint64_t delay_target(const struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits,
                             uint32_t base)
{
    uint64_t target = limits->target_ns > base / 4 ? limits->target_ns : base / 4;
    uint32_t root = square_root(cc->cwnd / VRB_REL_CWND_ONE);

    return target / 2 + 4 * target / (root > 2 ? root : 2);
}

static void shrink_to(struct vrb_rel_cc *cc, uint32_t wanted, uint32_t floor)
{
    if (wanted < floor) {
        wanted = floor;
    }
    if (wanted < cc->cwnd) {
        cc->cwnd = wanted;
    }
    cc->doubling = 0;
}

static void grow(struct vrb_rel_cc *cc, uint64_t queue, uint64_t target, int measured)
{
    uint32_t step = VRB_REL_CWND_ONE;

    if (cc->cwnd < VRB_REL_CWND_ONE) {
        step = cc->cwnd / 2;
    } else if (2 * queue < target) {
        if (cc->doubling && measured) {
            step = (uint32_t)cc->acked * VRB_REL_CWND_ONE;
            step = step < cc->cwnd ? step : cc->cwnd;
        } else if (cc->cwnd / 8 > step) {
            step = cc->cwnd / 8;
        }
    } else {
        cc->doubling = 0;
    }
    cc->cwnd += step;
}

/* Takes the round's losses into the smoothed rate: a round of 32 packets or more by 1/8, a smaller
 * one by its share of that. */
static void smooth_loss(struct vrb_rel_cc *cc, uint32_t total)
{
    int32_t rate = (int32_t)((uint64_t)cc->lost * RATE_ONE / total);
    int32_t weight = total < 32 ? (int32_t)total : 32;

    cc->loss_rate = (uint16_t)(cc->loss_rate + (rate - cc->loss_rate) * weight / 256);
}

/* The loss rate up to which loss is not taken for congestion. */
static uint32_t tolerated(const struct vrb_rel_cc *cc)
{
    uint64_t share = 3 * (uint64_t)RATE_ONE * VRB_REL_CWND_ONE / cc->cwnd;

    return share < RATE_ONE / 8 ? RATE_ONE / 8 : share > RATE_MOST ? RATE_MOST : (uint32_t)share;
}

static void decide(struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits, uint32_t base,
                   uint32_t total)
{
    int measured = cc->round_least != VRB_REL_NO_RTT && base != VRB_REL_NO_RTT;
    uint64_t queue = measured && cc->round_least > base ? cc->round_least - base : 0;
    uint64_t target = delay_target(cc, limits, measured ? base : 0);
    int burst = total >= BURST_ROUND && cc->lost > total / 4;
    int heavy = cc->lost && cc->loss_rate > tolerated(cc);
    uint32_t floor = limits->floor * VRB_REL_CWND_ONE;

    if (queue > target) {
        uint64_t cut = cc->cwnd * (queue - target) * 4 / (5 * (uint64_t)cc->round_least);

        cut = cut < cc->cwnd / 2 ? cut : cc->cwnd / 2;
        shrink_to(cc, cc->cwnd - (uint32_t)cut, heavy || burst ? VRB_REL_CWND_MIN : floor);
    } else if (burst) {
        shrink_to(cc, (uint32_t)((uint64_t)cc->cwnd * cc->acked / total), floor);
    } else if (heavy) {
        shrink_to(cc, cc->cwnd - (uint32_t)((uint64_t)cc->cwnd * cc->loss_rate / RATE_ONE / 2),
                  VRB_REL_CWND_MIN);
    } else if (cc->used_up) {
        grow(cc, queue, target, measured);
    }
    if (cc->cwnd > limits->max * VRB_REL_CWND_ONE) {
        cc->cwnd = limits->max * VRB_REL_CWND_ONE;
    }
}

/* Returns 1 while a dip goes on. */
static int dip(struct vrb_rel_cc *cc)
{
    if (cc->dip) {
        if (--cc->dip == 0 && cc->cwnd < cc->before_dip) {
            cc->cwnd = cc->before_dip;
        }
        return 1;
    }
    if (++cc->rounds < VRB_REL_DIP_EVERY || cc->doubling || !cc->full ||
        vrb_rel_cc_allows(cc) < 2) {
        return 0;
    }
    cc->rounds = 0;
    cc->dip = DIP_ROUNDS;
    cc->before_dip = cc->cwnd;
    cc->cwnd = vrb_rel_cc_allows(cc) * VRB_REL_CWND_ONE / 2;
    return 1;
}

void vrb_rel_cc_round(struct vrb_rel_cc *cc, const struct vrb_rel_cc_limits *limits, uint32_t base,
                      uint64_t next_pn)
{
    uint32_t total = (uint32_t)cc->acked + cc->lost;

    if (total) {
        smooth_loss(cc, total);
    }
    if (!dip(cc)) {
        decide(cc, limits, base, total);
    }
    cc->round_end = next_pn;
    cc->round_least = VRB_REL_NO_RTT;
    cc->acked = cc->lost = 0;
    cc->full = cc->used_up = 0;
}

void vrb_rel_cc_restart(struct vrb_rel_cc *cc, uint32_t packets)
{
    if (cc->cwnd > packets * VRB_REL_CWND_ONE) {
        cc->cwnd = packets * VRB_REL_CWND_ONE;
    }
    cc->doubling = 1;
    cc->rounds = cc->dip = 0;
}
