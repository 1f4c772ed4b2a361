/* A network under a virtual clock for the reliable datagram engine: one receiver, N senders, and
 * everything that may happen to packets between them.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Node 0 is the receiver; nodes 1 .. senders send `packets` each to it, and it sends `back` to each
 * of them. All packets pass through the wire format. The same configuration (with its seed) gives
 * the same run. The simulator itself checks, whatever the configuration:
 *   - every packet is delivered at most once, with the contents that were sent;
 *   - every cookie comes back at most once, and not before the packet was delivered;
 *   - a timer that was due and served is not due again at the same moment (bounded work);
 *   - the windows: nothing leaves without room, no more than the span is outstanding. */
#ifndef RELIABLE_SIM_H
#define RELIABLE_SIM_H

#include <stdint.h>

#include "reliable/vrb_rel.h"

#define SIM_US UINT64_C(1000)
#define SIM_MS (1000 * SIM_US)
#define SIM_SEC (1000 * SIM_MS)
#define SIM_MAX_SENDERS 64

struct sim_config {
    uint64_t seed;
    uint32_t senders, packets, back;
    uint32_t burst;  /* the application makes that many packets at once (0: all) ... */
    uint64_t gap_ns; /* ... and the next ones after up to that long */
    uint32_t start;  /* where all numbers start */

    /* the network, both ways */
    uint64_t delay_ns;  /* one way */
    uint64_t jitter_ns; /* added, uniform; reorders unless fifo */
    int fifo;
    uint32_t loss_ppm, dup_ppm, late_ppm;
    uint64_t late_ns; /* added to late packets, uniform */
    struct {
        uint64_t from, to;
    } blackout[3];
    int drop_nth; /* > 0: data transmissions by node 1: that one (1 = first) is lost, no other */

    /* towards the receiver */
    uint64_t slot_ns; /* one packet on its link; 0: infinitely fast */
    uint32_t queue;   /* packets in the switch before that link */
    uint32_t rq;      /* its receive buffers; 0: infinite */
    uint64_t serve_ns;
    int share_rq; /* it advertises to each sender its share of rq */

    /* processes that are away computing: each node, every so often, for so long */
    uint64_t away_every_ns, away_ns;

    uint64_t limit_ns; /* the run ends then, finished or not */
    struct vrb_rel_config rel;
};

struct sim_result {
    int finished; /* everything delivered and acknowledged */
    int died;     /* a peer was declared dead */
    uint64_t end_ns;
    uint64_t events;
    uint64_t delivered;
    uint64_t data_lost;                     /* transmissions of data that the network lost */
    uint64_t data_sent;                     /* transmissions of data */
    uint64_t rq_drops, queue_drops;         /* among data_lost and lost acknowledgements */
    uint64_t done_ns[SIM_MAX_SENDERS + 1];  /* when a sender's last packet was delivered */
    uint64_t share[SIM_MAX_SENDERS + 1];    /* packets delivered before the first sender was done */
    uint64_t nth_sent_ns, nth_delivered_ns; /* drop_nth: when it left first, when it arrived */
    uint32_t pool_left;                     /* chunks still held at the end */
    uint64_t fingerprint;                   /* of all that happened */
    struct vrb_rel_stats tx, rx;            /* sums of the senders' and the receiver's counters */
    char error[200];                        /* "" or what went wrong */
};

/* A small quiet network of one sender. */
void sim_defaults(struct sim_config *cfg, uint64_t seed);

/* A random one: everything at once, in moderation, so that it finishes. */
void sim_random(struct sim_config *cfg, uint64_t seed);

void sim_run(const struct sim_config *cfg, struct sim_result *result);

#endif
