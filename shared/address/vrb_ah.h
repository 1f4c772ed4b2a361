/* From a chosen path to verbs: address handle attributes for RC QPs and UD sends.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_AH_H
#define VRB_AH_H

#include <infiniband/verbs.h>

#include "address/vrb_choose.h"

/* Fills attr for packets that leave through port `port` along path. */
void vrb_ah_fill(struct ibv_ah_attr *attr, const struct vrb_path *path, uint8_t port);

/* The sender of a UD packet, as its GRH tells (40 bytes before the payload). On RoCE v2 over IPv4
 * the area holds an IPv4 header in its last 20 bytes (IBTA annex A17); it is told apart by its
 * version field and becomes ::ffff:a.b.c.d. Returns 1 with raw filled, 0 if there is no address to
 * be had. */
int vrb_grh_source(const uint8_t grh[40], uint8_t raw[VRB_GID_LEN]);

#endif
