/* Memory of all kinds, and what programs do to it between transfers.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stack, static and shared memory, files, huge pages; pages given back, moved, cut out of a
 * registered range, made read-only; and more buffers in turn than may be registered at a time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap, memfd_create */
#endif
#include <sys/mman.h>

#include "check.h"

#define HUGE (2U << 20)

static unsigned char static_memory[300000];
static size_t page;

/* Sends `out` to the next rank and receives as much from the one before. */
static void transfer(unsigned char *out, unsigned char *in, size_t size, int tag)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    MPI_Status status;

    chk_fill_to(out, size, to, tag, size);
    chk_poison(in, size);
    MPI_Sendrecv(out, (int)size, MPI_BYTE, to, tag, in, (int)size, MPI_BYTE, from, tag,
                 MPI_COMM_WORLD, &status);
    chk_verify_status(&status, from, tag, size);
    chk_verify_from(in, size, from, tag, size);
}

static unsigned char *map(size_t length, int flags, int fd)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static unsigned char *anonymous(size_t length)
{
    unsigned char *memory = map(length, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    if (memory == NULL) {
        chk_fail("mmap of %zu bytes: %s", length, strerror(errno));
    }
    return memory;
}

static void on_stack(size_t size, int tag)
{
    unsigned char out[100000], in[100000];

    chk_step("stack, %zu bytes", size);
    transfer(out, in, size < sizeof(out) ? size : sizeof(out), tag);
}

/* Deeper and shallower by turns, so that the same addresses hold other frames. */
static void stacks(int depth, int tag)
{
    volatile unsigned char room[5000];

    room[0] = (unsigned char)depth;
    if (depth > 0) {
        stacks(depth - 1, tag);
    } else {
        on_stack(90000, tag);
    }
    (void)room[0];
}

static void statics(int tag)
{
    chk_step("static memory");
    transfer(static_memory, static_memory + 150000, 150000, tag);
}

/* Memory that other processes, or a file, share. */
static void shared(int tag)
{
    size_t length = 64 * page;
    int fd = memfd_create("memory", 0);
    unsigned char *out, *in;

    chk_step("shared memory");
    out = map(length, MAP_SHARED | MAP_ANONYMOUS, -1);
    if (out == NULL || fd < 0 || ftruncate(fd, (off_t)length) != 0) {
        chk_fail("shared memory: %s", strerror(errno));
    }
    in = map(length, MAP_SHARED, fd);
    if (in == NULL) {
        chk_fail("mmap of a file: %s", strerror(errno));
    }
    transfer(out, in, length, tag);
    transfer(in, out, length - 1, tag + 1);
    munmap(out, length);
    munmap(in, length);
    close(fd);
}

static void huge(int tag)
{
    unsigned char *memory = map(2 * (size_t)HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    size_t length = 2 * (size_t)HUGE;
    unsigned char *base;

    chk_step("huge pages");
    if (memory != NULL) {
        transfer(memory, memory + HUGE, HUGE, tag);
        munmap(memory, length);
    }
    /* No page reserved for this is the usual case; the kernel's own huge pages need none. */
    length = 3 * (size_t)HUGE;
    memory = anonymous(length);
    base = memory + (HUGE - (uintptr_t)memory % HUGE) % HUGE;
    (void)madvise(base, 2 * (size_t)HUGE, MADV_HUGEPAGE);
    transfer(base, base + HUGE, HUGE, tag + 1);
    /* They fall apart when a part is given back. */
    (void)madvise(base + 16 * page, 16 * page, MADV_DONTNEED);
    transfer(base, base + HUGE, HUGE, tag + 2);
    munmap(memory, length);
}

/* The pages go, the addresses stay. */
static void given_back(int rounds, int tag)
{
    size_t length = 100 * page;
    unsigned char *out = anonymous(length), *in = anonymous(length);

    for (int i = 0; i < rounds; i++) {
        chk_step("madvise(MADV_DONTNEED), round %d", i);
        transfer(out, in, length, tag);
        (void)madvise(out, length, MADV_DONTNEED);
        (void)madvise(in + 10 * page, 20 * page, MADV_DONTNEED);
        if (out[0] != 0 || in[10 * page] != 0) {
            chk_fail("the pages are still there");
        }
    }
    munmap(out, length);
    munmap(in, length);
}

/* A hole in a registered range, and other pages in the hole. */
static void cut(int rounds, int tag)
{
    size_t length = 96 * page;

    for (int i = 0; i < rounds; i++) {
        unsigned char *out = anonymous(length), *in = anonymous(length);

        chk_step("a hole in the middle, round %d", i);
        transfer(out, in, length, tag);
        munmap(in + 32 * page, 32 * page);
        transfer(out, in, 32 * page, tag);
        transfer(out, in + 64 * page, 32 * page, tag);
        if (mmap(in + 32 * page, 32 * page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
            chk_fail("mmap into the hole: %s", strerror(errno));
        }
        transfer(out, in, length, tag);
        munmap(out, length);
        munmap(in, length);
    }
}

static void moved(int rounds, int tag)
{
    size_t length = 64 * page;
    unsigned char *out = anonymous(length), *in = anonymous(length);

    for (int i = 0; i < rounds; i++) {
        chk_step("mremap to twice the size and back, round %d", i);
        transfer(out, in, length, tag);
        in = mremap(in, length, 2 * length, MREMAP_MAYMOVE);
        if (in == MAP_FAILED) {
            chk_fail("mremap: %s", strerror(errno));
        }
        transfer(out, in + length - 100, length, tag);
        in = mremap(in, 2 * length, length, MREMAP_MAYMOVE);
        if (in == MAP_FAILED) {
            chk_fail("mremap: %s", strerror(errno));
        }
    }
    munmap(out, length);
    munmap(in, length);
}

/* What was written to is only read from now on. */
static void protected(int tag)
{
    size_t length = 50 * page;
    unsigned char *out = anonymous(length), *in = anonymous(length);
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;

    chk_step("mprotect(PROT_READ)");
    transfer(out, in, length, tag);
    if (mprotect(out, length, PROT_READ) != 0) {
        chk_fail("mprotect: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        chk_poison(in, length);
        MPI_Sendrecv(out, (int)length, MPI_BYTE, to, tag, in, (int)length, MPI_BYTE, from, tag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        chk_verify_from(in, length, from, tag, length);
    }
    munmap(out, length);
    munmap(in, length);
}

/* More buffers in turn than may be registered at a time: the oldest have to go. */
static void many(size_t buffers, size_t size, int rounds, int tag)
{
    unsigned char **out = chk_malloc(buffers * sizeof(*out));
    unsigned char *in = anonymous(size);

    for (size_t i = 0; i < buffers; i++) {
        out[i] = anonymous(size);
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < buffers; i++) {
            chk_step("buffer %zu of %zu, round %d", i, buffers, round);
            transfer(out[i], in, size, tag);
        }
    }
    for (size_t i = 0; i < buffers; i++) {
        munmap(out[i], size);
    }
    munmap(in, size);
    free(out);
}

int main(int argc, char **argv)
{
    uint64_t buffers = 40;
    const struct chk_option options[] = {
        {"--buffers", "buffers of --max-size bytes, used in turn", &buffers, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "memory",
                            .about = "All kinds of memory, and what is done to it.",
                            .options = options,
                            .iterations = 3,
                            .max_size = 1 << 20});
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < (int)chk.iterations; i++) {
        stacks(i * 3 % 5, 1);
        statics(2);
        shared(3);
        huge(5);
        given_back(3, 8);
        cut(2, 9);
        moved(3, 10);
        protected(11);
        stacks(4 - i % 5, 1);
    }
    many((size_t)buffers, (size_t)chk.max_size, (int)chk.iterations, 12);
    return chk_end();
}
