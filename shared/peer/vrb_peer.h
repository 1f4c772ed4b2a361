/* The inside of a peer: one remote process on one rail. Internal to the core.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Life: created (nothing but memory) -> connecting (QP made, handshake under way, messages queue)
 * -> up -> failed, or destroyed from any state. `fast` is the one flag that the send path tests:
 * up, not failed, and nothing queued before us. A QP that breaks is replaced (rc/vrb_recover.h):
 * not up for a while, but not failed. */
#ifndef VRB_PEER_H
#define VRB_PEER_H

#include <stddef.h>

#include "address/vrb_choose.h"
#include "rail/vrb_rail.h"
#include "rc/vrb_credit.h"
#include "rc/vrb_recover.h"
#include "util/vrb_clock.h"
#include "util/vrb_explain.h"
#include "wireup/vrb_pmtu.h"
#include "wireup/vrb_wireup.h"

struct vrb_peer {
    /* Hot: every packet. */
    void *user; /* first: vrb_peer_user() */
    struct vrb_rail *rail;
    struct ibv_qp *qp; /* NULL until the first message */
    uint8_t fast, up, failed;
    uint8_t flushing;      /* a VRB_WR_FLUSH is in flight */
    uint16_t signal_every; /* work requests per signalled one */
    uint16_t unsignalled;  /* posted since the last signalled one */
    uint16_t flush_retire; /* slots that the VRB_WR_FLUSH in flight frees */
    int sq_room;           /* free slots of the send queue */
    int owned;             /* posted requests whose completion names a buffer or operation */
    int signalled;         /* signalled requests in flight */
    struct vrb_credit credit;
    uint16_t burst_end;  /* packets numbered below this leave at once; never above the grant */
    uint8_t holding;     /* the queue is one open packet of a burst, which could leave */
    uint32_t burst_call; /* rail->calls when the burst began */
    uint32_t tx_seq, rx_seq;
    struct vrb_replay replay;
    struct vrb_buf *q_head, **q_tail;  /* messages that could not leave yet, in order */
    struct vrb_buf *q_open;            /* the queue's last packet, if more records may join it */
    uint32_t q_copies;                 /* queued packets that vrb_send_copy made */
    struct vrb_rdma *r_head, **r_tail; /* RDMA operations that could not leave yet */
    struct vrb_list due_link, stall_link;
    struct vrb_buf *rx_free; /* consumed buffers of this peer's own receive queue (no SRQ) */
    uint32_t rx_free_n;
    uint32_t rx_batch;       /* of which this many are posted again at a time, */
    uint32_t rx_control;     /* and this many held CREDIT packets, which give no credit back */
    struct vrb_dgram *dgram; /* its datagram half, NULL until used */

    /* Cold. */
    uint64_t
        refused_since;  /* ns: the send queue has refused requests since then; 0 = it does not */
    uint32_t probe_seq; /* rx_seq at the last look for silent peers */
    struct vrb_list link, connecting_link;
    struct vrb_wireup wireup;
    struct vrb_recover recover;
    struct vrb_address remote;
    struct vrb_path path;
    struct vrb_pmtu pmtu;
    struct ibv_ah *ah;
    struct vrb_tcp_peer *tcp; /* where it answers, when handshakes go over TCP */
    uint64_t name, rank;
    uint64_t connect_started; /* ns */
    uint64_t asking_since;    /* ns: handshake messages are unanswered since then; 0: none is */
    uint64_t ah_failing;      /* ns: no address handle can be made since then; 0: it can */
    int remote_rail;
    uint64_t rx_refused_since; /* the same of its own receive queue */
    uint32_t rx_posted;        /* receive buffers of the per-peer queue */
    uint8_t had_ah;            /* it once had an address handle: none now is a passing trouble */
    uint8_t round;             /* which pair of addresses: see vrb_peer_addr.h */
    uint8_t sure_mtu;          /* packets of this MTU are known to arrive: see vrb_peer_mtu.h */
    uint8_t moved;             /* one of its published GIDs has become another: */
    uint8_t moved_was[VRB_GID_LEN], moved_to[VRB_GID_LEN];
    uint16_t lid;         /* its LID as it is now */
    uint8_t declining;    /* vrb_path_decline_reads is at work */
    uint8_t rc_refused;   /* RC is not to be had: datagrams for good */
    uint8_t was_up;       /* connected before */
    uint8_t broken;       /* its QP broke, and the next one is not up yet */
    uint8_t retired;      /* see vrb_retired.h */
    uint8_t must;         /* an operation that only RC can do was asked for: no cap counts */
    uint8_t self;         /* this very process and rail: its QP is connected to itself */
    uint8_t left;         /* its end of the connection said that it was going */
    uint8_t said_leaving; /* and ours did */
    uint8_t leaving;      /* being destroyed: a failure is nobody's news */
    uint32_t cq_reserved; /* CQ room that they hold, and requests up to a signalled one */
    char host[64];
};

_Static_assert(offsetof(struct vrb_peer, user) == 0, "vrb_peer_user() reads it there");

/* A process name is jobid << 32 | vpid; eight rails at most: the rail takes the place of the top
 * bits, which differ by a constant within a job. Collisions would only confuse our own map, and
 * lookup compares the name itself. */
static inline uint64_t vrb_peer_key(uint64_t name, int rail)
{
    return name ^ ((uint64_t)(unsigned)rail << 61);
}

/* The peer of that name and remote rail, or NULL. */
struct vrb_peer *vrb_peer_find(struct vrb_rail *rail, uint64_t name, int remote_rail);

/* Between the break of a QP and the next one's being up. */
static inline int vrb_peer_is_recovering(const struct vrb_peer *peer)
{
    return peer->wireup.state == VRB_WU_PAUSED ||
           (peer->wireup.state == VRB_WU_CONNECTING && peer->wireup.local.gen > 0);
}

/* What the handshake says about the peer's QP, under a new id. */
void vrb_peer_local_hello(struct vrb_peer *peer, struct vrb_hello *local);

/* Asks the upper layer for a peer that something arrived from. Returns it, or NULL. Calls back. */
struct vrb_peer *vrb_peer_ask_for(struct vrb_rail *rail, uint64_t name, int remote_rail);

/* Makes the QP and starts the handshake if that has not happened. */
void vrb_peer_start(struct vrb_peer *peer);

/* Carries out what the handshake machine asked for (enum vrb_wireup_action). */
void vrb_peer_wireup(struct vrb_peer *peer, unsigned actions);

/* A HELLO or REJECT from the peer arrived, its source checked, in a datagram as long as a packet of
 * the MTU `length`. */
void vrb_peer_hello(struct vrb_peer *peer, const struct vrb_hello *h, uint8_t length);

/* Declines what the message h asked. */
void vrb_peer_reject(struct vrb_peer *peer, const struct vrb_hello *h, enum vrb_reject_reason why);

/* Probes the peers that nothing came from since the last call. */
void vrb_peer_probe(struct vrb_rail *rail);

/* Runs the timers of the handshakes under way. idle: the CQ was empty. Returns events. */
int vrb_peer_timers(struct vrb_rail *rail, uint64_t now, int idle);

/* The connection is lost. Fills in both ends of f, tells the user once, completes what is queued.
 */
void vrb_peer_fail(struct vrb_peer *peer, int status, struct vrb_failure *f);

/* The last step of vrb_peer_destroy, when no completion can name the peer any more. */
void vrb_peer_free(struct vrb_peer *peer);

/* The facts of a failure before the special ones are known. */
void vrb_failure_init(struct vrb_failure *f, const char *what);

#endif
