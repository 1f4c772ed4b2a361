/* Point-to-point measurements: latency, bandwidth in one and two directions, message rate.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_p2p.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "benchmarks/bench_pattern.h"

#define TAG_DATA 1
#define TAG_ACK 2
#define TAG_READY 3

/* With validation every message of a window gets a receive buffer of its own, up to this. */
#define VALIDATE_ROOM ((size_t)64 << 20)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int bench_p2p_open(struct bench_p2p *bench, int pairs, size_t max_size, int window, int validate)
{
    *bench = (struct bench_p2p){.window = window, .validate = validate, .peer = -1};
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench->size);
    int half = bench->size / 2;
    bench->pairs = pairs > 0 && pairs < half ? pairs : half;
    if (bench->rank < bench->pairs) {
        bench->peer = bench->rank + half;
        bench->is_first = 1;
    } else if (bench->rank >= half && bench->rank < half + bench->pairs) {
        bench->peer = bench->rank - half;
    }
    size_t room = max_size > 0 ? max_size : 1;
    size_t buffers = 1;
    if (validate) {
        buffers = VALIDATE_ROOM / room < (size_t)window ? VALIDATE_ROOM / room : (size_t)window;
        buffers = buffers > 0 ? buffers : 1;
    }
    bench->in_buffers = (int)buffers;
    bench->max_size = room;
    bench->page = (size_t)sysconf(_SC_PAGESIZE);
    void *out = NULL, *in = NULL;
    bench->requests = malloc(2 * (size_t)window * sizeof(MPI_Request));
    if (posix_memalign(&out, bench->page, room) != 0 ||
        posix_memalign(&in, bench->page, buffers * room) != 0 || bench->requests == NULL) {
        fprintf(stderr, "no memory for buffers of %zu bytes\n", room);
        free(out);
        free(bench->requests);
        return -1;
    }
    bench->out = out;
    bench->in = in;
    memset(bench->out, 1, room);
    memset(bench->in, 0, buffers * room);
    return 0;
}

void bench_p2p_close(struct bench_p2p *bench)
{
    free(bench->out);
    free(bench->in);
    free(bench->requests);
}

/* What the iteration sends, and receive buffers without anything from the last one */
static void prepare(struct bench_p2p *bench, size_t size, size_t iteration)
{
    if (!bench->validate) {
        return;
    }
    bench_pattern_fill(bench->out, size,
                       bench_pattern_seed(bench->rank, bench->peer, size, iteration));
    for (int b = 0; b < bench->in_buffers; b++) {
        memset(bench->in + (size_t)b * bench->max_size, BENCH_PATTERN_EMPTY, size);
    }
}

static void check(struct bench_p2p *bench, size_t size, size_t iteration, int received)
{
    if (!bench->validate || received == 0) {
        return;
    }
    int buffers = received < bench->in_buffers ? received : bench->in_buffers;
    for (int b = 0; b < buffers; b++) {
        const unsigned char *in = bench->in + (size_t)b * bench->max_size;
        bench->errors += bench_pattern_check(
            in, size, bench_pattern_seed(bench->peer, bench->rank, size, iteration));
    }
}

/* With validation, the first rank's clock starts when its peer has checked the last iteration. */
static void ready(struct bench_p2p *bench)
{
    if (!bench->validate) {
        return;
    }
    if (bench->is_first) {
        MPI_Recv(NULL, 0, MPI_BYTE, bench->peer, TAG_READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, bench->peer, TAG_READY, MPI_COMM_WORLD);
    }
}

static void run_latency(struct bench_p2p *bench, size_t size, size_t iterations,
                        struct bench_samples *samples)
{
    for (size_t i = 0; i < iterations; i++) {
        prepare(bench, size, i);
        ready(bench);
        if (bench->is_first) {
            double start = now();
            MPI_Send(bench->out, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(bench->in, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            bench_samples_add(samples, (now() - start) / 2);
        } else {
            MPI_Recv(bench->in, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            MPI_Send(bench->out, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD);
        }
        check(bench, size, i, 1);
    }
}

/* A window of messages from each rank that sends, then an empty answer to the first one */
static void run_windows(struct bench_p2p *bench, size_t size, size_t iterations,
                        int both_directions, struct bench_samples *samples)
{
    MPI_Request *requests = bench->requests;
    int sends = bench->is_first || both_directions ? bench->window : 0;
    int receives = !bench->is_first || both_directions ? bench->window : 0;
    for (size_t i = 0; i < iterations; i++) {
        int n = 0;
        prepare(bench, size, i);
        ready(bench);
        double start = now();
        for (int w = 0; w < receives; w++) {
            unsigned char *in = bench->in + (size_t)(w % bench->in_buffers) * bench->max_size;
            MPI_Irecv(in, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD,
                      &requests[n++]);
        }
        for (int w = 0; w < sends; w++) {
            MPI_Isend(bench->out, (int)size, MPI_BYTE, bench->peer, TAG_DATA, MPI_COMM_WORLD,
                      &requests[n++]);
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        if (bench->is_first) {
            MPI_Recv(NULL, 0, MPI_BYTE, bench->peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            bench_samples_add(samples, now() - start);
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, bench->peer, TAG_ACK, MPI_COMM_WORLD);
        }
        check(bench, size, i, receives);
    }
}

void bench_p2p_run(struct bench_p2p *bench, enum bench_p2p_test test, size_t size,
                   size_t iterations, struct bench_samples *samples)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench->peer < 0) {
        return;
    }
    if (test == BENCH_LAT) {
        run_latency(bench, size, iterations, samples);
    } else {
        run_windows(bench, size, iterations, test == BENCH_BIBW, samples);
    }
}
