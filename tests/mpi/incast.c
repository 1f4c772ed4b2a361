/* Many to one: all other ranks send to one rank at once, at eager and rendezvous sizes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * 80 KiB is the size of a public report: a rendezvous whose control messages wait for a BTL that
 * said "no resource" hung ob1, because nothing woke its list of pending packets.
 */
#include "check.h"

/* --mode */
enum { MODE_POSTED, MODE_UNEXPECTED, MODE_WILDCARD, MODE_COUNT };

static const char *const mode_names[MODE_COUNT] = {"posted", "unexpected", "wildcard"};

static void send_window(int root, size_t size, int window, int round)
{
    MPI_Request *requests = chk_malloc((size_t)window * sizeof(*requests));
    unsigned char **buffers = chk_malloc((size_t)window * sizeof(*buffers));
    for (int i = 0; i < window; i++) {
        buffers[i] = chk_alloc(size);
        chk_fill_to(buffers[i], size, root, i, (uint64_t)round);
        MPI_Isend(buffers[i], (int)size, MPI_BYTE, root, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window; i++) {
        chk_free(buffers[i], size);
    }
    free(buffers);
    free(requests);
}

static void receive_posted(size_t size, int window, int round, int late)
{
    int total = (chk.size - 1) * window;
    MPI_Request *requests = chk_malloc((size_t)total * sizeof(*requests));
    unsigned char **buffers = chk_malloc((size_t)total * sizeof(*buffers));
    int n = 0;
    if (late) {
        usleep(20000); /* let all arrive unexpected, with nobody in MPI */
    }
    for (int i = 0; i < window; i++) {
        for (int rank = 0; rank < chk.size; rank++) {
            if (rank != chk.rank) {
                buffers[n] = chk_alloc(size);
                MPI_Irecv(buffers[n], (int)size, MPI_BYTE, rank, i, MPI_COMM_WORLD, &requests[n]);
                n++;
            }
        }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    n = 0;
    for (int i = 0; i < window; i++) {
        for (int rank = 0; rank < chk.size; rank++) {
            if (rank != chk.rank) {
                chk_verify_from(buffers[n], size, rank, i, (uint64_t)round);
                chk_free(buffers[n], size);
                n++;
            }
        }
    }
    free(buffers);
    free(requests);
}

static void receive_wildcard(size_t size, int window, int round)
{
    int *next = calloc((size_t)chk.size, sizeof(*next));
    unsigned char *buffer = chk_alloc(size);
    for (int i = 0; next != NULL && i < (chk.size - 1) * window; i++) {
        MPI_Status status;
        chk_poison(buffer, size);
        MPI_Recv(buffer, (int)size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        /* messages of one sender that match the same receive may not overtake each other */
        if (status.MPI_TAG != next[status.MPI_SOURCE]) {
            chk_fail("message %d of rank %d came in place of %d", status.MPI_TAG, status.MPI_SOURCE,
                     next[status.MPI_SOURCE]);
        }
        next[status.MPI_SOURCE]++;
        chk_verify_status(&status, status.MPI_SOURCE, status.MPI_TAG, size);
        chk_verify_from(buffer, size, status.MPI_SOURCE, status.MPI_TAG, (uint64_t)round);
    }
    free(next);
    chk_free(buffer, size);
}

int main(int argc, char **argv)
{
    uint64_t only = UINT64_MAX;
    uint64_t window = 16;
    const struct chk_option options[] = {
        {"--size", "this size only", &only, 0},
        {"--window", "messages under way per sender", &window, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "incast",
                            .about = "All other ranks send to one rank at once.",
                            .options = options,
                            .iterations = 4,
                            .max_size = 1 << 20});
    chk_need_ranks(2);
    size_t sizes[] = {0, 1, 64, 1024, 4096, 12288, 65536, 80 << 10, 262144, 1 << 20};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t size = only != UINT64_MAX ? (size_t)only : sizes[s];
        if (size > chk.max_size && only == UINT64_MAX) {
            continue;
        }
        for (int round = 0; round < (int)chk.iterations; round++) {
            int root = round % chk.size;
            int mode = round % MODE_COUNT;
            chk_step("%s, root %d, size %zu, window %d, round %d", mode_names[mode], root, size,
                     (int)window, round);
            if (chk.rank != root) {
                send_window(root, size, (int)window, round);
            } else if (mode == MODE_WILDCARD) {
                receive_wildcard(size, (int)window, round);
            } else {
                receive_posted(size, (int)window, round, mode == MODE_UNEXPECTED);
            }
            if (mode == MODE_WILDCARD) {
                MPI_Barrier(MPI_COMM_WORLD); /* the wildcard must not take the next round's */
            }
        }
        if (only != UINT64_MAX) {
            break;
        }
    }
    return chk_end();
}
