/* Collective operations and their buffers, for blocking and non-blocking programs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_COLL_H
#define VRB_BENCH_COLL_H

#include <mpi.h>
#include <stddef.h>

#include "benchmarks/bench_suite.h"

enum bench_coll {
    BENCH_BARRIER,
    BENCH_BCAST,
    BENCH_REDUCE,
    BENCH_ALLREDUCE,
    BENCH_GATHER,
    BENCH_ALLGATHER,
    BENCH_SCATTER,
    BENCH_ALLTOALL,
    BENCH_TRANSFER /* not a collective: rank 0 sends to rank 1; non-blocking only */
};

struct bench_coll_state {
    enum bench_coll operation;
    int rank, ranks;
    unsigned char *out,
        *in;              /* room for a message of or to each rank where the operation has that */
    double pure, compute; /* seconds; of the non-blocking programs */
};

void bench_coll_open(struct bench_run *run);
void bench_coll_close(struct bench_run *run);

void bench_coll_call(struct bench_coll_state *c, size_t size);
void bench_coll_start(struct bench_coll_state *c, size_t size, MPI_Request *request);

/* Contents of one iteration, and the bytes of the result that are wrong. */
void bench_coll_prepare(struct bench_coll_state *c, size_t size, size_t iteration);
unsigned long bench_coll_check(struct bench_coll_state *c, size_t size, size_t iteration);

#endif
