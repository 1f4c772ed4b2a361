/* The queue of a peer, its messages' way in, and the choice of their path out (see vrb_path.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_path.h"

#include <string.h>

#include "dgram/vrb_dgram.h"
#include "rc/vrb_rc_inline.h"
#include "util/vrb_probe.h"

/* Datagrams are all there is, now and later. */
static int only_datagrams(const struct vrb_peer *peer)
{
    return peer->rail->cfg.mode == VRB_MODE_UD || peer->rc_refused;
}

void vrb_path_enqueue(struct vrb_peer *peer, struct vrb_buf *buf)
{
    buf->next = NULL;
    buf->peer = peer;
    *peer->q_tail = buf;
    peer->q_tail = &buf->next;
    peer->fast = 0;
    if (peer->up) {
        if (vrb_credit_room(&peer->credit) == 0) {
            peer->rail->stats.credit_stalls++;
            VRB_PROBE2(credit_stall, peer->rank, buf->len);
        } else if (!vrb_rc_can_post(peer)) {
            peer->rail->stats.sq_stalls++;
            VRB_PROBE2(queue_stall, peer->rank, buf->len);
        }
    }
}

struct vrb_buf *vrb_path_next_message(struct vrb_peer *peer)
{
    struct vrb_buf *buf = peer->q_head;

    if (buf == NULL) {
        return NULL;
    }
    peer->q_head = buf->next;
    if (peer->q_head == NULL) {
        peer->q_tail = &peer->q_head;
    }
    if (buf == peer->q_open) {
        peer->q_open = NULL;
    }
    if (buf->done == NULL) {
        peer->q_copies--;
    }
    return buf;
}

/* Takes the first operation off the queue. */
static struct vrb_rdma *next_rdma(struct vrb_peer *peer)
{
    struct vrb_rdma *rdma = peer->r_head;

    peer->r_head = rdma->next;
    if (peer->r_head == NULL) {
        peer->r_tail = &peer->r_head;
    }
    return rdma;
}

void vrb_path_decline_reads(struct vrb_peer *peer)
{
    /* The caller is told at once and asks for something else, which comes back here. */
    if (peer->declining) {
        return;
    }
    peer->declining = 1;
    while (only_datagrams(peer) && peer->r_head != NULL && peer->r_head->op != VRB_RDMA_PUT) {
        vrb_path_rdma_done(peer->rail, next_rdma(peer), VRB_ERR_NOTSUP);
    }
    peer->declining = 0;
}

struct vrb_rdma *vrb_path_next_put(struct vrb_peer *peer)
{
    if (!only_datagrams(peer) || peer->r_head == NULL || peer->r_head->op != VRB_RDMA_PUT) {
        return NULL;
    }
    return next_rdma(peer);
}

void vrb_path_arrange_wakeup(struct vrb_peer *peer)
{
    if (peer->up) {
        if (peer->rail->cq_room <= peer->rail->doubt_reads && !vrb_list_linked(&peer->stall_link)) {
            vrb_list_append(&peer->rail->stalled, &peer->stall_link);
            vrb_due(peer->rail);
        }
    } else if (!vrb_path_has_datagrams(peer)) {
        vrb_peer_start(peer);
    } else {
        vrb_path_promote(peer);
    }
}

void vrb_path_drain(struct vrb_peer *peer)
{
    if (peer->failed) {
        return;
    }
    if (!peer->up) {
        if (vrb_path_has_datagrams(peer)) {
            vrb_dgram_drain(peer);
        }
        return;
    }
    peer->holding = 0;
    vrb_rc_drain(peer);
    if (peer->failed) {
        return;
    }
    if (peer->q_head == NULL && peer->r_head == NULL && !vrb_replay_pending(&peer->replay)) {
        peer->fast = 1;
    } else {
        vrb_path_arrange_wakeup(peer);
    }
}

void vrb_path_promote(struct vrb_peer *peer)
{
    const struct vrb_rail *rail = peer->rail;

    if (rail->cfg.mode != VRB_MODE_AUTO || peer->up || peer->failed || peer->rc_refused ||
        peer->qp != NULL || rail->closing || vrb_peer_is_recovering(peer)) {
        return;
    }
    if (peer->r_head == NULL &&
        (peer->dgram == NULL || peer->dgram->messages < rail->cfg.promote_after)) {
        return;
    }
    if (rail->rc_count >= rail->cfg.max_rc && !peer->must) {
        if (peer->r_head != NULL) {
            vrb_path_refuse_rc(peer, "max_rc connections exist already");
        }
        return;
    }
    vrb_peer_start(peer);
}

