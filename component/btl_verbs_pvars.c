/* Performance variables (MPI_T): the core's counters, summed over the rails of the process.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "btl_verbs.h"

struct pvar {
    const char *name, *help;
    size_t first, second; /* counters in struct vrb_stats; their sum is shown */
    bool level;           /* a state, not a count of events */
};

#define NONE SIZE_MAX
#define AT(field) offsetof(struct vrb_stats, field)

static const struct pvar pvars[] = {
    {"tx_packets", "Packets sent", AT(tx_packets), NONE, false},
    {"tx_bytes", "Bytes sent in packets", AT(tx_bytes), NONE, false},
    {"tx_inline", "Packets sent inline", AT(tx_inline), NONE, false},
    {"tx_coalesced", "Messages that left together with others in one packet", AT(tx_coalesced),
     NONE, false},
    {"rx_packets", "Packets received", AT(rx_packets), NONE, false},
    {"rx_bytes", "Bytes received in packets", AT(rx_bytes), NONE, false},
    {"puts", "RDMA writes", AT(puts), NONE, false},
    {"put_bytes", "Bytes of RDMA writes", AT(put_bytes), NONE, false},
    {"gets", "RDMA reads", AT(gets), NONE, false},
    {"get_bytes", "Bytes of RDMA reads", AT(get_bytes), NONE, false},
    {"atomics", "RDMA atomic operations", AT(atomics), NONE, false},
    {"stalls", "Messages that had to wait for credits or for room in the send queue",
     AT(credit_stalls), AT(sq_stalls), false},
    {"ud_packets", "Datagrams sent with data for the first time", AT(ud_packets), NONE, false},
    {"ud_resent", "Datagrams sent again", AT(ud_resent), NONE, false},
    {"ud_broken", "Times that the datagram queue pair broke and was set up again", AT(ud_broken),
     NONE, false},
    {"ud_acks", "Datagrams sent only to acknowledge others", AT(ud_acks), NONE, false},
    {"ud_dup", "Datagrams received again", AT(ud_dup), NONE, false},
    {"connections", "Connections made", AT(connected), NONE, false},
    {"lost_connections", "Connections lost", AT(failed), NONE, false},
    {"recovered_connections", "Connections that broke and were made again", AT(recovered), NONE,
     false},
    {"replayed", "Packets sent again over a connection that was made again", AT(replayed), NONE,
     false},
    {"peers", "Peers known now", AT(peers), NONE, true},
    {"peer_bytes",
     "Bytes of memory that are there because of peers now: their state, receive queues of their "
     "own, messages that wait",
     AT(peer_bytes), NONE, true},
    {"registered_bytes",
     "Bytes of memory registered now: the component's buffers and the "
     "application's memory in the registration cache",
     AT(reg_bytes), AT(mr_bytes), true},
    {"buffer_bytes_max", "Bytes of the component's own buffers, the most there have been",
     AT(reg_bytes_max), NONE, true},
    {"registrations_refused", "Registrations that the system refused: the message was copied",
     AT(mr_failed), NONE, false},
};

static int read_pvar(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    const struct pvar *p = pvar->ctx;
    unsigned long long sum = 0;
    int i;

    (void)obj;
    for (i = 0; i < c->num_modules; i++) {
        const char *stats;

        if (c->modules[i] == NULL) {
            continue; /* ended */
        }
        if (p->first == AT(peers) || p->first == AT(peer_bytes)) {
            vrb_rail_count_peers(c->modules[i]->rail);
        }
        stats = (const char *)vrb_rail_stats(c->modules[i]->rail);
        sum += *(const uint64_t *)(const void *)(stats + p->first);
        sum += p->second == NONE ? 0 : *(const uint64_t *)(const void *)(stats + p->second);
    }
    *(unsigned long long *)value = sum;
    return OPAL_SUCCESS;
}

void mca_btl_verbs_pvars_register(void)
{
    size_t i;

    for (i = 0; i < sizeof(pvars) / sizeof(pvars[0]); i++) {
        const struct pvar *p = &pvars[i];

        (void)mca_base_component_pvar_register(
            &mca_btl_verbs_component.super.btl_version, p->name, p->help, OPAL_INFO_LVL_4,
            p->level ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_pvar, NULL, NULL,
            (void *)(uintptr_t)p);
    }
}
