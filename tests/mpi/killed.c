/* One rank dies by SIGKILL in the middle of traffic; the others must end too, with a message.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Never prints PASS: the caller sees whether the job ended, how soon and what it said. The launcher
 * ends the job as soon as it sees the death, unless it is told not to (mpirun --enable-recovery);
 * then the transport itself has to notice.
 */
#include <time.h>

#include "check.h"

int main(int argc, char **argv)
{
    uint64_t size = 64;
    uint64_t step = 200;
    uint64_t victim = 1;
    uint64_t window = 8;
    const struct chk_option options[] = {
        {"--size", "bytes of each message", &size, 0},
        {"--step", "the victim dies in this round", &step, 0},
        {"--victim", "the rank that dies", &victim, 0},
        {"--window", "messages under way to each peer", &window, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "killed",
                            .about = "One rank dies in mid-transfer; the others must end.",
                            .options = options,
                            .iterations = 1000000000,
                            .max_size = 1 << 20});
    chk_need_ranks(2);
    size_t lanes = (size_t)(chk.size - 1) * (size_t)window;
    unsigned char *out = chk_malloc(lanes * (size_t)size);
    unsigned char *in = chk_malloc(lanes * (size_t)size);
    MPI_Request *requests = chk_malloc(2 * lanes * sizeof(*requests));
    for (uint64_t round = 0; round < chk.iterations; round++) {
        size_t n = 0, at = 0;
        chk_step("round %llu", (unsigned long long)round);
        for (uint64_t w = 0; w < window; w++) {
            for (int peer = 0; peer < chk.size; peer++) {
                if (peer == chk.rank) {
                    continue;
                }
                chk_fill_to(out + at, (size_t)size, peer, (int)w, round);
                MPI_Irecv(in + at, (int)size, MPI_BYTE, peer, (int)w, MPI_COMM_WORLD,
                          &requests[n++]);
                MPI_Isend(out + at, (int)size, MPI_BYTE, peer, (int)w, MPI_COMM_WORLD,
                          &requests[n++]);
                at += (size_t)size;
            }
        }
        if (round == step && chk.rank == (int)victim) {
            printf("rank %d dies in round %llu at %lld\n", chk.rank, (unsigned long long)round,
                   (long long)time(NULL));
            fflush(stdout);
            kill(getpid(), SIGKILL);
        }
        MPI_Waitall((int)n, requests, MPI_STATUSES_IGNORE);
        at = 0;
        for (uint64_t w = 0; w < window; w++) {
            for (int peer = 0; peer < chk.size; peer++) {
                if (peer != chk.rank) {
                    chk_verify_from(in + at, (size_t)size, peer, (int)w, round);
                    at += (size_t)size;
                }
            }
        }
    }
    return chk_end();
}
