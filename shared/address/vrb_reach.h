/* The choice of addresses in words: why this pair, and what to do when there is none.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. For the map of a job, for messages about peers that cannot be reached, and for verbs_info.
 */
#ifndef VRB_REACH_H
#define VRB_REACH_H

#include "address/vrb_choose.h"

/* "same subnet (/24), VLAN 100, the best of 4 pairs": what decided for the path. Returns buf. */
const char *vrb_reach_why(const struct vrb_path *path, char *buf, size_t len);

/* Why no path leads from local to remote, with both ends' addresses and what to do; why: the
 * sentence of vrb_choose(). Several lines, the first without a line end at its end. Returns buf. */
const char *vrb_reach_none(const struct vrb_address *local, const struct vrb_address *remote,
                           const char *why, char *buf, size_t len);

/* The same for processes whose ports were all tried against each other. */
const char *vrb_reach_none_of(const struct vrb_address *local, int nlocal,
                              const struct vrb_address *remote, int nremote, const char *why,
                              char *buf, size_t len);

/* The addresses that a port publishes: "10.1.0.1/24, 2001:db8::1/64 (RoCE v2)", or LID and
 * partitions on InfiniBand. Returns buf. */
const char *vrb_reach_addresses(const struct vrb_address *a, char *buf, size_t len);

/* "10.1.0.1/24": as people write it, with the mask if known. Returns buf. */
const char *vrb_reach_ip(const struct vrb_gid *gid, char *buf, size_t len);

#endif
