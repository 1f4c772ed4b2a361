/* A UD QP that broke: flushed, reset and set up again under the same number (see vrb_ud.h).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What breaks it: soft-RoCE puts a QP into ERR when it sends while the interface is down; a UD
 * send that completes in error stops the send queue (SQE, IBTA 10.3.1.7) of any device. Peers know
 * the QP by its number and Q_Key, which stay. What was lost with it is sent again by who needs it
 * (wireup/, reliable/): to them this is a blackout.
 *
 * WORKS -> FLUSHING, until every request has come back; buffers are ours again only then
 *       -> WAITING, until the port is up and has the addresses that the peers know
 *       -> WORKS. */
#include <stdlib.h>
#include <string.h>

#include "device/vrb_query.h"
#include "dgram/vrb_dgram.h"
#include "peer/vrb_peer.h"
#include "ud/vrb_ud.h"

/* A device that does not give everything back within this time has lost it. */
#define FLUSH_MAX_NS (500 * VRB_NS_PER_MS)

/* Between two looks at the port, and from one recovery to the next: doubling up to the longer. */
#define WAIT_MIN_NS (1 * VRB_NS_PER_MS)
#define WAIT_MAX_NS (100 * VRB_NS_PER_MS)

/* Addresses that went with the link come back after it (IPv6: duplicate address detection takes a
 * second or two). Later than that, making the address handles tells what is wrong. */
#define ADDRESSES_MAX_NS (30 * VRB_NS_PER_S)

/* No answer for so long: worth a system call to see whether the QP still works. */
#define LOOK_NS VRB_NS_PER_S

static int qp_state(const struct vrb_ud *ud)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    return ibv_query_qp(ud->qp, &attr, IBV_QP_STATE, &init) == 0 ? (int)attr.qp_state : -1;
}

void vrb_ud_broke(struct vrb_rail *rail, const char *why)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct vrb_ud *ud = rail->ud;

    if (ud->state != VRB_UD_WORKS) {
        return;
    }
    ud->state = VRB_UD_FLUSHING;
    ud->sq_room -= VRB_UD_NO_ROOM;
    vrb_due(rail);
    ud->broke_at = vrb_clock_ns();
    ud->wait = ud->wait == 0 || ud->broke_at - ud->works_since > VRB_NS_PER_S ? WAIT_MIN_NS
               : ud->wait > WAIT_MAX_NS / 2                                   ? WAIT_MAX_NS
                                                                              : 2 * ud->wait;
    ud->next_try = ud->broke_at + ud->wait;
    rail->stats.ud_broken++;
    vrb_log(VRB_LOG_INFO, "%s port %d on host %s: the UD queue pair broke (%s): it is reset",
            rail->port.dev, rail->port.port, rail->cfg.host, why);
    (void)ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE); /* it may be in ERR already */
}

int vrb_ud_is_broken(struct vrb_rail *rail, const char *why)
{
    int state;

    if (rail->ud->state == VRB_UD_WORKS) {
        state = qp_state(rail->ud);
        if (state == IBV_QPS_ERR || state == IBV_QPS_SQE || state == IBV_QPS_RESET) {
            vrb_ud_broke(rail, why);
        }
    }
    return rail->ud->state != VRB_UD_WORKS;
}

static int all_came_back(const struct vrb_ud *ud)
{
    return ud->free_n == ud->recvs && ud->completed == ud->posted;
}

static const struct vrb_gid *find_gid(const struct vrb_gid_entry *table, int n,
                                      const struct vrb_gid *g)
{
    for (int i = 0; i < n; i++) {
        if (table[i].gid.type == g->type && memcmp(table[i].gid.raw, g->raw, VRB_GID_LEN) == 0) {
            return &table[i].gid;
        }
    }
    return NULL;
}

/* An address that went and came back may be elsewhere in the port's table. Returns 0 while one that
 * a peer knows us by is missing. */
static int find_addresses(struct vrb_rail *rail, int table_len)
{
    struct vrb_gid_entry *now;
    int n =
        vrb_query_gid_table(rail->ctx, rail->port.port, rail->address.link, table_len, NULL, &now);
    int all = 1;

    for (unsigned i = 0; i < rail->address.num_gids; i++) {
        const struct vrb_gid *g = find_gid(now, n, &rail->address.gids[i]);

        if (g != NULL) {
            rail->address.gids[i].index = g->index;
        }
    }
    for (struct vrb_list *l = rail->peers.next; l != &rail->peers; l = l->next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);
        const struct vrb_gid *g;

        if (!peer->path.use_grh || peer->failed) {
            continue;
        }
        g = find_gid(now, n, &peer->path.sgid);
        if (g != NULL) {
            peer->path.sgid_index = g->index;
        } else if (peer->ah != NULL || peer->had_ah) {
            all = 0;
        }
    }
    free(now);
    return all;
}

