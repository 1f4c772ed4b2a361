/* Memory that is unmapped and mapped again at the same address between transfers.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A registration cache that misses an munmap() reads or writes pages that are gone. The mapping is
 * made again in several ways: plain munmap and mmap, mmap over the old one, mremap away, and by
 * malloc and free of blocks above malloc's own mmap threshold.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap */
#endif
#include <sys/mman.h>

#include "check.h"

enum way { WAY_UNMAP, WAY_OVERLAY, WAY_MREMAP, WAY_MALLOC, WAY_COUNT };

static const char *const way_names[WAY_COUNT] = {"munmap and mmap", "mmap over it", "mremap",
                                                 "malloc and free"};

static unsigned char *map_at(void *address, size_t length, int flags)
{
    unsigned char *memory =
        mmap(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) {
        chk_fail("mmap of %zu bytes: %s", length, strerror(errno));
    }
    return memory;
}

/* New pages in place of `memory` (zeroed, or whatever malloc gives) */
static unsigned char *renew(enum way way, unsigned char *memory, size_t length)
{
    unsigned char *moved;
    switch (way) {
    case WAY_UNMAP:
        munmap(memory, length);
        /* the address is free now, and the kernel takes hints; elsewhere is fine too */
        return map_at(memory, length, 0);
    case WAY_OVERLAY:
        return map_at(memory, length, MAP_FIXED);
    case WAY_MREMAP:
        moved = mremap(memory, length, length * 2, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) {
            chk_fail("mremap of %zu bytes: %s", length, strerror(errno));
        }
        munmap(moved, length * 2);
        return map_at(memory, length, 0);
    default:
        free(memory);
        return chk_malloc(length);
    }
}

static unsigned char *first(enum way way, size_t length)
{
    return way == WAY_MALLOC ? chk_malloc(length) : map_at(NULL, length, 0);
}

static void finish(enum way way, unsigned char *memory, size_t length)
{
    if (way == WAY_MALLOC) {
        free(memory);
    } else {
        munmap(memory, length);
    }
}

static void one_way(enum way way, size_t size, uint64_t rounds)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t length = (size + page) / page * page;
    unsigned char *out = first(way, length);
    unsigned char *in = first(way, length);
    for (uint64_t i = 0; i < rounds; i++) {
        MPI_Status status;
        chk_step("%s, size %zu, round %llu", way_names[way], size, (unsigned long long)i);
        chk_fill_to(out, size, to, 1, i);
        chk_poison(in, length);
        MPI_Sendrecv(out, (int)size, MPI_BYTE, to, 1, in, (int)size, MPI_BYTE, from, 1,
                     MPI_COMM_WORLD, &status);
        chk_verify_status(&status, from, 1, size);
        chk_verify_from(in, size, from, 1, i);
        chk_untouched(in + size, length - size, CHK_POISON_BYTE, "after the message");
        out = renew(way, out, length);
        if (i % 3 != 2) {
            in = renew(way, in, length);
        }
    }
    finish(way, out, length);
    finish(way, in, length);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "remap",
                            .about = "Maps new memory at the addresses of earlier transfers.",
                            .iterations = 6,
                            .max_size = 4 << 20});
    static const size_t sizes[] = {1024, 65536, 200001, 1 << 20, 4 << 20};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (enum way way = 0; way < WAY_COUNT && sizes[s] <= chk.max_size; way++) {
            one_way(way, sizes[s], chk.iterations);
        }
    }
    return chk_end();
}
