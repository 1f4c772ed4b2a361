/* When a packet counts as lost, and when the sender probes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. A packet in flight is lost once a packet that left LATER has arrived, and either
 *   - `packets` or more left after it and before the newest that arrived (RFC 9002 6.1.1), or
 *   - it left longer ago than a round trip plus some tolerance (RFC 9002 6.1.2, RFC 8985).
 * "Left later" is by packet number, and a retransmission has a new one, so a retransmission that is
 * lost in turn is found just as fast, without a timeout.
 *
 * If nothing that left later arrives (a lost tail, a blackout), the PROBE TIMEOUT expires: srtt +
 * 4 var + the time an acknowledgement may be held back. Then the oldest packet is sent again, as
 * one packet, whatever the window says; since it bears the newest number, its acknowledgement
 * reveals all that was lost before it. Each further expiry doubles the timeout, up to probe_max_ns,
 * and sends two.
 *
 * Reordering (adaptive routing, several paths) must not count as loss. Both tolerances learn:
 *   - a packet that arrives in its first transmission after later ones shows by how many packets
 *     and by how much time the network reorders: both are raised beyond what was seen;
 *   - a retransmission that turns out to have been needless (its number is above the largest that
 *     arrived, but its data has) doubles both.
 * They come back, by a quarter at a time, after rounds without such evidence. */
#ifndef VRB_REL_LOSS_H
#define VRB_REL_LOSS_H

#include <stdint.h>

#define VRB_REL_REORDER_PACKETS 3 /* RFC 9002 kPacketThreshold */
#define VRB_REL_REORDER_MAX 512   /* half of the window */
#define VRB_REL_QUIET_ROUNDS 32   /* round trips without reordering until tolerance shrinks */

struct vrb_rel_loss {
    uint64_t at;   /* when the oldest packet in flight counts as lost; UINT64_MAX: no such time */
    uint32_t late; /* ns that packets were seen to come late, beyond the smoothed RTT */
    uint16_t packets; /* reordering tolerance */
    uint8_t quiet;    /* rounds without evidence of reordering */
    uint8_t probes;   /* consecutive probe timeouts */
};

void vrb_rel_loss_init(struct vrb_rel_loss *loss);

/* Evidence of reordering: by that many packet numbers, and by that much time. */
void vrb_rel_loss_reordered(struct vrb_rel_loss *loss, uint64_t packets, uint32_t late);

/* A retransmission was needless. */
void vrb_rel_loss_needless(struct vrb_rel_loss *loss, uint32_t srtt);

/* A round trip is over. */
void vrb_rel_loss_round(struct vrb_rel_loss *loss);

/* How long after its departure a packet that was overtaken counts as lost. */
uint64_t vrb_rel_loss_delay(const struct vrb_rel_loss *loss, uint32_t srtt, uint32_t latest);

/* The probe timeout after `probes` expiries. */
uint64_t vrb_rel_loss_timeout(const struct vrb_rel_loss *loss, uint32_t srtt, uint32_t var,
                              uint64_t ack_delay_ns, uint64_t probe_max_ns);

#endif
