/* The table of regions that peers may put into (see vrb_region.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "mem/vrb_region.h"

#include <stdlib.h>

#include "util/vrb_status.h"

struct region {
    uint64_t base;
    uint64_t size;
};

int vrb_region_add(struct vrb_regions *r, uint32_t rkey, void *base, size_t size)
{
    struct region *g = malloc(sizeof(*g));

    if (g == NULL) {
        return VRB_ERR_NOMEM;
    }
    *g = (struct region){.base = (uintptr_t)base, .size = size};
    vrb_region_del(r, rkey);
    if (vrb_map_put(&r->by_rkey, rkey, g) != VRB_OK) {
        free(g);
        return VRB_ERR_NOMEM;
    }
    return VRB_OK;
}

void vrb_region_del(struct vrb_regions *r, uint32_t rkey)
{
    free(vrb_map_get(&r->by_rkey, rkey));
    vrb_map_del(&r->by_rkey, rkey);
}

void vrb_regions_clear(struct vrb_regions *r)
{
    if (r->by_rkey.slots != NULL) {
        for (size_t i = 0; i < (size_t)1 << r->by_rkey.bits; i++) {
            free(r->by_rkey.slots[i].value);
        }
    }
    vrb_map_clear(&r->by_rkey);
}

void *vrb_region_target(const struct vrb_regions *r, uint32_t rkey, uint64_t address, uint32_t len)
{
    const struct region *g = vrb_map_get(&r->by_rkey, rkey);

    /* In this order nothing can wrap around. */
    if (g == NULL || address < g->base || address - g->base > g->size ||
        len > g->size - (address - g->base)) {
        return NULL;
    }
    return (void *)(uintptr_t)address;
}
