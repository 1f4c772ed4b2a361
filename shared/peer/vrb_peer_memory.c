/* What memory is there because of a peer: for users who ask where a job's memory goes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counted when somebody asks, so that the hot path has nothing to keep up. */
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

void vrb_rail_count_peers(struct vrb_rail *rail)
{
    uint64_t peers = 0, bytes = 0;
    struct vrb_peer_memory m;

    vrb_lock(rail);
    for (struct vrb_list *l = rail->peers.next; l != &rail->peers; l = l->next) {
        count(vrb_container_of(l, struct vrb_peer, link), &m);
        bytes += m.own + m.receive + m.waiting;
        peers++;
    }
    rail->stats.peers = peers;
    rail->stats.peer_bytes = bytes;
    vrb_unlock(rail);
}
