/* Peers: made from what they published, connected on demand, failed once and with an explanation.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address/vrb_reach.h"
#include "dgram/vrb_dgram.h"
#include "peer/vrb_path.h"
#include "peer/vrb_peer_addr.h"
#include "peer/vrb_peer_mtu.h"
#include "peer/vrb_retired.h"
#include "rc/vrb_rc.h"
#include "tcp/vrb_tcp.h"
#include "ud/vrb_ud.h"
#include "util/vrb_probe.h"

/* An unanswered HELLO is repeated after 4 ms (a scheduler tick on a busy peer), then ever more
 * rarely. */
#define HELLO_FIRST_NS (4 * VRB_NS_PER_MS)
#define HELLO_MAX_NS (500 * VRB_NS_PER_MS)

struct vrb_peer *vrb_peer_find(struct vrb_rail *rail, uint64_t name, int remote_rail)
{
    struct vrb_peer *peer = vrb_map_get(&rail->by_name, vrb_peer_key(name, remote_rail));

    return peer != NULL && peer->name == name && peer->remote_rail == remote_rail ? peer : NULL;
}

struct vrb_peer *vrb_peer_ask_for(struct vrb_rail *rail, uint64_t name, int remote_rail)
{
    if (rail->closing || rail->cb.unknown == NULL) {
        return NULL;
    }
    vrb_call_begin(rail);
    rail->cb.unknown(rail->cb.ctx, rail, name);
    vrb_call_end(rail);
    /* The upper layer pairs rails by itself: what counts is whether this pair exists now. */
    return vrb_peer_find(rail, name, remote_rail);
}

int vrb_peer_create(struct vrb_rail *rail, uint64_t name, const char *host, uint64_t rank,
                    int remote_rail, const struct vrb_address *remote, void *user,
                    struct vrb_peer **out, const char **why)
{
    struct vrb_peer *peer = NULL;
    struct vrb_path path;
    int rc;

    vrb_lock(rail);
    peer = vrb_peer_find(rail, name, remote_rail);
    if (peer != NULL) {
        *out = peer;
        rc = VRB_OK;
        goto out;
    }
    rc = vrb_choose(&rail->address, remote, &path, why);
    if (rc != VRB_OK) {
        goto out;
    }
    if (remote->recv_size < rail->cfg.recv_size) {
        *why = "its receive buffers are smaller than our longest packet (max_send_size differs)";
        rc = VRB_ERR_UNREACH;
        goto out;
    }
    if ((remote->ud_qpn == 0) != (rail->tcp != NULL)) {
        *why = "one end makes connections over TCP, the other over a UD queue pair (wireup)";
        rc = VRB_ERR_UNREACH;
        goto out;
    }
    if (rail->failed) {
        *why = "the device has failed";
        rc = VRB_ERR_UNREACH;
        goto out;
    }
    *why = "out of memory";
    rc = VRB_ERR_NOMEM;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL || vrb_map_put(&rail->by_name, vrb_peer_key(name, remote_rail), peer) != 0) {
        free(peer);
        goto out;
    }
    peer->rail = rail;
    peer->user = user;
    peer->remote = *remote;
    peer->lid = remote->lid;
    if (vrb_retired_return(peer, name, remote_rail) != VRB_OK) {
        vrb_map_del(&rail->by_name, vrb_peer_key(name, remote_rail));
        free(peer);
        goto out;
    }
    peer->path = path;
    peer->path.sl = rail->cfg.sl;
    peer->path.tclass = rail->cfg.tclass;
    vrb_peer_present_path(peer);
    peer->name = name;
    peer->rank = rank;
    peer->remote_rail = remote_rail;
    peer->self = name == rail->cfg.name && remote_rail == rail->index;
    snprintf(peer->host, sizeof(peer->host), "%s", host == NULL ? "" : host);
    vrb_peer_mtu_init(peer);
    peer->q_tail = &peer->q_head;
    peer->r_tail = &peer->r_head;
    vrb_recover_init(peer);
    vrb_list_init(&peer->due_link);
    vrb_list_init(&peer->stall_link);
    vrb_list_init(&peer->connecting_link);
    vrb_list_append(&rail->peers, &peer->link);
    vrb_credit_init(&peer->credit, (uint16_t)rail->cfg.credits);
    *out = peer;
    rc = VRB_OK;
