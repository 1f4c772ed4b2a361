/* Replaces an RC QP that broke and sends again what did not arrive (see vrb_recover.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "rc/vrb_recover.h"

#include <stdlib.h>

#include "peer/vrb_path.h"
#include "rail/vrb_fit.h"
#include "rc/vrb_rc.h"
#include "util/vrb_probe.h"
#include "wire/vrb_wire.h"

/* Where the CQ is never empty, this long after the marker everything before it has been polled. */
#define QUIET_NS (10 * VRB_NS_PER_MS)

/* Receives of a QP's own queue that are not flushed after so long are given up. */
#define FLUSH_NS (200 * VRB_NS_PER_MS)

/* Between two tries of what the device refuses. */
#define RETRY_NS (50 * VRB_NS_PER_MS)

void vrb_recover_init(struct vrb_peer *peer)
{
    struct vrb_recover *r = &peer->recover;

    r->rdma_tail = &r->rdma;
    r->wc_status = -1;
}

void vrb_recover_forget(struct vrb_peer *peer)
{
    peer->recover.what = peer->recover.detail = NULL;
    peer->recover.wc_status = -1;
}

int vrb_recover_may_pass(int wc_status)
{
    switch (wc_status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_WR_FLUSH_ERR: /* the other half of the QP broke, or the port */
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_LOC_QP_OP_ERR: /* soft-RoCE's answer while its interface is down */
        return 1;
    default:
        return 0;
    }
}

