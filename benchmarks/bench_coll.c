/* Collective operations and their buffers, for blocking and non-blocking programs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_coll.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench_pattern.h"

#define ROOT 0

/* Messages that a rank's buffers hold: one, or one for each rank */
static size_t out_messages(const struct bench_coll_state *c)
{
    return c->operation == BENCH_SCATTER || c->operation == BENCH_ALLTOALL ? (size_t)c->ranks : 1;
}

static size_t in_messages(const struct bench_coll_state *c)
{
    return c->operation == BENCH_GATHER || c->operation == BENCH_ALLGATHER ||
                   c->operation == BENCH_ALLTOALL
               ? (size_t)c->ranks
               : 1;
}

void bench_coll_open(struct bench_run *run)
{
    struct bench_coll_state *c = bench_buffer(sizeof(*c));
    c->operation = (enum bench_coll)run->test->which;
    c->rank = run->rank;
    c->ranks = run->ranks;
    c->out = bench_buffer(run->max_size * out_messages(c));
    c->in = bench_buffer(run->max_size * in_messages(c));
    run->state = c;
}

void bench_coll_close(struct bench_run *run)
{
    struct bench_coll_state *c = run->state;
    free(c->out);
    free(c->in);
    free(c);
}

void bench_coll_call(struct bench_coll_state *c, size_t size)
{
    int n = (int)size, ints = (int)(size / sizeof(int));
    MPI_Comm world = MPI_COMM_WORLD;
    switch (c->operation) {
    case BENCH_BARRIER:
        MPI_Barrier(world);
        break;
    case BENCH_BCAST:
        MPI_Bcast(c->in, n, MPI_BYTE, ROOT, world);
        break;
    case BENCH_REDUCE:
        MPI_Reduce(c->out, c->in, ints, MPI_INT, MPI_SUM, ROOT, world);
        break;
    case BENCH_ALLREDUCE:
        MPI_Allreduce(c->out, c->in, ints, MPI_INT, MPI_SUM, world);
        break;
    case BENCH_GATHER:
        MPI_Gather(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, ROOT, world);
        break;
    case BENCH_ALLGATHER:
        MPI_Allgather(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, world);
        break;
    case BENCH_SCATTER:
        MPI_Scatter(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, ROOT, world);
        break;
    case BENCH_ALLTOALL:
        MPI_Alltoall(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, world);
        break;
    case BENCH_TRANSFER:
        break;
    }
}

void bench_coll_start(struct bench_coll_state *c, size_t size, MPI_Request *request)
{
    int n = (int)size, ints = (int)(size / sizeof(int));
    MPI_Comm world = MPI_COMM_WORLD;
    *request = MPI_REQUEST_NULL;
    switch (c->operation) {
    case BENCH_BARRIER:
        MPI_Ibarrier(world, request);
        break;
    case BENCH_BCAST:
        MPI_Ibcast(c->in, n, MPI_BYTE, ROOT, world, request);
        break;
    case BENCH_REDUCE:
        MPI_Ireduce(c->out, c->in, ints, MPI_INT, MPI_SUM, ROOT, world, request);
        break;
    case BENCH_ALLREDUCE:
        MPI_Iallreduce(c->out, c->in, ints, MPI_INT, MPI_SUM, world, request);
        break;
    case BENCH_GATHER:
        MPI_Igather(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, ROOT, world, request);
        break;
    case BENCH_ALLGATHER:
        MPI_Iallgather(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, world, request);
        break;
    case BENCH_SCATTER:
        MPI_Iscatter(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, ROOT, world, request);
        break;
    case BENCH_ALLTOALL:
        MPI_Ialltoall(c->out, n, MPI_BYTE, c->in, n, MPI_BYTE, world, request);
        break;
    case BENCH_TRANSFER:
        if (c->rank == 0) {
            MPI_Isend(c->out, n, MPI_BYTE, 1, 1, world, request);
        } else if (c->rank == 1) {
            MPI_Irecv(c->in, n, MPI_BYTE, 0, 1, world, request);
        }
        break;
    }
}

/* What rank `from` sends to rank `to`; to all the same where the operation sends one message */
static uint64_t seed(const struct bench_coll_state *c, int from, int to, size_t size,
                     size_t iteration)
{
    return bench_pattern_seed(from, out_messages(c) == 1 ? 0 : to, size, iteration);
}

/* Addends of the reductions: rank r gives (r + 1) times this, so the sum is known. */
static int addend(size_t i, size_t iteration)
{
    return (int)((i * 0x9e37U + iteration * 0x79b9U + 1) & 0xffffU);
}

static int is_reduction(const struct bench_coll_state *c)
{
    return c->operation == BENCH_REDUCE || c->operation == BENCH_ALLREDUCE;
}

