/* Messages in over RC: receive buffers (shared or per peer), validation, delivery, credits.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With an SRQ all peers share cfg.recv_buffers; the credits of many peers together may exceed them,
 * and then the HCA's RNR retry (set to "for ever") holds senders back. Without an SRQ each peer has
 * its window plus VRB_CREDIT_RESERVE buffers of its own, and a credit is given back when the buffer
 * is posted again, so RNR never happens. */
#include <errno.h>
#include <stdlib.h>

#include "peer/vrb_path.h"
#include "rc/vrb_rc.h"
#include "util/vrb_clock.h"
#include "wire/vrb_wire.h"

/* A provider that refuses for so long, while we try again all the time, is broken. */
#define REFUSED_MAX_NS (10 * VRB_NS_PER_S)

/* Posts the first `n` (<= VRB_RECV_BATCH) buffers of a list with one call. Returns how many were
 * taken; those leave the list. Fewer than n: *err says why. */
static unsigned post_chain(struct vrb_rail *rail, struct ibv_qp *qp, struct vrb_buf **list,
                           unsigned n, int *err)
{
    struct ibv_recv_wr wr[VRB_RECV_BATCH], *bad = NULL;
    struct ibv_sge sge[VRB_RECV_BATCH];
    struct vrb_buf *b = *list;
    unsigned i;

    for (i = 0; i < n; i++, b = b->next) {
        sge[i].addr = (uintptr_t)(b->payload - VRB_HDR_SIZE);
        sge[i].length = VRB_HDR_SIZE + b->capacity;
        sge[i].lkey = b->lkey;
        wr[i].wr_id = vrb_wr_id(b, VRB_WR_RECV);
        wr[i].sg_list = &sge[i];
        wr[i].num_sge = 1;
        wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
        b->refs = qp == NULL ? 0 : qp->qp_num; /* where it is posted: consumed_own */
    }
    *err = abs(qp == NULL ? ibv_post_srq_recv(rail->srq, wr, &bad) : ibv_post_recv(qp, wr, &bad));
    if (*err != 0) {
        n = bad == NULL ? 0 : (unsigned)(bad - wr);
    }
    for (i = 0; i < n; i++) {
        *list = (*list)->next;
    }
    return n;
}

/* True while a queue that took no buffers may yet do so; *since is when it first refused. */
static int may_try_again(int err, uint64_t *since)
{
    uint64_t now = vrb_clock_ns();

    if (*since == 0) {
        *since = now;
    }
    return vrb_is_refusal(err) && now - *since <= REFUSED_MAX_NS;
}

/* Posts a list, a batch at a time, until it is empty or the queue takes no more. *n: its length.
 * Returns 0 or the errno of the refusal. */
static int post_list(struct vrb_rail *rail, struct ibv_qp *qp, struct vrb_buf **list, uint32_t *n)
{
    int err = 0;

    while (*n > 0 && err == 0) {
        *n -= post_chain(rail, qp, list, *n < VRB_RECV_BATCH ? *n : VRB_RECV_BATCH, &err);
    }
    return err;
}

/* Puts n buffers of the receive pool on an empty list. VRB_OK, or VRB_ERR_NOMEM with errno. */
static int take(struct vrb_rail *rail, struct vrb_buf **list, uint32_t n)
{
    while (n-- > 0) {
        struct vrb_buf *b = vrb_pool_get(&rail->rx);

        if (b == NULL) {
            while ((b = *list) != NULL) {
                *list = b->next;
                vrb_pool_put(&rail->rx, b);
            }
            errno = ENOMEM;
            return VRB_ERR_NOMEM;
        }
        b->next = *list;
        *list = b;
    }
    return VRB_OK;
}

int vrb_rc_recv_init(struct vrb_rail *rail)
{
    uint32_t n = rail->cfg.recv_buffers;
    int err;

    rail->rx_batch = n / 4 < VRB_RECV_BATCH ? n / 4 + 1 : VRB_RECV_BATCH;
    if (rail->srq == NULL) {
        return VRB_OK;
    }
    if (take(rail, &rail->rx_free, n) != VRB_OK) {
        return VRB_ERR_NOMEM;
    }
    rail->rx_free_n = n;
    err = post_list(rail, NULL, &rail->rx_free, &rail->rx_free_n);
    if (err == 0) {
        return VRB_OK;
    }
    if (may_try_again(err, &rail->rx_refused_since)) { /* vrb_rc_repost_shared does */
        return VRB_OK;
    }
    errno = err;
    return VRB_ERR_DEVICE;
}

/* Comes back to a peer whose queue takes no receives for now. */
static void repost_later(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;

    rail->refused = 1;
    vrb_due(rail);
    if (!vrb_list_linked(&peer->stall_link)) {
        vrb_list_append(&rail->stalled, &peer->stall_link);
    }
}

