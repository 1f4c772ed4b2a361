/* From one pair of addresses to the next (see vrb_peer_addr.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_peer_addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/vrb_query.h"
#include "dgram/vrb_dgram.h"

/* Unanswered for so long, handshakes try the next pair: beyond what a busy peer needs to answer,
 * and far below connect_timeout. */
#define UNANSWERED_NS (2 * VRB_NS_PER_S)

/* A neighbour that does not resolve may do so in a moment; so may an address that just went with
 * its link (duplicate address detection of IPv6 takes two seconds). */
#define PATIENCE_NS (3 * VRB_NS_PER_S)

/* The QPs of both ends were told the pair, or are about to be. */
static int is_bound(const struct vrb_peer *peer)
{
    return peer->up || peer->wireup.have_remote;
}

static void take_path(struct vrb_peer *peer, const struct vrb_path *path, unsigned round)
{
    const struct vrb_rail *rail = peer->rail;

    peer->path = *path;
    peer->path.sl = rail->cfg.sl;
    peer->path.tclass = rail->cfg.tclass;
    peer->round = (uint8_t)round;
    peer->ah_failing = 0;
    if (peer->ah != NULL) {
        ibv_destroy_ah(peer->ah);
        peer->ah = NULL;
    }
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
           !(peer->dgram != NULL && path->mtu < peer->path.mtu);
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

static const struct vrb_gid *find_gid(const struct vrb_gid *gids, int n, const struct vrb_gid *g)
{
    for (int i = 0; i < n; i++) {
        if (gids[i].type == g->type && memcmp(gids[i].raw, g->raw, VRB_GID_LEN) == 0) {
            return &gids[i];
        }
    }
    return NULL;
}

static const struct vrb_gid *find_entry(const struct vrb_gid_entry *entries, int n,
                                        const struct vrb_gid *g)
{
    for (int i = 0; i < n; i++) {
        if (find_gid(&entries[i].gid, 1, g) != NULL) {
            return &entries[i].gid;
        }
    }
    return NULL;
}

static void look_again(struct vrb_rail *rail)
{
    struct vrb_gid_entry *now;
    struct ibv_port_attr attr;
    char text[96];
    int n;

    if (ibv_query_port(rail->ctx, rail->port.port, &attr) != 0) {
        return;
    }
    n = vrb_query_gid_table(rail->ctx, rail->port.port, rail->address.link, attr.gid_tbl_len, NULL,
                            &now);
    for (int i = 0; i < rail->address.num_gids; i++) {
        struct vrb_gid *g = &rail->address.gids[i];
        const struct vrb_gid *found = find_entry(now, n, g);

        if (found != NULL) {
            g->index = found->index;
            g->flags &= (uint8_t)~VRB_GID_GONE;
            continue;
        }
        if (!(g->flags & VRB_GID_GONE)) {
            vrb_log(VRB_LOG_INFO, "%s port %d on host %s: address %s is gone", rail->port.dev,
                    rail->port.port, rail->cfg.host, vrb_gid_text(g, text, sizeof(text)));
            g->flags |= VRB_GID_GONE;
        }
    }
    if (rail->address.link == VRB_LINK_IB && attr.lid != 0 && attr.lid != rail->address.lid) {
        vrb_log(
            VRB_LOG_WARN,
            "%s port %d on host %s: the subnet manager changed its LID from %u to %u: peers know "
            "the old one, and connections over this port will break. Start the job anew, and let "
            "the subnet manager keep LIDs (opensm: guid2lid)",
            rail->port.dev, rail->port.port, rail->cfg.host, rail->address.lid, attr.lid);
    }
    free(now);
}

void vrb_rail_addresses_changed(struct vrb_rail *rail)
{
    look_again(rail);
    for (struct vrb_list *l = rail->peers.next; l != &rail->peers; l = l->next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);
        const struct vrb_gid *g =
            find_gid(rail->address.gids, rail->address.num_gids, &peer->path.sgid);

        if (!peer->path.use_grh || peer->failed || g == NULL) {
            continue;
        }
        if (g->flags & VRB_GID_GONE) {
            (void)vrb_peer_next_path(peer, "our address is gone");
        } else if (g->index != peer->path.sgid_index) {
            peer->path.sgid_index = g->index;
            peer->path.sgid.index = g->index;
            if (peer->ah != NULL) {
                ibv_destroy_ah(peer->ah);
                peer->ah = NULL;
            }
        }
    }
}
