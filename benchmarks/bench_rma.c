/* One-sided programs: put, get, accumulate, get_accumulate, fetch_and_op, compare_and_swap.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 works on the window of rank 1; further ranks only take part in making it.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench_pattern.h"
#include "benchmarks/bench_suite.h"

enum { PUT, GET, ACC, GET_ACC, FOP, CAS };
#define WINDOWED 16 /* or-ed to them: a window of operations in each epoch */
#define BOTH 32     /* and in both directions */

struct rma {
    MPI_Win window;
    unsigned char *memory; /* of the window, max_size bytes */
    unsigned char *own;    /* the memory, if we allocated it */
    unsigned char *out, *in;
    MPI_Group peer; /* for post and start */
    int operation, both;
    int count; /* operations in an epoch */
    int target, is_origin, is_target;
};

static void open_rma(struct bench_run *run)
{
    static const char *const syncs[] = {"MPI_Win_flush", "MPI_Win_lock/unlock", "MPI_Win_fence",
                                        "MPI_Win_post/start/complete/wait"};
    static const char *const kinds[] = {"MPI_Win_allocate", "MPI_Win_create"};
    const struct bench_options *o = run->o;
    struct rma *r = bench_buffer(sizeof(*r));
    MPI_Group world;

    run->state = r;
    r->operation = run->test->which & ~(WINDOWED | BOTH);
    r->both = (run->test->which & BOTH) != 0;
    r->count = (run->test->which & WINDOWED) != 0 ? o->window : 1;
    r->target = 1 - run->rank;
    r->is_origin = run->rank == 0 || (r->both && run->rank == 1);
    r->is_target = run->rank == 1 || (r->both && run->rank == 0);
    r->out = bench_buffer(run->max_size);
    r->in = bench_buffer(run->max_size + 8); /* and what compare_and_swap compares with */
    MPI_Aint size = (MPI_Aint)(run->max_size > 8 ? run->max_size : 8);
    if (o->window_kind == BENCH_WINDOW_ALLOCATE) {
        MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r->memory, &r->window);
    } else {
        r->own = r->memory = bench_buffer((size_t)size);
        MPI_Win_create(r->memory, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r->window);
    }
    memset(r->memory, 0, (size_t)size);
    if (run->rank < 2) {
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &r->target, &r->peer);
        MPI_Group_free(&world);
    }
    snprintf(run->note, sizeof(run->note), "# Window creation: %s\n# Synchronization: %s\n",
             kinds[o->window_kind], syncs[o->sync]);
}

static void close_rma(struct bench_run *run)
{
    struct rma *r = run->state;
    MPI_Win_free(&r->window);
    if (run->rank < 2) {
        MPI_Group_free(&r->peer);
    }
    free(r->own);
    free(r->out);
    free(r->in);
    free(r);
}

/* Sums of integers are exact; so atomics add numbers made from the seed. */
static uint64_t number(uint64_t seed, size_t i)
{
    return (seed >> 20) + i * 0x10001U;
}

static void fill_numbers(unsigned char *buffer, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t value = number(seed, i);
        memcpy(buffer + 8 * i, &value, 8);
    }
}

static unsigned long check_numbers(const unsigned char *buffer, size_t size, uint64_t seed,
                                   uint64_t factor, uint64_t more)
{
    unsigned long wrong = 0;
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t value, wanted = factor * number(seed, i) + (more != 0 ? number(more, i) : 0);
        memcpy(&value, buffer + 8 * i, 8);
        wrong += value != wanted ? 8 : 0;
    }
    return wrong;
}

static uint64_t seed_of(const struct rma *r, int from, size_t size, size_t iteration)
{
    return bench_pattern_seed(from, r->operation, size, iteration);
}