/* They name positions in the table, and some devices resolve them once: made again when needed. */
static void drop_address_handles(struct vrb_list *peers)
{
    for (struct vrb_list *l = peers->next; l != peers; l = l->next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);

        if (peer->ah != NULL) {
            ibv_destroy_ah(peer->ah);
            peer->ah = NULL;
            peer->had_ah = 1;
        }
    }
}

/* Nothing of the time before counts any more, come it late or not at all. */
static void start_over(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;

    ud->generation++;
    ud->completed = ud->posted;
    ud->unsignalled = 0;
    ud->hello_busy = 0;
    for (ud->free_n = 0; ud->free_n < ud->recvs; ud->free_n++) {
        ud->free_slots[ud->free_n] = ud->free_n;
    }
    vrb_dgram_sends_done(rail);
}

static int set_up(struct vrb_rail *rail)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct vrb_ud *ud = rail->ud;
    int err = ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE);

    if (err != 0) {
        return err;
    }
    start_over(rail);
    err = vrb_ud_to_rts(rail);
    if (err == 0) {
        err = vrb_ud_fill(rail);
    }
    return err;
}

static void try_again(struct vrb_rail *rail, uint64_t now)
{
    struct vrb_ud *ud = rail->ud;
    struct ibv_port_attr attr;
    int err;

    ud->wait = ud->wait > WAIT_MAX_NS / 2 ? WAIT_MAX_NS : 2 * ud->wait;
    ud->next_try = now + ud->wait;
    if (ibv_query_port(rail->ctx, rail->port.port, &attr) != 0 || attr.state != IBV_PORT_ACTIVE ||
        (!find_addresses(rail, attr.gid_tbl_len) && now - ud->broke_at < ADDRESSES_MAX_NS)) {
        return;
    }
    drop_address_handles(&rail->peers);
    drop_address_handles(&rail->retired);
    err = set_up(rail);
    if (err != 0) {
        vrb_log(VRB_LOG_DEBUG, "%s port %d: resetting the UD queue pair: %s", rail->port.dev,
                rail->port.port, strerror(abs(err)));
        return;
    }
    ud->state = VRB_UD_WORKS;
    ud->sq_room = (int)ud->depth;
    ud->works_since = now;
    vrb_log(VRB_LOG_INFO, "%s port %d on host %s: the UD queue pair works again after %.3f s",
            rail->port.dev, rail->port.port, rail->cfg.host, (double)(now - ud->broke_at) / 1e9);
}

void vrb_ud_recover(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;
    uint64_t now = vrb_clock_ns();

    if (ud->state == VRB_UD_FLUSHING && ud->held == 0 &&
        (all_came_back(ud) || now - ud->broke_at > FLUSH_MAX_NS)) {
        ud->state = VRB_UD_WAITING;
    }
    if (ud->state == VRB_UD_WAITING && ud->held == 0 && now >= ud->next_try) {
        try_again(rail, now);
    }
}

/* Whether the port is up. When it is not, and for too long, what waits is given up. */
static int look_at_port(struct vrb_rail *rail, uint64_t now)
{
    uint64_t most = rail->cfg.port_timeout * VRB_NS_PER_S;
    struct vrb_ud *ud = rail->ud;
    struct ibv_port_attr attr;

    if (ibv_query_port(rail->ctx, rail->port.port, &attr) != 0 || attr.state == IBV_PORT_ACTIVE) {
        ud->down_since = 0;
        return 1;
    }
    if (ud->down_since == 0) {
        ud->down_since = now;
    } else if (most > 0 && now - ud->down_since >= most) {
        vrb_dgram_port_lost(rail, (double)(now - ud->down_since) / 1e9);
    }
    return 0;
}

void vrb_ud_look(struct vrb_rail *rail, uint64_t now)
{
    struct vrb_ud *ud = rail->ud;

    if (now < ud->next_look || ud->qp == NULL) {
        return;
    }
    ud->next_look = now + LOOK_NS;
    if (ud->seen != ud->arrived) {
        ud->down_since = 0;
    } else if ((vrb_dgram_waits(rail) || ud->posted != ud->posted_before) &&
               look_at_port(rail, now)) {
        (void)vrb_ud_is_broken(rail, "found in error");
    }
    ud->seen = ud->arrived;
    ud->posted_before = ud->posted;
}
