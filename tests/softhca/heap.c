/* The segment's heap (rings of queues, by powers of two) and its tables of objects.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

enum { MIN_CLASS = 7 /* 128 B: two cache lines */, GIVE_BACK = 1 << 18 };

static unsigned int class_of(uint64_t bytes)
{
    unsigned int c = MIN_CLASS;

    while (c < SM_SIZE_CLASSES && (UINT64_C(1) << c) < bytes) {
        c++;
    }
    return c;
}

/* Large rings are rarely filled, so their pages are not reserved, only looked for. */
static bool room_for(uint64_t bytes)
{
    struct statvfs v;

    if (bytes < GIVE_BACK || shca.dir_fd < 0 || fstatvfs(shca.dir_fd, &v) < 0 || !v.f_blocks ||
        (uint64_t)v.f_bavail * v.f_bsize >= bytes + (1u << 20)) {
        return true;
    }
    shca_no_room(bytes);
    return false;
}

uint64_t shca_heap_alloc(uint64_t bytes)
{
    struct sm_seg *s = shca.seg;
    unsigned int c = class_of(bytes);
    uint64_t off = 0;

    if (c >= SM_SIZE_CLASSES || !room_for(bytes)) {
        return 0;
    }
    shca_lock(&s->table_lock);
    if (s->free_list[c]) {
        off = s->free_list[c];
        s->free_list[c] = *(uint64_t *)shca_at(off);
    } else if (s->heap_top + (UINT64_C(1) << c) <= s->heap_end &&
               (bytes >= GIVE_BACK || shca_reserve(s->heap_top, UINT64_C(1) << c) == 0)) {
        off = s->heap_top;
        s->heap_top += UINT64_C(1) << c;
    }
    shca_unlock(&s->table_lock);
    return off;
}

void shca_heap_free(uint64_t off, uint64_t bytes)
{
    struct sm_seg *s = shca.seg;
    unsigned int c = class_of(bytes);

    if (!off || c >= SM_SIZE_CLASSES) {
        return;
    }
    if (bytes >= GIVE_BACK) {
        madvise(shca_at(off), UINT64_C(1) << c, MADV_REMOVE);
    }
    shca_lock(&s->table_lock);
    *(uint64_t *)shca_at(off) = s->free_list[c];
    s->free_list[c] = off;
    shca_unlock(&s->table_lock);
}

/* lock: offset of a lock, which survives recycling; 0: none. */
static const struct {
    size_t off, size, lock;
    uint32_t n;
} tables[SM_TABLES] = {
    [SM_T_CTX] = {offsetof(struct sm_seg, ctxs), sizeof(struct sm_ctx), 0, SM_MAX_CTX},
    [SM_T_CHAN] = {offsetof(struct sm_seg, chans), sizeof(struct sm_chan), 0, SM_MAX_CHAN},
    [SM_T_CQ] = {offsetof(struct sm_seg, cqs), sizeof(struct sm_cq), offsetof(struct sm_cq, lock),
                 SM_MAX_CQ},
    [SM_T_SRQ] = {offsetof(struct sm_seg, srqs), sizeof(struct sm_srq),
                  offsetof(struct sm_srq, lock), SM_MAX_SRQ},
    [SM_T_QP] = {offsetof(struct sm_seg, qps), sizeof(struct sm_qp), offsetof(struct sm_qp, resp),
                 SM_MAX_QP},
    [SM_T_MR] = {offsetof(struct sm_seg, mrs), sizeof(struct sm_mr), 0, SM_MAX_MR},
};

struct sm_obj *shca_obj(enum sm_table t, uint32_t idx)
{
    return (struct sm_obj *)((char *)shca.seg + tables[t].off + idx * tables[t].size);
}

/* Everything but the head and the lock. */
static void clear(enum sm_table t, struct sm_obj *o)
{
    size_t lock = tables[t].lock ? tables[t].lock : tables[t].size;
    char *p = (char *)o;

    memset(p + sizeof(*o), 0, lock - sizeof(*o));
    if (tables[t].lock) {
        memset(p + lock + sizeof(sm_lock), 0, tables[t].size - lock - sizeof(sm_lock));
    }
}

int shca_obj_alloc(enum sm_table t, uint32_t dev, uint32_t ctx)
{
    struct sm_seg *s = shca.seg;
    struct sm_obj *o;
    uint32_t i;

    shca_lock(&s->table_lock);
    i = s->first_free[t];
    if (i < 2) {
        i = 2; /* QPs 0 and 1 have a meaning of their own; a zero key is nobody's */
    }
    while (i < tables[t].n && atomic_load(&shca_obj(t, i)->state)) {
        i++;
    }
    if (i == tables[t].n) {
        shca_unlock(&s->table_lock);
        return -1;
    }
    o = shca_obj(t, i);
    if (shca_reserve((uint64_t)((char *)o - (char *)s), tables[t].size) != 0) {
        shca_unlock(&s->table_lock);
        return -1;
    }
    clear(t, o);
    if (!atomic_load(&o->gen)) {
        if (tables[t].lock) {
            shca_lock_init((sm_lock *)(void *)((char *)o + tables[t].lock));
        }
        atomic_store(&o->gen, 1);
    }
    o->proc = shca.proc_idx;
    o->dev = dev;
    o->ctx = ctx;
    s->first_free[t] = i + 1;
    if (i >= s->hiwater[t]) {
        s->hiwater[t] = i + 1;
    }
    atomic_store(&o->state, 1);
    shca_unlock(&s->table_lock);
    return (int)i;
}

void shca_obj_free(enum sm_table t, uint32_t idx)
{
    struct sm_seg *s = shca.seg;
    struct sm_obj *o = shca_obj(t, idx);

    shca_lock(&s->table_lock);
    if (atomic_fetch_add(&o->gen, 1) == UINT32_MAX) {
        atomic_store(&o->gen, 1);
    }
    atomic_store(&o->state, 0);
    if (idx < s->first_free[t]) {
        s->first_free[t] = idx;
    }
    shca_unlock(&s->table_lock);
}