/* What the iteration works with; the window is set by its owner, with a lock on it. */
static void prepare(struct bench_run *run, size_t size, size_t iteration)
{
    struct rma *r = run->state;
    if (run->rank > 1) {
        return;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, run->rank, 0, r->window);
    memset(r->in, BENCH_PATTERN_EMPTY, size);
    if (r->operation == PUT) {
        bench_pattern_fill(r->out, size, seed_of(r, run->rank, size, iteration));
        memset(r->memory, BENCH_PATTERN_EMPTY, size);
    } else if (r->operation == GET) {
        bench_pattern_fill(r->memory, size, seed_of(r, run->rank, size, iteration));
    } else {
        fill_numbers(r->out, size, seed_of(r, 0, size, iteration));
        fill_numbers(r->memory, size, seed_of(r, 1, size, iteration));
    }
    MPI_Win_unlock(run->rank, r->window);
}

static void check(struct bench_run *run, size_t size, size_t iteration)
{
    struct rma *r = run->state;
    uint64_t origin = seed_of(r, 0, size, iteration), target = seed_of(r, 1, size, iteration);
    if (r->is_target) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, run->rank, 0, r->window);
        if (r->operation == PUT) {
            run->errors +=
                bench_pattern_check(r->memory, size, seed_of(r, r->target, size, iteration));
        } else if (r->operation == CAS) {
            run->errors += check_numbers(r->memory, size, origin, 1, 0);
        } else if (r->operation != GET) {
            run->errors += check_numbers(r->memory, size, origin, (uint64_t)r->count, target);
        }
        MPI_Win_unlock(run->rank, r->window);
    }
    if (r->is_origin) {
        if (r->operation == GET) {
            run->errors += bench_pattern_check(r->in, size, target);
        } else if (r->operation == GET_ACC || r->operation == FOP || r->operation == CAS) {
            run->errors += check_numbers(r->in, size, target, 1, 0);
        }
    }
}

static void operate(struct rma *r, size_t size)
{
    int n = (int)size, longs = (int)(size / 8);
    switch (r->operation) {
    case PUT:
        MPI_Put(r->out, n, MPI_BYTE, r->target, 0, n, MPI_BYTE, r->window);
        break;
    case GET:
        MPI_Get(r->in, n, MPI_BYTE, r->target, 0, n, MPI_BYTE, r->window);
        break;
    case ACC:
        MPI_Accumulate(r->out, longs, MPI_UINT64_T, r->target, 0, longs, MPI_UINT64_T, MPI_SUM,
                       r->window);
        break;
    case GET_ACC:
        MPI_Get_accumulate(r->out, longs, MPI_UINT64_T, r->in, longs, MPI_UINT64_T, r->target, 0,
                           longs, MPI_UINT64_T, MPI_SUM, r->window);
        break;
    case FOP:
        MPI_Fetch_and_op(r->out, r->in, MPI_UINT64_T, r->target, 0, MPI_SUM, r->window);
        break;
    default:
        MPI_Compare_and_swap(r->out, r->in + 8, r->in, MPI_UINT64_T, r->target, 0, r->window);
        break;
    }
}

/* One epoch at the origin, from its opening to the completion at the target. */
static void epoch(struct bench_run *run, size_t size)
{
    struct rma *r = run->state;
    enum bench_sync sync = run->o->sync;
    if (sync == BENCH_SYNC_LOCK) {
        MPI_Win_lock(MPI_LOCK_SHARED, r->target, 0, r->window);
    } else if (sync == BENCH_SYNC_FENCE) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, r->window);
    } else if (sync == BENCH_SYNC_PSCW) {
        if (r->is_target) {
            MPI_Win_post(r->peer, 0, r->window);
        }
        if (r->is_origin) {
            MPI_Win_start(r->peer, 0, r->window);
        }
    }
    for (int i = 0; i < r->count && r->is_origin; i++) {
        operate(r, size);
    }
    if (sync == BENCH_SYNC_FLUSH) {
        MPI_Win_flush(r->target, r->window);
    } else if (sync == BENCH_SYNC_LOCK) {
        MPI_Win_unlock(r->target, r->window);
    } else if (sync == BENCH_SYNC_FENCE) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, r->window);
    } else {
        if (r->is_origin) {
            MPI_Win_complete(r->window);
        }
        if (r->is_target) {
            MPI_Win_wait(r->window);
        }
    }
}

