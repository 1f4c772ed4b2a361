/* A connection that broke: its QP is taken out of service, what did not arrive is kept, and a new
 * QP goes on where it stopped. Internal to the core.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What survives: every packet, exactly once and in order (the peer tells how many it has, and the
 * others are sent again), and puts and gets, which are posted again. Doing one of those twice is
 * harmless: the memory is the operation's own until its completion is reported, and no part of the
 * first try can arrive late, because the peer's old QP is out of service before the new one is
 * connected. What must not be done twice fails the peer.
 *
 * The order of things at each end:
 *
 *   PAUSE   the QP goes to ERR, which flushes what was posted; a marker is posted behind it
 *   quiet   the marker's completion was polled, so everything before it was, and what else the CQ
 *           held: the count of received packets is final
 *   renew   the old QP is destroyed, a new one made, and the handshake starts (wireup/)
 *   REMOTE  the peer's count is known: what it covers is done, the rest waits to be sent again
 *   UP      it is sent, before anything new
 *
 * A completion of the old QP that comes later is recognised by its QPN and dropped; the packet was
 * not counted, so it comes again. */
#ifndef VRB_RECOVER_H
#define VRB_RECOVER_H

#include <stdint.h>

#include "rc/vrb_replay.h"
#include "util/vrb_explain.h"
#include "vrb.h"

struct ibv_wc;

enum vrb_recover_state {
    VRB_RECOVER_NONE = 0,
    VRB_RECOVER_UNMARKED, /* in ERR; the marker could not be posted yet */
    VRB_RECOVER_MARKED,   /* the marker is on its way */
    VRB_RECOVER_QUIET,    /* nothing more can come */
    VRB_RECOVER_NO_QP,    /* the old QP is gone, the new one could not be made yet */
};

struct vrb_recover {
    uint8_t state;                      /* enum vrb_recover_state */
    uint8_t marker_out;                 /* a marker was posted and its completion not polled yet */
    uint32_t work;                      /* operations and probes that got through, ever */
    uint32_t rx_flushed;                /* receives of the peer's own queue that came back unused */
    uint64_t quiet_at;                  /* ns */
    uint64_t renew_at;                  /* ns: not before; 0 = at once */
    struct vrb_buf *kept;               /* sent, not known to have arrived; by number */
    struct vrb_rdma *rdma, **rdma_tail; /* the same; in order */
    /* Why it broke, for the message if it stays so. */
    const char *what, *detail; /* constant strings */
    int wc_status;
    uint32_t vendor_err;
};

void vrb_recover_init(struct vrb_peer *peer);

/* The QP broke, for the reason in f (whose strings are constant). Returns 1 if it is being
 * replaced, 0 if not: then the caller fails the peer, unless that has happened. */
int vrb_recover_break(struct vrb_peer *peer, const struct vrb_failure *f);

/* The connection is whole again: forgets why it broke. */
void vrb_recover_forget(struct vrb_peer *peer);

/* True if a completion with that status may be the network's or the device's passing trouble; false
 * if the request or the program is wrong, so that the next try would end the same way. */
int vrb_recover_may_pass(int wc_status);

/* Carries out VRB_WU_DO_PAUSE. */
void vrb_recover_pause(struct vrb_peer *peer);

/* The marker's completion. */
void vrb_recover_marked(struct vrb_rail *rail, const struct ibv_wc *wc);

/* Keeps what was flushed: it is the peer's until it is sent again or abandoned. */
void vrb_recover_keep(struct vrb_peer *peer, struct vrb_buf *buf);
/* Returns 0 for what must not be done twice: the peer has failed then. */
int vrb_recover_keep_rdma(struct vrb_peer *peer, struct vrb_rdma *rdma);

/* Goes on with a peer that is paused. idle: the CQ was empty. */
void vrb_recover_step(struct vrb_peer *peer, uint64_t now, int idle);

/* REMOTE is known and the QP connected. Returns VRB_OK or an error: the counts do not fit. */
int vrb_recover_rewind(struct vrb_peer *peer);

/* Sends again what the peer has not got, as far as credits and slots go. Returns 1 when all of it
 * has left. */
int vrb_recover_replay(struct vrb_peer *peer);

/* Completes what was kept with an error. */
void vrb_recover_abandon(struct vrb_peer *peer, int status);

#endif
