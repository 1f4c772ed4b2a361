/* The RC half of the core: what its files offer each other and progress. Internal to the core.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_RC_H
#define VRB_RC_H

#include "peer/vrb_peer.h"

/* ---- vrb_rc_qp.c ---- */

/* Makes a QP as this rail uses them (also to find out what the device grants). Returns NULL with
 * errno; *inline_max is what was asked for and, on return, what was granted. */
struct ibv_qp *vrb_rc_qp_make(struct vrb_rail *rail, uint32_t *inline_max);

/* Makes the peer's QP, in INIT, receives posted. VRB_OK, or an error with *detail in words (static
 * buffer of the caller). */
int vrb_rc_qp_create(struct vrb_peer *peer, char *detail, size_t len);

/* INIT -> RTR -> RTS with what the peer told. */
int vrb_rc_qp_connect(struct vrb_peer *peer, char *detail, size_t len);

/* Moves it to ERR: everything outstanding is flushed to the CQ. */
void vrb_rc_qp_stop(struct vrb_peer *peer);

void vrb_rc_qp_destroy(struct vrb_peer *peer);

/* ---- vrb_rc_send.c ---- */

/* Sends one message now; the caller has seen vrb_rc_may_send(). */
void vrb_rc_send_buf(struct vrb_peer *peer, struct vrb_buf *buf);
/* The same for header and data that are too long to leave inline: by copy. VRB_ERR_AGAIN: no
 * buffer, or longer than one. */
int vrb_rc_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                     const void *data, uint32_t data_len);

/* Sends what is queued as far as credits, slots and CQ room go. The peer is up. */
void vrb_rc_drain(struct vrb_peer *peer);

/* Tells new credits to the peers on the rail's due list. Returns how many packets left. */
int vrb_rc_tell_credits(struct vrb_rail *rail);

/* Makes sure that the arrival of all that was posted gets known: posts a signalled CREDIT packet
 * when unsignalled requests are in flight. Returns 1 when everything has arrived. */
int vrb_rc_flush(struct vrb_peer *peer);

/* Sends packet pkt of len bytes once more: it has its number already, and the caller has seen
 * vrb_rc_may_send(). It lies in buf, or (NULL) leaves inline. VRB_OK; VRB_ERR_AGAIN: refused for
 * now, progress tries again; VRB_ERR_PEER: the peer has failed and buf is done. */
int vrb_rc_send_again(struct vrb_peer *peer, struct vrb_buf *buf, uint8_t *pkt, uint32_t len);

/* Asks a silent peer's HCA for a sign of life: fails the peer if none comes. */
void vrb_rc_probe(struct vrb_peer *peer);

/* Copies of messages may not take the last buffers: those are for sends with a completion, which
 * are what makes ob1 try again when it got none (see vrb_buf_get). */
static inline int vrb_rc_copies_may_take(const struct vrb_pool *p)
{
    uint32_t most = p->grow_failed ? p->total : p->limit;

    return p->in_use < most - most / 4;
}

/* ---- vrb_rc_recv.c ---- */

int vrb_rc_recv_init(struct vrb_rail *rail);   /* SRQ filled; VRB_OK or an error with errno */
int vrb_rc_recv_attach(struct vrb_peer *peer); /* per-peer queue filled (no SRQ); the same */
/* Takes back what waits to be posted to the queue of a QP that is no more. */
void vrb_rc_recv_detach(struct vrb_peer *peer);
void vrb_rc_recv(struct vrb_rail *rail, const struct ibv_wc *wc);
void vrb_rc_recv_flushed(struct vrb_rail *rail, struct vrb_buf *buf);
/* Gives consumed buffers back to the SRQ, a batch at a time. */
void vrb_rc_repost_shared(struct vrb_rail *rail);

static inline void vrb_rc_repost(struct vrb_rail *rail)
{
    if (rail->rx_free_n >= rail->rx_batch) { /* never without an SRQ: nothing is collected then */
        vrb_rc_repost_shared(rail);
    }
}
/* Offers the peer's own queue what it refused before. */
void vrb_rc_repost_peer(struct vrb_peer *peer);

/* ---- vrb_rc_rdma.c ---- */

/* Posts one operation now; the caller has seen vrb_rc_can_post_rdma(). Returns 1 if it was taken;
 * else it is queued again, or done with an error. */
int vrb_rc_rdma_send(struct vrb_peer *peer, struct vrb_rdma *rdma);

