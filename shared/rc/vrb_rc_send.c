/* Messages out over RC: inline or from a registered buffer, in chains, and credit packets.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The caller (peer/vrb_path.c) decides when: a message leaves if the receiver has granted a credit
 * and the queues have room. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer/vrb_path.h"
#include "rc/vrb_rc_inline.h"

/* A provider that refuses for so long, while we try again all the time, is broken. */
#define REFUSED_MAX_NS (10 * VRB_NS_PER_S)

void vrb_rc_post_failed(struct vrb_peer *peer, int err, const char *what)
{
    struct vrb_failure f;

    vrb_failure_init(&f, what);
    f.detail = strerror(err);
    vrb_peer_fail(peer, VRB_ERR_PEER, &f);
}

void vrb_rc_retry_later(struct vrb_peer *peer, int err, const char *what)
{
    struct vrb_rail *rail = peer->rail;
    uint64_t now = vrb_clock_ns();

    if (peer->failed) {
        return;
    }
    if (peer->refused_since == 0) {
        peer->refused_since = now;
    } else if (now - peer->refused_since > REFUSED_MAX_NS) {
        vrb_rc_post_failed(peer, err, what);
        return;
    }
    peer->fast = 0;
    rail->refused = 1;
    vrb_due(rail);
    if (!vrb_list_linked(&peer->stall_link)) {
        vrb_list_append(&rail->stalled, &peer->stall_link);
    }
}

/* Some providers return a negative errno. VRB_ERR_AGAIN: refused for now. */
static int post(struct vrb_peer *peer, struct ibv_send_wr *wr, const char *what)
{
    struct ibv_send_wr *bad;
    int err = ibv_post_send(peer->qp, wr, &bad);

    if (__builtin_expect(err != 0, 0)) {
        if (vrb_is_refusal(abs(err))) {
            return VRB_ERR_AGAIN;
        }
        vrb_rc_post_failed(peer, abs(err), what);
        return VRB_ERR_PEER;
    }
    return VRB_OK;
}

/* Undoes vrb_rc_number for a packet that was not posted, the latest first. told: credit.rx_told
 * before. */
static void unput_header(struct vrb_peer *peer, uint16_t told, uint32_t len)
{
    peer->tx_seq--;
    peer->credit.tx_next--;
    peer->credit.rx_told = told;
    peer->rail->stats.tx_packets--;
    peer->rail->stats.tx_bytes -= len;
}

int vrb_rc_inline_refused(struct vrb_peer *peer, int err, uint32_t payload, uint16_t told,
                          uint16_t slots)
{
    err = abs(err); /* some providers return it negative */
    if (!vrb_is_refusal(err)) {
        vrb_rc_post_failed(peer, err, "sending");
        return VRB_ERR_PEER;
    }
    vrb_rc_return_slot(peer, peer->rail->tx.wr.send_flags, slots);
    unput_header(peer, told, payload);
    peer->rail->stats.tx_inline--;
    return VRB_ERR_AGAIN;
}

/* Buffers that leave with one call, hence one doorbell. */
#define SEND_CHAIN 16

struct chain {
    unsigned n;
    uint16_t told; /* credit.rx_told before the first packet */
    struct vrb_buf *buf[SEND_CHAIN];
    struct ibv_sge sge[SEND_CHAIN];
    struct ibv_send_wr wr[SEND_CHAIN];
};

/* The buffer goes back to its owner at once, so the packet is kept beside it. */
static void keep_inline(struct vrb_peer *peer, const uint8_t *pkt, uint32_t len)
{
    if (vrb_replay_keeps(&peer->replay)) {
        uint8_t *place = vrb_replay_place(&peer->replay, peer->tx_seq - 1);

        memcpy(place, pkt, len);
        vrb_replay_set_len(place, len);
    }
}

/* Adds a buffer to a chain: numbers it and takes its credit and slot. The caller has checked that
 * it may. */
