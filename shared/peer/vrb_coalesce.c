/* Small messages that share a packet: because they must wait anyway, or because they come in a
 * burst. SPDX-License-Identifier: BSD-3-Clause
 *
 * A packet costs its sender about as much whether it holds one small message or thirty. Messages
 * that wait for credits, slots or a connection share packets, then. And so do those of a burst:
 * when cfg.burst messages have left for one peer and no progress was made meanwhile, the next small
 * ones are held in an open packet. It leaves when it is full, before anything else that goes to the
 * peer, and with the next progress, that is when the program next waits for or tests anything. A
 * message that is the first of its burst, or comes alone, is never held.
 *
 * When progress hands out several RDMA completions of a peer in a row, the small messages that
 * these cause (ob1 sends a FIN for each long message that it has read) are held until the last of
 * them. */
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "peer/vrb_path.h"
#include "rc/vrb_rc_inline.h"

/* Messages up to this length join a shared packet; longer ones gain nothing from it. */
#define COALESCE_MAX 2048

/* Packets of copied messages that may wait for one peer. Beyond it vrb_send_copy declines, and the
 * caller sends with a completion, which slows it down to the pace of the receiver. */
#define COPIES_QUEUED_MAX 16

/* Payload at which a packet of a burst leaves. More would not save much: an 8-byte message of ob1
 * takes 32 bytes. And little is held back if the program turns to other things. */
#define HOLD_BYTES 1024

/* The payload that a shared packet may have: one datagram's, while those are the way out. */
static uint32_t shared_size(const struct vrb_peer *peer, const struct vrb_buf *buf)
{
    uint32_t datagram = vrb_dgram_payload(peer->sure_mtu);

    return !peer->up && vrb_path_has_datagrams(peer) && datagram < buf->capacity ? datagram
                                                                                 : buf->capacity;
}

/* Takes a buffer for copied messages and queues it. */
static struct vrb_buf *queue_new(struct vrb_peer *peer, uint8_t tag, int coalesce)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_buf *buf;

    if (peer->q_copies >= COPIES_QUEUED_MAX || !vrb_rc_copies_may_take(&rail->big)) {
        return NULL;
    }
    buf = vrb_pool_get(&rail->big);
    if (buf == NULL) {
        return NULL;
    }
    buf->done = NULL;
    buf->tag = coalesce ? 0 : tag;
    buf->len = 0;
    buf->kind = coalesce ? VRB_KIND_COALESCED : VRB_KIND_DATA;
    peer->q_copies++;
    vrb_path_enqueue(peer, buf);
    peer->q_open = coalesce ? buf : NULL;
    return buf;
}

int vrb_path_queue_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                        const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    uint32_t len = hdr_len + data_len;
    struct vrb_buf *buf = peer->q_open;
    int coalesce =
        len <= COALESCE_MAX && (peer->up || !vrb_path_has_datagrams(peer) ||
                                vrb_record_size(len) <= vrb_dgram_payload(peer->sure_mtu));
    uint8_t *p;

    if (len > rail->big.capacity) {
        return VRB_ERR_AGAIN;
    }
    if (!coalesce || buf == NULL || buf->len + vrb_record_size(len) > shared_size(peer, buf)) {
        buf = queue_new(peer, tag, coalesce);
        if (buf == NULL) {
            return VRB_ERR_AGAIN;
        }
    } else {
        rail->stats.tx_coalesced++;
    }
    if (coalesce) {
        p = vrb_record_begin(buf->payload + buf->len, tag, len);
        buf->len += (uint32_t)vrb_record_size(len);
    } else {
        p = buf->payload;
        buf->len = len;
    }
    memcpy(p, hdr, hdr_len);
    if (data_len > 0) {
        memcpy(p + hdr_len, data, data_len);
    }
    vrb_path_arrange_wakeup(peer);
    return VRB_OK;
}

int vrb_path_hold(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                  const void *data, uint32_t data_len)
{
    struct vrb_rail *rail = peer->rail;
    int rc = vrb_path_queue_copy(peer, tag, hdr, hdr_len, data, data_len);

    if (rc != VRB_OK) {
        return rc;
    }
    if (!peer->holding) {
        peer->holding = 1;
        rail->refused = 1; /* progress drains the stalled peers even if nothing has completed */
        vrb_due(rail);
        if (!vrb_list_linked(&peer->stall_link)) {
            vrb_list_append(&rail->stalled, &peer->stall_link);
        }
    }
    if (peer->q_open == NULL ||
        peer->q_open->len + vrb_record_size(hdr_len + data_len) > HOLD_BYTES) {
        vrb_path_drain(peer);
    }
    return VRB_OK;
}

int vrb_path_hold_buf(struct vrb_peer *peer, struct vrb_buf *buf)
{
    struct vrb_rail *rail = peer->rail;

    if (rail->cfg.burst == 0 || VRB_HDR_SIZE + buf->len > rail->inline_max ||
        vrb_path_hold(peer, buf->tag, buf->payload, buf->len, NULL, 0) != VRB_OK) {
        return 0;
    }
    buf->peer = peer;
    vrb_path_copied(rail, buf);
    return 1;
}

int vrb_path_new_burst(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    int room = vrb_credit_room(&peer->credit);

    if (rail->cfg.burst == 0) {
        peer->burst_end = peer->credit.tx_limit;
        return 1;
    }
    if (peer->burst_call == rail->calls) {
        return 0;
    }
    peer->burst_call = rail->calls;
    if ((uint32_t)room > rail->cfg.burst) {
        room = (int)rail->cfg.burst;
    }
    peer->burst_end = (uint16_t)(peer->credit.tx_next + room);
    return 1;
}