static void work_rma(struct bench_run *run, size_t size, size_t iterations,
                     struct bench_samples *samples)
{
    struct rma *r = run->state;
    enum bench_sync sync = run->o->sync;
    /* fence is collective; post and wait are the target's; otherwise it looks on */
    int takes_part =
        sync == BENCH_SYNC_FENCE || r->is_origin || (sync == BENCH_SYNC_PSCW && r->is_target);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < iterations; i++) {
        if (run->o->validate) {
            prepare(run, size, i);
            if (r->operation == CAS && r->is_origin) {
                fill_numbers(r->in + 8, 8, seed_of(r, 1, size, i));
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (takes_part) {
            if (sync == BENCH_SYNC_FLUSH && (i == 0 || run->o->validate)) {
                MPI_Win_lock(MPI_LOCK_SHARED, r->target, 0, r->window);
            }
            double start = bench_now();
            epoch(run, size);
            if (run->rank == 0) {
                bench_samples_add(samples, bench_now() - start);
            }
            if (sync == BENCH_SYNC_FLUSH && (i == iterations - 1 || run->o->validate)) {
                MPI_Win_unlock(r->target, r->window);
            }
        }
        if (run->o->validate) {
            MPI_Barrier(MPI_COMM_WORLD);
            check(run, size, i);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void report_rma_bandwidth(struct bench_run *run, size_t size, struct bench_samples *samples,
                                 struct bench_row *row)
{
    struct rma *r = run->state;
    bench_report_bandwidth(samples, (double)size * r->count * (r->both ? 2 : 1), row);
}

#define LATENCY(letters)                                                                   \
    .unit = "us", .iterations = 10000, .min_ranks = 2, .open = open_rma, .work = work_rma, \
    .close = close_rma, .columns = bench_latency_columns, .report = bench_report_latency,  \
    .accepted = (letters)
#define BANDWIDTH                                                                           \
    .unit = "MB/s", .iterations = 1000, .min_ranks = 2, .open = open_rma, .work = work_rma, \
    .close = close_rma, .columns = bench_bandwidth_columns, .report = report_rma_bandwidth, \
    .accepted = "mixbcfwsW"
#define LONGS .min = 8, .smallest = 8
#define ONE_LONG .min = 8, .max = 8, .smallest = 8

const struct bench_test bench_rma_tests[] = {{.name = "put_latency",
                                              .title = "MPI_Put Latency Test",
                                              .which = PUT,
                                              .max = 4U << 20,
                                              LATENCY("mixbcfws")},
                                             {.name = "get_latency",
                                              .title = "MPI_Get Latency Test",
                                              .which = GET,
                                              .max = 4U << 20,
                                              LATENCY("mixbcfws")},
                                             {.name = "acc_latency",
                                              .title = "MPI_Accumulate Latency Test",
                                              .which = ACC,
                                              LONGS,
                                              .max = 4U << 20,
                                              LATENCY("mixbcfws")},
                                             {.name = "get_acc_latency",
                                              .title = "MPI_Get_accumulate Latency Test",
                                              .which = GET_ACC,
                                              LONGS,
                                              .max = 4U << 20,
                                              LATENCY("mixbcfws")},
                                             {.name = "fop_latency",
                                              .title = "MPI_Fetch_and_op Latency Test",
                                              .which = FOP,
                                              ONE_LONG,
                                              LATENCY("ixbcfws")},
                                             {.name = "cas_latency",
                                              .title = "MPI_Compare_and_swap Latency Test",
                                              .which = CAS,
                                              ONE_LONG,
                                              LATENCY("ixbcfws")},
                                             {.name = "put_bw",
                                              .title = "MPI_Put Bandwidth Test",
                                              .which = PUT | WINDOWED,
                                              .min = 1,
                                              .max = 4U << 20,
                                              BANDWIDTH},
                                             {.name = "get_bw",
                                              .title = "MPI_Get Bandwidth Test",
                                              .which = GET | WINDOWED,
                                              .min = 1,
                                              .max = 4U << 20,
                                              BANDWIDTH},
                                             {.name = "put_bibw",
                                              .title = "MPI_Put Bi-directional Bandwidth Test",
                                              .which = PUT | WINDOWED | BOTH,
                                              .min = 1,
                                              .max = 4U << 20,
                                              BANDWIDTH},
                                             {.name = NULL}};