out:
    vrb_unlock(rail);
    return rc;
}

static void fill_ends(const struct vrb_peer *peer, struct vrb_failure *f)
{
    const struct vrb_rail *rail = peer->rail;

    f->link = rail->address.link;
    f->retry_count = rail->cfg.ib_retry_count;
    f->ib_timeout = rail->cfg.ib_timeout;
    f->rnr_retry = 7;
    f->local = (struct vrb_end){
        .host = rail->cfg.host,
        .rank = rail->cfg.rank,
        .dev = rail->port.dev,
        .port = rail->port.port,
        .qpn = peer->qp == NULL ? 0 : peer->qp->qp_num,
        .lid = rail->lid,
        .gid = peer->path.use_grh ? peer->path.sgid : (struct vrb_gid){.type = 0},
    };
    f->remote = (struct vrb_end){
        .host = peer->host,
        .rank = peer->rank,
        .qpn = peer->wireup.have_remote ? peer->wireup.remote.qpn : 0,
        .lid = peer->lid,
        .gid = peer->path.use_grh ? peer->path.dgid : (struct vrb_gid){.type = 0},
    };
}

void vrb_failure_init(struct vrb_failure *f, const char *what)
{
    memset(f, 0, sizeof(*f));
    f->wc_status = -1;
    f->what = what;
}

void vrb_peer_fail(struct vrb_peer *peer, int status, struct vrb_failure *f)
{
    struct vrb_rail *rail = peer->rail;
    char text[2048];
    int quiet = rail->closing || rail->failed || peer->leaving;

    if (peer->failed) {
        return;
    }
    fill_ends(peer, f);
    f->status = status;
    peer->failed = 1;
    peer->fast = 0;
    rail->stats.failed++;
    VRB_PROBE3(connection_fails, peer->rank, peer->host, status);
    vrb_list_remove(&peer->connecting_link);
    vrb_list_remove(&peer->due_link);
    vrb_list_remove(&peer->stall_link);
    if (!quiet) {
        vrb_explain(f, text, sizeof(text));
    }
    vrb_rc_qp_stop(peer);
    vrb_path_abandon(peer, status);
    if (!peer->leaving) {
        vrb_call_begin(rail);
        rail->cb.failed(rail->cb.ctx, peer, status, quiet ? NULL : text);
        vrb_call_end(rail);
    }
}

void vrb_peer_local_hello(struct vrb_peer *peer, struct vrb_hello *local)
{
    struct vrb_rail *rail = peer->rail;
    uint32_t id = rail->next_id++;

    if (rail->next_id == 0) {
        rail->next_id = 1;
    }
    *local = (struct vrb_hello){
        .mtu = peer->pmtu.limit,
        .rd_in = rail->rd_in,
        .src_rail = (uint8_t)rail->index,
        .dst_rail = (uint8_t)peer->remote_rail,
        .grant = vrb_credit_tell(&peer->credit),
        .src_id = id,
        .qpn = peer->qp->qp_num,
        .psn = (id * 2654435761u) >> 8, /* 24 bits, unlike from one incarnation to the next */
        .recv_size = rail->cfg.recv_size,
        .rx_seq = peer->rx_seq,
        .flags = peer->must ? VRB_HELLO_MUST : 0,
        .src_name = rail->cfg.name,
        .dst_name = peer->name,
    };
}

