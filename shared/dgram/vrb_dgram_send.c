/* Datagrams out: messages and puts into packets, transmission, retransmission, acknowledgements.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "peer/vrb_path.h"
#include "peer/vrb_peer_mtu.h"
#include "ud/vrb_ud.h"
#include "util/vrb_probe.h"
#include "wire/vrb_wire.h"

/* Packets that leave in one go before the receive side gets a turn again. */
#define BURST 64

/* Longer packets are tried this often, the second time after so long, then twice that. An answer
 * that comes late still counts. */
#define MTU_TRIES 3
#define MTU_FIRST_NS (4 * VRB_NS_PER_MS)

void vrb_dgram_introduce(struct vrb_peer *peer, uint8_t length, uint8_t heard, int ask)
{
    struct vrb_rail *rail = peer->rail;
    char detail[256];
    struct vrb_hello h = {
        .type = VRB_INTRO,
        .flags = ask ? VRB_HELLO_NEED : 0,
        .mtu = peer->path.mtu,
        .heard = heard,
        .src_rail = (uint8_t)rail->index,
        .dst_rail = (uint8_t)peer->remote_rail,
        .src_id = 1,
        .src_name = rail->cfg.name,
        .dst_name = peer->name,
    };

    /* Lost: told again with the next packet. */
    (void)vrb_ud_hello(peer, &h, length, detail, sizeof(detail));
}

static void introduce(struct vrb_dgram *d)
{
    d->introduced = 1;
    vrb_dgram_introduce(d->peer, 0, 0, 0);
}

/* Something longer than a packet is to leave, and longer packets may be possible: asks whether they
 * arrive. What leaves meanwhile is cut as short as before. */
static void try_longer(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_peer *peer = d->peer;
    uint8_t most = peer->pmtu.first;

    if (peer->sure_mtu >= most || now < d->mtu_next ||
        (d->mtu_tries > 0 && d->rel.tx.una <= d->mtu_mark)) {
        return; /* a peer that has not got what left later may still get it, and answer */
    }
    if (d->mtu_tries == MTU_TRIES) {
        d->mtu_next = UINT64_MAX;
        vrb_peer_mtu_narrow(peer, peer->sure_mtu);
        return;
    }
    d->mtu_next = now + (MTU_FIRST_NS << d->mtu_tries);
    d->mtu_tries++;
    d->mtu_mark = d->rel.tx.next_dseq;
    for (uint8_t mtu = most; mtu > peer->sure_mtu; mtu--) {
        vrb_dgram_introduce(peer, mtu, 0, 1);
    }
}

void vrb_dgram_flush_sends(struct vrb_dgram *d)
{
    introduce(d); /* handshake messages are signalled */
}

/* Waits for a slot, a packet or an address handle: progress pushes it again. */
static void stall(struct vrb_dgram *d)
{
    if (!vrb_list_linked(&d->stall_link)) {
        vrb_list_append(&d->peer->rail->dgram->stalled, &d->stall_link);
    }
}

static int has_slot(const struct vrb_rail *rail)
{
    return rail->ud->sq_room > rail->ud->reserve;
}

/* Puts a packet on the wire under the given numbers, its front written into `front` (the packet
 * itself, or another buffer while an earlier transmission may still be read from the packet).
 * Failing to is like losing it. */
