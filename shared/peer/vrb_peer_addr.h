/* Which pair of addresses a peer is reached by, when the best one turns out not to work.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Both ends have the same ranked list of pairs (address/vrb_choose.h). A peer starts at its top and
 * goes on to the next pair when no address handle can be made, when handshakes along it stay
 * unanswered, or when the local address is gone. How often it did, the round, travels in each
 * handshake message, so that the other end follows. Rounds only grow, up to VRB_ROUND_MAX: two ends
 * cannot chase each other for ever. A connection keeps the pair that its two QPs were told.
 *
 * A port whose address changes while the job runs (another LID from the subnet manager, another IP
 * address in place of the old) stays the same to the choice: both ends go on choosing by what was
 * published, and put the present address in its place. Each handshake message tells its sender's.
 * An end that changes starts a new connection for each that it has, since the old one checks where
 * packets come from; so its peers learn by the messages of that handshake, or by an INTRO. */
#ifndef VRB_PEER_ADDR_H
#define VRB_PEER_ADDR_H

#include "peer/vrb_peer.h"

/* Goes on to the next pair that can be used. VRB_OK, or VRB_ERR_UNREACH: there is no other, or the
 * connection is bound to this one. why: for the log. */
int vrb_peer_next_path(struct vrb_peer *peer, const char *why);

/* A handshake message is about to leave: goes on when they have stayed unanswered for long. */
void vrb_peer_unanswered(struct vrb_peer *peer, uint64_t now);

/* A handshake message arrived: follows the peer to its pair. Returns 0 when the message must not
 * count: its sender is behind and has not bound its QP, or two ends would bind theirs to different
 * pairs. Our own next message lets it follow. */
int vrb_peer_follow(struct vrb_peer *peer, const struct vrb_hello *h);

/* A message of the job tells where its sender is reached now: uses that. */
void vrb_peer_learn(struct vrb_peer *peer, const struct vrb_hello *h);

/* What both ends chose by may have changed since: puts the present addresses into peer->path. */
void vrb_peer_present_path(struct vrb_peer *peer);

/* An address handle could not be made, for the errno err. VRB_OK: try again at once, by another
 * pair; VRB_ERR_AGAIN: later; VRB_ERR_UNREACH: in vain. */
int vrb_peer_no_ah(struct vrb_peer *peer, int err, uint64_t now);

/* The port's GID table or LID changed: finds the addresses that were published again, or what is in
 * their place now, and tells the peers; moves them away from those that are gone. */
void vrb_rail_addresses_changed(struct vrb_rail *rail);

#endif