/* Makes the QP and what the handshake says about it. */
static int prepare(struct vrb_peer *peer, char *detail, size_t len)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_wireup_config cfg = {
        .first_ns = HELLO_FIRST_NS,
        .max_ns = HELLO_MAX_NS,
        .timeout_ns = rail->cfg.connect_timeout * VRB_NS_PER_S,
        .recover_ns = rail->cfg.recover_timeout * VRB_NS_PER_S,
    };
    struct vrb_hello local;
    int rc = vrb_rc_qp_create(peer, detail, len);

    if (rc != VRB_OK) {
        return rc;
    }
    vrb_peer_local_hello(peer, &local);
    vrb_wireup_init(&peer->wireup, &cfg, &local, local.src_id);
    return VRB_OK;
}

void vrb_peer_start(struct vrb_peer *peer)
{
    char detail[256];
    uint64_t now;
    int rc;

    if (peer->failed || vrb_list_linked(&peer->connecting_link) || peer->up) {
        return;
    }
    if (peer->qp == NULL) {
        rc = prepare(peer, detail, sizeof(detail));
        if (rc != VRB_OK) {
            if (!vrb_path_refuse_rc(peer, detail)) {
                vrb_path_fail_in_words(peer, rc, "connecting", detail);
            }
            return;
        }
    }
    if (peer->self) {
        peer->wireup.remote = peer->wireup.local;
        peer->wireup.have_remote = 1;
        vrb_peer_wireup(peer, VRB_WU_DO_REMOTE | VRB_WU_DO_UP);
        return;
    }
    now = vrb_clock_ns();
    peer->connect_started = now;
    VRB_PROBE2(connection_starts, peer->rank, peer->host);
    vrb_list_append(&peer->rail->connecting, &peer->connecting_link);
    vrb_due(peer->rail);
    vrb_peer_wireup(peer, vrb_wireup_start(&peer->wireup, now));
}

void vrb_peer_connect(struct vrb_peer *peer)
{
    vrb_lock(peer->rail);
    vrb_peer_start(peer);
    vrb_unlock(peer->rail);
}

static void wireup_failed(struct vrb_peer *peer)
{
    const struct vrb_wireup *w = &peer->wireup;
    struct vrb_failure f;

    if (vrb_path_refuse_rc(peer, w->failure == VRB_WU_FAIL_REJECTED
                                     ? vrb_reject_text(w->reject_reason)
                                     : "the handshake was not answered")) {
        return;
    }
    vrb_failure_init(&f, peer->was_up ? "keeping the connection" : "connecting");
    f.wireup = w->failure;
    f.reject_reason = w->reject_reason;
    f.heard = w->heard;
    f.hellos = w->sent;
    f.seconds = (double)(vrb_clock_ns() - w->started) / 1e9;
    if (peer->broken || w->failure == VRB_WU_FAIL_STUCK) {
        f.broken = 1;
        f.detail = "the peer's queue pair broke";
        if (peer->recover.what != NULL) {
            f.what = peer->recover.what;
            f.wc_status = peer->recover.wc_status;
            f.vendor_err = peer->recover.vendor_err;
            f.detail = peer->recover.detail;
        }
    }
    vrb_peer_fail(peer,
                  w->failure == VRB_WU_FAIL_TIMEOUT    ? VRB_ERR_TIMEOUT
                  : w->failure == VRB_WU_FAIL_REJECTED ? VRB_ERR_REJECTED
                                                       : VRB_ERR_PEER,
                  &f);
}