static void chain_add(struct vrb_peer *peer, struct chain *c, struct vrb_buf *buf)
{
    struct vrb_rail *rail = peer->rail;
    uint8_t *pkt = buf->payload - VRB_HDR_SIZE;
    uint32_t len = VRB_HDR_SIZE + buf->len;
    struct ibv_send_wr *wr = &c->wr[c->n];

    if (c->n == 0) {
        c->told = peer->credit.rx_told;
    }
    vrb_rc_number(peer, pkt, buf->kind, buf->tag);
    vrb_rc_count_tx(rail, buf->len);
    buf->peer = peer;
    c->buf[c->n] = buf;
    c->sge[c->n] = (struct ibv_sge){.addr = (uintptr_t)pkt, .length = len, .lkey = buf->lkey};
    *wr = (struct ibv_send_wr){.sg_list = &c->sge[c->n], .num_sge = 1, .opcode = IBV_WR_SEND};
    if (len <= rail->inline_max) {
        wr->wr_id = vrb_wr_id(peer, VRB_WR_INLINE);
        wr->send_flags = IBV_SEND_INLINE;
        keep_inline(peer, pkt, len);
        buf->retire = vrb_rc_take_slot(peer, 0, &wr->send_flags);
        rail->stats.tx_inline++;
    } else {
        wr->wr_id = vrb_wr_id(buf, VRB_WR_SEND);
        buf->retire = vrb_rc_take_slot(peer, 1, &wr->send_flags);
        peer->owned++;
    }
    if (c->n > 0) {
        c->wr[c->n - 1].next = wr;
    }
    c->n++;
}

/* The provider refused the packets from number `first` on: they go back to where they came from. */
static void chain_unpost(struct vrb_peer *peer, struct chain *c, unsigned first, int err)
{
    struct vrb_rail *rail = peer->rail;

    for (unsigned i = c->n; i-- > first;) {
        struct vrb_buf *buf = c->buf[i];
        int is_inline = (c->wr[i].send_flags & IBV_SEND_INLINE) != 0;

        vrb_rc_return_slot(peer, c->wr[i].send_flags, buf->retire);
        unput_header(peer, first == 0 ? c->told : peer->credit.rx_told, buf->len);
        rail->stats.tx_inline -= (uint64_t)is_inline;
        peer->owned -= !is_inline;
        peer->q_copies += buf->done == NULL;
        buf->next = peer->q_head;
        peer->q_head = buf;
        if (buf->next == NULL) {
            peer->q_tail = &buf->next;
        }
    }
    vrb_rc_retry_later(peer, err, "sending");
}

/* Returns 1 if everything was taken. */
static int chain_post(struct vrb_peer *peer, struct chain *c)
{
    struct ibv_send_wr *bad = NULL;
    int err = abs(ibv_post_send(peer->qp, c->wr, &bad));
    unsigned posted = c->n, settled = c->n;

    if (__builtin_expect(err != 0, 0)) {
        posted = bad == NULL ? 0 : (unsigned)(bad - c->wr);
        if (vrb_is_refusal(err)) {
            settled = posted;
        } else {
            vrb_rc_post_failed(peer, err, "sending");
        }
    }
    for (unsigned i = 0; i < settled; i++) {
        int is_inline = (c->wr[i].send_flags & IBV_SEND_INLINE) != 0;

        if (i >= posted) { /* it will have no completion */
            if (!is_inline) {
                vrb_rc_lost_slot(peer);
            }
            vrb_path_message_done(c->buf[i], VRB_ERR_PEER);
        } else if (is_inline) {
            vrb_path_copied(peer->rail, c->buf[i]);
        }
    }
    if (__builtin_expect(settled < c->n, 0)) {
        chain_unpost(peer, c, settled, err);
    }
    return err == 0;
}

void vrb_rc_send_buf(struct vrb_peer *peer, struct vrb_buf *buf)
{
    struct chain c;

    c.n = 0;
    chain_add(peer, &c, buf);
    (void)chain_post(peer, &c);
}

