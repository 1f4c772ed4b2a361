/* The list of what a process counts, and how rails and processes add up.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "rail/vrb_figures.h"

#include "rail/vrb_rail.h"

#define NONE SIZE_MAX
#define AT(field) offsetof(struct vrb_stats, field)
#define COUNT(field) VRB_FIGURE_COUNT, AT(field), NONE, 0
/* Counted elsewhere, and fetched by a look. */
#define FOUND(field) VRB_FIGURE_COUNT, AT(field), NONE, 1
#define LEVEL(field) VRB_FIGURE_LEVEL, AT(field), NONE, 0
#define STATE(field) VRB_FIGURE_LEVEL, AT(field), NONE, 1

static const struct vrb_figure figures[] = {
    {"tx_packets", "Packets sent", COUNT(tx_packets)},
    {"tx_bytes", "Bytes sent in packets", COUNT(tx_bytes)},
    {"tx_inline", "Packets sent inline over a connection", COUNT(tx_inline)},
    {"tx_copied", "Packets sent over a connection from a buffer that they were copied to",
     FOUND(rc_copied)},
    {"tx_coalesced", "Messages that left together with others in one packet", COUNT(tx_coalesced)},
    {"rc_packets", "Packets sent over a connection", FOUND(rc_packets)},
    {"rc_bytes", "Bytes sent in packets over a connection", FOUND(rc_bytes)},
    {"ud_messages", "Messages sent as datagrams, whatever their number", COUNT(ud_messages)},
    {"ud_bytes", "Bytes of messages sent as datagrams", COUNT(ud_bytes)},
    {"rx_packets", "Packets received", COUNT(rx_packets)},
    {"rx_bytes", "Bytes received in packets", COUNT(rx_bytes)},
    {"puts", "RDMA writes, and what datagrams put in its place", COUNT(puts)},
    {"put_bytes", "Bytes of RDMA writes, and of what datagrams put", COUNT(put_bytes)},
    {"ud_puts", "Of the puts, those by datagrams", COUNT(ud_puts)},
    {"ud_put_bytes", "Bytes put by datagrams", COUNT(ud_put_bytes)},
    {"gets", "RDMA reads", COUNT(gets)},
    {"get_bytes", "Bytes of RDMA reads", COUNT(get_bytes)},
    {"atomics", "RDMA atomic operations", COUNT(atomics)},
    {"stalls", "Messages that had to wait for credits or for room in the send queue",
     VRB_FIGURE_COUNT, AT(credit_stalls), AT(sq_stalls), 0},
    {"credit_stalls",
     "Of the stalls, those for want of credits: the receiver is behind. They stand where the "
     "receiver would answer RNR otherwise",
     COUNT(credit_stalls)},
    {"queue_stalls", "Of the stalls, those for want of room in the send queue", COUNT(sq_stalls)},
    {"credit_packets", "Packets sent only to give credits back", COUNT(credit_packets)},
    {"ud_packets", "Datagrams sent with data, for the first time or again", COUNT(ud_packets)},
    {"ud_resent", "Datagrams sent again", COUNT(ud_resent)},
    {"ud_lost", "Datagrams found lost because later ones arrived", FOUND(ud_lost)},
    {"ud_timeouts", "Times that no acknowledgement of datagrams came in time", FOUND(ud_timeouts)},
    {"ud_needless", "Datagrams sent again although the first had arrived", FOUND(ud_needless)},
    {"ud_broken", "Times that the datagram queue pair broke and was set up again",
     COUNT(ud_broken)},
    {"ud_acks", "Datagrams sent only to acknowledge others", COUNT(ud_acks)},
    {"ud_dup", "Datagrams received again", COUNT(ud_dup)},
    {"ud_rtt_least", "Shortest smoothed round trip of datagrams over the peers now (ns)",
     VRB_FIGURE_LEAST, AT(rtt_least), NONE, 1},
    {"ud_rtt_most", "Longest smoothed round trip of datagrams over the peers now (ns)",
     VRB_FIGURE_MOST, AT(rtt_most), NONE, 1},
    {"ud_rtt_mean", "Mean smoothed round trip of datagrams over the peers now (ns)",
     VRB_FIGURE_MEAN, AT(rtt_sum), AT(rtt_peers), 1},
    {"ud_window_least", "Datagrams that may be in flight to the peer with the smallest window now",
     VRB_FIGURE_LEAST, AT(window_least), NONE, 1},
    {"ud_window_most", "Datagrams that may be in flight to the peer with the largest window now",
     VRB_FIGURE_MOST, AT(window_most), NONE, 1},
    {"ud_window_mean", "Datagrams that may be in flight to a peer now, on the mean",
     VRB_FIGURE_MEAN, AT(window_sum), AT(rtt_peers), 1},
    {"hellos", "Handshake messages sent", COUNT(hellos_tx)},
    {"connections", "Connections made", COUNT(connected)},
    {"lost_connections", "Connections lost", COUNT(failed)},
    {"recovered_connections", "Connections that broke and were made again", COUNT(recovered)},
    {"replayed", "Packets sent again over a connection that was made again", COUNT(replayed)},
    {"peers", "Peers known now", STATE(peers)},
    {"peers_idle", "Peers without a connection, and none under way, now", STATE(peers_idle)},
    {"peers_connecting", "Peers with a connection under way now", STATE(peers_connecting)},
    {"peers_connected", "Peers with a connection that is up now", STATE(peers_connected)},
    {"peers_recovering", "Peers whose connection broke and is being made again now",
     STATE(peers_recovering)},
    {"peers_lost", "Peers whose connection is lost, now", STATE(peers_lost)},
    {"peers_datagrams", "Peers that datagrams were exchanged with, now", STATE(peers_datagrams)},
    {"peer_bytes",
     "Bytes of memory that are there because of peers now: their state, receive queues of their "
     "own, messages that wait",
     STATE(peer_bytes)},
    {"registered_bytes",
     "Bytes of memory registered now: the component's buffers and the "
     "application's memory in the registration cache",
     VRB_FIGURE_LEVEL, AT(reg_bytes), AT(mr_bytes), 0},
    {"buffer_bytes_max", "Bytes of the component's own buffers, the most there have been",
     LEVEL(reg_bytes_max)},
    {"registrations", "Registrations of the application's memory made", COUNT(mr_made)},
    {"registration_hits", "Times that the registration cache had what a message needed",
     FOUND(mr_hits)},
    {"registrations_now", "Registrations of the application's memory that there are now",
     LEVEL(mr_count)},
    {"registrations_refused", "Registrations that the system refused: the message was copied",
     COUNT(mr_failed)},
};

