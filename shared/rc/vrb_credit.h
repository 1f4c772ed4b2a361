/* Flow control of one RC connection: absolute credit counts, advertised by the receiver.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. Counts are modulo 2^16 and compared by signed difference, so windows stay below 2^15.
 *
 * The receiver tells, in the handshake and in every packet, the number below which the sender may
 * number its packets ("grant"). Telling an absolute count makes a repeated or late grant harmless,
 * and each end picks its own window: nothing is assumed equal at both ends.
 *
 * A receiver with nothing to send tells its grant in a CREDIT packet once half of the window has
 * been consumed since it last told. CREDIT packets need no credit themselves; because a second one
 * is sent only after the peer has used half a window more, at most VRB_CREDIT_RESERVE of them are
 * ever unprocessed at the peer, which keeps that many receive buffers beyond the window for them.
 */
#ifndef VRB_CREDIT_H
#define VRB_CREDIT_H

#include <stdint.h>

#define VRB_CREDIT_RESERVE 3
#define VRB_CREDIT_MAX_WINDOW 8192

struct vrb_credit {
    uint16_t tx_next;  /* number of the next packet we send */
    uint16_t tx_limit; /* we may send numbers below this */
    uint16_t rx_grant; /* packets consumed, whose buffers can be used again, plus the window */
    uint16_t rx_told;  /* the grant that the peer was last told */
    uint16_t half;     /* of the window: not told yet beyond this, and a CREDIT packet is due */
    uint16_t window;   /* packets the peer may have in flight towards us (2 .. MAX_WINDOW) */
};

static inline void vrb_credit_init(struct vrb_credit *c, uint16_t window)
{
    c->tx_next = 0;
    c->tx_limit = 0;
    c->rx_grant = window;
    c->rx_told = window;
    c->half = (uint16_t)((window + 1) / 2);
    c->window = window;
}

/* How many packets may be sent now. */
static inline int vrb_credit_room(const struct vrb_credit *c)
{
    int16_t room = (int16_t)(uint16_t)(c->tx_limit - c->tx_next);
    return room > 0 ? room : 0;
}

static inline void vrb_credit_sent(struct vrb_credit *c)
{
    c->tx_next++;
}

/* A grant arrived: takes it if it is newer and no larger than any honest one. Returns 1 if it
 * gave room. */
static inline int vrb_credit_granted(struct vrb_credit *c, uint16_t grant)
{
    int16_t gain = (int16_t)(uint16_t)(grant - c->tx_limit);
    if (gain <= 0 || (uint16_t)(grant - c->tx_next) > VRB_CREDIT_MAX_WINDOW) {
        return 0;
    }
    c->tx_limit = grant;
    return 1;
}

/* Both ends' counts go on with another connection: what was in flight on the old one is sent again
 * (tx: from number rx_seq of the peer's on), or will be (rx). */
static inline void vrb_credit_restart_tx(struct vrb_credit *c, uint32_t rx_seq, uint16_t grant)
{
    c->tx_next = (uint16_t)rx_seq;
    c->tx_limit = (uint16_t)rx_seq;
    vrb_credit_granted(c, grant);
}

static inline void vrb_credit_restart_rx(struct vrb_credit *c, uint32_t rx_seq)
{
    c->rx_grant = (uint16_t)(rx_seq + c->window);
}

static inline void vrb_credit_consumed(struct vrb_credit *c)
{
    c->rx_grant++;
}

/* The grant to put into a packet that leaves now; remembers that it was told. */
static inline uint16_t vrb_credit_tell(struct vrb_credit *c)
{
    c->rx_told = c->rx_grant;
    return c->rx_told;
}

/* True when a CREDIT packet is due: half of the window was used up since the last telling. */
static inline int vrb_credit_due(const struct vrb_credit *c)
{
    return (uint16_t)(c->rx_grant - c->rx_told) >= c->half;
}

#endif