void bench_coll_prepare(struct bench_coll_state *c, size_t size, size_t iteration)
{
    memset(c->in, BENCH_PATTERN_EMPTY, size * in_messages(c));
    if (c->operation == BENCH_BCAST) {
        if (c->rank == ROOT) {
            bench_pattern_fill(c->in, size, seed(c, ROOT, 0, size, iteration));
        }
    } else if (is_reduction(c)) {
        for (size_t i = 0; i < size / sizeof(int); i++) {
            int value = (c->rank + 1) * addend(i, iteration);
            memcpy(c->out + i * sizeof(int), &value, sizeof(value));
        }
    } else {
        for (size_t to = 0; to < out_messages(c); to++) {
            bench_pattern_fill(c->out + to * size, size,
                               seed(c, c->rank, (int)to, size, iteration));
        }
    }
}

unsigned long bench_coll_check(struct bench_coll_state *c, size_t size, size_t iteration)
{
    unsigned long wrong = 0;
    int rooted = c->operation == BENCH_REDUCE || c->operation == BENCH_GATHER;
    if ((rooted && c->rank != ROOT) || c->operation == BENCH_BARRIER ||
        (c->operation == BENCH_TRANSFER && c->rank != 1)) {
        return 0;
    }
    if (is_reduction(c)) {
        for (size_t i = 0; i < size / sizeof(int); i++) {
            int value, wanted = c->ranks * (c->ranks + 1) / 2 * addend(i, iteration);
            memcpy(&value, c->in + i * sizeof(int), sizeof(value));
            wrong += value != wanted ? sizeof(value) : 0;
        }
        return wrong;
    }
    for (size_t from = 0; from < in_messages(c); from++) {
        int sender = in_messages(c) == 1 ? ROOT : (int)from;
        wrong += bench_pattern_check(c->in + from * size, size,
                                     seed(c, sender, c->rank, size, iteration));
    }
    return wrong;
}

static void work(struct bench_run *run, size_t size, size_t iterations,
                 struct bench_samples *samples)
{
    struct bench_coll_state *c = run->state;
    for (size_t i = 0; i < iterations; i++) {
        if (run->o->validate) {
            bench_coll_prepare(c, size, i);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        bench_coll_call(c, size);
        bench_samples_add(samples, bench_now() - start);
        if (run->o->validate) {
            run->errors += bench_coll_check(c, size, i);
        }
    }
}

/* As OSU: the average over the ranks of each rank's average, and the fastest and slowest rank. The
 * percentiles are over the iterations, of the rank that took longest. */
static void report(struct bench_run *run, size_t size, struct bench_samples *samples,
                   struct bench_row *row)
{
    (void)size;
    double *slowest = bench_buffer(samples->count * sizeof(double));
    MPI_Reduce(samples->values, slowest, (int)samples->count, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    double mean = bench_summarize(samples).mean * 1e6;
    MPI_Reduce(&mean, &row->figures[0], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mean, &row->figures[1], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mean, &row->figures[2], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    row->figures[0] /= run->ranks;
    memcpy(samples->values, slowest, samples->count * sizeof(double));
    struct bench_summary s = bench_summarize(samples);
    row->tails[0] = s.p50 * 1e6;
    row->tails[1] = s.p99 * 1e6;
    row->tails[2] = s.p999 * 1e6;
    free(slowest);
}

static const struct bench_column columns[] = {{"Avg Latency(us)", "avg_latency_us", 0},
                                              {"Min Latency(us)", "min_latency_us", 1},
                                              {"Max Latency(us)", "max_latency_us", 1},
                                              {NULL, NULL, 0}};

#define COLL(call, kind, operation, first)                                                      \
    {                                                                                           \
        .name = call, .title = "MPI " operation " Latency Test", .accepted = "mixbcf",          \
        .columns = columns, .unit = "us", .min = (first), .smallest = (first), .max = 1U << 20, \
        .iterations = 1000, .min_ranks = 2, .open = bench_coll_open, .work = work,              \
        .report = report, .close = bench_coll_close, .which = (kind)                            \
    }

const struct bench_test bench_coll_tests[] = {{.name = "barrier",
                                               .title = "MPI Barrier Latency Test",
                                               .accepted = "ixbf",
                                               .columns = columns,
                                               .unit = "us",
                                               .min = BENCH_NO_SIZE,
                                               .iterations = 1000,
                                               .min_ranks = 2,
                                               .which = BENCH_BARRIER,
                                               .open = bench_coll_open,
                                               .work = work,
                                               .report = report,
                                               .close = bench_coll_close},
                                              COLL("bcast", BENCH_BCAST, "Broadcast", 1),
                                              COLL("reduce", BENCH_REDUCE, "Reduce", 4),
                                              COLL("allreduce", BENCH_ALLREDUCE, "Allreduce", 4),
                                              COLL("gather", BENCH_GATHER, "Gather", 1),
                                              COLL("allgather", BENCH_ALLGATHER, "Allgather", 1),
                                              COLL("scatter", BENCH_SCATTER, "Scatter", 1),
                                              COLL("alltoall", BENCH_ALLTOALL, "All-to-All", 1),
                                              {.name = NULL}};