static void transmit(struct vrb_dgram *d, struct vrb_buf *pkt, struct vrb_buf *front,
                     const struct vrb_rel_numbers *num, uint64_t now)
{
    struct vrb_peer *peer = d->peer;
    struct vrb_rail *rail = peer->rail;
    struct vrb_packet *p = vrb_packet(pkt);
    struct vrb_ud_ack ack, *with = NULL;
    struct ibv_sge sge[2];
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1};
    uint32_t size;
    char detail[256];
    int err, rc = vrb_ud_peer_ah(peer, detail, sizeof(detail));

    if (rc != VRB_OK) {
        if (rc != VRB_ERR_AGAIN) {
            vrb_path_fail_in_words(peer, rc, "sending", detail);
        }
        return;
    }
    if (!d->heard && (!d->introduced || (num->flags & VRB_UD_AGAIN))) {
        introduce(d);
    }
    p->hdr.pn = num->pn;
    p->hdr.dseq = num->dseq;
    p->hdr.flags = num->flags;
    if (vrb_rel_ack_useful(&d->rel)) {
        /* What the payload leaves free, and the word that VRB_DGRAM_FRONT counts. */
        uint32_t words = (d->payload - p->len) / 8 + 1;

        if (vrb_rel_build_ack(&d->rel, now, words < VRB_UD_ACK_WORDS ? words : VRB_UD_ACK_WORDS,
                              &ack)) {
            with = &ack;
        }
    }
    size = (uint32_t)vrb_ud_front_size(p->hdr.kind, with);
    vrb_ud_put(front->payload - size, &p->hdr, with);
    sge[0] = (struct ibv_sge){
        .addr = (uintptr_t)(front->payload - size), .length = size, .lkey = front->lkey};
    if (p->from == NULL && front == pkt) {
        sge[0].length += p->len;
    } else if (p->len > 0) {
        sge[1] = p->from != NULL ? (struct ibv_sge){(uintptr_t)p->from, p->len, p->lkey}
                                 : (struct ibv_sge){(uintptr_t)pkt->payload, p->len, pkt->lkey};
        wr.num_sge = 2;
    }
    if (size + p->len <= rail->ud->inline_max) {
        wr.send_flags = IBV_SEND_INLINE;
    }
    /* A retransmission asks for a completion, so that the memory of acknowledged packets that were
     * sent more than once is free soon. */
    err = vrb_ud_post(peer, &wr, (num->flags & VRB_UD_AGAIN) != 0);
    if (__builtin_expect(vrb_is_refusal(err), 0)) {
        return; /* like a datagram lost on the way: it is sent again */
    }
    if (err != 0) {
        vrb_path_fail_in_words(peer, VRB_ERR_DEVICE, "sending a datagram", strerror(err));
        return;
    }
    p->last_post = rail->ud->posted;
    if (p->posts < UINT16_MAX) {
        p->posts++;
    }
    rail->stats.ud_packets++;
}

/* Takes a packet buffer out of a pool and fills in what stays the same for each transmission. */
static struct vrb_buf *new_packet(struct vrb_dgram *d, struct vrb_pool *pool, uint8_t kind)
{
    struct vrb_buf *pkt = vrb_pool_get(pool);
    struct vrb_packet *p;

    if (pkt == NULL) {
        return NULL;
    }
    p = vrb_packet(pkt);
    memset(p, 0, sizeof(*p));
    p->dgram = d;
    p->last_post = d->peer->rail->ud->completed; /* never posted: nothing to wait for */
    p->hdr.kind = kind;
    p->hdr.rail = (uint8_t)d->peer->rail->index;
    p->hdr.src = (uint32_t)d->peer->rail->address.nonce;
    p->hdr.token = d->token_tx;
    return pkt;
}

struct vrb_buf *vrb_dgram_new_void(struct vrb_dgram *d)
{
    struct vrb_buf *pkt = new_packet(d, &d->peer->rail->dgram->part, VRB_UD_VOID);

    if (pkt != NULL) {
        vrb_packet(pkt)->shared = 1;
        vrb_packet(pkt)->hdr.tag = 1;
    }
    return pkt;
}

/* A new packet leaves. The caller has seen that the window has room. */
static void send_new(struct vrb_dgram *d, struct vrb_buf *pkt, uint64_t now)
{
    struct vrb_rel_numbers num;

    if (vrb_rel_send(&d->rel, pkt, now, &num) != VRB_OK) {
        vrb_dgram_release(d->peer->rail, pkt); /* cannot be: room was there */
        return;
    }
    transmit(d, pkt, pkt, &num, now);
}

static int may_send_new(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_rail *rail = d->peer->rail;

    if (vrb_rel_room(&d->rel, now) == 0) {
        return 0;
    }
    if (!has_slot(rail)) {
        stall(d);
        return 0;
    }
    return 1;
}

