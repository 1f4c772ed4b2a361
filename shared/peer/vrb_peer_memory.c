/* What is there because of peers: their memory, their states, round trips and windows.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counted when somebody asks, so that the hot path has nothing to keep up. */
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "peer/vrb_peer.h"
#include "rail/vrb_rail.h"

static uint64_t buffer_bytes(const struct vrb_pool *pool)
{
    return (uint64_t)pool->headroom + pool->capacity;
}

static uint64_t map_bytes(const struct vrb_map *m)
{
    return m->slots == NULL ? 0 : sizeof(*m->slots) << m->bits;
}

/* With the lock held. */
static void count(const struct vrb_peer *peer, struct vrb_peer_memory *m)
{
    const struct vrb_rail *rail = peer->rail;
    const struct vrb_dgram *d = peer->dgram;
    const struct vrb_buf *b;

    *m = (struct vrb_peer_memory){.own = sizeof(*peer), .connected = peer->qp != NULL};
    if (peer->replay.mem != NULL) {
        m->own += ((uint64_t)peer->replay.mask + 1) * peer->replay.stride;
    }
    if (d != NULL) {
        m->own += sizeof(*d) + map_bytes(&d->reasm.by_number) + d->reasm.bytes;
        m->waiting += ((uint64_t)d->rel.tx.in_flight + d->rel.tx.lost) * d->payload;
    }
    m->receive = peer->rx_posted * buffer_bytes(&rail->rx);
    for (b = peer->q_head; b != NULL; b = b->next) {
        m->waiting += b->capacity;
    }
}

void vrb_peer_memory(const struct vrb_peer *peer, struct vrb_peer_memory *memory)
{
    vrb_lock(peer->rail);
    count(peer, memory);
    vrb_unlock(peer->rail);
}

/* The field that counts peers in the state of this one. */
static uint64_t *state_of(struct vrb_stats *s, const struct vrb_peer *peer)
{
    return peer->failed                              ? &s->peers_lost
           : peer->up                                ? &s->peers_connected
           : vrb_peer_is_recovering(peer)            ? &s->peers_recovering
           : peer->wireup.state == VRB_WU_CONNECTING ? &s->peers_connecting
                                                     : &s->peers_idle;
}

static void count_datagrams(struct vrb_stats *s, const struct vrb_dgram *d)
{
    uint64_t rtt = d->rel.rtt.srtt, window = vrb_rel_cc_allows(&d->rel.cc);

    s->peers_datagrams++;
    if (d->rel.rtt.srtt == VRB_REL_NO_RTT) {
        return;
    }
    if (s->rtt_peers == 0 || rtt < s->rtt_least) {
        s->rtt_least = rtt;
    }
    if (s->rtt_peers == 0 || window < s->window_least) {
        s->window_least = window;
    }
    s->rtt_most = rtt > s->rtt_most ? rtt : s->rtt_most;
    s->window_most = window > s->window_most ? window : s->window_most;
    s->rtt_sum += rtt;
    s->window_sum += window;
    s->rtt_peers++;
}

/* What is the difference of others, or counted elsewhere. */
static void derive(struct vrb_rail *rail)
{
    struct vrb_stats *s = &rail->stats;

    s->rc_packets = s->tx_packets - s->ud_messages;
    s->rc_bytes = s->tx_bytes - s->ud_bytes;
    s->rc_copied = s->rc_packets - s->tx_inline;
    s->mr_hits = s->mr_served > s->mr_made ? s->mr_served - s->mr_made : 0;
    if (rail->dgram != NULL) {
        s->ud_lost = rail->dgram->env.stats.lost;
        s->ud_timeouts = rail->dgram->env.stats.timeouts;
        s->ud_needless = rail->dgram->env.stats.needless;
    }
}

void vrb_rail_count_peers(struct vrb_rail *rail)
{
    struct vrb_stats *s = &rail->stats;
    struct vrb_peer_memory m;

    vrb_lock(rail);
    memset(&s->peers, 0, sizeof(*s) - offsetof(struct vrb_stats, peers));
    for (struct vrb_list *l = rail->peers.next; l != &rail->peers; l = l->next) {
        const struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);

        count(peer, &m);
        s->peer_bytes += m.own + m.receive + m.waiting;
        s->peers++;
        ++*state_of(s, peer);
        if (peer->dgram != NULL) {
            count_datagrams(s, peer->dgram);
        }
    }
    derive(rail);
    vrb_unlock(rail);
}
