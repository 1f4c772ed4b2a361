/* Makes sure that memory which the heap gives back to the system leaves the registration cache too.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The cache learns from Open MPI's memory hooks that pages are gone. Where a hook misses the C
 * library's own shrinking of the heap (seen with Open MPI 5.0.7 on glibc 2.41), the same addresses
 * come back later with other pages under them, an RDMA read then fills the old ones, and the
 * program finds its buffer unchanged. So it is tried out once, and where it is missed the heap is
 * kept from shrinking; memory that malloc() maps and unmaps is not affected. */
#include "btl_verbs.h"

#include "opal/memoryhooks/memory.h"

#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* From here on malloc() maps memory of its own: glibc's default, which setting any of these
 * parameters would freeze at 128 KiB. */
#define MMAP_THRESHOLD (32 << 20)
/* Below glibc's first threshold of mmap, so that it comes from the heap. */
#define PROBE_BYTES (96U << 10)
#define PROBES 4

struct released {
    uintptr_t end; /* the highest address that any hook spoke of */
};

static void on_release(void *start, size_t length, void *cbdata, bool from_alloc)
{
    struct released *released = cbdata;

    (void)from_alloc;
    if ((uintptr_t)start + length > released->end) {
        released->end = (uintptr_t)start + length;
    }
}

/* 1: the heap shrank and the hooks told; 0: it shrank and they did not; -1: it did not shrink. */
static int shrinking_is_noticed(void)
{
    struct released released = {0};
    void *blocks[PROBES];
    uintptr_t before, after;

    for (int i = 0; i < PROBES; i++) {
        blocks[i] = malloc(PROBE_BYTES);
    }
    before = (uintptr_t)sbrk(0);
    if (opal_mem_hooks_register_release(on_release, &released) != OPAL_SUCCESS) {
        before = 0;
    }
    for (int i = PROBES - 1; i >= 0; i--) {
        free(blocks[i]);
    }
    (void)malloc_trim(0);
    after = (uintptr_t)sbrk(0);
    if (before == 0) {
        return -1;
    }
    (void)opal_mem_hooks_unregister_release(on_release);
    return after >= before ? -1 : released.end > after;
}

void mca_btl_verbs_guard_heap(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&done)) {
        return;
    }
    if (shrinking_is_noticed() != 1) {
        (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
        (void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    }
}
