/* The datagram half of a rail and of its peers: life, timers, failure (see vrb_dgram.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "dgram/vrb_dgram.h"

#include <stdlib.h>
#include <string.h>

#include "peer/vrb_path.h"
#include "ud/vrb_ud.h"

#define WHOLE_PER_SLAB 32
#define PART_PER_SLAB 64

/* Packets in flight at the most, over all peers of a rail. */
#define PACKETS_MAX 4096

/* A peer's share of the receive queue is not less than this: below, latency suffers more than loss
 * would cost. */
#define SHARE_MIN 16

static uint64_t src_key(uint32_t qpn, uint32_t src)
{
    return (uint64_t)qpn << 32 | src;
}

/* Where a direction's numbers start: both ends compute it from what both published. */
static uint32_t first_number(uint64_t from, uint64_t to)
{
    return vrb_ud_token(from ^ UINT64_C(0x5bd1e995), to);
}

int vrb_dgram_open(struct vrb_rail *rail)
{
    struct vrb_dgram_rail *dr = calloc(1, sizeof(*dr));
    struct vrb_rel_config cfg;

    if (dr == NULL) {
        return VRB_ERR_NOMEM;
    }
    rail->dgram = dr;
    vrb_list_init(&dr->active);
    vrb_list_init(&dr->stalled);
    dr->deadline = UINT64_MAX;
    dr->limbo_tail = &dr->limbo;
    vrb_pool_init(&dr->whole, rail, vrb_dgram_payload(rail->address.mtu), VRB_DGRAM_HEADROOM,
                  sizeof(struct vrb_packet), WHOLE_PER_SLAB, PACKETS_MAX, VRB_CLS_PACKET);
    vrb_pool_init(&dr->part, rail, 0, VRB_DGRAM_HEADROOM, sizeof(struct vrb_packet), PART_PER_SLAB,
                  PACKETS_MAX, VRB_CLS_PACKET);
    vrb_rel_config_defaults(&cfg);
    cfg.dead_ns = rail->cfg.peer_timeout * VRB_NS_PER_S;
    cfg.buffers = (uint16_t)(rail->cfg.ud_buffers / 4 < SHARE_MIN ? SHARE_MIN
                             : rail->cfg.ud_buffers / 4 > 256     ? 256
                                                                  : rail->cfg.ud_buffers / 4);
    return vrb_rel_env_init(&dr->env, &cfg, 2 * PACKETS_MAX);
}

void vrb_dgram_close(struct vrb_rail *rail)
{
    struct vrb_dgram_rail *dr = rail->dgram;

    if (dr == NULL) {
        return;
    }
    vrb_pool_destroy(&dr->whole);
    vrb_pool_destroy(&dr->part);
    vrb_rel_env_fini(&dr->env);
    vrb_map_clear(&dr->by_src);
    free(dr);
    rail->dgram = NULL;
}

int vrb_dgram_attach(struct vrb_peer *peer)
{
    const struct vrb_address *r = &peer->remote;

    if (peer->rail->dgram == NULL) {
        return VRB_OK;
    }
    return vrb_map_put(&peer->rail->dgram->by_src, src_key(r->ud_qpn, (uint32_t)r->nonce), peer);
}

void vrb_dgram_detach(struct vrb_peer *peer)
{
    const struct vrb_address *r = &peer->remote;
    struct vrb_dgram *d = peer->dgram;

    if (peer->rail->dgram == NULL) {
        return;
    }
    vrb_map_del(&peer->rail->dgram->by_src, src_key(r->ud_qpn, (uint32_t)r->nonce));
    if (d != NULL) {
        struct vrb_buf *pkt;

        vrb_dgram_abandon(peer, VRB_ERR_PEER);
        while ((pkt = vrb_rel_reclaim(&d->rel)) != NULL) {
            vrb_dgram_release(peer->rail, pkt);
        }
        if (d->nothing != NULL) {
            vrb_packet(d->nothing)->shared = 0;
            vrb_dgram_release(peer->rail, d->nothing);
        }
        vrb_list_remove(&d->active_link);
        vrb_list_remove(&d->stall_link);
        vrb_reasm_fini(&d->reasm);
        peer->rail->dgram->peers -= !peer->retired;
        peer->dgram = NULL;
        free(d);
    }
}

void vrb_dgram_retire(struct vrb_peer *peer)
{
    struct vrb_dgram *d = peer->dgram;

    vrb_list_remove(&d->active_link);
    vrb_list_remove(&d->stall_link);
    d->deadline = UINT64_MAX;
    peer->rail->dgram->peers--;
}

