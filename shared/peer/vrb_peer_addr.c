/* From one pair of addresses to the next (see vrb_peer_addr.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_peer_addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/vrb_query.h"
#include "dgram/vrb_dgram.h"
#include "peer/vrb_peer_mtu.h"

/* Unanswered for so long, handshakes try the next pair: beyond what a busy peer needs to answer,
 * and far below connect_timeout. */
#define UNANSWERED_NS (2 * VRB_NS_PER_S)

/* A neighbour that does not resolve may do so in a moment; so may an address that just went with
 * its link (duplicate address detection of IPv6 takes two seconds). */
#define PATIENCE_NS (3 * VRB_NS_PER_S)

#define ALL_CHANGED UINT32_MAX

/* The QPs of both ends were told the pair, or are about to be. */
static int is_bound(const struct vrb_peer *peer)
{
    return peer->up || peer->wireup.have_remote;
}

static void drop_ah(struct vrb_peer *peer)
{
    if (peer->ah != NULL) {
        ibv_destroy_ah(peer->ah);
        peer->ah = NULL;
    }
}

/* A peer on our own port moves with it, without a word: what it would send to tell us goes to where
 * neither of us is any more. */
static int is_on_our_port(const struct vrb_peer *peer)
{
    return vrb_choose_one_port(&peer->rail->address, &peer->remote);
}

/* Where that peer's published address is now: ours has become the same. */
static void follow_our_port(struct vrb_peer *peer)
{
    const struct vrb_rail *rail = peer->rail;
    const struct vrb_gid *was = &peer->remote.gids[peer->path.dgid_at];

    peer->lid = rail->lid;
    for (int i = 0; peer->path.use_grh && i < rail->address.num_gids; i++) {
        const struct vrb_gid *g = &rail->address.gids[i];

        if (g->type == was->type && memcmp(g->raw, was->raw, VRB_GID_LEN) == 0) {
            memcpy(peer->path.dgid.raw, rail->moved >> i & 1 ? rail->moved_to[i] : g->raw,
                   VRB_GID_LEN);
        }
    }
}

void vrb_peer_present_path(struct vrb_peer *peer)
{
    const struct vrb_rail *rail = peer->rail;
    struct vrb_path *path = &peer->path;
    int on_our_port = is_on_our_port(peer);

    if (on_our_port) {
        follow_our_port(peer);
    }
    if (path->link == VRB_LINK_IB) {
        path->dlid = (uint16_t)(peer->lid + path->src_path_bits);
    }
    if (!path->use_grh) {
        return;
    }
    if (rail->moved >> path->sgid_at & 1) {
        memcpy(path->sgid.raw, rail->moved_to[path->sgid_at], VRB_GID_LEN);
    }
    if (!on_our_port && peer->moved &&
        memcmp(peer->moved_was, peer->remote.gids[path->dgid_at].raw, VRB_GID_LEN) == 0) {
        memcpy(path->dgid.raw, peer->moved_to, VRB_GID_LEN);
    }
}