static void send_hello(struct vrb_peer *peer)
{
    uint8_t lengths[VRB_PMTU_SERIES_MAX] = {0};
    char detail[256];
    struct vrb_hello h;
    int n = 1, rc = VRB_OK;

    vrb_wireup_message(&peer->wireup, &h);
    VRB_PROBE3(hello_sent, peer->rank, h.type, h.flags);
    h.mtu = peer->pmtu.limit;
    if (h.type == VRB_HELLO && peer->rail->tcp == NULL) {
        n = vrb_pmtu_lengths(&peer->pmtu, vrb_clock_ns(), peer->wireup.peer_has, lengths);
    }
    for (int i = 0; i < n && rc == VRB_OK; i++) {
        struct vrb_hello part = h;

        if (i < n - 1) {
            part.flags &= (uint8_t)~VRB_HELLO_NEED;
        } else if (n > 1) {
            part.flags |= VRB_HELLO_LAST;
        }
        rc = vrb_ud_hello(peer, &part, lengths[i], detail, sizeof(detail));
    }
    if (rc != VRB_OK && !vrb_peer_is_recovering(peer)) { /* which goes on until its time is over */
        vrb_path_fail_in_words(peer, rc, "connecting", detail);
    }
}

static void first_up(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;

    peer->was_up = 1;
    rail->stats.connected++;
    VRB_PROBE3(connection_up, peer->rank, peer->host, peer->connect_started);
    if (rail->cb.connected != NULL) {
        vrb_call_begin(rail);
        rail->cb.connected(rail->cb.ctx, peer);
        vrb_call_end(rail);
    }
}

static void recovered(struct vrb_peer *peer)
{
    peer->broken = 0;
    vrb_recover_forget(peer);
    peer->rail->stats.recovered++;
    VRB_PROBE3(connection_recovered, peer->rank, peer->host, peer->replay.end - peer->replay.next);
    vrb_log(VRB_LOG_INFO, "host %s: connected again after %.3f s, %u packets to be sent again",
            peer->host, (double)(vrb_clock_ns() - peer->wireup.started) / 1e9,
            peer->replay.end - peer->replay.next);
}

void vrb_peer_wireup(struct vrb_peer *peer, unsigned actions)
{
    char detail[256];

    if (actions & VRB_WU_DO_PAUSE) {
        peer->broken = 1;
        vrb_recover_pause(peer);
    }
    if (actions & VRB_WU_DO_REMOTE) {
        int rc = vrb_rc_qp_connect(peer, detail, sizeof(detail));

        if (rc != VRB_OK && rc != VRB_ERR_MALFORMED && vrb_peer_is_recovering(peer)) {
            struct vrb_failure f;

            vrb_log(VRB_LOG_INFO, "host %s: %s: trying again", peer->host, detail);
            vrb_failure_init(&f, "connecting again");
            f.detail = "the new queue pair could not be connected";
            if (vrb_recover_break(peer, &f)) {
                return;
            }
        }
        if (rc != VRB_OK) {
            vrb_peer_reject(peer, &peer->wireup.remote, VRB_REJECT_FAILED);
            if (!vrb_path_refuse_rc(peer, detail)) {
                vrb_path_fail_in_words(peer, rc, "connecting", detail);
            }
            return;
        }
    }
    if (actions & VRB_WU_DO_SEND) {
        send_hello(peer);
    }
    if ((actions & VRB_WU_DO_UP) && !peer->failed) {
        peer->up = 1;
        peer->left = 0;
        vrb_peer_mtu_proven(peer, peer->pmtu.limit);
        vrb_list_remove(&peer->connecting_link);
        if (peer->broken) {
            recovered(peer);
        }
        if (!peer->was_up) {
            first_up(peer);
        }
        vrb_path_drain(peer);
    }
    if (actions & VRB_WU_DO_FAIL) {
        wireup_failed(peer);
    }
}

void vrb_peer_reject(struct vrb_peer *peer, const struct vrb_hello *h, enum vrb_reject_reason why)
{
    struct vrb_rail *rail = peer->rail;
    char detail[256];
    struct vrb_hello no = {
        .type = VRB_REJECT,
        .reason = (uint8_t)why,
        .mtu = peer->path.mtu,
        .src_rail = (uint8_t)rail->index,
        .dst_rail = h->src_rail,
        .src_id = peer->wireup.local.src_id != 0 ? peer->wireup.local.src_id : rail->next_id,
        .dst_id = h->src_id,
        .recv_size = rail->cfg.recv_size,
        .src_name = rail->cfg.name,
        .dst_name = peer->name,
    };

    (void)vrb_ud_hello(peer, &no, 0, detail, sizeof(detail)); /* lost: the peer asks again */
}

