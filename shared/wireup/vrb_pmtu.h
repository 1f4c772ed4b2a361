/* Finds out how long a packet the path to a peer takes, by the length of the handshake's messages.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure: time and lengths are passed in. One of these per peer and rail.
 *
 * What ports and network devices say is an upper bound: a switch on the way may take less, and then
 * small packets arrive and long ones vanish without a word. So a HELLO is as long as the packets
 * that the connection is going to use; whoever takes it has seen one arrive. That costs no message
 * and no time when all is well.
 *
 *   1. A HELLO tells the MTU that its sender goes on with (limit). The lower of both counts.
 *   2. A HELLO counts only once one of that length has arrived from its sender (heard).
 *   3. An unanswered HELLO is repeated at its length; the third and fourth time, and every
 *      SERIES_EVERY times, as a series: all lengths, the longest first. The last one (flag LAST) is
 *      short and asks for the answer. Lengths that arrive are the path's; so a peer that is merely
 *      slow takes the first HELLO, and nothing is lowered.
 *   4. SERIES_MISSED series that ended without the length that was wanted: the longest that did
 *      arrive is our limit from now on. Random loss rarely does that, and costs speed only.
 *   5. Both QPs must use the same MTU. A HELLO that says HAVE comes from one that is bound to the
 *      MTU it tells: where that is more than our limit HAVE does not count; where it is less than
 *      what our QP is bound to, the QP must be replaced (REBIND), since it cannot be changed.
 *      Limits only fall, and an end that is UP has seen HAVE with its own MTU, so they meet.
 *
 * Each connection (generation) begins anew with the limit of the last one: a path that got narrower
 * while the job runs breaks the QP, and its successor fits. */
#ifndef VRB_PMTU_H
#define VRB_PMTU_H

#include <stddef.h>
#include <stdint.h>

#include "wireup/vrb_wireup.h"

#define VRB_PMTU_MIN 1 /* enum ibv_mtu: 256 bytes, which every path takes */
#define VRB_PMTU_MAX 5 /* 4096 */

#define VRB_PMTU_SERIES_EVERY 8
#define VRB_PMTU_SERIES_MISSED 2

/* Answers to a burst of old messages are one try: a repeat is this much later at the least. */
#define VRB_PMTU_SPACING_NS 2000000

/* Messages of one series at the most. */
#define VRB_PMTU_SERIES_MAX VRB_PMTU_MAX

struct vrb_pmtu {
    uint8_t limit;   /* enum ibv_mtu: what this end goes on with */
    uint8_t first;   /* the limit when the path was taken */
    uint8_t heard;   /* the longest that arrived since this connection began; 0: none did */
    uint8_t missed;  /* series that ended without the length that was wanted */
    uint8_t lowered; /* by what we did not hear (rule 4); the peer may have lowered it, too */
    uint32_t tries;  /* HELLOs sent since this connection began */
    uint64_t last;   /* ns: the last that counted */
};

enum vrb_pmtu_verdict {
    VRB_PMTU_TAKE = 0, /* hand the message on */
    VRB_PMTU_HOLD,     /* it does not count yet */
    VRB_PMTU_REBIND,   /* our QP is bound to too large an MTU: replace it */
};

/* The MTU (enum ibv_mtu) whose packets are as long as a datagram of len bytes. */
uint8_t vrb_pmtu_of(size_t len);

/* A path was taken that may carry packets of this MTU. */
void vrb_pmtu_init(struct vrb_pmtu *p, uint8_t mtu);

/* The next connection over it begins. */
void vrb_pmtu_begin(struct vrb_pmtu *p);

/* A message arrived in a datagram of that MTU's length, for the machine w, which has not seen it.
 * On TAKE p->limit is what the QP is bound to if the message leads to that; HAVE is cleared where
 * it does not count. What w will not use (another generation, stale ids) is taken as it is. */
enum vrb_pmtu_verdict vrb_pmtu_hear(struct vrb_pmtu *p, const struct vrb_wireup *w,
                                    struct vrb_hello *h, uint8_t length);

/* A HELLO is about to be sent. Fills in as how many datagrams, and the MTU as long as which each is
 * (0: no longer than it must be). The last one takes the message as it is, the others without NEED;
 * with more than one, LAST goes into the last. peer_has: the peer's QP is bound to ours. */
int vrb_pmtu_lengths(struct vrb_pmtu *p, uint64_t now, int peer_has,
                     uint8_t lengths[VRB_PMTU_SERIES_MAX]);

#endif
