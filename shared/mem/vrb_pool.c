/* Slab growth and release for the buffer pools of vrb_pool.h.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "mem/vrb_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rail/vrb_rail.h"

/* Payload strides are multiples of a cache line, so that two buffers never share one. */
#define CACHE_LINE 64

struct vrb_slab {
    struct vrb_slab *next;
    void *base;
    size_t size;
    struct ibv_mr *mr;
    char *bufs;
};

void vrb_pool_init(struct vrb_pool *p, struct vrb_rail *rail, uint32_t capacity, uint32_t headroom,
                   uint32_t user, uint32_t per_slab, uint32_t limit, uint8_t cls)
{
    *p = (struct vrb_pool){
        .rail = rail,
        .pd = rail->pd,
        .stats = &rail->stats,
        .capacity = capacity,
        .headroom = headroom,
        .user = user,
        .per_slab = per_slab,
        .limit = limit,
        .cls = cls,
    };
}

static void free_slab(struct vrb_slab *s)
{
    if (s->mr != NULL) {
        ibv_dereg_mr(s->mr);
    }
    if (s->base != MAP_FAILED) {
        munmap(s->base, s->size);
    }
    free(s->bufs);
    free(s);
}

int vrb_pool_grow(struct vrb_pool *p)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t stride =
        ((size_t)p->headroom + p->capacity + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    size_t buf_size = (sizeof(struct vrb_buf) + p->user + 15) & ~(size_t)15;
    uint32_t n = p->per_slab;
    struct vrb_slab *s;
    int err;

    if (p->total >= p->limit) {
        return VRB_ERR_AGAIN;
    }
    if (n > p->limit - p->total) {
        n = p->limit - p->total;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return VRB_ERR_NOMEM;
    }
    s->size = (n * stride + page - 1) & ~(page - 1);
    s->base = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s->bufs = aligned_alloc(16, n * buf_size);
    if (s->base != MAP_FAILED && s->bufs != NULL) {
        madvise(s->base, s->size, MADV_DONTFORK);
        s->mr = ibv_reg_mr(p->pd, s->base, s->size, IBV_ACCESS_LOCAL_WRITE);
    }
    if (s->mr == NULL) {
        err = errno;
        free_slab(s);
        p->grow_failed = 1;
        errno = err;
        return VRB_ERR_NOMEM;
    }
    for (uint32_t i = n; i-- > 0;) {
        struct vrb_buf *b = (struct vrb_buf *)(void *)(s->bufs + i * buf_size);
        *b = (struct vrb_buf){
            .next = p->free,
            .payload = (uint8_t *)s->base + i * stride + p->headroom,
            .capacity = p->capacity,
            .lkey = s->mr->lkey,
            .cls = p->cls,
            .pool = p,
        };
        /* The owner sees a zeroed user area the first time: it initialises it once per buffer. */
        __builtin_memset(vrb_buf_user(b), 0, p->user);
        p->free = b;
    }
    s->next = p->slabs;
    p->slabs = s;
    p->total += n;
    p->stats->reg_bytes += s->size;
    if (p->stats->reg_bytes > p->stats->reg_bytes_max) {
        p->stats->reg_bytes_max = p->stats->reg_bytes;
    }
    return VRB_OK;
}

void vrb_pool_destroy(struct vrb_pool *p)
{
    while (p->slabs != NULL) {
        struct vrb_slab *s = p->slabs;
        p->slabs = s->next;
        p->stats->reg_bytes -= s->size;
        free_slab(s);
    }
    p->free = NULL;
    p->total = p->in_use = 0;
}
