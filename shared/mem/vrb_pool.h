/* Pools of message buffers in registered memory, grown slab by slab.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A slab is one page-aligned mapping, one MR, and an array of struct vrb_buf kept apart from it, so
 * that bookkeeping does not share cache lines with what the HCA writes. Each buffer has
 * some bytes before its payload for the packet header, written backwards from the payload: header
 * and payload leave in one SGE, and the payload is 16-byte aligned.
 *
 * Slabs are marked MADV_DONTFORK: a child never uses them, and copy-on-write after fork() must not
 * move the parent's pages away from under the HCA (ibv_fork_init(3)).
 *
 * Threads: the rail's lock covers its pools. */
#ifndef VRB_POOL_H
#define VRB_POOL_H

#include <infiniband/verbs.h>

#include "vrb.h"

/* For the header of RC packets (VRB_HDR_SIZE). */
#define VRB_POOL_HEADROOM 16

struct vrb_slab;

struct vrb_pool {
    struct vrb_buf *free;   /* last in, first out: the warmest buffer goes next */
    uint32_t capacity;      /* payload bytes */
    uint32_t headroom;      /* bytes before the payload: a multiple of 16 */
    uint32_t user;          /* bytes behind each struct vrb_buf */
    uint32_t per_slab;      /* buffers added at a time */
    uint32_t limit;         /* buffers at the most */
    uint32_t total, in_use; /* buffers made; taken out */
    uint8_t cls;            /* copied into vrb_buf.cls */
    uint8_t grow_failed;    /* the last attempt to grow failed: `total` is the true limit now */
    struct ibv_pd *pd;
    struct vrb_rail *rail; /* whose lock and counters they are */
    struct vrb_stats *stats;
    struct vrb_slab *slabs;
};

/* Nothing is allocated yet. */
void vrb_pool_init(struct vrb_pool *p, struct vrb_rail *rail, uint32_t capacity, uint32_t headroom,
                   uint32_t user, uint32_t per_slab, uint32_t limit, uint8_t cls);

/* Makes one more slab (up to the limit). VRB_OK, VRB_ERR_AGAIN at the limit, VRB_ERR_NOMEM with
 * errno. */
int vrb_pool_grow(struct vrb_pool *p);

/* Unregisters and frees everything, whatever is still taken. */
void vrb_pool_destroy(struct vrb_pool *p);

static inline struct vrb_buf *vrb_pool_get(struct vrb_pool *p)
{
    struct vrb_buf *b = p->free;

    if (__builtin_expect(b == NULL, 0)) {
        if (vrb_pool_grow(p) != VRB_OK) {
            return NULL;
        }
        b = p->free;
    }
    p->free = b->next;
    p->in_use++;
    return b;
}

static inline void vrb_pool_put(struct vrb_pool *p, struct vrb_buf *b)
{
    b->next = p->free;
    p->free = b;
    p->in_use--;
}

#endif
