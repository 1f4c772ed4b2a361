/* The state machine that connects two RC QPs by HELLO messages over an unreliable carrier, and
 * connects them anew when they break.
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
 *      each HELLO with NEED, by REJECT; a REJECT is never answered.
 *
 * A connection that breaks is made anew, with other QPs. The connections of two ends are numbered
 * (generation), and in one generation an end has one QP at the most, so that it is always clear
 * which two belong together:
 *
 *  11. Our QP broke (vrb_wireup_pause): PAUSED, and the next generation is wanted.
 *  12. A HELLO of a later generation says that the peer's QP broke: PAUSED, and that generation is
 *      wanted, whatever our own QP thinks of itself. The caller takes it out of service (PAUSE).
 *  13. When nothing can arrive on the old QP any more the caller counts what did, makes a QP and
 *      goes on (vrb_wireup_resume): CONNECTING in the generation that is wanted. The HELLO carries
 *      the count, which therefore never changes within a generation; the other end sends again
 *      exactly what it does not cover.
 *  14. A HELLO of an earlier generation never changes anything. With NEED it is answered by ours,
 *      from which its sender learns that it is behind.
 *  15. From the pause on cfg.recover_ns pass at the most until UP, or FAILED (timeout). 0: no
 *      second try, ever.
 *  16. A QP that breaks more than VRB_WU_STUCK_MAX times in a row without anything getting through
 *      meanwhile, in either direction, is not worth another: FAILED (stuck). An end that only
 *      receives sends nothing but credits, which are not counted: what arrived counts for it.
 *  17. An end that starts anew has another life (the id of its first QP). Only a HELLO that names
 *      the right lives of both ends belongs to a later generation of theirs. */
#ifndef VRB_WIREUP_H
#define VRB_WIREUP_H

#include <stdint.h>

#include "wire/vrb_hello.h"

#define VRB_WU_STUCK_MAX 5

enum vrb_wireup_state {
    VRB_WU_IDLE = 0, /* nothing started */
    VRB_WU_CONNECTING,
    VRB_WU_UP,
    VRB_WU_PAUSED, /* between two generations */
    VRB_WU_FAILED,
};

/* Actions, to be carried out in this order. */
enum vrb_wireup_action {
    VRB_WU_DO_PAUSE =
        16, /* take the QP out of service; then, when it is quiet, vrb_wireup_resume */
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
    VRB_WU_FAIL_STUCK,    /* one QP after the other breaks (rule 16) */
};

struct vrb_wireup_config {
    uint64_t first_ns;   /* first repeat of an unanswered HELLO */
    uint64_t max_ns;     /* longest time between two repeats */
    uint64_t timeout_ns; /* from start to giving up */
    uint64_t recover_ns; /* from a break to giving up; 0: a break is the end */
};

struct vrb_wireup {
    enum vrb_wireup_state state;
    enum vrb_wireup_failure failure;
    uint8_t reject_reason;
    uint8_t have_remote;  /* w->remote is valid */
    uint8_t peer_has;     /* the peer has our data */
    uint8_t heard;        /* anything valid arrived since the start or the pause: tells a dead path
                           * from a stuck peer */
    uint8_t stuck;        /* breaks of our QP since anything got through, ours or the peer's */
    uint8_t decline;      /* enum vrb_reject_reason that a FAILED machine tells */
    uint16_t want;        /* PAUSED: the generation to resume in */
    uint32_t sent;        /* HELLOs sent since the start or the pause, for the report */
    uint32_t asker;       /* id of the last HELLO's sender: a REJECT goes to it; 0 = none */
    uint32_t rng;         /* jitter */
    uint32_t work;        /* what the caller told at the last break (vrb_wireup_pause) */
    uint32_t last_id;     /* the latest id of the peer's that was learnt; 0 = none */
    uint32_t remote_life; /* 0 = not known yet */
    uint64_t started, end, next_send, interval; /* ns */
    struct vrb_wireup_config cfg;
    struct vrb_hello local; /* what we say: names, rails, ids, qpn, psn, ...; flags are filled in */
    struct vrb_hello remote; /* what the peer said */
};

/* local: all fields but type, flags, reason, dst_id, gen, rx_seq and the lives set by the caller;
 * local->src_id != 0. seed: any number, differing between processes. */
void vrb_wireup_init(struct vrb_wireup *w, const struct vrb_wireup_config *cfg,
                     const struct vrb_hello *local, uint32_t seed);

/* Each returns a set of enum vrb_wireup_action. */
unsigned vrb_wireup_start(struct vrb_wireup *w, uint64_t now);
unsigned vrb_wireup_on_message(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m);
unsigned vrb_wireup_on_data(struct vrb_wireup *w, uint64_t now);
unsigned vrb_wireup_on_timer(struct vrb_wireup *w, uint64_t now);

/* The QP broke. work: a count that has changed since the last break if any of our requests got
 * through (that packets did is seen from the peer's count). Returns VRB_WU_DO_PAUSE; 0 if the
 * machine is PAUSED already, or not connected so far that a next generation could be agreed on: the
 * caller fails then; or VRB_WU_DO_FAIL (rule 16; 65535 generations). */
unsigned vrb_wireup_pause(struct vrb_wireup *w, uint64_t now, uint32_t work);

/* PAUSED, and the caller has a new QP: local as for init, but grant and rx_seq as they are now, and
 * an id later than all before. Returns VRB_WU_DO_SEND. */
unsigned vrb_wireup_resume(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *local);

/* The caller cannot go on (QP creation failed, the QP broke, ...): FAILED from any state; reason is
 * what the peer is told. Returns DO_SEND (a REJECT) if the peer was ever heard of, else 0; never
 * DO_FAIL, since the caller knows. */
unsigned vrb_wireup_give_up(struct vrb_wireup *w, uint8_t reason);

/* When on_timer wants to be called next; UINT64_MAX when it does not. */
uint64_t vrb_wireup_deadline(const struct vrb_wireup *w);

/* The message that DO_SEND means: a HELLO, which is counted, or (FAILED) a REJECT. */
void vrb_wireup_message(struct vrb_wireup *w, struct vrb_hello *out);

#endif
