/* First messages: every pair at once, and both ends of a pair at the same instant.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Nothing is sent before: each rank leaves MPI_Init and sends to all others straight away, or at a
 * common tick of the clock, so that both sides of each connection begin it.
 */
#include <time.h>

#include "check.h"

/* Waits for the next multiple of `ms` milliseconds; ranks of one machine see the same clock. */
static void wait_for_tick(uint64_t ms)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t period = ms * 1000000U;
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    uint64_t wake = (ns / period + 1) * period;
    struct timespec at = {.tv_sec = (time_t)(wake / 1000000000U),
                          .tv_nsec = (long)(wake % 1000000000U)};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL);
}

int main(int argc, char **argv)
{
    uint64_t size = 1000;
    uint64_t tick = 0;
    uint64_t one_way = 0;
    const struct chk_option options[] = {
        {"--size", "bytes of each message", &size, 0},
        {"--tick", "begin at a multiple of so many milliseconds; 0: at once", &tick, 0},
        {"--one-way", "only from lower to higher ranks", &one_way, 1},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "storm",
                            .about = "First messages between every pair of ranks at once.",
                            .options = options,
                            .iterations = 3,
                            .max_size = 1 << 20});
    chk_need_ranks(2);
    size_t count = (size_t)chk.size;
    unsigned char **out = chk_malloc(count * sizeof(*out));
    unsigned char **in = chk_malloc(count * sizeof(*in));
    MPI_Request *requests = chk_malloc(2 * count * sizeof(*requests));
    for (int round = 0; round < (int)chk.iterations; round++) {
        int n = 0;
        chk_step("%s messages, size %llu", round == 0 ? "first" : "later",
                 (unsigned long long)size);
        for (int peer = 0; peer < chk.size; peer++) {
            out[peer] = chk_alloc((size_t)size);
            in[peer] = chk_alloc((size_t)size);
            chk_fill_to(out[peer], (size_t)size, peer, round, size);
        }
        if (round == 0 && tick != 0) {
            wait_for_tick(tick);
        }
        for (int d = 1; d < chk.size; d++) {
            int peer = (chk.rank + d) % chk.size;
            if (!one_way || chk.rank < peer) {
                MPI_Isend(out[peer], (int)size, MPI_BYTE, peer, round, MPI_COMM_WORLD,
                          &requests[n++]);
            }
            if (!one_way || chk.rank > peer) {
                MPI_Irecv(in[peer], (int)size, MPI_BYTE, peer, round, MPI_COMM_WORLD,
                          &requests[n++]);
            }
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < chk.size; peer++) {
            if (peer != chk.rank && (!one_way || chk.rank > peer)) {
                chk_verify_from(in[peer], (size_t)size, peer, round, size);
            }
            chk_free(out[peer], (size_t)size);
            chk_free(in[peer], (size_t)size);
        }
    }
    free(requests);
    free(in);
    free(out);
    return chk_end();
}