/* Takes an operation that is to be posted again out of the counters. */
void vrb_rc_rdma_uncount(struct vrb_rail *rail, const struct vrb_rdma *rdma);

/* An operation ended: takes what an atomic fetched out of the memory that it arrived in. */
void vrb_rc_rdma_fetch(struct vrb_rdma *rdma);

/* The operation in words. */
const char *vrb_rc_rdma_text(uint8_t op);

/* Posts queued RDMA operations. */
void vrb_rc_rdma_drain(struct vrb_peer *peer);

/* ---- shared by the posting files ---- */

/* Room in the CQ. A queue pair that breaks completes all its requests, signalled or not, and many
 * may break at once while nobody polls (a link goes down, the program computes). So every request
 * holds an entry: those since the last signalled one in cq_reserved, the rest in cq_room from the
 * moment that one is posted. The last to be posted may take up to signal_every - 1 entries more
 * than there were: that, and the markers of vrb_recover, is what VRB_FIT_MARGIN_QPS is for. */

/* Takes a send queue slot: sets *flags' SIGNALED bit when due (or forced), returns how many slots
 * the completion of this request will free (0 when it is not signalled). */
static inline uint16_t vrb_rc_take_slot(struct vrb_peer *peer, int force, unsigned *flags)
{
    peer->sq_room--;
    if (++peer->unsignalled >= peer->signal_every || force) {
        uint16_t n = peer->unsignalled;
        peer->unsignalled = 0;
        peer->rail->cq_room -= n;
        peer->signalled++;
        *flags |= IBV_SEND_SIGNALED;
        return n;
    }
    return 0;
}

static inline int vrb_rc_can_post(const struct vrb_peer *peer)
{
    return peer->sq_room > 0 && peer->rail->cq_room > 0;
}

/* The same for an RDMA operation, which may be two requests. */
static inline int vrb_rc_can_post_rdma(const struct vrb_peer *peer)
{
    return peer->sq_room > peer->rail->doubt_reads && peer->rail->cq_room > peer->rail->doubt_reads;
}

static inline int vrb_rc_may_send(const struct vrb_peer *peer)
{
    return vrb_credit_room(&peer->credit) > 0 && vrb_rc_can_post(peer);
}

/* A signalled request completed: its slots, and those of the unsignalled ones before it, are free.
 */
static inline void vrb_rc_free_slots(struct vrb_peer *peer, uint16_t n)
{
    if (__builtin_expect(peer->qp == NULL, 0)) {
        return; /* polled before the QP was destroyed, which has given all of it back */
    }
    peer->sq_room += n;
    peer->rail->cq_room += n;
    peer->signalled--;
}

/* What the peer's requests hold of rail->cq_room. */
static inline int vrb_rc_cq_held(const struct vrb_peer *peer)
{
    int held = (int)peer->rail->cfg.sq_depth - 1 - peer->sq_room - peer->unsignalled;

    return held > 0 ? held : 0;
}

/* A request ended with an error: it had a completion of its own, signalled or not, and gives back
 * one entry. (Some before it succeeded in silence: theirs come back when the last ones, which
 * hold none here, are flushed too, or with the QP.) */
static inline void vrb_rc_flushed(struct vrb_peer *peer)
{
    peer->rail->cq_room += vrb_rc_cq_held(peer) > 0;
    peer->sq_room++;
}

/* The same for one whose completion carries a buffer or an operation. */
static inline void vrb_rc_lost_slot(struct vrb_peer *peer)
{
    vrb_rc_flushed(peer);
    peer->signalled--;
    peer->owned--;
}

/* Undoes vrb_rc_take_slot, the latest first, for a request that was not posted. n: what it
 * returned. */
static inline void vrb_rc_return_slot(struct vrb_peer *peer, unsigned flags, uint16_t n)
{
    peer->sq_room++;
    if (flags & IBV_SEND_SIGNALED) {
        peer->rail->cq_room += n;
        peer->signalled--;
        peer->unsignalled = (uint16_t)(n - 1);
    } else {
        peer->unsignalled--;
    }
}

/* A post failed for good (every reason but a full queue): the connection is lost. */
void vrb_rc_post_failed(struct vrb_peer *peer, int err, const char *what);

/* What was refused is queued again: tries it from progress. When refusals go on for long, the
 * connection is lost. */
void vrb_rc_retry_later(struct vrb_peer *peer, int err, const char *what);

#endif