void vrb_peer_hello(struct vrb_peer *peer, const struct vrb_hello *h, uint8_t length)
{
    struct vrb_hello taken = *h;
    char detail[256];
    int rc;

    VRB_PROBE3(hello_received, peer->rank, h->type, h->flags);
    if (peer->self) {
        peer->rail->stats.hellos_stale++; /* nobody else has our name */
        return;
    }
    if (peer->failed) {
        if (h->type == VRB_HELLO && (h->flags & VRB_HELLO_NEED)) {
            vrb_peer_reject(peer, h, VRB_REJECT_FAILED);
        }
        return;
    }
    if (peer->qp == NULL && !vrb_peer_is_recovering(peer)) {
        if (h->type != VRB_HELLO) {
            peer->rail->stats.hellos_stale++;
            return;
        }
        if (h->gen > 0) { /* a connection of the peer that was here before this one */
            vrb_peer_reject(peer, h, VRB_REJECT_UNKNOWN);
            return;
        }
        if ((peer->rc_refused && !(h->flags & VRB_HELLO_MUST)) ||
            peer->rail->cfg.mode == VRB_MODE_UD ||
            (peer->rail->cfg.mode == VRB_MODE_AUTO && !(h->flags & VRB_HELLO_MUST) &&
             peer->rail->rc_count >= peer->rail->cfg.max_rc)) {
            vrb_peer_reject(peer, h, VRB_REJECT_NO_QP);
            return;
        }
        if (!vrb_peer_mtu_takes(peer, &taken, length)) {
            return;
        }
        rc = prepare(peer, detail, sizeof(detail));
        if (rc != VRB_OK) {
            vrb_peer_reject(peer, h, VRB_REJECT_NO_QP);
            if (!vrb_path_refuse_rc(peer, detail)) {
                vrb_path_fail_in_words(peer, rc, "answering a connection request", detail);
            }
            return;
        }
        peer->connect_started = vrb_clock_ns();
        vrb_list_append(&peer->rail->connecting, &peer->connecting_link);
        vrb_due(peer->rail);
    } else if (!vrb_peer_mtu_takes(peer, &taken, length)) {
        return;
    }
    vrb_peer_wireup(peer, vrb_wireup_on_message(&peer->wireup, vrb_clock_ns(), &taken));
}

int vrb_peer_timers(struct vrb_rail *rail, uint64_t now, int idle)
{
    struct vrb_list *l, *next;
    int n = 0;

    for (l = rail->connecting.next; l != &rail->connecting; l = next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, connecting_link);

        next = l->next;
        if (now >= vrb_wireup_deadline(&peer->wireup)) {
            vrb_peer_wireup(peer, vrb_wireup_on_timer(&peer->wireup, now));
            n++;
        } else if (peer->recover.state != VRB_RECOVER_NONE) {
            vrb_recover_step(peer, now, idle);
        } else {
            continue;
        }
        if (!vrb_list_linked(next) && next != &rail->connecting) {
            break; /* a callback took it off the list: the rest waits for the next call */
        }
    }
    return n;
}

void vrb_peer_probe(struct vrb_rail *rail)
{
    struct vrb_list *l, *next;

    for (l = rail->peers.next; l != &rail->peers; l = next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);

        next = l->next;
        if (peer->rx_seq == peer->probe_seq) {
            if (peer->up && !peer->left) {
                vrb_rc_probe(peer);
            } else if (!peer->up) {
                vrb_dgram_probe(peer);
            }
            if (!vrb_list_linked(next) && next != &rail->peers) {
                return; /* a callback took it off the list: the rest waits for the next call */
            }
        }
        peer->probe_seq = peer->rx_seq;
    }
}

