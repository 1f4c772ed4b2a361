/* What the core asks of a device and its ports, kept apart so that old libraries are met in one
 * place. SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_QUERY_H
#define VRB_QUERY_H

#include <infiniband/verbs.h>

#include "address/vrb_address.h"

/* Reads the useful GIDs of a port, best first (the order in which vrb_choose prefers them, so that
 * the VRB_MAX_GIDS published are the best ones). Empty slots, unreadable entries and shifted
 * indices are normal. Returns their number. */
int vrb_query_gids(struct ibv_context *ctx, uint8_t port, uint8_t link,
                   struct vrb_gid gids[VRB_MAX_GIDS]);

/* The first partition key of which the port is a full member, else the first one at all; *index
 * tells where. Returns 0 with 0xffff at index 0 when the table cannot be read (RoCE). */
int vrb_query_pkey(struct ibv_context *ctx, uint8_t port, int table_len, uint16_t *pkey,
                   uint16_t *index);

/* Speed times width in Mbit/s; 0 for codes that nobody knows yet. */
uint32_t vrb_query_speed(const struct ibv_port_attr *attr);

#endif