#define FIGURES ((int)(sizeof(figures) / sizeof(figures[0])))

_Static_assert(FIGURES <= VRB_FIGURES_MAX, "room for all values");

const struct vrb_figure *vrb_figures(int *n)
{
    *n = FIGURES;
    return figures;
}

static uint64_t field(const struct vrb_stats *stats, size_t offset)
{
    return offset == NONE ? 0 : *(const uint64_t *)(const void *)((const char *)stats + offset);
}

/* The figure of rails that were looked at. */
static uint64_t value_of(const struct vrb_figure *f, struct vrb_rail *const *rails, int n)
{
    uint64_t sum = 0, weight = 0, seen = 0;

    for (int i = 0; i < n; i++) {
        if (rails[i] == NULL) {
            continue;
        }
        vrb_lock(rails[i]); /* a look of another thread clears what it is about to find */
        if (f->kind == VRB_FIGURE_MEAN) {
            sum += field(&rails[i]->stats, f->first);
            weight += field(&rails[i]->stats, f->second);
        } else {
            uint64_t v = field(&rails[i]->stats, f->first) + field(&rails[i]->stats, f->second);

            sum = vrb_figure_join(f->kind, sum, v, &seen);
        }
        vrb_unlock(rails[i]);
    }
    return f->kind != VRB_FIGURE_MEAN ? sum : weight > 0 ? sum / weight : 0;
}

static void look(struct vrb_rail *const *rails, int n)
{
    for (int i = 0; i < n; i++) {
        if (rails[i] != NULL) {
            vrb_rail_count_peers(rails[i]);
        }
    }
}

uint64_t vrb_figure_value(const struct vrb_figure *figure, struct vrb_rail *const *rails, int n)
{
    if (figure->looks) {
        look(rails, n);
    }
    return value_of(figure, rails, n);
}

int vrb_figures_read(struct vrb_rail *const *rails, int n, uint64_t values[VRB_FIGURES_MAX])
{
    look(rails, n);
    for (int i = 0; i < FIGURES; i++) {
        values[i] = value_of(&figures[i], rails, n);
    }
    return FIGURES;
}
