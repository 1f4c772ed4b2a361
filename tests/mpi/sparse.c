/* Many ranks of which few talk: the silent ones compute, and join late.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

/* A ring of the talkers only: ranks 0, stride, 2 * stride, ... */
static void ring(int stride, size_t size, int round)
{
    int talkers = (chk.size + stride - 1) / stride;
    int place = chk.rank / stride;
    if (chk.rank % stride != 0 || talkers < 2) {
        return;
    }
    int to = (place + 1) % talkers * stride, from = (place + talkers - 1) % talkers * stride;
    unsigned char *out = chk_alloc(size);
    unsigned char *in = chk_alloc(size);
    MPI_Status status;
    chk_fill_to(out, size, to, round, size);
    MPI_Sendrecv(out, (int)size, MPI_BYTE, to, round, in, (int)size, MPI_BYTE, from, round,
                 MPI_COMM_WORLD, &status);
    chk_verify_status(&status, from, round, size);
    chk_verify_from(in, size, from, round, size);
    chk_free(out, size);
    chk_free(in, size);
}

int main(int argc, char **argv)
{
    uint64_t stride = 2;
    uint64_t silent_ms = 50;
    const struct chk_option options[] = {
        {"--stride", "every so many ranks there is one that talks", &stride, 0},
        {"--silent", "milliseconds that the others stay outside MPI", &silent_ms, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "sparse",
                            .about = "Few of many ranks talk, the others stay silent.",
                            .options = options,
                            .iterations = 50,
                            .max_size = 100000});
    if (stride == 0 || stride > (uint64_t)chk.size) {
        stride = 1;
    }
    chk_step("silent");
    if (chk.rank % (int)stride != 0) {
        usleep((useconds_t)silent_ms * 1000);
    }
    for (int i = 0; i < (int)chk.iterations; i++) {
        chk_step("ring of the talkers, round %d", i);
        ring((int)stride, 8, i);
        ring((int)stride, (size_t)chk.max_size, i);
    }
    return chk_end();
}
