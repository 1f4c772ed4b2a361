/* Reordering tolerance, loss time and probe timeout.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_loss.h"

/* The kernel and the process scheduler make times below this meaningless for a timer. */
#define GRANULARITY_NS 50000
/* Lateness beyond this many smoothed RTTs is left to the probe timeout. */
#define LATE_MAX_RTTS 16
#define BACKOFF_MAX 20 /* doublings: avoids the overflow only */

void vrb_rel_loss_init(struct vrb_rel_loss *loss)
{
    loss->at = UINT64_MAX;
    loss->late = 0;
    loss->packets = VRB_REL_REORDER_PACKETS;
    loss->quiet = 0;
    loss->probes = 0;
}

static void raise_packets(struct vrb_rel_loss *loss, uint64_t packets)
{
    if (packets > VRB_REL_REORDER_MAX) {
        packets = VRB_REL_REORDER_MAX;
    }
    if (packets > loss->packets) {
        loss->packets = (uint16_t)packets;
    }
}

void vrb_rel_loss_reordered(struct vrb_rel_loss *loss, uint64_t packets, uint32_t late)
{
    uint32_t wanted = late > UINT32_MAX / 2 ? UINT32_MAX / 2 : late + late / 4;

    loss->quiet = 0;
    raise_packets(loss, packets + packets / 4 + 1);
    if (wanted > loss->late) {
        loss->late = wanted;
    }
}

void vrb_rel_loss_needless(struct vrb_rel_loss *loss, uint32_t srtt)
{
    loss->quiet = 0;
    raise_packets(loss, 2u * loss->packets);
    loss->late = loss->late > UINT32_MAX / 4 ? UINT32_MAX / 2 : 2 * loss->late + srtt / 8;
}

void vrb_rel_loss_round(struct vrb_rel_loss *loss)
{
    if (++loss->quiet < VRB_REL_QUIET_ROUNDS) {
        return;
    }
    loss->quiet = 0;
    loss->packets = (uint16_t)(loss->packets - loss->packets / 4);
    if (loss->packets < VRB_REL_REORDER_PACKETS) {
        loss->packets = VRB_REL_REORDER_PACKETS;
    }
    loss->late -= loss->late / 4;
}

uint64_t vrb_rel_loss_delay(const struct vrb_rel_loss *loss, uint32_t srtt, uint32_t latest)
{
    uint64_t rtt = srtt > latest ? srtt : latest;
    uint64_t late = loss->late;

    if (late > LATE_MAX_RTTS * (uint64_t)srtt) {
        late = LATE_MAX_RTTS * (uint64_t)srtt;
    }
    return rtt + (late > rtt / 8 ? late : rtt / 8);
}

uint64_t vrb_rel_loss_timeout(const struct vrb_rel_loss *loss, uint32_t srtt, uint32_t var,
                              uint64_t ack_delay_ns, uint64_t probe_max_ns)
{
    uint64_t spread = 4 * (uint64_t)var;
    unsigned doublings = loss->probes < BACKOFF_MAX ? loss->probes : BACKOFF_MAX;
    uint64_t timeout = srtt + (spread > GRANULARITY_NS ? spread : GRANULARITY_NS) + ack_delay_ns;

    /* A tolerance for late packets is a tolerance for late acknowledgements too. */
    timeout +=
        loss->late < LATE_MAX_RTTS * (uint64_t)srtt ? loss->late : LATE_MAX_RTTS * (uint64_t)srtt;
    timeout <<= doublings;
    return timeout < probe_max_ns ? timeout : probe_max_ns;
}