int vrb_dgram_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                        const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    uint64_t now = vrb_clock_ns();
    struct vrb_dgram *d = vrb_dgram_of(peer, now);
    struct vrb_packet *p;
    struct vrb_buf *pkt;

    if (d == NULL || hdr_len + data_len > d->payload || !may_send_new(d, now)) {
        return VRB_ERR_AGAIN;
    }
    pkt = new_packet(d, &rail->dgram->whole, VRB_UD_DATA);
    if (pkt == NULL) {
        return VRB_ERR_AGAIN;
    }
    p = vrb_packet(pkt);
    p->hdr.tag = tag;
    p->hdr.msg = d->next_msg++;
    p->len = hdr_len + data_len;
    memcpy(pkt->payload, hdr, hdr_len);
    if (data_len > 0) {
        memcpy(pkt->payload + hdr_len, data, data_len);
    }
    d->messages++;
    rail->stats.tx_packets++;
    rail->stats.tx_bytes += p->len;
    rail->stats.ud_messages++;
    rail->stats.ud_bytes += p->len;
    send_new(d, pkt, now);
    vrb_dgram_touch(d);
    return VRB_OK;
}

void vrb_dgram_probe(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_dgram *d = peer->dgram;
    uint64_t now = vrb_clock_ns();
    struct vrb_buf *pkt;

    if (d == NULL || rail->cfg.peer_timeout == 0 || peer->failed) {
        return;
    }
    /* What is on its way already will tell as well. */
    if (!d->arrived && vrb_rel_outstanding(&d->rel) == 0 && may_send_new(d, now)) {
        pkt = new_packet(d, &rail->dgram->part, VRB_UD_VOID);
        if (pkt != NULL) {
            send_new(d, pkt, now);
            vrb_dgram_touch(d);
        }
    }
    d->arrived = 0;
}

void vrb_dgram_moved(struct vrb_peer *peer)
{
    struct vrb_dgram *d = peer->dgram;
    uint64_t now = vrb_clock_ns();
    struct vrb_buf *pkt;

    d->heard = 0; /* each repeat of a packet is preceded by an INTRO until we hear again */
    introduce(d);
    if (vrb_rel_outstanding(&d->rel) == 0 && may_send_new(d, now)) {
        pkt = new_packet(d, &peer->rail->dgram->part, VRB_UD_VOID);
        if (pkt != NULL) {
            send_new(d, pkt, now);
        }
    }
    vrb_dgram_touch(d);
}

/* The next packet of the message that is being sent. Returns 0 when there is no packet buffer. */
static int send_message_part(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_rail *rail = d->peer->rail;
    struct vrb_buf *buf = d->cur;
    uint32_t left = buf->len - d->cur_offset;
    int whole = d->cur_offset == 0 && buf->len <= d->payload; /* which may grow meanwhile */
    struct vrb_buf *pkt = new_packet(d, &rail->dgram->part,
                                     !whole                            ? VRB_UD_SEGMENT
                                     : buf->kind == VRB_KIND_COALESCED ? VRB_UD_COALESCED
                                                                       : VRB_UD_DATA);
    struct vrb_packet *p;

    if (pkt == NULL) {
        return 0;
    }
    if (!whole) {
        try_longer(d, now);
    }
    p = vrb_packet(pkt);
    p->message = buf;
    p->from = buf->payload + d->cur_offset;
    p->lkey = buf->lkey;
    p->len = left < d->payload ? left : d->payload;
    p->hdr.tag = buf->tag;
    p->hdr.msg = d->cur_msg;
    p->hdr.msg_len = buf->len;
    p->hdr.offset = d->cur_offset;
    d->cur_offset += p->len;
    buf->refs++;
    if (d->cur_offset == buf->len) {
        d->cur = NULL;
        buf->refs--; /* the cutting's own */
    }
    send_new(d, pkt, now);
    return 1;
}

