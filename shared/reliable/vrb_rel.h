/* Reliable datagrams: the engine that makes packets over an unreliable QP arrive exactly once.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure: no verbs call, no clock (time is passed in, nanoseconds of any monotonic origin), no
 * allocation. One `struct vrb_rel` per peer and rail; what the peers of a rail share is in one
 * `struct vrb_rel_env`. The carrier owns the packet buffers, the QP and the wire format
 * (wire/vrb_ud_wire.h); here are numbers, windows and timers.
 *
 * THE PROTOCOL
 *
 * Every packet of data has two numbers. Its DATA SEQUENCE number stays the same when it is sent
 * again; its PACKET NUMBER is a new one for each transmission.
 *
 *   Why two. With one number that stays, an acknowledgement does not tell which transmission
 *   arrived: RTT samples of retransmissions are worthless (Karn), a lost retransmission is found by
 *   timeout only, and a needless one is not recognised. With one number that changes (QUIC), the
 *   receiver needs a second structure to tell duplicates, and its acknowledgements can never be
 *   cumulative, since lost numbers never arrive: a lost ACK costs information. With two,
 *   acknowledgements are about data: cumulative plus a bitmap over the receive window, each one a
 *   complete picture that makes all earlier ones superfluous; and they echo ONE packet number, the
 *   largest that arrived, which is all that loss detection (RFC 9002, RFC 8985) and RTT need. The
 *   price is 4 bytes in the header.
 *
 * Exactly once: the receiver keeps a bitmap of VRB_REL_WINDOW data sequence numbers, the sender
 * never has more than VRB_REL_SPAN between its oldest unacknowledged packet and its newest. So the
 * verdict NEW or DUP is exact, and the memory for it is bounded whatever a peer sends. There is no
 * order: a packet is delivered when it comes, nothing waits behind a lost one.
 *
 * Acknowledgements are not numbered and not acknowledged. They may leave at any time whatever the
 * window says: control is never stuck behind data. The carrier should keep send queue slots for
 * them.
 *
 * An acknowledgement is refused as a whole (VRB_ERR_MALFORMED) if it is about data or a packet
 * number that was never sent.
 *
 * When to acknowledge: vrb_rel_ack.h. Loss detection, probes and reordering: vrb_rel_loss.h.
 * Window: vrb_rel_cc.h. Memory of packets in flight: vrb_rel_tx.h, vrb_rel_pool.h.
 *
 * A peer is DEAD when packets were in flight, and no acknowledgement of a new one came, for
 * cfg.dead_ns. Acknowledgements are sent by software, so a healthy peer that computes for a minute
 * without calling into its library is silent for a minute: dead_ns has to be longer than that, and
 * a process's exit should be told by better means where there are any.
 *
 * HOW TO DRIVE IT. In each progress call, in this order:
 *
 *   vrb_rel_env_poll(env, now)
 *   for each packet that arrived (header decoded, source and token checked):
 *       if it has an ack block:  n = vrb_rel_on_ack(rel, &ack, now, done)
 *                                the n cookies in done[] are acknowledged: free them
 *       if it has data:          deliver it if vrb_rel_receive(...) == VRB_REL_NEW
 *   vrb_rel_env_drained(env) when the completion queue was found empty
 *   for each peer whose vrb_rel_deadline() has passed:  vrb_rel_on_timer(rel, now)
 *   for each peer that was touched:
 *       while ((cookie = vrb_rel_resend(rel, now, &num)))  send it, as num says
 *       while (data waits && vrb_rel_room(rel, now))       vrb_rel_send(...), send it
 *       if (vrb_rel_ack_due(rel, now))                     vrb_rel_build_ack(...), send it alone
 *   and put each into the timer structure by its vrb_rel_deadline().
 *
 * Arrived packets come before timers: after a pause the acknowledgement that makes a timer moot may
 * be waiting in the completion queue. When a packet leaves and vrb_rel_ack_useful() says so, let an
 * ack block ride on it. If the carrier has no send queue slot, it stops sending and calls again
 * later; calling vrb_rel_resend and then not sending is harmless too: that is a lost packet. A
 * buffer must not be rewritten or freed while an earlier transmission of it is still in the send
 * queue, even when it is acknowledged already. */