/* Progresses on behalf of a caller that holds the lock. */
static void progress_unlocked(struct vrb_rail *rail)
{
    vrb_unlock(rail);
    vrb_rail_progress(rail);
    vrb_lock(rail);
}

/* Progresses until the peer has nothing in flight or the time is over. */
static void settle(struct vrb_peer *peer, unsigned ms)
{
    uint64_t end = vrb_clock_ns() + ms * VRB_NS_PER_MS;

    while (!vrb_path_settled(peer) && vrb_clock_ns() < end) {
        progress_unlocked(peer->rail);
    }
}

void vrb_peer_free(struct vrb_peer *peer)
{
    vrb_replay_free(&peer->replay);
    free(peer);
}

void vrb_peer_destroy(struct vrb_peer *peer, unsigned ms)
{
    struct vrb_rail *rail = peer->rail;

    vrb_lock(rail);
    peer->leaving = 1;
    if (ms > 0 && !rail->failed) {
        settle(peer, ms);
    }
    /* What is still posted is flushed to the CQ and handled there; the QP may then go. */
    peer->failed = 1;
    peer->fast = 0;
    vrb_path_abandon(peer, VRB_ERR_PEER);
    if (peer->owned > 0 && !rail->failed) {
        uint64_t end = vrb_clock_ns() + 100 * VRB_NS_PER_MS;

        vrb_rc_qp_stop(peer);
        while (peer->owned > 0 && vrb_clock_ns() < end) {
            progress_unlocked(rail);
        }
    }
    vrb_list_remove(&peer->link);
    vrb_list_remove(&peer->connecting_link);
    vrb_list_remove(&peer->due_link);
    vrb_list_remove(&peer->stall_link);
    vrb_map_del(&rail->by_name, vrb_peer_key(peer->name, peer->remote_rail));
    vrb_rc_qp_destroy(peer);
    vrb_tcp_forget(peer);
    if (vrb_retired_keep(peer)) {
        vrb_unlock(rail);
        return;
    }
    vrb_dgram_detach(peer);
    if (peer->ah != NULL) {
        ibv_destroy_ah(peer->ah);
    }
    if (peer->owned > 0) {
        vrb_list_append(&rail->zombies, &peer->link); /* completions may still name it */
    } else {
        vrb_peer_free(peer);
    }
    vrb_unlock(rail);
}

void vrb_peer_set_user(struct vrb_peer *peer, void *user)
{
    peer->user = user;
}

struct vrb_rail *vrb_peer_rail(const struct vrb_peer *peer)
{
    return peer->rail;
}

const char *vrb_peer_describe(const struct vrb_peer *peer, char *buf, size_t len)
{
    const struct vrb_rail *rail = peer->rail;
    const struct vrb_path *p = &peer->path;
    uint8_t mtu = peer->pmtu.limit;
    const char *narrow = mtu < p->mtu ? ", longer packets do not arrive" : "";
    struct vrb_address local = rail->address, remote = peer->remote;
    char here[96], there[96], why[128], rank[32] = "";

    if (peer->rank != UINT64_MAX) {
        snprintf(rank, sizeof(rank), " rank %llu", (unsigned long long)peer->rank);
    }
    remote.lid = p->dlid;
    local.lid = (uint16_t)(rail->lid + p->src_path_bits);
    vrb_address_text(&local, p->use_grh ? &p->sgid : NULL, here, sizeof(here));
    vrb_address_text(&remote, p->use_grh ? &p->dgid : NULL, there, sizeof(there));
    snprintf(buf, len, "%s port %d %s, %s -> host %s%s, %s, %s, MTU %d%s (%s)", rail->port.dev,
             rail->port.port, p->link == VRB_LINK_IB ? "InfiniBand" : "RoCE", here, peer->host,
             rank, there, peer->up ? "RC" : "UD", 128 << mtu, narrow,
             vrb_reach_why(p, why, sizeof(why)));
    return buf;
}