/* An RDMA write of nothing, behind all that was posted: its slot is kept free for it. */
static void post_marker(struct vrb_peer *peer)
{
    struct ibv_send_wr wr = {.wr_id = vrb_wr_id(peer, VRB_WR_MARKER),
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    if (peer->rail->markers < VRB_FIT_MARKER_QPS * peer->rail->cfg.sq_depth &&
        ibv_post_send(peer->qp, &wr, &bad) == 0) {
        peer->recover.state = VRB_RECOVER_MARKED;
        peer->recover.marker_out = 1;
        peer->rail->markers++;
    }
}

void vrb_recover_pause(struct vrb_peer *peer)
{
    struct vrb_recover *r = &peer->recover;

    peer->up = 0;
    peer->fast = 0;
    peer->holding = 0;                    /* what was held now waits like the rest of the queue */
    peer->replay.next = peer->replay.end; /* where to go on is found out anew */
    vrb_list_remove(&peer->due_link);
    vrb_list_remove(&peer->stall_link);
    if (!vrb_list_linked(&peer->connecting_link)) {
        vrb_list_append(&peer->rail->connecting, &peer->connecting_link);
        vrb_due(peer->rail);
    }
    r->state = VRB_RECOVER_UNMARKED;
    r->rx_flushed = 0;
    vrb_rc_qp_stop(peer);
    post_marker(peer);
}

int vrb_recover_break(struct vrb_peer *peer, const struct vrb_failure *f)
{
    struct vrb_recover *r = &peer->recover;
    struct vrb_rail *rail = peer->rail;
    unsigned acts;

    if (peer->failed || peer->leaving || rail->closing || rail->failed) {
        return 0;
    }
    if (r->state != VRB_RECOVER_NONE) {
        return 1; /* one of the many that are flushed */
    }
    acts = vrb_wireup_pause(&peer->wireup, vrb_clock_ns(), r->work);
    if (acts == 0) {
        return 0;
    }
    r->what = f->what;
    r->detail = f->detail;
    r->wc_status = f->wc_status;
    r->vendor_err = f->vendor_err;
    VRB_PROBE3(connection_breaks, peer->rank, peer->host, f->wc_status);
    vrb_log(VRB_LOG_INFO, "host %s: %s: the connection broke (%s): connecting again", peer->host,
            f->what, f->wc_status >= 0 ? vrb_wc_status_text(f->wc_status) : f->detail);
    vrb_peer_wireup(peer, acts);
    return !peer->failed;
}

void vrb_recover_marked(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    struct vrb_peer *peer = vrb_map_get(&rail->by_qpn, wc->qp_num);

    if (peer == NULL) {
        return;
    }
    rail->markers -= peer->recover.marker_out;
    peer->recover.marker_out = 0;
    if (peer->recover.state == VRB_RECOVER_MARKED) {
        peer->recover.state = VRB_RECOVER_QUIET;
        peer->recover.quiet_at = vrb_clock_ns();
    }
}

static uint8_t *packet(const struct vrb_buf *buf)
{
    return buf->payload - VRB_HDR_SIZE;
}

static uint32_t packet_seq(const struct vrb_buf *buf)
{
    return vrb_get32(packet(buf) + 4);
}

/* Puts a buffer in its place among those kept. They come back in order, but where a replay was cut
 * short later ones are here already. */
static void insert(struct vrb_recover *r, struct vrb_buf *buf)
{
    struct vrb_buf **at = &r->kept;

    while (*at != NULL && (int32_t)(packet_seq(*at) - packet_seq(buf)) < 0) {
        at = &(*at)->next;
    }
    buf->next = *at;
    *at = buf;
}

void vrb_recover_keep(struct vrb_peer *peer, struct vrb_buf *buf)
{
    if ((packet(buf)[0] & 15) == VRB_KIND_CREDIT) {
        vrb_path_message_done(buf, VRB_ERR_PEER); /* the handshake tells them */
        return;
    }
    insert(&peer->recover, buf);
}

int vrb_recover_keep_rdma(struct vrb_peer *peer, struct vrb_rdma *rdma)
{
    struct vrb_recover *r = &peer->recover;

    if (rdma->op != VRB_RDMA_PUT && rdma->op != VRB_RDMA_GET) {
        vrb_path_fail_in_words(peer, VRB_ERR_PEER, "an atomic operation",
                               "the connection broke while it was under way, so it may or may not "
                               "have been carried out, and must not be repeated");
        return 0;
    }
    vrb_rc_rdma_uncount(peer->rail, rdma);
    rdma->next = NULL;
    *r->rdma_tail = rdma;
    r->rdma_tail = &rdma->next;
    return 1;
}

/* Operations to be posted again go before those that never were. */
static void requeue_rdma(struct vrb_peer *peer)
{
    struct vrb_recover *r = &peer->recover;

    if (r->rdma == NULL) {
        return;
    }
    *r->rdma_tail = peer->r_head;
    if (peer->r_head == NULL) {
        peer->r_tail = r->rdma_tail;
    }
    peer->r_head = r->rdma;
    r->rdma = NULL;
    r->rdma_tail = &r->rdma;
}

/* True if the receives of the QP's own queue are back. */
static int receives_are_back(const struct vrb_peer *peer, uint64_t now)
{
    return peer->rail->srq != NULL ||
           peer->recover.rx_flushed + peer->rx_free_n >= peer->rx_posted ||
           now - peer->recover.quiet_at > FLUSH_NS;
}

/* Ends the old QP and all that counted for it. */
static void retire(struct vrb_peer *peer)
{
    vrb_rc_qp_destroy(peer);
    peer->flushing = 0;
    peer->refused_since = 0;
    vrb_credit_restart_rx(&peer->credit, peer->rx_seq);
    requeue_rdma(peer);
}

static void renew(struct vrb_peer *peer, uint64_t now)
{
    struct vrb_recover *r = &peer->recover;
    struct vrb_hello local;
    char detail[256];

    if (peer->qp != NULL) {
        retire(peer);
    }
    if (vrb_rc_qp_create(peer, detail, sizeof(detail)) != VRB_OK) {
        vrb_log(VRB_LOG_INFO, "host %s: %s: trying again", peer->host, detail);
        vrb_rc_qp_destroy(peer);
        r->state = VRB_RECOVER_NO_QP;
        r->renew_at = now + RETRY_NS;
        return;
    }
    r->state = VRB_RECOVER_NONE;
    r->renew_at = now + RETRY_NS; /* of a peer that keeps asking */
    vrb_pmtu_begin(&peer->pmtu);
    vrb_peer_local_hello(peer, &local);
    vrb_peer_wireup(peer, vrb_wireup_resume(&peer->wireup, now, &local));
}

void vrb_recover_step(struct vrb_peer *peer, uint64_t now, int idle)
{
    struct vrb_recover *r = &peer->recover;

    if (r->state == VRB_RECOVER_UNMARKED) {
        post_marker(peer);
    }
    if (now < r->renew_at) {
        return;
    }
    if (r->state == VRB_RECOVER_NO_QP ||
        (r->state == VRB_RECOVER_QUIET && (idle || now - r->quiet_at > QUIET_NS) &&
         peer->owned == 0 && receives_are_back(peer, now))) {
        renew(peer, now);
    }
}

int vrb_recover_rewind(struct vrb_peer *peer)
{
    const struct vrb_hello *remote = &peer->wireup.remote;
    struct vrb_recover *r = &peer->recover;

    if (vrb_replay_begin(&peer->replay, peer->tx_seq, remote->rx_seq) != VRB_OK) {
        return VRB_ERR_MALFORMED;
    }
    while (r->kept != NULL && (int32_t)(packet_seq(r->kept) - remote->rx_seq) < 0) {
        struct vrb_buf *buf = r->kept;

        r->kept = buf->next;
        if (buf->done == NULL) {
            vrb_path_message_done(buf, VRB_OK);
        } else {
            vrb_path_done_later(peer->rail, buf);
        }
    }
    vrb_credit_restart_tx(&peer->credit, remote->rx_seq, remote->grant);
    peer->burst_end = peer->credit.tx_next;
    return VRB_OK;
}

int vrb_recover_replay(struct vrb_peer *peer)
{
    struct vrb_recover *r = &peer->recover;
    struct vrb_replay *again = &peer->replay;

    while (vrb_replay_pending(again) && !peer->failed && vrb_rc_may_send(peer)) {
        struct vrb_buf *buf = r->kept;
        uint8_t *pkt;
        uint32_t len;
        int rc;

        if (buf != NULL && packet_seq(buf) == again->next) {
            pkt = packet(buf);
            len = VRB_HDR_SIZE + buf->len;
            r->kept = buf->next;
        } else {
            buf = NULL;
            pkt = vrb_replay_find(again, again->next, &len);
            if (pkt == NULL) { /* our own books are wrong: never go on with a gap */
                vrb_path_fail_in_words(peer, VRB_ERR_PEER, "connecting again",
                                       "a packet that the peer has not received is not kept here");
                return 0;
            }
        }
        rc = vrb_rc_send_again(peer, buf, pkt, len);
        if (rc == VRB_ERR_AGAIN && buf != NULL) {
            insert(r, buf);
        }
        if (rc != VRB_OK) {
            return 0;
        }
        peer->refused_since = 0;
        again->next++;
        peer->rail->stats.replayed++;
    }
    return !peer->failed && !vrb_replay_pending(again);
}

void vrb_recover_abandon(struct vrb_peer *peer, int status)
{
    struct vrb_recover *r = &peer->recover;

    r->state = VRB_RECOVER_NONE;
    while (r->kept != NULL) {
        struct vrb_buf *buf = r->kept;

        r->kept = buf->next;
        vrb_path_message_done(buf, status);
    }
    requeue_rdma(peer); /* and so they end with those that wait */
}