#ifndef VRB_REL_H
#define VRB_REL_H

#include <stdint.h>

#include "reliable/vrb_rel_ack.h"
#include "reliable/vrb_rel_cc.h"
#include "reliable/vrb_rel_loss.h"
#include "reliable/vrb_rel_pool.h"
#include "reliable/vrb_rel_rtt.h"
#include "reliable/vrb_rel_rx.h"
#include "reliable/vrb_rel_tx.h"
#include "util/vrb_status.h"
#include "wire/vrb_ud_wire.h"

struct vrb_rel_config {
    uint64_t ack_delay_ns;    /* an acknowledgement waits that long for a packet to ride on */
    uint64_t probe_max_ns;    /* longest probe timeout: a blackout's end is noticed that soon */
    uint64_t dead_ns;         /* no acknowledgement for so long: the peer is dead; 0 = never */
    uint64_t absence_ns;      /* two progress calls further apart: the process was away */
    uint64_t least_period_ns; /* how long a least RTT counts: routes change */
    uint32_t rtt_ns;          /* guess before the first sample */
    uint16_t ack_every;       /* packets per acknowledgement at the least */
    uint16_t buffers;         /* what a peer may have in flight before it has heard from us, and we
                               * towards it before we have heard from it */
    struct vrb_rel_cc_limits cc;
};

void vrb_rel_config_defaults(struct vrb_rel_config *cfg);

/* Brings what would not work into range (zero timers, a window of no packet). */
void vrb_rel_config_clamp(struct vrb_rel_config *cfg);

/* Of all peers of the rail. */
struct vrb_rel_stats {
    uint64_t sent, resent;  /* packets of data: new, again */
    uint64_t acked;         /* cookies handed back */
    uint64_t lost;          /* packets found lost (resent for it) */
    uint64_t probes;        /* packets sent again because of a probe timeout */
    uint64_t needless;      /* resent packets of which the earlier copy had arrived */
    uint64_t timeouts;      /* probe timeouts */
    uint64_t reordered;     /* packets that were seen to arrive out of order */
    uint64_t received, dup; /* packets of data: new, duplicates */
    uint64_t stale, out_of_window;
    uint64_t acks_sent, acks_received, acks_refused;
    uint64_t dead; /* peers */
};

struct vrb_rel_env {
    struct vrb_rel_config cfg;
    struct vrb_rel_pool pool;
    struct vrb_rel_stats stats;
    uint64_t polled;   /* last vrb_rel_env_poll; 0 = none yet */
    uint64_t returned; /* end of this process's last absence */
    uint8_t stale;     /* packets that arrive now may have waited since before the absence's end */
};

struct vrb_rel {
    struct vrb_rel_env *env;
    struct vrb_rel_tx tx;
    struct vrb_rel_rx rx;
    struct vrb_rel_ack ack;
    struct vrb_rel_rtt rtt;
    struct vrb_rel_loss loss;
    struct vrb_rel_cc cc;
    uint64_t last_sent;     /* ns, of a packet of data */
    uint64_t last_progress; /* ns, when something was acknowledged, or the first packet left */
    uint16_t unasked;       /* packets since the last one with ASK */
    uint8_t peer_repeats;   /* the peer's count of needless retransmissions, as last told */
    uint8_t probes_owed;    /* lost packets that may leave whatever the window says */
    uint8_t dead;
};

_Static_assert(sizeof(struct vrb_rel) <= 512, "state per idle peer");

/* What goes into the header of a packet that leaves. */
struct vrb_rel_numbers {
    uint32_t pn, dseq;
    uint8_t flags; /* VRB_UD_ASK, VRB_UD_AGAIN */
};

/* chunks: see vrb_rel_pool_init. Returns VRB_OK or VRB_ERR_NOMEM. */
int vrb_rel_env_init(struct vrb_rel_env *env, const struct vrb_rel_config *cfg, uint32_t chunks);
void vrb_rel_env_fini(struct vrb_rel_env *env);

/* At the start of each progress call. */
static inline void vrb_rel_env_poll(struct vrb_rel_env *env, uint64_t now)
{
    if (env->polled && now - env->polled > env->cfg.absence_ns) {
        env->returned = now;
        env->stale = 1;
    }
    env->polled = now;
}

