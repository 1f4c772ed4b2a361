/* The UD QP of a rail: carries handshake messages, loses them when it must (the handshake repeats).
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_UD_H
#define VRB_UD_H

#include "rail/vrb_rail.h"
#include "wire/vrb_hello.h"

struct vrb_peer;

/* Makes the QP, its buffers and a random Q_Key; fills address.ud_qpn and qkey of the rail. Returns
 * VRB_OK, or an error with *detail in words. */
int vrb_ud_open(struct vrb_rail *rail, char *detail, size_t len);
void vrb_ud_close(struct vrb_rail *rail);

/* How many CQ entries it may need. */
int vrb_ud_cq_entries(void);

/* Sends a HELLO to the peer's UD QP. Returns VRB_OK (sent, or lost for want of a slot: like on the
 * wire), or an error that repeating cannot mend, in words. */
int vrb_ud_hello(struct vrb_peer *peer, const struct vrb_hello *h, char *detail, size_t len);

/* Completions of this QP. */
void vrb_ud_recv(struct vrb_rail *rail, const struct ibv_wc *wc);
void vrb_ud_send_done(struct vrb_rail *rail, const struct ibv_wc *wc);

#endif