static int publishes(const struct vrb_address *a, const uint8_t raw[VRB_GID_LEN])
{
    for (int i = 0; i < a->num_gids; i++) {
        if (memcmp(a->gids[i].raw, raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return 0;
}

void vrb_peer_learn(struct vrb_peer *peer, const struct vrb_hello *h)
{
    const uint8_t *dgid = peer->path.dgid.raw;
    struct vrb_gid seen = {.type = peer->path.dgid.type};
    char text[80];

    if (is_on_our_port(peer)) {
        return; /* we know, and it may not yet */
    }
    if (h->lid != 0 && h->lid != peer->lid && peer->path.link == VRB_LINK_IB) {
        vrb_log(VRB_LOG_INFO, "host %s: its LID has changed from %u to %u", peer->host, peer->lid,
                h->lid);
        peer->lid = h->lid;
        vrb_peer_present_path(peer);
        drop_ah(peer);
    }
    if (!h->has_gid || vrb_gid_fault(h->gid) != NULL || !publishes(&peer->remote, h->gid_was)) {
        return;
    }
    peer->moved = 1;
    memcpy(peer->moved_was, h->gid_was, VRB_GID_LEN);
    memcpy(peer->moved_to, h->gid, VRB_GID_LEN);
    if (peer->path.use_grh && memcmp(h->gid, dgid, VRB_GID_LEN) != 0 &&
        memcmp(h->gid_was, peer->remote.gids[peer->path.dgid_at].raw, VRB_GID_LEN) == 0) {
        memcpy(seen.raw, h->gid, VRB_GID_LEN);
        vrb_log(VRB_LOG_INFO, "host %s: its address is now %s", peer->host,
                vrb_gid_text(&seen, text, sizeof(text)));
        vrb_peer_present_path(peer);
        drop_ah(peer);
    }
}

static void take_path(struct vrb_peer *peer, const struct vrb_path *path, unsigned round)
{
    const struct vrb_rail *rail = peer->rail;

    peer->path = *path;
    peer->path.sl = rail->cfg.sl;
    peer->path.tclass = rail->cfg.tclass;
    peer->round = (uint8_t)round;
    peer->ah_failing = 0;
    vrb_peer_present_path(peer);
    vrb_peer_mtu_init(peer);
    drop_ah(peer);
    if (peer->dgram != NULL) {
        peer->dgram->heard = 0; /* the next packets introduce us, and so tell the round */
    }
}

/* The pair of a round, if this end can use it. */
static int usable_path(const struct vrb_peer *peer, unsigned round, struct vrb_path *path)
{
    const struct vrb_rail *rail = peer->rail;
    const char *why;

    if (peer->path.pairs == 0 ||
        vrb_choose_nth(&rail->address, &peer->remote, (int)(round % peer->path.pairs), path,
                       &why) != VRB_OK) {
        return 0;
    }
    /* Datagrams have been cut to the present MTU. */
    return !(path->use_grh && path->sgid.flags & VRB_GID_GONE) &&
           !(peer->dgram != NULL && path->mtu < peer->sure_mtu);
}

int vrb_peer_next_path(struct vrb_peer *peer, const char *why)
{
    char from[96], to[96];
    struct vrb_path path;
    unsigned last = peer->round + peer->path.pairs;

    if (is_bound(peer) || peer->path.pairs <= 1) {
        return VRB_ERR_UNREACH;
    }
    for (unsigned round = peer->round + 1u; round < last && round <= VRB_ROUND_MAX; round++) {
        if (!usable_path(peer, round, &path)) {
            continue;
        }
        vrb_log(VRB_LOG_INFO, "host %s: %s (%s): next: %s", peer->host,
                vrb_address_text(&peer->remote, peer->path.use_grh ? &peer->path.dgid : NULL, from,
                                 sizeof(from)),
                why,
                vrb_address_text(&peer->remote, path.use_grh ? &path.dgid : NULL, to, sizeof(to)));
        take_path(peer, &path, round);
        return VRB_OK;
    }
    return VRB_ERR_UNREACH;
}

void vrb_peer_unanswered(struct vrb_peer *peer, uint64_t now)
{
    if (peer->asking_since == 0) {
        peer->asking_since = now;
    } else if (now - peer->asking_since > UNANSWERED_NS) {
        peer->asking_since = now;
        (void)vrb_peer_next_path(peer, "no answer");
    }
}

int vrb_peer_follow(struct vrb_peer *peer, const struct vrb_hello *h)
{
    unsigned round = h->round;
    struct vrb_path path;

    /* Who has our QP's data has bound its own to the pair it names. Else the later round counts,
     * and if this end cannot use it, the next one after that, where the peer has to follow. */
    if (!is_bound(peer) && round != peer->round) {
        if (h->flags & VRB_HELLO_HAVE) {
            if (usable_path(peer, round, &path)) {
                take_path(peer, &path, round);
            }
        } else if (round > peer->round) {
            while (round < VRB_ROUND_MAX && !usable_path(peer, round, &path)) {
                round++;
            }
            if (usable_path(peer, round, &path)) {
                take_path(peer, &path, round);
            }
        }
    }
    if (h->type == VRB_HELLO && !is_bound(peer) && h->round != peer->round && peer->qp != NULL) {
        return 0;
    }
    peer->asking_since = 0;
    return 1;
}

int vrb_peer_no_ah(struct vrb_peer *peer, int err, uint64_t now)
{
    int passing = err == ETIMEDOUT || err == EAGAIN || peer->had_ah;

    if (peer->ah_failing == 0) {
        peer->ah_failing = now;
    }
    if (passing && now - peer->ah_failing < PATIENCE_NS) {
        return VRB_ERR_AGAIN;
    }
    if (vrb_peer_next_path(peer, strerror(err)) == VRB_OK) {
        return VRB_OK;
    }
    return passing ? VRB_ERR_AGAIN : VRB_ERR_UNREACH;
}

/* ---- changes of the port's addresses ---- */

static const struct vrb_gid *find_raw(const struct vrb_gid_entry *entries, int n, uint8_t type,
                                      const uint8_t raw[VRB_GID_LEN])
{
    for (int i = 0; i < n; i++) {
        if (entries[i].gid.index <= VRB_GID_INDEX_MAX && entries[i].gid.type == type &&
            memcmp(entries[i].gid.raw, raw, VRB_GID_LEN) == 0) {
            return &entries[i].gid;
        }
    }
    return NULL;
}

static int same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;

    return memcmp(a, b, bytes) == 0 && (rest == 0 || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0);
}

/* Another of our addresses has become this one. */
static int is_taken(const struct vrb_rail *rail, const struct vrb_gid *g)
{
    for (int i = 0; i < rail->address.num_gids; i++) {
        if (rail->moved >> i & 1 && rail->address.gids[i].type == g->type &&
            memcmp(rail->moved_to[i], g->raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return 0;
}

/* What has taken the place of a published address: one of the same kind that is new, in the same
 * subnet or at the same place of the table. */
static const struct vrb_gid *find_successor(const struct vrb_rail *rail, const struct vrb_gid *g,
                                            const struct vrb_gid_entry *entries, int n)
{
    unsigned bits = g->plen != 0 ? g->plen : vrb_gid_is_ipv4(g->raw) ? 120 : 64;

    for (int i = 0; i < n; i++) {
        const struct vrb_gid *e = &entries[i].gid;

        if (e->type == g->type && e->index <= VRB_GID_INDEX_MAX && vrb_gid_fault(e->raw) == NULL &&
            vrb_gid_is_ipv4(e->raw) == vrb_gid_is_ipv4(g->raw) &&
            vrb_gid_is_link_scope(e->raw) == vrb_gid_is_link_scope(g->raw) &&
            !publishes(&rail->address, e->raw) && !is_taken(rail, e) &&
            (e->index == g->index || same_bits(e->raw, g->raw, bits))) {
            return e;
        }
    }
    return NULL;
}

/* Finds a published address in the table, or its successor. Returns 1 if it has become another. */
static int find_again(struct vrb_rail *rail, int at, const struct vrb_gid_entry *now, int n)
{
    struct vrb_gid *g = &rail->address.gids[at];
    const struct vrb_gid *found = find_raw(now, n, g->type, g->raw);
    unsigned had = rail->moved >> at & 1, has = 0;
    char from[96], to[96];

    if (found == NULL && had) {
        found = find_raw(now, n, g->type, rail->moved_to[at]);
        has = found != NULL;
    }
    if (found == NULL) {
        found = find_successor(rail, g, now, n);
        if (found == NULL) {
            if (!(g->flags & VRB_GID_GONE)) {
                vrb_log(VRB_LOG_INFO, "%s port %d on host %s: address %s is gone", rail->port.dev,
                        rail->port.port, rail->cfg.host, vrb_gid_text(g, from, sizeof(from)));
            }
            g->flags |= VRB_GID_GONE;
            return 0;
        }
        vrb_log(VRB_LOG_INFO, "%s port %d on host %s: address %s has become %s", rail->port.dev,
                rail->port.port, rail->cfg.host, vrb_gid_text(g, from, sizeof(from)),
                vrb_gid_text(found, to, sizeof(to)));
        memcpy(rail->moved_to[at], found->raw, VRB_GID_LEN);
        had = 0; /* even if it was another one before */
        has = 1;
    }
    rail->moved = (uint16_t)((rail->moved & ~(1u << at)) | has << at);
    g->index = found->index;
    g->flags &= (uint8_t)~VRB_GID_GONE;
    return had != has;
}

/* Returns the addresses that changed, a bit each; all of them when the LID did. */
static unsigned look_again(struct vrb_rail *rail)
{
    struct vrb_gid_entry *now;
    struct ibv_port_attr attr;
    unsigned changed = 0;
    int n;

    if (ibv_query_port(rail->ctx, rail->port.port, &attr) != 0) {
        return 0;
    }
    n = vrb_query_gid_table(rail->ctx, rail->port.port, rail->address.link, attr.gid_tbl_len, NULL,
                            &now);
    for (int i = 0; i < rail->address.num_gids; i++) {
        changed |= (unsigned)find_again(rail, i, now, n) << i;
    }
    if (rail->address.link == VRB_LINK_IB && attr.lid != 0 && attr.lid != rail->lid) {
        vrb_log(VRB_LOG_INFO,
                "%s port %d on host %s: the subnet manager changed its LID from %u to "
                "%u",
                rail->port.dev, rail->port.port, rail->cfg.host, rail->lid, attr.lid);
        rail->lid = attr.lid;
        changed = ALL_CHANGED;
    }
    free(now);
    return changed;
}

/* The peer's end checks where packets come from, and sends to where nobody is: both get to know the
 * new address by a handshake, or by an introduction. */
static void start_anew(struct vrb_peer *peer)
{
    struct vrb_failure f;

    if (peer->dgram != NULL && !peer->failed) {
        vrb_dgram_moved(peer);
    }
    if (peer->qp != NULL && !peer->self) {
        vrb_failure_init(&f, "keeping the connection");
        f.detail = "an address of this port changed (if the peer's did at the same time, neither "
                   "can tell the other)";
        (void)vrb_recover_break(peer, &f); /* in vain: its retries will find out, and tell */
    }
}

/* True if the peer is where our port is, and so is now elsewhere. */
static int moves_with_us(struct vrb_peer *peer)
{
    struct vrb_path before = peer->path;

    if (!is_on_our_port(peer)) {
        return 0;
    }
    vrb_peer_present_path(peer);
    return before.dlid != peer->path.dlid ||
           memcmp(before.dgid.raw, peer->path.dgid.raw, VRB_GID_LEN) != 0;
}

void vrb_rail_addresses_changed(struct vrb_rail *rail)
{
    unsigned changed = look_again(rail);
    struct vrb_list *l, *next;

    for (l = rail->peers.next; l != &rail->peers; l = next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);
        const struct vrb_gid *g = &rail->address.gids[peer->path.sgid_at];
        unsigned bit = 1u << peer->path.sgid_at, changed_for = changed;

        next = l->next;
        if (peer->failed) {
            continue;
        }
        if (peer->path.use_grh && g->flags & VRB_GID_GONE) {
            (void)vrb_peer_next_path(peer, "our address is gone");
        } else if (peer->path.use_grh && (changed & bit || g->index != peer->path.sgid_index)) {
            memcpy(peer->path.sgid.raw, g->raw, VRB_GID_LEN);
            vrb_peer_present_path(peer);
            peer->path.sgid_index = g->index;
            peer->path.sgid.index = g->index;
            drop_ah(peer);
        }
        if (changed != 0 && moves_with_us(peer)) {
            drop_ah(peer);
            changed_for = ALL_CHANGED;
        }
        if (changed_for == ALL_CHANGED || (peer->path.use_grh && changed_for & bit)) {
            start_anew(peer);
        }
        if (!vrb_list_linked(next) && next != &rail->peers) {
            return; /* a callback took it off the list: what is left breaks by itself */
        }
    }
}
