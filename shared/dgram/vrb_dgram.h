/* Messages and puts over reliable datagrams: the UD path of a peer.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * reliable/ decides what is numbered, acknowledged and sent again; here are the packets themselves:
 *
 *   vrb_dgram.c        life of a peer's datagram half, timers, failure
 *   vrb_dgram_send.c   messages, segments and puts into packets; transmission and retransmission
 *   vrb_dgram_recv.c   packets into messages; placing puts
 *   vrb_reasm.c        joining the segments of a message (pure)
 *
 * A message up to one packet's payload is copied into a packet buffer. A longer one stays where it
 * is (its vrb_buf, or the memory of a put), and each packet refers to a part of it by a second SGE.
 * A message is complete when all its packets are acknowledged; one that was copied is so at once.
 *
 * Which path a message takes is decided when it leaves the peer's queue (peer/vrb_path.c), so both
 * paths share one queue, and a switch from UD to RC cannot lose or double anything: what has left
 * on UD is finished on UD, what has not takes the new path.
 *
 * Numbers never start again between two living processes: a peer that is dropped leaves its
 * datagram half behind (peer/vrb_retired.h), and one that is made again goes on with it. What was
 * given up meanwhile is replaced by VOID packets, since the other end waits for its numbers.
 *
 * The receiver of the first packets may not know the sender's process yet. Until the peer has been
 * heard, each first transmission and each timer's retransmission is preceded by an INTRO
 * (wire/vrb_hello.h), which names the sender; packets that arrive before it are dropped, and are
 * sent again like lost ones. */
#ifndef VRB_DGRAM_H
#define VRB_DGRAM_H

#include "dgram/vrb_reasm.h"
#include "peer/vrb_peer.h"
#include "reliable/vrb_rel.h"

/* Bytes before the payload of a packet with the longest acknowledgement that rides on a full one:
 * one word of bitmap. What needs more waits for a shorter packet or leaves alone. */
#define VRB_DGRAM_FRONT (VRB_UD_HDR_SIZE + VRB_UD_SEGMENT_SIZE + VRB_UD_ACK_SIZE + 8)

/* Room before a packet buffer's payload for any front. */
#define VRB_DGRAM_HEADROOM \
    ((VRB_UD_HDR_SIZE + VRB_UD_SEGMENT_SIZE + VRB_UD_ACK_SIZE + 8 * VRB_UD_ACK_WORDS + 15) & ~15)

/* Payload bytes of one packet at a path MTU of 128 << mtu bytes. */
static inline uint32_t vrb_dgram_payload(uint8_t mtu)
{
    return (128u << mtu) - VRB_DGRAM_FRONT;
}

/* What a packet buffer (a vrb_buf of the rail's packet pools) carries behind it. */
struct vrb_packet {
    struct vrb_dgram *dgram;
    struct vrb_buf *message; /* whose part it is; NULL: the payload is here */
    struct vrb_rdma *put;    /* or of this put */
    const void *from;        /* payload elsewhere */
    uint32_t lkey;
    uint32_t len;
    uint32_t last_post; /* vrb_ud.posted of its last transmission */
    uint16_t posts;     /* transmissions, stays at the maximum */
    uint8_t shared;     /* stands for many numbers: stays until its owner goes */
    uint8_t finished;   /* nothing needs it any more; `status` is how it ended */
    int status;
    struct vrb_ud_hdr hdr;
};

static inline struct vrb_packet *vrb_packet(struct vrb_buf *buf)
{
    return vrb_buf_user(buf);
}

/* The datagram half of a peer: made at the first message that goes this way. */
struct vrb_dgram {
    struct vrb_rel rel;
    struct vrb_peer *peer;
    struct vrb_list active_link; /* in vrb_dgram_rail.active: a timer or queued work */
    struct vrb_list stall_link;  /* in vrb_dgram_rail.stalled: waits for a packet or a slot */
    uint64_t deadline;           /* vrb_rel_deadline(), ns */
    uint32_t token_tx, token_rx;
    uint32_t next_msg;
    uint32_t payload;    /* bytes per packet on this path */
    uint8_t heard;       /* the peer knows us */
    uint8_t arrived;     /* something came from it since the last vrb_dgram_probe() */
    uint8_t introduced;  /* at least once */
    uint8_t mtu_tries;   /* longer packets were tried so often, */
    uint64_t mtu_next;   /* ns: and not again before that */
    uint64_t mtu_mark;   /* the first packet that left after the last try */
    uint8_t broken;      /* numbers were given up without a word: not to be gone on with */
    int status;          /* what unfinished messages end with */
    struct vrb_buf *cur; /* message that is being cut into segments */
    uint32_t cur_offset, cur_msg;
    struct vrb_rdma *cur_put;
    uint64_t cur_put_offset;
    struct vrb_buf *nothing; /* the VOID packet that takes the place of what was given up */
    struct vrb_reasm reasm;
    uint64_t messages; /* sent this way: decides on promotion to RC */
};

