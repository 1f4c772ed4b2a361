/* Go-back-N as a reference: what a NIC's RC transport does on a network that loses packets.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiver takes packets in order only and answers the first one out of order with a NAK (one
 * per gap, as IBTA 9.7 wants); the sender then sends everything from there on again. A lost tail,
 * NAK or retransmission waits for the timeout. The network is that of reliable_sim.h: delay, random
 * loss both ways, one link with a queue. */
#ifndef RELIABLE_GBN_H
#define RELIABLE_GBN_H

#include "reliable_sim.h"

struct gbn_config {
    uint32_t window;     /* packets in flight */
    uint32_t ack_every;  /* packets */
    uint64_t timeout_ns; /* without an acknowledgement */
};

/* Of cfg it uses seed, packets, delay_ns, loss_ppm, slot_ns, queue, limit_ns; of the result it
 * fills finished, end_ns, data_sent, data_lost, delivered. */
void gbn_run(const struct sim_config *cfg, const struct gbn_config *gbn, struct sim_result *result);

#endif