int vrb_path_refuse_rc(struct vrb_peer *peer, const char *why)
{
    /* Packets of a connection that broke may be missing. */
    if (!vrb_path_has_datagrams(peer) || peer->up || peer->failed || peer->broken) {
        return 0;
    }
    if (!peer->rc_refused) {
        vrb_log(VRB_LOG_INFO, "host %s: no RC connection (%s): stays on datagrams", peer->host,
                why);
    }
    peer->rc_refused = 1;
    vrb_list_remove(&peer->connecting_link);
    vrb_rc_qp_destroy(peer);
    vrb_dgram_drain(peer);
    return 1;
}

static void send_now_or_queue(struct vrb_peer *peer, struct vrb_buf *buf)
{
    peer->q_open = NULL;
    if (buf->done == NULL) {
        peer->q_copies++;
    }
    vrb_path_enqueue(peer, buf);
    vrb_path_arrange_wakeup(peer);
    if (peer->holding) {
        vrb_path_drain(peer);
    } else if (!peer->up && vrb_path_has_datagrams(peer)) {
        vrb_dgram_drain(peer);
    }
}

void vrb_send(struct vrb_peer *peer, struct vrb_buf *buf, uint8_t tag, uint32_t len)
{
    struct vrb_rail *rail = peer->rail;

    vrb_lock(rail);
    buf->tag = tag;
    buf->len = len;
    buf->kind = VRB_KIND_DATA;
    if (peer->fast && vrb_rc_may_send(peer)) {
        if (!vrb_path_may_hold(peer) || !vrb_path_hold_buf(peer, buf)) {
            vrb_rc_send_buf(peer, buf);
        }
    } else if (peer->holding && vrb_path_may_hold(peer) && vrb_path_hold_buf(peer, buf)) {
        /* it leaves when the run of completions ends */
    } else if (!peer->failed) {
        send_now_or_queue(peer, buf);
    } else if (buf->done == NULL) {
        vrb_pool_put(buf->pool, buf);
    } else {
        /* From progress, like every completion: the caller may hold its own locks. */
        buf->peer = NULL;
        vrb_path_done_later(rail, buf);
    }
    vrb_unlock(rail);
}

static inline int leaves_inline(const struct vrb_peer *peer, uint32_t len)
{
    return VRB_HDR_SIZE + len <= peer->rail->inline_max;
}

/* What send_copy_slow returns when nothing is in the way after all; no vrb_status is positive. */
#define LEAVES_NOW 1

static __attribute__((noinline)) int send_copy_slow(struct vrb_peer *peer, uint8_t tag,
                                                    const void *hdr, uint32_t hdr_len,
                                                    const void *data, uint32_t data_len)
{
    uint32_t len = hdr_len + data_len;

    if (peer->failed) {
        return VRB_ERR_PEER;
    }
    if (!peer->up && vrb_path_has_datagrams(peer)) {
        if (peer->q_head == NULL &&
            vrb_dgram_send_copy(peer, tag, hdr, hdr_len, data, data_len) == VRB_OK) {
            vrb_path_promote(peer);
            return VRB_OK;
        }
        if (vrb_path_queue_copy(peer, tag, hdr, hdr_len, data, data_len) != VRB_OK) {
            return VRB_ERR_AGAIN;
        }
        if (peer->q_head != NULL && peer->q_head->next == NULL && !peer->up) {
            vrb_dgram_drain(peer); /* it may be only too long for one packet */
        }
        return VRB_OK;
    }
    if (!peer->up) {
        return VRB_ERR_AGAIN;
    }
    if (peer->holding && (peer->burst_call != peer->rail->calls || !leaves_inline(peer, len))) {
        vrb_path_drain(peer);
        if (peer->failed) {
            return VRB_ERR_PEER;
        }
    }
    if (leaves_inline(peer, len) &&
        (peer->holding || (peer->fast && vrb_rc_may_send(peer) && !vrb_path_new_burst(peer))) &&
        vrb_path_hold(peer, tag, hdr, hdr_len, data, data_len) == VRB_OK) {
        return VRB_OK;
    }
    if (peer->fast && vrb_rc_may_send(peer)) {
        return LEAVES_NOW;
    }
    return vrb_path_queue_copy(peer, tag, hdr, hdr_len, data, data_len);
}

int vrb_may_copy(const struct vrb_peer *peer)
{
    return peer->up || vrb_path_has_datagrams(peer);
}