void vrb_rc_drain(struct vrb_peer *peer)
{
    struct chain c;

    if (vrb_replay_pending(&peer->replay) && !vrb_recover_replay(peer)) {
        return;
    }
    do {
        c.n = 0;
        while (c.n < SEND_CHAIN && !peer->failed && peer->q_head != NULL && vrb_rc_may_send(peer)) {
            chain_add(peer, &c, vrb_path_next_message(peer));
        }
        if (c.n > 0) {
            if (!chain_post(peer, &c)) {
                return; /* comes back from progress, or never */
            }
            peer->refused_since = 0;
        }
    } while (c.n == SEND_CHAIN);
    if (peer->r_head != NULL) {
        vrb_rc_rdma_drain(peer);
    }
}

int vrb_rc_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                     const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_buf *buf;

    if (hdr_len + data_len > rail->big.capacity || !vrb_rc_copies_may_take(&rail->big) ||
        (buf = vrb_pool_get(&rail->big)) == NULL) {
        return VRB_ERR_AGAIN;
    }
    buf->done = NULL;
    buf->tag = tag;
    buf->kind = VRB_KIND_DATA;
    buf->len = hdr_len + data_len;
    memcpy(buf->payload, hdr, hdr_len);
    if (data_len > 0) {
        memcpy(buf->payload + hdr_len, data, data_len);
    }
    vrb_rc_send_buf(peer, buf);
    return VRB_OK;
}

int vrb_rc_send_again(struct vrb_peer *peer, struct vrb_buf *buf, uint8_t *pkt, uint32_t len)
{
    uint16_t told = peer->credit.rx_told, n;
    struct ibv_sge sge = {.addr = (uintptr_t)pkt, .length = len};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    int err;

    vrb_put16(pkt + 2, vrb_credit_tell(&peer->credit));
    if (buf == NULL) {
        wr.wr_id = vrb_wr_id(peer, VRB_WR_INLINE);
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        wr.wr_id = vrb_wr_id(buf, VRB_WR_SEND);
        sge.lkey = buf->lkey;
        peer->owned++;
    }
    n = vrb_rc_take_slot(peer, buf != NULL, &wr.send_flags);
    if (buf != NULL) {
        buf->retire = n;
    }
    err = abs(ibv_post_send(peer->qp, &wr, &bad));
    if (err == 0) {
        vrb_credit_sent(&peer->credit);
        return VRB_OK;
    }
    if (vrb_is_refusal(err)) {
        vrb_rc_return_slot(peer, wr.send_flags, n);
        peer->owned -= buf != NULL;
        peer->credit.rx_told = told;
        vrb_rc_retry_later(peer, err, "sending again");
        if (!peer->failed) {
            return VRB_ERR_AGAIN;
        }
    } else {
        vrb_rc_post_failed(peer, err, "sending again");
        if (buf != NULL) {
            vrb_rc_lost_slot(peer);
        }
    }
    if (buf != NULL) {
        vrb_path_message_done(buf, VRB_ERR_PEER);
    }
    return VRB_ERR_PEER;
}

