/* The pool of packet records that the peers of a rail share.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_pool.h"

#include <stdlib.h>

#include "util/vrb_status.h"

int vrb_rel_pool_init(struct vrb_rel_pool *pool, uint32_t chunks)
{
    if (chunks == 0) {
        chunks = 1;
    }
    if (chunks > VRB_REL_NIL) {
        chunks = VRB_REL_NIL;
    }
    pool->total = (uint16_t)chunks;
    pool->touched = 0;
    pool->free = VRB_REL_NIL;
    pool->in_use = 0;
    pool->chunks = malloc(chunks * sizeof(*pool->chunks));
    return pool->chunks ? VRB_OK : VRB_ERR_NOMEM;
}

void vrb_rel_pool_fini(struct vrb_rel_pool *pool)
{
    free(pool->chunks);
    pool->chunks = NULL;
    pool->total = pool->touched = pool->in_use = 0;
    pool->free = VRB_REL_NIL;
}

uint16_t vrb_rel_pool_get(struct vrb_rel_pool *pool)
{
    uint16_t chunk = pool->free;

    if (chunk != VRB_REL_NIL) {
        pool->free = pool->chunks[chunk].next;
    } else if (pool->touched < pool->total) {
        chunk = pool->touched++;
    } else {
        return VRB_REL_NIL;
    }
    pool->chunks[chunk].live = 0;
    pool->in_use++;
    return chunk;
}

void vrb_rel_pool_put(struct vrb_rel_pool *pool, uint16_t chunk)
{
    pool->chunks[chunk].next = pool->free;
    pool->free = chunk;
    pool->in_use--;
}