int vrb_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                  const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    int rc;

    vrb_lock(rail);
    if (__builtin_expect(!peer->fast || !vrb_path_in_burst(peer) || !vrb_rc_can_post(peer), 0)) {
        rc = send_copy_slow(peer, tag, hdr, hdr_len, data, data_len);
        if (rc != LEAVES_NOW) {
            goto out;
        }
    }
    if (__builtin_expect(leaves_inline(peer, hdr_len + data_len), 1)) {
        rc = vrb_rc_send_inline(peer, tag, hdr, hdr_len, data, data_len);
    } else {
        rc = vrb_rc_send_copy(peer, tag, hdr, hdr_len, data, data_len);
    }
out:
    vrb_unlock(rail);
    return rc;
}

/* From here on the peer has to be connected, whatever the cap said before. */
static void insist(struct vrb_peer *peer)
{
    peer->must = 1;
    peer->wireup.local.flags |= VRB_HELLO_MUST;
    if (peer->rail->cfg.mode != VRB_MODE_UD) {
        peer->rc_refused = 0;
    }
}

void vrb_rdma_post(struct vrb_peer *peer, struct vrb_rdma *rdma)
{
    struct vrb_rail *rail = peer->rail;

    vrb_lock(rail);
    rdma->peer = peer;
    rdma->next = NULL;
    if (__builtin_expect(rdma->must && !peer->must, 0)) {
        insist(peer);
    }
    if (peer->failed) {
        vrb_path_rdma_done(rail, rdma, VRB_ERR_PEER);
    } else if (rdma->size == 0) {
        vrb_path_rdma_done(rail, rdma, VRB_OK);
    } else if (peer->fast && vrb_rc_can_post_rdma(peer)) {
        (void)vrb_rc_rdma_send(peer, rdma);
    } else {
        *peer->r_tail = rdma;
        peer->r_tail = &rdma->next;
        peer->fast = 0;
        if (peer->up) {
            rail->stats.sq_stalls++;
        } else {
            vrb_path_arrange_wakeup(peer);
        }
        vrb_path_drain(peer);
    }
    vrb_unlock(rail);
}

void vrb_path_message_done(struct vrb_buf *buf, int status)
{
    struct vrb_rail *rail = buf->pool->rail;

    buf->peer = NULL;
    if (buf->done == NULL) {
        vrb_pool_put(buf->pool, buf);
    } else {
        vrb_call_begin(rail);
        buf->done(buf, status);
        vrb_call_end(rail);
    }
}

void vrb_path_rdma_done(struct vrb_rail *rail, struct vrb_rdma *rdma, int status)
{
    VRB_PROBE3(rdma_done, rdma, rdma->size, status);
    rdma->peer = NULL;
    vrb_rc_rdma_fetch(rdma);
    vrb_call_begin(rail);
    rdma->done(rdma, status);
    vrb_call_end(rail);
}

void vrb_path_done_later(struct vrb_rail *rail, struct vrb_buf *buf)
{
    buf->next = NULL;
    *rail->done_tail = buf;
    rail->done_tail = &buf->next;
    vrb_due(rail);
}

int vrb_path_run_done(struct vrb_rail *rail)
{
    int n = 0;

    /* A callback may send again and append to the list: it stays consistent at every step. */
    while (rail->done_head != NULL) {
        struct vrb_buf *buf = rail->done_head;
        int status = buf->peer == NULL ? VRB_ERR_PEER : VRB_OK;

        rail->done_head = buf->next;
        if (rail->done_head == NULL) {
            rail->done_tail = &rail->done_head;
        }
        vrb_path_message_done(buf, status);
        n++;
    }
    return n;
}

void vrb_path_abandon(struct vrb_peer *peer, int status)
{
    struct vrb_buf *buf;

    vrb_recover_abandon(peer, status);
    while ((buf = vrb_path_next_message(peer)) != NULL) {
        vrb_path_message_done(buf, status);
    }
    while (peer->r_head != NULL) {
        struct vrb_rdma *rdma = peer->r_head;

        peer->r_head = rdma->next;
        vrb_path_rdma_done(peer->rail, rdma, status);
    }
    peer->r_tail = &peer->r_head;
    vrb_dgram_abandon(peer, status);
}

int vrb_path_settled(struct vrb_peer *peer)
{
    int settled;

    if (peer->failed) {
        return 1;
    }
    settled = vrb_dgram_is_settled(peer);
    if (peer->q_head != NULL || peer->r_head != NULL) {
        return 0;
    }
    return vrb_rc_flush(peer) && settled;
}

void vrb_path_fail_in_words(struct vrb_peer *peer, int status, const char *what, const char *detail)
{
    struct vrb_failure f;

    vrb_failure_init(&f, what);
    f.detail = detail;
    vrb_peer_fail(peer, status, &f);
}