static int send_put_part(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_rdma *put = d->cur_put;
    uint64_t left = put->size - d->cur_put_offset;
    struct vrb_buf *pkt = new_packet(d, &d->peer->rail->dgram->part, VRB_UD_PUT);
    struct vrb_packet *p;

    if (pkt == NULL) {
        return 0;
    }
    if (put->size > d->payload) {
        try_longer(d, now);
    }
    p = vrb_packet(pkt);
    p->put = put;
    p->from = (const void *)(uintptr_t)(put->local_addr + d->cur_put_offset);
    p->lkey = put->lkey;
    p->len = left < d->payload ? (uint32_t)left : d->payload;
    p->hdr.msg = put->rkey;
    p->hdr.address = put->remote_addr + d->cur_put_offset;
    d->cur_put_offset += p->len;
    put->refs++;
    if (d->cur_put_offset == put->size) {
        d->cur_put = NULL;
        put->refs--;
    }
    send_new(d, pkt, now);
    return 1;
}

/* Takes the next thing to send off the peer's queues. Returns 0 when there is none for this path.
 */
static int next_work(struct vrb_dgram *d)
{
    struct vrb_peer *peer = d->peer;
    struct vrb_buf *buf;

    if (d->cur != NULL || d->cur_put != NULL) {
        return 1;
    }
    if (peer->up || peer->failed) {
        return 0; /* what is still queued is for RC, and may be joined to more than one datagram */
    }
    buf = vrb_path_next_message(peer);
    if (buf != NULL) {
        d->cur = buf;
        d->cur_offset = 0;
        d->cur_msg = d->next_msg++;
        d->messages++;
        buf->refs = 1;
        peer->rail->stats.tx_packets++;
        peer->rail->stats.tx_bytes += buf->len;
        peer->rail->stats.ud_messages++;
        peer->rail->stats.ud_bytes += buf->len;
        return 1;
    }
    d->cur_put = vrb_path_next_put(peer);
    if (d->cur_put != NULL) {
        d->cur_put_offset = 0;
        d->cur_put->refs = 1;
        peer->rail->stats.puts++;
        peer->rail->stats.put_bytes += d->cur_put->size;
        peer->rail->stats.ud_puts++;
        peer->rail->stats.ud_put_bytes += d->cur_put->size;
        return 1;
    }
    return 0;
}

void vrb_dgram_send_ack(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_rail *rail = d->peer->rail;
    struct vrb_ud_ack ack;
    struct vrb_ud_hdr hdr = {
        .kind = VRB_UD_ACK,
        .rail = (uint8_t)rail->index,
        .src = (uint32_t)rail->address.nonce,
        .token = d->token_tx,
    };
    char detail[256];
    uint8_t bytes[VRB_DGRAM_HEADROOM];
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1};
    struct vrb_buf *pkt = NULL;
    uint8_t *at = bytes;

    if (rail->ud->sq_room <= 0 || vrb_ud_peer_ah(d->peer, detail, sizeof(detail)) != VRB_OK ||
        !vrb_rel_build_ack(&d->rel, now, VRB_UD_ACK_WORDS, &ack)) {
        return;
    }
    sge.length = (uint32_t)vrb_ud_front_size(VRB_UD_ACK, &ack);
    if (sge.length <= rail->ud->inline_max) {
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        pkt = new_packet(d, &rail->dgram->part, VRB_UD_ACK);
        if (pkt == NULL) {
            return;
        }
        at = pkt->payload - sge.length;
        sge.lkey = pkt->lkey;
    }
    vrb_ud_put(at, &hdr, &ack);
    sge.addr = (uintptr_t)at;
    if (vrb_ud_post(d->peer, &wr, pkt != NULL) == 0) {
        rail->stats.ud_acks++;
        if (pkt != NULL) {
            vrb_packet(pkt)->last_post = rail->ud->posted;
            vrb_packet(pkt)->posts = 2;
        }
    }
    if (pkt != NULL) {
        vrb_dgram_release(rail, pkt);
    }
}