/* The completion queue is empty: what arrives from now on arrives now. */
static inline void vrb_rel_env_drained(struct vrb_rel_env *env)
{
    env->stale = 0;
}

/* local_start, remote_start: where each end's numbers start, as published (random). */
void vrb_rel_init(struct vrb_rel *rel, struct vrb_rel_env *env, uint64_t now, uint32_t local_start,
                  uint32_t remote_start);

/* How many new packets may leave now. 0 while lost ones wait. */
uint32_t vrb_rel_room(const struct vrb_rel *rel, uint64_t now);

/* A new packet leaves now. Returns VRB_OK, or VRB_ERR_AGAIN when there is no room. */
int vrb_rel_send(struct vrb_rel *rel, void *cookie, uint64_t now, struct vrb_rel_numbers *num);

/* The next packet that has to leave again now; NULL if none has to, or may. */
void *vrb_rel_resend(struct vrb_rel *rel, uint64_t now, struct vrb_rel_numbers *num);

/* A packet of data arrived. flags: of its header. */
enum vrb_rel_verdict vrb_rel_receive(struct vrb_rel *rel, uint32_t pn, uint32_t dseq, uint8_t flags,
                                     uint64_t now);

/* An ack block arrived. Returns how many cookies were put into done[] (0 .. VRB_REL_WINDOW), or
 * VRB_ERR_MALFORMED. */
int vrb_rel_on_ack(struct vrb_rel *rel, const struct vrb_ud_ack *ack, uint64_t now,
                   void *done[VRB_REL_WINDOW]);

/* An acknowledgement must leave now, alone if need be. */
static inline int vrb_rel_ack_due(const struct vrb_rel *rel, uint64_t now)
{
    return rel->ack.deadline <= now;
}

/* There is something to tell: let it ride on a packet that leaves. */
static inline int vrb_rel_ack_useful(const struct vrb_rel *rel)
{
    return rel->ack.pending != 0;
}

/* Fills an ack block, which is then taken as sent. Returns 0 when nothing has ever arrived, or when
 * the bitmap needs more than max_words (VRB_UD_ACK_WORDS are always enough): then let it leave
 * alone. */
int vrb_rel_build_ack(struct vrb_rel *rel, uint64_t now, unsigned max_words,
                      struct vrb_ud_ack *ack);

/* How many packets this peer may have in flight towards us from now on: its share of the receive
 * queue. It learns so with the next acknowledgement. */
void vrb_rel_set_buffers(struct vrb_rel *rel, uint16_t buffers);

/* When vrb_rel_on_timer or vrb_rel_build_ack is wanted next; UINT64_MAX: not at all. */
uint64_t vrb_rel_deadline(const struct vrb_rel *rel);

/* Runs what is due; then ask vrb_rel_resend and vrb_rel_ack_due. Returns VRB_OK, or VRB_ERR_TIMEOUT
 * once, when the peer is found dead: from then on there is no room and nothing to resend; take the
 * cookies back. */
int vrb_rel_on_timer(struct vrb_rel *rel, uint64_t now);

/* The sender gives up what its unacknowledged packets carry, but the numbers are used, and the
 * receiver waits for them: gives the cookies back one by one, `instead` in their place, then NULL.
 * *at: 0 at first. What `instead` stands for is to be sent when vrb_rel_resend says so. */
void *vrb_rel_replace(struct vrb_rel *rel, void *instead, uint64_t *at);

/* A peer that was given up, or silent on purpose, counts as alive again from now on. */
void vrb_rel_revive(struct vrb_rel *rel, uint64_t now);

/* True for a data sequence number that has arrived before. */
static inline int vrb_rel_has(const struct vrb_rel *rel, uint32_t dseq)
{
    return vrb_rel_rx_has(&rel->rx, dseq);
}

/* Gives the cookies of unacknowledged packets back one by one, in no order, then NULL. For dead
 * peers and at the end. */
void *vrb_rel_reclaim(struct vrb_rel *rel);

/* Packets that are not acknowledged. */
static inline uint32_t vrb_rel_outstanding(const struct vrb_rel *rel)
{
    return (uint32_t)rel->tx.in_flight + rel->tx.lost;
}

#endif
