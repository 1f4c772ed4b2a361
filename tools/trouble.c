/* The counters of a port that betray trouble, and what to do about it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Names: InfiniBand specification 16.1 (counters/); the drivers mlx5, bnxt_re and rxe
 * (hw_counters/). */
#include "tools/trouble.h"

#include <string.h>

static const struct port_trouble troubles[] = {
    {"hw_counters/out_of_sequence", "packets came out of order or were lost on the way",
     "look for drops on the switches; PFC or ECN should prevent them; adaptive routing reorders", 0,
     1},
    {"hw_counters/packet_seq_err", "the peer asked for lost packets again",
     "as for out_of_sequence", 0, 1},
    {"hw_counters/local_ack_timeout_err", "no acknowledgement came in time",
     "a dead peer, a wrong address, or a path that loses whole bursts; see the job's own messages",
     0, 1},
    {"hw_counters/rnr_nak_retry_err", "receivers had no buffer ready",
     "raise btl_verbs_recv_buffers, or lower btl_verbs_credits", 100, 0},
    {"hw_counters/out_of_buffer", "packets came when no receive buffer was there",
     "raise btl_verbs_recv_buffers, or lower btl_verbs_credits", 100, 0},
    {"hw_counters/rx_icrc_encapsulated", "damaged RoCE packets", "change the cable or transceiver",
     0, 1},
    {"hw_counters/np_cnp_sent", "senders were told of congestion (CNP)",
     "congestion control works; many of them mean that hosts send more than a link carries", 0, 0},
    {"hw_counters/rp_cnp_handled", "this host was told of congestion (CNP) and slowed down",
     "congestion control works; many of them mean that this host sends more than a link carries", 0,
     0},
    {"hw_counters/roce_slow_restart", "sending started again slowly after losses",
     "look for drops on the switches", 0, 1},
    {"hw_counters/completer_retry_err", "soft-RoCE sent again", "a busy host does that, too", 1000,
     0},
    {"hw_counters/retry_exceeded_err", "soft-RoCE gave up sending",
     "a dead peer or a wrong address; see the job's own messages", 0, 1},
    {"hw_counters/out_of_seq_request", "soft-RoCE saw packets out of order", "packets are lost",
     100, 0},
    {"counters/symbol_error", "bits were wrong on the wire",
     "clean or change cable and transceiver", 0, 1},
    {"counters/link_error_recovery", "the link trained anew by itself",
     "clean or change cable and transceiver", 0, 1},
    {"counters/link_downed", "the link went down", "a reboot at the other end is harmless", 1, 0},
    {"counters/port_rcv_errors", "damaged packets arrived",
     "clean or change cable and transceiver; ibdiagnet finds the link", 0, 1},
    {"counters/port_xmit_discards", "packets were thrown away before they left",
     "the fabric is congested, or the port was down; look at the switches", 0, 1},
};

const struct port_trouble *port_troubles(int *n)
{
    *n = (int)(sizeof(troubles) / sizeof(troubles[0]));
    return troubles;
}

const struct port_trouble *port_trouble_of(const char *file)
{
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        if (strcmp(troubles[i].file, file) == 0) {
            return &troubles[i];
        }
    }
    return NULL;
}