int vrb_dgram_inherit(struct vrb_peer *peer, struct vrb_peer *old)
{
    struct vrb_dgram_rail *dr = peer->rail->dgram;
    struct vrb_dgram *d = old->dgram;

    if (vrb_dgram_attach(peer) != VRB_OK) { /* replaces the old one */
        return VRB_ERR_NOMEM;
    }
    peer->dgram = d;
    peer->sure_mtu = old->sure_mtu; /* what is on its way was cut to it */
    peer->lid = old->lid;
    peer->moved = old->moved;
    memcpy(peer->moved_was, old->moved_was, VRB_GID_LEN);
    memcpy(peer->moved_to, old->moved_to, VRB_GID_LEN);
    old->dgram = NULL;
    d->peer = peer;
    d->heard = d->introduced = 0;
    d->status = VRB_OK;
    d->messages = 0;
    dr->peers++;
    vrb_rel_revive(&d->rel, vrb_clock_ns());
    vrb_dgram_touch(d);
    return VRB_OK;
}

struct vrb_dgram *vrb_dgram_of(struct vrb_peer *peer, uint64_t now)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_dgram *d = peer->dgram;
    uint64_t me = rail->address.nonce, you = peer->remote.nonce;

    if (d != NULL) {
        return d;
    }
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return NULL;
    }
    d->peer = peer;
    d->token_tx = vrb_ud_token(me, you);
    d->token_rx = vrb_ud_token(you, me);
    d->payload = vrb_dgram_payload(peer->sure_mtu);
    d->deadline = UINT64_MAX;
    vrb_list_init(&d->active_link);
    vrb_list_init(&d->stall_link);
    vrb_reasm_init(&d->reasm, rail->cfg.recv_size);
    vrb_rel_init(&d->rel, &rail->dgram->env, now, first_number(me, you), first_number(you, me));
    rail->dgram->peers++;
    vrb_due(rail);
    peer->dgram = d;
    return d;
}

/* Each peer may fill its share of the receive queue, so that all together hardly overrun it. */
static uint16_t share(const struct vrb_rail *rail)
{
    uint32_t n = rail->cfg.ud_buffers / (rail->dgram->peers < 2 ? 2 : rail->dgram->peers);

    return (uint16_t)(n < SHARE_MIN ? SHARE_MIN : n > 512 ? 512 : n);
}

void vrb_dgram_touch(struct vrb_dgram *d)
{
    struct vrb_dgram_rail *dr = d->peer->rail->dgram;

    if (d->peer->failed) {
        return; /* it is over, or retired: no timers */
    }
    d->deadline = vrb_rel_deadline(&d->rel);
    if (d->deadline != UINT64_MAX && !vrb_list_linked(&d->active_link)) {
        vrb_list_append(&dr->active, &d->active_link);
    }
    if (d->deadline < dr->deadline) {
        dr->deadline = d->deadline;
    }
}

static void peer_is_dead(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_failure f;

    vrb_failure_init(&f, "sending");
    f.heard = d->heard;
    f.unacked = vrb_rel_outstanding(&d->rel);
    f.seconds = (double)(now - d->rel.last_progress) / 1e9;
    vrb_peer_fail(d->peer, VRB_ERR_TIMEOUT, &f);
}

static struct vrb_dgram *find_waiting(struct vrb_list *active)
{
    for (struct vrb_list *l = active->next; l != active; l = l->next) {
        struct vrb_dgram *d = vrb_container_of(l, struct vrb_dgram, active_link);

        if (!d->peer->failed && vrb_rel_outstanding(&d->rel) > 0) {
            return d;
        }
    }
    return NULL;
}

void vrb_dgram_port_lost(struct vrb_rail *rail, double seconds)
{
    struct vrb_dgram *d;

    while (rail->dgram != NULL && (d = find_waiting(&rail->dgram->active)) != NULL) {
        struct vrb_failure f;

        vrb_failure_init(&f, "sending");
        f.unacked = vrb_rel_outstanding(&d->rel);
        f.port_down = 1;
        f.seconds = seconds;
        vrb_peer_fail(d->peer, VRB_ERR_TIMEOUT, &f);
    }
}

int vrb_dgram_waits(const struct vrb_rail *rail)
{
    return rail->dgram != NULL && find_waiting(&rail->dgram->active) != NULL;
}

static void run_timer(struct vrb_dgram *d, uint64_t now)
{
    vrb_rel_set_buffers(&d->rel, share(d->peer->rail));
    if (vrb_rel_on_timer(&d->rel, now) == VRB_ERR_TIMEOUT) {
        peer_is_dead(d, now);
        return;
    }
    vrb_dgram_push(d, now);
}

