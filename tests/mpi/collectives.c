/* Collectives that make every rank talk to every other one, with each result checked.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

/* all-to-all: the block from i to j is the pattern of (i, j) */
static void check_alltoall(size_t block, int tag)
{
    size_t n = (size_t)chk.size;
    unsigned char *out = chk_alloc(n * block);
    unsigned char *in = chk_alloc(n * block);
    for (int peer = 0; peer < chk.size; peer++) {
        chk_fill_to(out + (size_t)peer * block, block, peer, tag, block);
    }
    chk_step("MPI_Alltoall, block %zu, round %d", block, tag);
    MPI_Alltoall(out, (int)block, MPI_BYTE, in, (int)block, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < chk.size; peer++) {
        chk_verify_from(in + (size_t)peer * block, block, peer, tag, block);
    }
    chk_free(out, n * block);
    chk_free(in, n * block);
}

/* Uneven blocks, some of them empty: i sends (i + 2 j) % 5 parts of `part` bytes to j */
static size_t uneven(int from, int to, size_t part)
{
    return (size_t)((from + 2 * to) % 5) * part;
}

static void check_alltoallv(size_t part, int tag)
{
    size_t n = (size_t)chk.size;
    int *numbers = chk_malloc(4 * n * sizeof(*numbers));
    int *out_counts = numbers, *in_counts = numbers + n;
    int *out_at = numbers + 2 * n, *in_at = numbers + 3 * n;
    size_t out_size = 0, in_size = 0;
    for (int peer = 0; peer < chk.size; peer++) {
        out_counts[peer] = (int)uneven(chk.rank, peer, part);
        in_counts[peer] = (int)uneven(peer, chk.rank, part);
        out_at[peer] = (int)out_size;
        in_at[peer] = (int)in_size;
        out_size += (size_t)out_counts[peer];
        in_size += (size_t)in_counts[peer];
    }
    unsigned char *out = chk_alloc(out_size);
    unsigned char *in = chk_alloc(in_size);
    for (int peer = 0; peer < chk.size; peer++) {
        chk_fill_to(out + out_at[peer], (size_t)out_counts[peer], peer, tag, part);
    }
    chk_step("MPI_Alltoallv, part %zu, round %d", part, tag);
    MPI_Alltoallv(out, out_counts, out_at, MPI_BYTE, in, in_counts, in_at, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int peer = 0; peer < chk.size; peer++) {
        chk_verify_from(in + in_at[peer], (size_t)in_counts[peer], peer, tag, part);
    }
    chk_free(out, out_size);
    chk_free(in, in_size);
    free(numbers);
}

static void check_allgather(size_t block, int tag)
{
    size_t n = (size_t)chk.size;
    unsigned char *out = chk_alloc(block);
    unsigned char *in = chk_alloc(n * block);
    chk_fill(out, block, chk_key(chk.rank, -1, tag, block));
    chk_step("MPI_Allgather, block %zu, round %d", block, tag);
    MPI_Allgather(out, (int)block, MPI_BYTE, in, (int)block, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < chk.size; peer++) {
        chk_verify_at(in + (size_t)peer * block, block, peer, tag, chk_key(peer, -1, tag, block),
                      0);
        chk.messages++;
    }
    chk_free(out, block);
    chk_free(in, n * block);
}

static void check_bcast(size_t size, int tag)
{
    int root = tag % chk.size;
    unsigned char *buffer = chk_alloc(size);
    if (chk.rank == root) {
        chk_fill(buffer, size, chk_key(root, -1, tag, size));
    }
    chk_step("MPI_Bcast from %d, size %zu, round %d", root, size, tag);
    MPI_Bcast(buffer, (int)size, MPI_BYTE, root, MPI_COMM_WORLD);
    chk_verify_at(buffer, size, root, tag, chk_key(root, -1, tag, size), 0);
    chk.messages++;
    chk_free(buffer, size);
}

/* Sums of unsigned words are exact in any order, so the expected value is computed here. */
static void check_allreduce(size_t size, int tag)
{
    size_t words = size / sizeof(uint64_t);
    uint64_t *mine = chk_alloc(words * sizeof(uint64_t));
    uint64_t *sum = chk_alloc(words * sizeof(uint64_t));
    for (size_t i = 0; i < words; i++) {
        mine[i] = chk_word(chk_key(chk.rank, -2, tag, size), i);
    }
    chk_step("MPI_Allreduce, %zu words, round %d", words, tag);
    MPI_Allreduce(mine, sum, (int)words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int rank = 0; rank < chk.size; rank++) {
        uint64_t key = chk_key(rank, -2, tag, size);
        for (size_t i = 0; i < words; i++) {
            sum[i] -= chk_word(key, i);
        }
    }
    for (size_t i = 0; i < words; i++) {
        if (sum[i] != 0) {
            chk_fail("MPI_Allreduce of %zu words: word %zu is off by 0x%llx", words, i,
                     (unsigned long long)sum[i]);
        }
    }
    chk.messages++;
    chk.bytes += words * sizeof(uint64_t);
    chk_free(mine, words * sizeof(uint64_t));
    chk_free(sum, words * sizeof(uint64_t));
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "collectives",
                            .about = "Collectives with every result checked.",
                            .iterations = 3,
                            .max_size = 1 << 20});
    static const size_t sizes[] = {0, 1, 8, 100, 1000, 4096, 8192, 12345, 65536, 262144, 1 << 20};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int round = 0; round < (int)chk.iterations && sizes[s] <= chk.max_size; round++) {
            check_alltoall(sizes[s], round);
            check_alltoallv(sizes[s] / 4, round);
            check_allgather(sizes[s], round);
            check_bcast(sizes[s], round);
            check_allreduce(sizes[s], round);
            chk_step("MPI_Barrier, round %d", round);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    return chk_end();
}
