/* How long packets to a peer may be: what its ends say, and what was seen to arrive.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * RC: the handshake's messages are as long as the packets will be (wireup/vrb_pmtu.h), and the QPs
 * are bound to what arrived.
 *
 * Datagrams start without a handshake, at a length that every network takes (VRB_SURE_MTU). The
 * first message that would gain from longer ones sends an INTRO of the full length along, and the
 * next; the answer says which arrived. Small messages never ask.
 *
 * A verdict is remembered for the pair of ports, told once, and used for all peers behind it. */
#ifndef VRB_PEER_MTU_H
#define VRB_PEER_MTU_H

#include "peer/vrb_peer.h"

/* 1024 bytes: what fits a standard Ethernet frame (1500 bytes), and any InfiniBand link in use. */
#define VRB_SURE_MTU 3

/* The peer took another path. */
void vrb_peer_mtu_init(struct vrb_peer *peer);

/* Whether a HELLO counts, by its length (vrb_pmtu_hear). Clears its HAVE where that does not
 * count. Returns 0 when the message has been dealt with. */
int vrb_peer_mtu_takes(struct vrb_peer *peer, struct vrb_hello *h, uint8_t length);

/* Packets of that MTU were seen to arrive at the peer. */
void vrb_peer_mtu_proven(struct vrb_peer *peer, uint8_t mtu);

/* Longer packets than those of that MTU do not arrive: remembers it and says so, once. */
void vrb_peer_mtu_narrow(struct vrb_peer *peer, uint8_t mtu);

#endif
