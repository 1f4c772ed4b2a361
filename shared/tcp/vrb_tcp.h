/* The handshake's second carrier: TCP, for devices that have no UD queue pairs. Internal to the
 * core. SPDX-License-Identifier: BSD-3-Clause
 *
 * The handshake (wireup/) is the same one; its messages travel over TCP instead of a UD QP, and
 * like there any of them may get lost: a message for which there is no room is dropped, since the
 * handshake repeats it. Each end listens on a port of its own choice, which it publishes with its
 * IP addresses (vrb_rail_tcp_pack()), and sends over a connection that it makes itself; nothing but
 * handshakes ever goes this way, so connections are closed soon after.
 *
 * A stream starts with 16 bytes: u32 magic "VRBT", u8 version, three bytes 0, and the u64 nonce of
 * the rail that is meant, which is random and told to the job's processes only. Handshake messages
 * of VRB_HELLO_SIZE bytes follow. A stream that starts with anything else is closed unanswered. */
#ifndef VRB_TCP_H
#define VRB_TCP_H

#include "rail/vrb_rail.h"
#include "wire/vrb_hello.h"

struct vrb_tcp;

/* Starts listening. VRB_OK, or an error with *detail in words. */
int vrb_tcp_open(struct vrb_rail *rail, char *detail, size_t len);
void vrb_tcp_close(struct vrb_rail *rail);

/* Sends a handshake message, or loses it; an error is one that repeating cannot mend, in words. */
int vrb_tcp_hello(struct vrb_peer *peer, const struct vrb_hello *h, char *detail, size_t len);

/* Accepts, receives, sends what could not leave at once. A few system calls, at most once a
 * millisecond. */
void vrb_tcp_progress(struct vrb_rail *rail, uint64_t now);

/* The peer goes: its connection is closed, its addresses are forgotten. */
void vrb_tcp_forget(struct vrb_peer *peer);

#endif
