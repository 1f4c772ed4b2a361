/* The way out of a peer: its queue of messages, and which path (RC or datagrams) they take.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modes (vrb_config.mode):
 *   rc    everything over RC; messages wait for the handshake.
 *   ud    everything over reliable datagrams, no connection at all.
 *   auto  the first messages leave as datagrams at once; a peer that gets busy (promote_after
 *         messages) or asks for RDMA is connected over RC in the background and moves there when
 *         that is up. The number of RC connections is capped (max_rc), and a connection that cannot
 *         be made leaves the peer on datagrams for good.
 *
 * What must wait queues here, whatever its path: the path is chosen when a message leaves the
 * queue. Small messages that queue share packets (vrb_coalesce.c). */
#ifndef VRB_PATH_H
#define VRB_PATH_H

#include "peer/vrb_peer.h"

static inline int vrb_path_has_datagrams(const struct vrb_peer *peer)
{
    return peer->rail->cfg.mode != VRB_MODE_RC && !peer->self;
}

/* Sends what is queued, as far as it goes. */
void vrb_path_drain(struct vrb_peer *peer);

/* Something came free that the queue may have waited for. What is only held waits for nothing. */
static inline void vrb_path_wake(struct vrb_peer *peer)
{
    if (!peer->fast && !peer->holding) {
        vrb_path_drain(peer);
    }
}

/* Puts a message at the end of the queue. */
void vrb_path_enqueue(struct vrb_peer *peer, struct vrb_buf *buf);

/* Work is queued on a live peer: sees to it that something will wake it. */
void vrb_path_arrange_wakeup(struct vrb_peer *peer);

/* ---- vrb_coalesce.c ---- */

/* Queues a copy, in the open packet if there is one with room. VRB_OK or VRB_ERR_AGAIN. */
int vrb_path_queue_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                        const void *data, uint32_t data_len);

/* The same for a message that could leave, but comes late in a burst: leaves with the next
 * progress at the latest. */
int vrb_path_hold(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                  const void *data, uint32_t data_len);

/* True while progress hands out a run of RDMA completions of this peer: whoever sends now may be
 * followed by the next. */
static inline int vrb_path_may_hold(const struct vrb_peer *peer)
{
    return vrb_more_rdma(peer->rail, peer->qp->qp_num);
}

/* The same as vrb_path_hold for a buffer. Returns 1 if it was taken: only its `done` is due. */
int vrb_path_hold_buf(struct vrb_peer *peer, struct vrb_buf *buf);

/* Room for packets that leave at once was used up, though there are credits: begins a new burst if
 * progress was made since the last began. Returns 1 if so. */
int vrb_path_new_burst(struct vrb_peer *peer);

/* True while packets may leave as the messages come. */
static inline int vrb_path_in_burst(const struct vrb_peer *peer)
{
    return (int16_t)(uint16_t)(peer->burst_end - peer->credit.tx_next) > 0;
}

/* ---- vrb_path.c ---- */

/* The queue's first message, taken out; NULL if there is none. */
struct vrb_buf *vrb_path_next_message(struct vrb_peer *peer);

/* Refuses the reads at the head of the queue if the peer has no RC and gets none. Runs callbacks,
 * which may send, and so re-enter whoever calls this. */
void vrb_path_decline_reads(struct vrb_peer *peer);

/* The next put that has to go as datagrams, taken out; NULL if there is none (or a read is first).
 */
struct vrb_rdma *vrb_path_next_put(struct vrb_peer *peer);

/* Starts the RC connection if the peer has become busy enough. */
void vrb_path_promote(struct vrb_peer *peer);

/* RC is not to be had for this peer. Returns 1 if it goes on as datagrams, 0 if there is no other
 * path. */
int vrb_path_refuse_rc(struct vrb_peer *peer, const char *why);

/* A message's buffer is the caller's again. */
void vrb_path_message_done(struct vrb_buf *buf, int status);
void vrb_path_rdma_done(struct vrb_rail *rail, struct vrb_rdma *rdma, int status);

/* Puts a message on the list of those whose `done` is called by the next progress. */
void vrb_path_done_later(struct vrb_rail *rail, struct vrb_buf *buf);

/* The bytes of a buffer have left inline or were copied: it is free, or its `done` is due. */
static inline void vrb_path_copied(struct vrb_rail *rail, struct vrb_buf *buf)
{
    if (buf->done == NULL) {
        vrb_pool_put(buf->pool, buf);
    } else {
        vrb_path_done_later(rail, buf);
    }
}

int vrb_path_run_done(struct vrb_rail *rail);

/* Completes everything queued on a failed peer with an error. */
void vrb_path_abandon(struct vrb_peer *peer, int status);

/* Makes sure that the arrival of all that was sent gets known. Returns 1 when everything has left
 * and arrived (or the peer has failed), 0 while something is still to come. */
int vrb_path_settled(struct vrb_peer *peer);

/* Fails the peer for a reason in words. */
void vrb_path_fail_in_words(struct vrb_peer *peer, int status, const char *what,
                            const char *detail);

#endif