int vrb_rc_recv_attach(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    uint32_t n = rail->cfg.credits + VRB_CREDIT_RESERVE;
    int err;

    if (rail->srq != NULL) {
        return VRB_OK;
    }
    if (rail->cq_room <= (int)n) { /* something must be left for sending */
        errno = ENOSPC;
        return VRB_ERR_NOMEM;
    }
    rail->cq_room -= (int)n;
    peer->cq_reserved = n;
    if (take(rail, &peer->rx_free, n) != VRB_OK) {
        return VRB_ERR_NOMEM;
    }
    peer->rx_posted = peer->rx_free_n = n;
    err = post_list(rail, peer->qp, &peer->rx_free, &peer->rx_free_n);
    /* The handshake grants the whole window: posting the rest of it later gives no credit. Until
     * then the HCA's RNR retry holds the peer back. */
    peer->rx_control = peer->rx_free_n;
    if (err != 0 && !may_try_again(err, &peer->rx_refused_since)) {
        errno = err;
        return VRB_ERR_DEVICE;
    }
    if (err != 0) {
        repost_later(peer);
    }
    return VRB_OK;
}

void vrb_rc_recv_detach(struct vrb_peer *peer)
{
    while (peer->rx_free != NULL) {
        struct vrb_buf *buf = peer->rx_free;

        peer->rx_free = buf->next;
        vrb_pool_put(buf->pool, buf);
    }
    peer->rx_free_n = peer->rx_control = peer->rx_posted = 0;
    peer->rx_refused_since = 0;
}

/* What the HCA refuses is offered again by the next progress. */
void vrb_rc_repost_shared(struct vrb_rail *rail)
{
    int err = 0;

    while (rail->rx_free_n >= rail->rx_batch && err == 0) {
        rail->rx_free_n -= post_chain(rail, NULL, &rail->rx_free, rail->rx_batch, &err);
    }
    if (err == 0) {
        rail->rx_refused_since = 0;
    } else if (rail->failed || rail->closing || may_try_again(err, &rail->rx_refused_since)) {
        rail->refused = 1;
    } else {
        vrb_rail_fail(rail, "posting to the shared receive queue failed", err);
    }
}

static void repost_own(struct vrb_peer *peer)
{
    uint32_t n = peer->rx_free_n;
    int err;

    if (peer->failed || peer->recover.state != VRB_RECOVER_NONE) {
        return;
    }
    err = post_list(peer->rail, peer->qp, &peer->rx_free, &peer->rx_free_n);
    n -= peer->rx_free_n;
    while (n-- > 0) {
        if (peer->rx_control > 0) {
            peer->rx_control--;
        } else {
            vrb_credit_consumed(&peer->credit);
        }
    }
    if (err == 0) {
        peer->rx_refused_since = 0;
    } else if (may_try_again(err, &peer->rx_refused_since)) {
        repost_later(peer);
    } else {
        vrb_rc_post_failed(peer, err, "posting receives");
    }
}

static inline void tell_when_due(struct vrb_peer *peer)
{
    if (__builtin_expect(vrb_credit_due(&peer->credit), 0) && !vrb_list_linked(&peer->due_link)) {
        vrb_list_append(&peer->rail->credit_due, &peer->due_link);
        vrb_due(peer->rail);
    }
}

/* The same without an SRQ: the buffer goes back to its peer's queue, and the credit with it. */
static __attribute__((noinline)) void consumed_own(struct vrb_peer *peer, struct vrb_buf *buf,
                                                   int control)
{
    if (peer->qp == NULL || peer->qp->qp_num != buf->refs) {
        vrb_pool_put(buf->pool, buf); /* the QP was replaced while the message was being read */
        return;
    }
    buf->next = peer->rx_free;
    peer->rx_free = buf;
    peer->rx_free_n++;
    peer->rx_control += (uint32_t)control;
    if (peer->rx_free_n >= peer->rx_batch) {
        repost_own(peer);
    }
}

void vrb_rc_repost_peer(struct vrb_peer *peer)
{
    if (peer->rx_refused_since != 0 && !peer->failed) {
        repost_own(peer);
        if (!peer->failed) {
            tell_when_due(peer);
        }
    }
}

/* One packet's buffer has been read. With an SRQ its credit was given back before (vrb_rc_recv). */
static inline void consumed(struct vrb_rail *rail, struct vrb_peer *peer, struct vrb_buf *buf,
                            int control)
{
    if (rail->srq != NULL) {
        buf->next = rail->rx_free;
        rail->rx_free = buf;
        rail->rx_free_n++;
    } else {
        consumed_own(peer, buf, control);
    }
    tell_when_due(peer);
}

