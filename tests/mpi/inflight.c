/* Ends with traffic under way: messages nobody receives, small sends nobody waits for.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI asks for every communication to be complete before MPI_Finalize; programs forget, and then
 * the job must still end. Sends are eager, so they may complete without the receiver.
 */
#include "check.h"

int main(int argc, char **argv)
{
    uint64_t size = 64;
    uint64_t skew_ms = 0;
    uint64_t quiet = 0;
    uint64_t leave = 0;
    const struct chk_option options[] = {
        {"--size", "bytes of each message, small enough to be eager", &size, 0},
        {"--skew", "milliseconds that odd ranks compute before MPI_Finalize", &skew_ms, 0},
        {"--leave", "ranks above 0 exit without MPI_Finalize", &leave, 1},
        {"--quiet", "no message before the ones that nobody receives", &quiet, 1},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "inflight",
                            .about = "MPI_Finalize with eager traffic still under way.",
                            .options = options,
                            .iterations = 50,
                            .max_size = 4096});
    unsigned char *buffer = chk_malloc((size_t)size);
    chk_fill(buffer, (size_t)size, chk.seed);
    if (!quiet) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    chk_step("sends that nobody receives");
    for (uint64_t i = 0; i < chk.iterations; i++) {
        for (int peer = 0; peer < chk.size; peer++) {
            MPI_Request request;
            if (peer != chk.rank) {
                MPI_Isend(buffer, (int)size, MPI_BYTE, peer, (int)i, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            }
        }
    }
    if (chk.rank % 2 == 1) {
        usleep((useconds_t)skew_ms * 1000);
    }
    if (leave && chk.rank > 0) {
        fflush(NULL);
        _exit(0);
    }
    chk_step("MPI_Finalize");
    MPI_Finalize();
    alarm(0);
    if (chk.rank == 0) {
        printf("PASS inflight: %d ranks ended\n", chk.size);
    }
    return 0; /* the buffer stays: a send may still refer to it */
}
