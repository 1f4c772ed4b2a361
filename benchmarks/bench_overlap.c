/* Non-blocking operations: how much of their time a program can compute in (vrb_iallreduce, ...).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * As OSU: first the operation alone ("pure"), then the operation with a computation of the same
 * length between its start and MPI_Wait. Overlap is the part of the pure time that the computation
 * hid: 100 % - (overall - compute) / pure.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench_coll.h"

#define CALIBRATION 100000UL /* rounds of the loop, a tenth of a millisecond or so */

static volatile unsigned long sink;

/* Takes as long as its rounds say; a clock would hide the time that another process was given. */
static void compute(unsigned long rounds)
{
    unsigned long x = sink;
    for (unsigned long i = 0; i < rounds; i++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        __asm__ volatile("" : "+r"(x));
    }
    sink = x;
}

static double seconds_per_round(void)
{
    static double known;
    if (known == 0) {
        double best = 1;
        for (int i = 0; i < 20; i++) {
            double start = bench_now();
            compute(CALIBRATION);
            double took = bench_now() - start;
            best = took < best ? took : best;
        }
        known = best / CALIBRATION;
    }
    return known;
}

/* The computation in equal parts, with a call of MPI_Test after each */
static void compute_and_test(unsigned long rounds, int tests, MPI_Request *request)
{
    int done = 0;
    for (int i = 0; i < tests; i++) {
        compute(rounds / (unsigned)(tests + 1));
        if (!done) {
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
        }
    }
    compute(rounds - rounds / (unsigned)(tests + 1) * (unsigned)tests);
}

static int idle(const struct bench_coll_state *c)
{
    return c->operation == BENCH_TRANSFER && c->rank > 1;
}

/* Seconds of the operation without a computation, the average of the ranks */
static double pure_time(struct bench_coll_state *c, size_t size, size_t iterations)
{
    double sum = 0, all = 0;
    for (size_t i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        bench_coll_start(c, size, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum += idle(c) ? 0 : bench_now() - start;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all / (double)iterations / (c->operation == BENCH_TRANSFER ? 2 : c->ranks);
}

static void work(struct bench_run *run, size_t size, size_t iterations,
                 struct bench_samples *samples)
{
    struct bench_coll_state *c = run->state;
    int tests = run->o->threads > 0 ? run->o->threads : 0;
    c->pure = pure_time(c, size, iterations);
    unsigned long rounds = (unsigned long)(c->pure / seconds_per_round());
    double start = bench_now();
    for (size_t i = 0; i < iterations; i++) {
        compute(rounds);
    }
    c->compute = (bench_now() - start) / (double)iterations;
    for (size_t i = 0; i < iterations; i++) {
        MPI_Request request;
        if (run->o->validate) {
            bench_coll_prepare(c, size, i);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        bench_coll_start(c, size, &request);
        compute_and_test(rounds, tests, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (!idle(c)) {
            bench_samples_add(samples, bench_now() - start);
        }
        if (run->o->validate) {
            run->errors += bench_coll_check(c, size, i);
        }
    }
}

static void report(struct bench_run *run, size_t size, struct bench_samples *samples,
                   struct bench_row *row)
{
    struct bench_coll_state *c = run->state;
    double compute_sum = idle(c) ? 0 : c->compute, all = 0;
    int workers = c->operation == BENCH_TRANSFER ? 2 : c->ranks;
    (void)size;
    MPI_Reduce(&compute_sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    bench_samples_gather(samples);
    struct bench_summary s = bench_summarize(samples);
    double computing = all / workers;
    double overlap = c->pure > 0 ? 100 - (s.mean - computing) / c->pure * 100 : 0;
    row->figures[0] = s.mean * 1e6;
    row->figures[1] = computing * 1e6;
    row->figures[2] = c->pure * 1e6;
    row->figures[3] = overlap < 0 ? 0 : overlap > 100 ? 100 : overlap;
    row->tails[0] = s.p50 * 1e6;
    row->tails[1] = s.p99 * 1e6;
    row->tails[2] = s.p999 * 1e6;
}

static const struct bench_column columns[] = {{"Overall(us)", "overall_us", 0},
                                              {"Compute(us)", "compute_us", 0},
                                              {"Pure Comm.(us)", "pure_us", 0},
                                              {"Overlap(%)", "overlap_percent", 0},
                                              {NULL, NULL, 0}};

#define OVERLAP(call, kind, operation, letters, first, last)                                \
    {                                                                                       \
        .name = call, .title = "MPI Non-blocking " operation " Latency Test",               \
        .accepted = (letters), .columns = columns, .unit = "us", .min = (first),            \
        .smallest = (first), .max = (last), .iterations = 1000, .min_ranks = 2,             \
        .open = bench_coll_open, .work = work, .report = report, .close = bench_coll_close, \
        .which = (kind)                                                                     \
    }

const struct bench_test bench_overlap_tests[] = {
    OVERLAP("ibarrier", BENCH_BARRIER, "Barrier", "ixbft", BENCH_NO_SIZE, 0),
    OVERLAP("ibcast", BENCH_BCAST, "Broadcast", "mixbcft", 1, 1U << 20),
    OVERLAP("ireduce", BENCH_REDUCE, "Reduce", "mixbcft", 4, 1U << 20),
    OVERLAP("iallreduce", BENCH_ALLREDUCE, "Allreduce", "mixbcft", 4, 1U << 20),
    OVERLAP("igather", BENCH_GATHER, "Gather", "mixbcft", 1, 1U << 20),
    OVERLAP("iallgather", BENCH_ALLGATHER, "Allgather", "mixbcft", 1, 1U << 20),
    OVERLAP("iscatter", BENCH_SCATTER, "Scatter", "mixbcft", 1, 1U << 20),
    OVERLAP("ialltoall", BENCH_ALLTOALL, "All-to-All", "mixbcft", 1, 1U << 20),
    OVERLAP("isend", BENCH_TRANSFER, "Send", "mixbcft", 1, 4U << 20),
    {.name = NULL}};