static void malformed(struct vrb_peer *peer, const char *what)
{
    struct vrb_failure f;

    peer->rail->stats.rx_malformed++;
    vrb_failure_init(&f, "receiving");
    f.detail = what;
    vrb_peer_fail(peer, VRB_ERR_MALFORMED, &f);
}

static void deliver_records(struct vrb_rail *rail, struct vrb_peer *peer, uint8_t *payload,
                            size_t len)
{
    struct vrb_record rec;
    size_t off = 0;
    int rc;

    while ((rc = vrb_record_next(payload, len, &off, &rec)) == 1) {
        vrb_call_begin(rail);
        rail->cb.recv(rail->cb.ctx, peer, rec.tag, payload + (rec.data - payload), rec.len);
        vrb_call_end(rail);
    }
    if (rc < 0) {
        malformed(peer, "a packet of joined messages does not add up");
    }
}

/* By QPN and not by what the buffer says: a completion may outlive its peer. */
static inline struct vrb_peer *packet_peer(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    if (__builtin_expect(wc->qp_num != rail->last_qpn, 0)) {
        rail->last_peer = vrb_map_get(&rail->by_qpn, wc->qp_num);
        rail->last_qpn = wc->qp_num;
    }
    return rail->last_peer;
}

/* A grant that differs from the last one. */
static __attribute__((noinline)) void granted(struct vrb_peer *peer, uint16_t grant)
{
    if (vrb_credit_granted(&peer->credit, grant)) {
        vrb_path_wake(peer);
    }
}

/* What is not plain data, and what is wrong. */
static __attribute__((noinline)) void recv_other(struct vrb_rail *rail, struct vrb_peer *peer,
                                                 struct vrb_buf *buf, uint32_t len)
{
    struct vrb_hdr h;

    if (vrb_hdr_get(buf->payload - VRB_HDR_SIZE, len, &h) != VRB_OK ||
        (h.kind != VRB_KIND_CREDIT && h.seq != peer->rx_seq)) {
        malformed(peer, "a packet with a wrong header or out of sequence");
        vrb_rc_recv_flushed(rail, buf);
        return;
    }
    granted(peer, h.grant);
    if (h.kind == VRB_KIND_CREDIT) {
        peer->left |= h.tag == VRB_TAG_LEAVING;
        consumed(rail, peer, buf, 1);
        return;
    }
    peer->rx_seq++;
    if (rail->srq != NULL) {
        vrb_credit_consumed(&peer->credit);
    }
    rail->stats.rx_packets++;
    rail->stats.rx_bytes += len - VRB_HDR_SIZE;
    deliver_records(rail, peer, buf->payload, len - VRB_HDR_SIZE);
    if (peer->failed) {
        vrb_rc_recv_flushed(rail, buf);
    } else {
        consumed(rail, peer, buf, 0);
    }
}

void vrb_rc_recv(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    struct vrb_buf *buf = vrb_wr_owner(wc->wr_id);
    struct vrb_peer *peer = packet_peer(rail, wc);
    const uint8_t *pkt = buf->payload - VRB_HDR_SIZE;
    uint32_t len = wc->byte_len;
    uint16_t grant;

    if (__builtin_expect(peer == NULL || peer->failed, 0)) {
        vrb_rc_recv_flushed(rail, buf);
        return;
    }
    if (__builtin_expect(!peer->up, 0)) {
        vrb_peer_wireup(peer, vrb_wireup_on_data(&peer->wireup, vrb_clock_ns()));
    }
    if (__builtin_expect(!vrb_hdr_is_data(pkt, len, peer->rx_seq), 0)) {
        recv_other(rail, peer, buf, len);
        return;
    }
    len -= VRB_HDR_SIZE;
    grant = vrb_get16(pkt + 2);
    if (grant != peer->credit.tx_limit) {
        granted(peer, grant);
    }
    peer->rx_seq++;
    if (rail->srq != NULL) {
        vrb_credit_consumed(&peer->credit);
    }
    rail->stats.rx_packets++;
    rail->stats.rx_bytes += len;
    vrb_call_begin(rail);
    rail->cb.recv(rail->cb.ctx, peer, pkt[1], buf->payload, len);
    vrb_call_end(rail);
    if (__builtin_expect(peer->failed, 0)) {
        vrb_rc_recv_flushed(rail, buf);
    } else {
        consumed(rail, peer, buf, 0);
    }
}

void vrb_rc_recv_flushed(struct vrb_rail *rail, struct vrb_buf *buf)
{
    if (rail->srq == NULL) {
        vrb_pool_put(&rail->rx, buf);
    } else {
        buf->next = rail->rx_free;
        rail->rx_free = buf;
        rail->rx_free_n++;
    }
}
