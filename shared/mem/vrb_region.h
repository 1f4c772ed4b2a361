/* Which memory a peer may have put into by datagrams: the registered regions by remote key.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An HCA checks key, bounds and rights of an RDMA write itself; for a put that arrives as datagrams
 * the receiving process does the same here, before it copies. */
#ifndef VRB_REGION_H
#define VRB_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "util/vrb_map.h"

struct vrb_regions {
    struct vrb_map by_rkey;
};

/* Notes a region that peers may write to. VRB_OK or VRB_ERR_NOMEM. */
int vrb_region_add(struct vrb_regions *r, uint32_t rkey, void *base, size_t size);
void vrb_region_del(struct vrb_regions *r, uint32_t rkey);
void vrb_regions_clear(struct vrb_regions *r);

/* Where len bytes for `address` go, or NULL if the region does not exist or does not hold them. */
void *vrb_region_target(const struct vrb_regions *r, uint32_t rkey, uint64_t address, uint32_t len);

#endif
