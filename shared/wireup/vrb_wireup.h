/* The state machine that connects two RC QPs by HELLO messages over an unreliable carrier.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure: time (nanoseconds, any monotonic origin) and messages are passed in; what to do comes back
 * as a set of actions. One machine per peer and rail.
 *
 * Both ends run the same machine; there is no client and no server, so two ends that start at once
 * need no tie-break. Each end must learn two facts: the peer's QP data (REMOTE), and that the peer
 * has ours (HAVE). A HELLO carries the sender's data, HAVE when the sender has ours, NEED while the
 * sender does not yet know that we have its own. The rules:
 *
 *   1. A HELLO from a new id teaches us REMOTE: the caller moves its QP to RTR and RTS before it
 *      sends anything else.
 *   2. A HELLO with HAVE and our own id teaches us HAVE.
 *   3. REMOTE and HAVE together: the connection is UP. Until HAVE the peer's QP may not be ready to
 *      receive: no data is sent.
 *   4. A HELLO with NEED is answered at once, always, with our HELLO (flag HAVE if we have REMOTE);
 *      that makes every duplicate and every lost answer harmless.
 *   5. Until UP our HELLO is repeated: first after cfg.first_ns, doubling up to cfg.max_ns, each
 * with jitter so that a job's ranks do not beat in step.
 *   6. A packet on the RC QP itself proves HAVE (vrb_wireup_on_data).
 *   7. Messages for another id of ours, or from another id than the one learnt, are stale: ignored,
 *      except that a HELLO from a *later* id after REMOTE is learnt (dst_id 0 or ours) means that
 *      the peer lost its state: the connection FAILS. So each process hands out its ids in
 * increasing order (modulo 2^32, from any start); a late copy of an earlier id's HELLO does no
 * harm.
 *   8. REJECT with our id as dst_id FAILS the connection with its reason.
 *   9. No UP within cfg.timeout_ns after the start: FAILED (timeout).
 *  10. A FAILED machine tells a peer that it heard from, once when it fails and again in answer to
 *      each HELLO with NEED, by REJECT; a REJECT is never answered. */
#ifndef VRB_WIREUP_H
#define VRB_WIREUP_H

#include <stdint.h>

#include "wire/vrb_hello.h"

enum vrb_wireup_state {
    VRB_WU_IDLE = 0, /* nothing started */
    VRB_WU_CONNECTING,
    VRB_WU_UP,
    VRB_WU_FAILED,
};

/* Actions, to be carried out in this order. */
enum vrb_wireup_action {
    VRB_WU_DO_REMOTE = 1, /* w->remote is valid now: bring the QP to RTR and RTS */
    VRB_WU_DO_SEND = 2,   /* send vrb_wireup_message() to the peer */
    VRB_WU_DO_UP = 4,     /* connected: queued messages may go */
    VRB_WU_DO_FAIL = 8,   /* given up: w->failure tells why */
};

enum vrb_wireup_failure {
    VRB_WU_FAIL_NONE = 0,
    VRB_WU_FAIL_TIMEOUT,  /* no answer */
    VRB_WU_FAIL_REJECTED, /* w->reject_reason */
    VRB_WU_FAIL_RESTART,  /* the peer lost its state */
    VRB_WU_FAIL_LOCAL,    /* the caller gave up (vrb_wireup_give_up) */
};

struct vrb_wireup_config {
    uint64_t first_ns;   /* first repeat of an unanswered HELLO */
    uint64_t max_ns;     /* longest time between two repeats */
    uint64_t timeout_ns; /* from start to giving up */
};

struct vrb_wireup {
    enum vrb_wireup_state state;
    enum vrb_wireup_failure failure;
    uint8_t reject_reason;
    uint8_t have_remote; /* w->remote is valid */
    uint8_t peer_has;    /* the peer has our data */
    uint8_t heard;       /* anything valid ever arrived: tells a dead path from a stuck peer */
    uint32_t sent;       /* HELLOs sent so far, for the report */
    uint8_t decline;     /* enum vrb_reject_reason that a FAILED machine tells */
    uint32_t asker;      /* id of the last HELLO's sender: a REJECT goes to it; 0 = none */
    uint32_t rng;        /* jitter */
    uint64_t started, next_send, interval; /* ns */
    struct vrb_wireup_config cfg;
    struct vrb_hello local; /* what we say: names, rails, ids, qpn, psn, ...; flags are filled in */
    struct vrb_hello remote; /* what the peer said */
};

/* local: all fields but type, flags, reason and dst_id set by the caller; local->src_id != 0.
 * seed: any number, differing between processes. */
void vrb_wireup_init(struct vrb_wireup *w, const struct vrb_wireup_config *cfg,
                     const struct vrb_hello *local, uint32_t seed);

/* Each returns a set of enum vrb_wireup_action. */
unsigned vrb_wireup_start(struct vrb_wireup *w, uint64_t now);
unsigned vrb_wireup_on_message(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m);
unsigned vrb_wireup_on_data(struct vrb_wireup *w, uint64_t now);
unsigned vrb_wireup_on_timer(struct vrb_wireup *w, uint64_t now);

/* The caller cannot go on (QP creation failed, the QP broke, ...): FAILED from any state; reason is
 * what the peer is told. Returns DO_SEND (a REJECT) if the peer was ever heard of, else 0; never
 * DO_FAIL, since the caller knows. */
unsigned vrb_wireup_give_up(struct vrb_wireup *w, uint8_t reason);

/* When on_timer wants to be called next; UINT64_MAX when it does not. */
uint64_t vrb_wireup_deadline(const struct vrb_wireup *w);

/* The message that DO_SEND means: a HELLO, which is counted, or (FAILED) a REJECT. */
void vrb_wireup_message(struct vrb_wireup *w, struct vrb_hello *out);

#endif
