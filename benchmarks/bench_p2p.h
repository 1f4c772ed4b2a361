/* Point-to-point measurements: latency, bandwidth in one and two directions, message rate.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_P2P_H
#define VRB_BENCH_P2P_H

#include <stddef.h>

#include "benchmarks/bench_stats.h"

enum bench_p2p_test { BENCH_LAT, BENCH_BW, BENCH_BIBW, BENCH_MR, BENCH_TESTS };

/* Who measures with whom, and how. The first half of the ranks sends to the second half, or only
 * the first of them. */
struct bench_p2p {
    int rank, size;
    int pairs;
    int peer;           /* of this rank in its pair; -1 if it only waits */
    int is_first;       /* this rank starts each iteration */
    int window;         /* messages under way in bw, bibw and mr */
    int validate;       /* check the contents of every message, outside the clock */
    size_t page;        /* alignment of the buffers */
    unsigned char *out; /* send buffer of max_size bytes */
    unsigned char *in;  /* receive buffers: in_buffers * max_size bytes */
    int in_buffers;
    size_t max_size;
    unsigned long errors; /* bytes that differed */
    void *requests;       /* 2 * window MPI_Requests */
};

/* Ranks and buffers; so many pairs, 0 for all. Returns 0, or -1 with a message on standard error.
 */
int bench_p2p_open(struct bench_p2p *bench, int pairs, size_t max_size, int window, int validate);
void bench_p2p_close(struct bench_p2p *bench);

/* Runs `iterations` of one size. On rank 0, each sample is the time of one iteration in seconds: a
 * half round trip for BENCH_LAT, a window with its acknowledgement for the others. All ranks of
 * MPI_COMM_WORLD call it with the same arguments. */
void bench_p2p_run(struct bench_p2p *bench, enum bench_p2p_test test, size_t size,
                   size_t iterations, struct bench_samples *samples);

#endif