/* Looks through the active ones, whose number is that of the peers with traffic at this moment. */
static int run_timers(struct vrb_rail *rail, uint64_t now)
{
    struct vrb_dgram_rail *dr = rail->dgram;
    uint64_t earliest = UINT64_MAX;
    struct vrb_list *l, *next;
    int n = 0;

    dr->deadline = UINT64_MAX;
    for (l = dr->active.next; l != &dr->active; l = next) {
        struct vrb_dgram *d = vrb_container_of(l, struct vrb_dgram, active_link);

        next = l->next;
        if (d->deadline <= now) {
            run_timer(d, now);
            n++;
            if (!vrb_list_linked(next) && next != &dr->active) {
                earliest = now; /* a callback took it off: the rest waits for the next call */
                break;
            }
        }
        if (d->deadline == UINT64_MAX || d->peer->failed) {
            vrb_list_remove(l);
        } else if (d->deadline < earliest) {
            earliest = d->deadline;
        }
    }
    if (earliest < dr->deadline) {
        dr->deadline = earliest;
    }
    return n;
}

static void run_stalled(struct vrb_rail *rail, uint64_t now)
{
    struct vrb_list again, *l;

    /* Each once: one that stalls again goes back to the list's end. */
    vrb_list_init(&again);
    while ((l = vrb_list_pop(&rail->dgram->stalled)) != NULL) {
        vrb_list_append(&again, l);
    }
    while ((l = vrb_list_pop(&again)) != NULL) {
        vrb_dgram_push(vrb_container_of(l, struct vrb_dgram, stall_link), now);
    }
}

int vrb_dgram_progress(struct vrb_rail *rail, int idle)
{
    struct vrb_dgram_rail *dr = rail->dgram;
    uint64_t now;
    int n = 0;

    if (dr->peers == 0) {
        return 0;
    }
    now = vrb_clock_ns();
    vrb_rel_env_poll(&dr->env, now);
    if (idle) {
        vrb_rel_env_drained(&dr->env);
    }
    if (!vrb_list_empty(&dr->stalled) && rail->ud->sq_room > rail->ud->reserve) {
        run_stalled(rail, now);
    }
    if (now >= dr->deadline) {
        n = run_timers(rail, now);
    }
    return n;
}

/* Their numbers stay in use: another life of this peer tells the other end that nothing comes. */
static void give_up_packets(struct vrb_dgram *d)
{
    struct vrb_rail *rail = d->peer->rail;
    struct vrb_buf *pkt;
    uint64_t at = 0;

    if (vrb_rel_outstanding(&d->rel) == 0) {
        return;
    }
    if (d->nothing == NULL) {
        d->nothing = vrb_dgram_new_void(d);
    }
    if (d->nothing == NULL) { /* out of memory: then no other life of this peer either */
        d->broken = 1;
        while ((pkt = vrb_rel_reclaim(&d->rel)) != NULL) {
            vrb_dgram_release(rail, pkt);
        }
        return;
    }
    vrb_packet(d->nothing)->hdr.msg = d->next_msg;
    while ((pkt = vrb_rel_replace(&d->rel, d->nothing, &at)) != NULL) {
        vrb_dgram_release(rail, pkt);
    }
}

void vrb_dgram_abandon(struct vrb_peer *peer, int status)
{
    struct vrb_dgram *d = peer->dgram;

    if (d == NULL) {
        return;
    }
    d->status = status;
    if (vrb_rel_outstanding(&d->rel) > 0) {
        vrb_dgram_flush_sends(d);
    }
    give_up_packets(d);
    if (d->cur != NULL) {
        struct vrb_buf *buf = d->cur;

        d->cur = NULL;
        if (--buf->refs == 0) {
            vrb_path_message_done(buf, status);
        }
    }
    if (d->cur_put != NULL) {
        struct vrb_rdma *put = d->cur_put;

        d->cur_put = NULL;
        if (--put->refs == 0) {
            vrb_path_rdma_done(peer->rail, put, status);
        }
    }
    vrb_list_remove(&d->stall_link);
    vrb_dgram_touch(d);
}

int vrb_dgram_is_settled(struct vrb_peer *peer)
{
    struct vrb_dgram *d = peer->dgram;
    uint64_t now;

    if (d == NULL || peer->failed) {
        return 1;
    }
    now = vrb_clock_ns();
    if (vrb_rel_ack_useful(&d->rel)) {
        vrb_dgram_send_ack(d, now); /* the peer may be waiting for it to end */
    }
    return vrb_rel_outstanding(&d->rel) == 0 && d->cur == NULL && d->cur_put == NULL;
}