/* A packet that only tells credits. It needs a slot but no credit. */
static int post_credit(struct vrb_peer *peer, enum vrb_wr_kind kind)
{
    struct vrb_rail *rail = peer->rail;
    uint8_t pkt[VRB_HDR_SIZE];
    struct vrb_buf *buf = NULL;
    struct ibv_sge sge = {.addr = (uintptr_t)pkt, .length = VRB_HDR_SIZE};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
    uint16_t told = peer->credit.rx_told, n;
    uint8_t *hdr = pkt;
    int rc;

    if (rail->inline_max < VRB_HDR_SIZE) {
        buf = vrb_pool_get(&rail->small);
        if (buf == NULL) {
            return VRB_ERR_AGAIN;
        }
        buf->done = NULL;
        hdr = buf->payload - VRB_HDR_SIZE;
        sge.addr = (uintptr_t)hdr;
        sge.lkey = buf->lkey;
        wr.send_flags = 0;
    }
    vrb_hdr_put(hdr, VRB_KIND_CREDIT, peer->leaving ? VRB_TAG_LEAVING : 0,
                vrb_credit_tell(&peer->credit), peer->tx_seq);
    n = vrb_rc_take_slot(peer, buf != NULL || kind == VRB_WR_FLUSH, &wr.send_flags);
    if (buf != NULL) { /* its memory is read later: it belongs to the request */
        buf->retire = n;
        buf->peer = peer;
        peer->owned++;
        wr.wr_id = vrb_wr_id(buf, VRB_WR_SEND);
    } else {
        wr.wr_id = vrb_wr_id(peer, kind);
        if (kind == VRB_WR_FLUSH) {
            peer->flush_retire = n;
            peer->flushing = 1;
        }
    }
    rail->stats.credit_packets++;
    rc = post(peer, &wr, "telling credits");
    if (__builtin_expect(rc == VRB_OK, 1)) {
        return VRB_OK;
    }
    if (rc == VRB_ERR_AGAIN) {
        vrb_rc_return_slot(peer, wr.send_flags, n);
        peer->credit.rx_told = told;
        peer->flushing = 0;
        rail->stats.credit_packets--;
    }
    if (buf != NULL && rc == VRB_ERR_AGAIN) {
        peer->owned--;
        vrb_pool_put(buf->pool, buf);
    } else if (buf != NULL) {
        vrb_rc_lost_slot(peer);
        vrb_path_message_done(buf, rc);
    }
    return rc;
}

/* An RDMA write of nothing: it takes no receive buffer and checks no rkey (IBTA 9.7.4.1.3), but the
 * responder must acknowledge it. */
void vrb_rc_probe(struct vrb_peer *peer)
{
    struct ibv_send_wr wr = {.wr_id = vrb_wr_id(peer, VRB_WR_FLUSH), .opcode = IBV_WR_RDMA_WRITE};
    uint16_t n;

    /* What is on its way already will tell as well. */
    if (!peer->up || peer->failed || peer->signalled > 0 || peer->flushing ||
        !vrb_rc_can_post(peer)) {
        return;
    }
    n = vrb_rc_take_slot(peer, 1, &wr.send_flags);
    peer->flush_retire = n;
    peer->flushing = 1;
    if (post(peer, &wr, "asking for a sign of life") == VRB_ERR_AGAIN) {
        vrb_rc_return_slot(peer, wr.send_flags, n);
        peer->flushing = 0;
    }
}

int vrb_rc_tell_credits(struct vrb_rail *rail)
{
    struct vrb_list again, *l;
    int n = 0;

    vrb_list_init(&again);
    while ((l = vrb_list_pop(&rail->credit_due)) != NULL) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, due_link);

        if (!peer->up || peer->failed || !vrb_credit_due(&peer->credit)) {
            continue; /* a message told them meanwhile */
        }
        if (!vrb_rc_can_post(peer)) {
            vrb_list_append(&again, l); /* a completion will wake it */
        } else if (post_credit(peer, VRB_WR_INLINE) == VRB_ERR_AGAIN) {
            vrb_list_append(&again, l);
            rail->refused = 1;
            vrb_due(rail);
        } else {
            n++;
        }
    }
    while ((l = vrb_list_pop(&again)) != NULL) {
        vrb_list_append(&rail->credit_due, l);
    }
    return n;
}

int vrb_rc_flush(struct vrb_peer *peer)
{
    if (vrb_replay_pending(&peer->replay)) {
        return 0;
    }
    if (!peer->up) {
        return !vrb_peer_is_recovering(peer);
    }
    if (peer->left) {
        return 1; /* it waits for nothing more, and may not be there to acknowledge it */
    }
    if ((peer->unsignalled > 0 || (peer->leaving && !peer->said_leaving)) && !peer->flushing &&
        vrb_rc_can_post(peer) && post_credit(peer, VRB_WR_FLUSH) == VRB_OK) {
        peer->said_leaving = peer->leaving;
    }
    return peer->failed ||
           (peer->unsignalled == 0 && peer->signalled == 0 && peer->said_leaving == peer->leaving);
}
