/* Sends from memory that this process may not write: constants and pages mapped PROT_READ.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Registering such memory for local writes fails on real hardware; the send must work all the same.
 */
#include <sys/mman.h>

#include "check.h"

#define CONST_SIZE (512U << 10)
#define X4(x) x, x, x, x
#define X16(x) X4(x), X4(x), X4(x), X4(x)

/* In .rodata, larger than any eager message; the values begin with something of their own. */
static const unsigned char constant[CONST_SIZE] = {X16(0x11), X16(0x22), X16(0x44), X16(0x88)};

static unsigned char constant_at(size_t i)
{
    return i < 64 ? (unsigned char)(0x11 << (i / 16)) : 0;
}

static void send_constant(size_t size, int tag)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    unsigned char *in = chk_alloc(size);
    MPI_Status status;
    chk_step("constant, size %zu", size);
    MPI_Sendrecv(constant, (int)size, MPI_BYTE, to, tag, in, (int)size, MPI_BYTE, from, tag,
                 MPI_COMM_WORLD, &status);
    chk_verify_status(&status, from, tag, size);
    for (size_t i = 0; i < size; i++) {
        if (in[i] != constant_at(i)) {
            chk_fail("from peer %d, tag %d, size %zu: offset %zu: expected 0x%02x, got 0x%02x",
                     from, tag, size, i, constant_at(i), in[i]);
        }
    }
    chk.messages++;
    chk.bytes += size;
    chk_free(in, size);
}

/* The pages become writable again afterwards, with other contents: nothing stale may be sent. */
static void send_protected(size_t size, int tag)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t length = (size + page) / page * page;
    unsigned char *out =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *in = chk_alloc(size);
    if (out == MAP_FAILED) {
        chk_fail("mmap of %zu bytes: %s", length, strerror(errno));
    }
    for (int turn = 0; turn < 4; turn++) {
        MPI_Status status;
        chk_step("protected pages, size %zu, turn %d", size, turn);
        if (mprotect(out, length, PROT_READ | PROT_WRITE) != 0) {
            chk_fail("mprotect: %s", strerror(errno));
        }
        chk_fill_to(out, size, to, tag, (uint64_t)turn);
        chk_poison(in, size);
        /* turn 2 begins with the pages writable, as a registration left over from it would see */
        if (turn != 2 && mprotect(out, length, PROT_READ) != 0) {
            chk_fail("mprotect: %s", strerror(errno));
        }
        MPI_Sendrecv(out, (int)size, MPI_BYTE, to, tag, in, (int)size, MPI_BYTE, from, tag,
                     MPI_COMM_WORLD, &status);
        chk_verify_status(&status, from, tag, size);
        chk_verify_from(in, size, from, tag, (uint64_t)turn);
    }
    munmap(out, length);
    chk_free(in, size);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "readonly",
                            .about = "Sends from constants and from pages mapped PROT_READ.",
                            .iterations = 2,
                            .max_size = 4 << 20});
    static const size_t sizes[] = {1,     64,     256,     1000,    4096,          8192,   12288,
                                   65536, 131072, 1 << 18, 1 << 19, (1 << 20) + 3, 4 << 20};
    for (uint64_t i = 0; i < chk.iterations; i++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            if (sizes[s] <= chk.max_size) {
                if (sizes[s] <= CONST_SIZE) {
                    send_constant(sizes[s], 1);
                }
                send_protected(sizes[s], 2);
            }
        }
    }
    return chk_end();
}