static void send_again(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_rail *rail = d->peer->rail;
    struct vrb_rel_numbers num;
    struct vrb_buf *pkt;

    for (;;) {
        if (!has_slot(rail)) {
            stall(d);
            return;
        }
        pkt = vrb_rel_resend(&d->rel, now, &num);
        if (pkt == NULL || d->peer->failed) {
            return;
        }
        if (vrb_ud_is_done(rail->ud, vrb_packet(pkt)->last_post)) {
            transmit(d, pkt, pkt, &num, now);
        } else {
            struct vrb_buf *front = new_packet(d, &rail->dgram->part, vrb_packet(pkt)->hdr.kind);

            if (front != NULL) {
                transmit(d, pkt, front, &num, now);
                vrb_packet(front)->last_post = rail->ud->posted;
                vrb_packet(front)->posts = 2; /* no acknowledgement tells when it was read */
                vrb_dgram_release(rail, front);
            }
        }
        rail->stats.ud_resent++;
        VRB_PROBE2(ud_resent, d->peer->rank, num.dseq);
    }
}

void vrb_dgram_push(struct vrb_dgram *d, uint64_t now)
{
    struct vrb_peer *peer = d->peer;
    int sent = 0;

    if (peer->failed) {
        return;
    }
    send_again(d, now);
    while (sent < BURST) {
        int ok;

        /* Calls back, and so may push the same peer: window and work are looked at after it. */
        vrb_path_decline_reads(peer);
        if (peer->failed || !may_send_new(d, now) || !next_work(d)) {
            break;
        }
        ok = d->cur != NULL ? send_message_part(d, now) : send_put_part(d, now);
        if (!ok) {
            stall(d);
            break;
        }
        sent++;
    }
    if (sent == BURST) {
        stall(d);
    }
    if (!peer->failed && vrb_rel_ack_due(&d->rel, now)) {
        vrb_dgram_send_ack(d, now);
    }
    vrb_dgram_touch(d);
}

void vrb_dgram_drain(struct vrb_peer *peer)
{
    uint64_t now = vrb_clock_ns();
    struct vrb_dgram *d = vrb_dgram_of(peer, now);

    if (d != NULL) {
        vrb_dgram_push(d, now);
    }
}

/* The send queue may still read it. An acknowledgement of a packet that was sent once proves that
 * it was read. */
static int in_send_queue(const struct vrb_rail *rail, const struct vrb_packet *p)
{
    return (p->posts > 1 || (p->posts == 1 && p->status != VRB_OK)) &&
           !vrb_ud_is_done(rail->ud, p->last_post);
}

/* Nothing needs the packet any more: gives back what it refers to, and its memory, once the send
 * queue has let go of it. */
void vrb_dgram_release(struct vrb_rail *rail, struct vrb_buf *pkt)
{
    struct vrb_packet *p = vrb_packet(pkt);

    if (p->shared) {
        return;
    }
    if (!p->finished) {
        p->finished = 1;
        p->status = p->dgram->status;
        p->dgram = NULL;
    }
    if (in_send_queue(rail, p)) {
        pkt->next = NULL;
        *rail->dgram->limbo_tail = pkt;
        rail->dgram->limbo_tail = &pkt->next;
        return;
    }
    if (p->message != NULL && --p->message->refs == 0) {
        vrb_path_message_done(p->message, p->status);
    }
    if (p->put != NULL && --p->put->refs == 0) {
        vrb_path_rdma_done(rail, p->put, p->status);
    }
    vrb_pool_put(pkt->pool, pkt);
}

void vrb_dgram_sends_done(struct vrb_rail *rail)
{
    struct vrb_dgram_rail *dr = rail->dgram;

    if (dr == NULL) {
        return;
    }
    /* In the order of release, which is nearly that of posting: one that waits holds up the rest
     * for a moment only. */
    while (dr->limbo != NULL && !in_send_queue(rail, vrb_packet(dr->limbo))) {
        struct vrb_buf *pkt = dr->limbo;

        dr->limbo = pkt->next;
        if (dr->limbo == NULL) {
            dr->limbo_tail = &dr->limbo;
        }
        vrb_dgram_release(rail, pkt);
    }
}
