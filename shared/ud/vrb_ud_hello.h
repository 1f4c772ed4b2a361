/* Handshake datagrams in: who sent them, and may they be believed?
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_UD_HELLO_H
#define VRB_UD_HELLO_H

#include "rail/vrb_rail.h"

/* A datagram that starts like a HELLO arrived; grh points at the 40 bytes before it. */
void vrb_ud_hello_recv(struct vrb_rail *rail, const struct ibv_wc *wc, const uint8_t *grh);

/* A handshake message of len bytes arrived. wc and grh: as which datagram; NULL when it came over a
 * carrier that has seen to it that only peers can send. */
void vrb_hello_take(struct vrb_rail *rail, const uint8_t *p, size_t len, const struct ibv_wc *wc,
                    const uint8_t *grh);

#endif
