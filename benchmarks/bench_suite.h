/* A program of the suite as its driver (vrb_bench.c) sees it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_SUITE_H
#define VRB_BENCH_SUITE_H

#include <stddef.h>
#include <time.h>

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_stats.h"
#include "benchmarks/bench_table.h"

struct bench_run {
    const struct bench_options *o;
    const struct bench_test *test;
    int rank, ranks, pairs;
    size_t max_size;
    double init_seconds;  /* of MPI_Init */
    unsigned long errors; /* bytes that this rank found wrong */
    char note[160];       /* for the head of the table; set by open */
    void *state;          /* what open made */
};

struct bench_test {
    const char *name;  /* without vrb_ */
    const char *title; /* as OSU names it */
    const char *accepted;
    const struct bench_column *columns;
    const char *unit;  /* of the percentiles: us or MB/s */
    size_t min, max;   /* the usual range; min is BENCH_NO_SIZE if there are no sizes */
    size_t smallest;   /* that it can do */
    size_t iterations; /* up to 8 KiB; a tenth of it above */
    int min_ranks;
    int threads;                         /* needs MPI_THREAD_MULTIPLE */
    int which;                           /* what open and work distinguish programs by */
    void (*open)(struct bench_run *run); /* buffers of run->max_size; does not return on failure */
    /* Runs the iterations of one size; adds their times in seconds to the samples (of which there
     * is no room in a warm-up). */
    void (*work)(struct bench_run *run, size_t size, size_t iterations,
                 struct bench_samples *samples);
    /* All ranks: makes rank 0's row of the samples. */
    void (*report)(struct bench_run *run, size_t size, struct bench_samples *samples,
                   struct bench_row *row);
    void (*close)(struct bench_run *run);
};

/* Lists of programs, each ended by one without a name. */
extern const struct bench_test bench_pt2pt_tests[];
extern const struct bench_test bench_thread_tests[];
extern const struct bench_test bench_rma_tests[];
extern const struct bench_test bench_coll_tests[];
extern const struct bench_test bench_overlap_tests[];
extern const struct bench_test bench_startup_tests[];

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Aligned to pages and zeroed; ends the job without memory. */
void *bench_buffer(size_t size);

/* Joins the samples of all ranks at rank 0; ranks without samples have none to give. */
void bench_samples_gather(struct bench_samples *samples);

/* What latency programs report: half round trips or whole operations, in microseconds. */
extern const struct bench_column bench_latency_columns[];
void bench_report_latency(struct bench_run *run, size_t size, struct bench_samples *samples,
                          struct bench_row *row);

/* What bandwidth programs report: each sample was the time of so many bytes. All ranks that have
 * samples moved as much. */
extern const struct bench_column bench_bandwidth_columns[];
void bench_report_bandwidth(struct bench_samples *samples, double bytes, struct bench_row *row);

#endif