/* What the datagram halves of a rail share. */
struct vrb_dgram_rail {
    struct vrb_rel_env env;
    struct vrb_pool whole; /* packets with room for a payload */
    struct vrb_pool part;  /* packets that refer to memory elsewhere */
    struct vrb_list active, stalled;
    uint64_t deadline;                   /* the earliest of all */
    uint32_t peers;                      /* with a datagram half */
    struct vrb_map by_src;               /* sender's QPN and id -> peer */
    struct vrb_buf *limbo, **limbo_tail; /* acknowledged, but still in the send queue */
};

int vrb_dgram_open(struct vrb_rail *rail);
void vrb_dgram_close(struct vrb_rail *rail);

/* Makes the peer known as a source of datagrams (at its creation), and forgets it. */
int vrb_dgram_attach(struct vrb_peer *peer);
void vrb_dgram_detach(struct vrb_peer *peer);

/* The peer is dropped, but its numbers go on: no timers. */
void vrb_dgram_retire(struct vrb_peer *peer);

/* `peer` takes over where `old` retired. Returns VRB_OK, or an error with nothing changed. */
int vrb_dgram_inherit(struct vrb_peer *peer, struct vrb_peer *old);

/* One message by copy, at once. VRB_OK, VRB_ERR_AGAIN (no room now, or too long for a packet). */
int vrb_dgram_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                        const void *data, uint32_t data_len);

/* Sends what has to go again and what is queued, as far as window, slots and packets go. */
void vrb_dgram_drain(struct vrb_peer *peer);

/* A datagram of data arrived: p holds len bytes. */
void vrb_dgram_recv(struct vrb_rail *rail, const struct ibv_wc *wc, uint8_t *p, uint32_t len);

/* Send slots became free. */
void vrb_dgram_sends_done(struct vrb_rail *rail);

/* Timers and acknowledgements that are due. idle: the completion queue was found empty. Returns
 * events. */
int vrb_dgram_progress(struct vrb_rail *rail, int idle);

/* Completes everything in flight or half sent with an error. */
void vrb_dgram_abandon(struct vrb_peer *peer, int status);

/* Our port has been down for so long: gives up the peers for whom datagrams wait. Calls back. */
void vrb_dgram_port_lost(struct vrb_rail *rail, double seconds);

/* Something waits for acknowledgements or for room. */
int vrb_dgram_waits(const struct vrb_rail *rail);

/* Asks a peer that was silent since the last call for a sign of life. */
void vrb_dgram_probe(struct vrb_peer *peer);

/* Tells the peer who we are and where, in a datagram as long as a packet of MTU `length` (0: no
 * longer than it must be). heard: the MTU of the longest that arrived from it, 0 = says nothing.
 * ask: it is to say how long this one was. */
void vrb_dgram_introduce(struct vrb_peer *peer, uint8_t length, uint8_t heard, int ask);

/* We have another address: tells the peer, even if there is nothing else to say. */
void vrb_dgram_moved(struct vrb_peer *peer);

/* Nothing is in flight or half sent, and nothing is left to acknowledge. */
int vrb_dgram_is_settled(struct vrb_peer *peer);

/* ---- between the files of this folder ---- */

struct vrb_dgram *vrb_dgram_of(struct vrb_peer *peer, uint64_t now); /* made if need be; or NULL */
void vrb_dgram_touch(struct vrb_dgram *d);              /* its deadline may have changed */
void vrb_dgram_push(struct vrb_dgram *d, uint64_t now); /* resend, send, acknowledge */
void vrb_dgram_release(struct vrb_rail *rail, struct vrb_buf *pkt); /* a packet is finished */
struct vrb_buf *vrb_dgram_new_void(struct vrb_dgram *d);            /* NULL: out of memory */
void vrb_dgram_send_ack(struct vrb_dgram *d, uint64_t now);
void vrb_dgram_flush_sends(struct vrb_dgram *d); /* a completion will tell that all was read */

#endif
