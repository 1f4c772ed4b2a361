/* Makes rows of results out of samples, for programs that report latency or bandwidth.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <mpi.h>
#include <stdlib.h>

#include "benchmarks/bench_suite.h"

const struct bench_column bench_latency_columns[] = {{"Latency (us)", "latency_us", 0},
                                                     {"Min (us)", "min_us", 1},
                                                     {"Max (us)", "max_us", 1},
                                                     {NULL, NULL, 0}};

const struct bench_column bench_bandwidth_columns[] = {{"Bandwidth (MB/s)", "bandwidth_mbps", 0},
                                                       {"Min (MB/s)", "min_mbps", 1},
                                                       {"Max (MB/s)", "max_mbps", 1},
                                                       {NULL, NULL, 0}};

void bench_samples_gather(struct bench_samples *samples)
{
    int rank = 0, ranks = 0, mine = (int)samples->count, total = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int *counts = bench_buffer((size_t)ranks * sizeof(int));
    int *starts = bench_buffer((size_t)ranks * sizeof(int));
    MPI_Gather(&mine, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < ranks && rank == 0; i++) {
        starts[i] = total;
        total += counts[i];
    }
    double *all = bench_buffer((size_t)total * sizeof(double));
    MPI_Gatherv(samples->values, mine, MPI_DOUBLE, all, counts, starts, MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    if (rank == 0) {
        free(samples->values);
        *samples = (struct bench_samples){
            .values = all, .count = (size_t)total, .room = (size_t)(total > 0 ? total : 1)};
    } else {
        free(all);
    }
    free(counts);
    free(starts);
}

void bench_report_latency(struct bench_run *run, size_t size, struct bench_samples *samples,
                          struct bench_row *row)
{
    (void)run;
    (void)size;
    bench_samples_gather(samples);
    struct bench_summary s = bench_summarize(samples);
    row->figures[0] = s.mean * 1e6;
    row->figures[1] = s.min * 1e6;
    row->figures[2] = s.max * 1e6;
    row->tails[0] = s.p50 * 1e6;
    row->tails[1] = s.p99 * 1e6;
    row->tails[2] = s.p999 * 1e6;
}

static double rate(double bytes, double seconds)
{
    return seconds > 0 ? bytes / seconds * 1e-6 : 0;
}

void bench_report_bandwidth(struct bench_samples *samples, double bytes, struct bench_row *row)
{
    bench_samples_gather(samples);
    struct bench_summary s = bench_summarize(samples);
    row->figures[0] = rate(bytes, s.mean);
    row->figures[1] = rate(bytes, s.max);
    row->figures[2] = rate(bytes, s.min);
    /* the bandwidth that so many of the samples reach */
    row->tails[0] = rate(bytes, s.p50);
    row->tails[1] = rate(bytes, s.p99);
    row->tails[2] = rate(bytes, s.p999);
}
