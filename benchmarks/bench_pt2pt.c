/* Point-to-point programs: vrb_latency, vrb_multi_lat, vrb_bw, vrb_bibw, vrb_mbw_mr.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "benchmarks/bench_p2p.h"
#include "benchmarks/bench_suite.h"

enum { LATENCY, MULTI_LATENCY, BW, BIBW, MBW_MR };

static enum bench_p2p_test engine_test(const struct bench_run *run)
{
    static const enum bench_p2p_test tests[] = {BENCH_LAT, BENCH_LAT, BENCH_BW, BENCH_BIBW,
                                                BENCH_MR};
    return tests[run->test->which];
}

static void open_pairs(struct bench_run *run)
{
    const struct bench_options *o = run->o;
    int which = run->test->which;
    struct bench_p2p *bench = bench_buffer(sizeof(*bench));
    int pairs = which == MULTI_LATENCY || which == MBW_MR ? o->pairs : 1;
    if (bench_p2p_open(bench, pairs, run->max_size, o->window, o->validate) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    run->state = bench;
    run->pairs = bench->pairs;
    if (which == MULTI_LATENCY) {
        snprintf(run->note, sizeof(run->note), "# [ pairs: %d ]\n", bench->pairs);
    } else if (which != LATENCY) {
        snprintf(run->note, sizeof(run->note), "# [ pairs: %d ] [ window size: %d ]\n",
                 bench->pairs, o->window);
    }
}

static void close_pairs(struct bench_run *run)
{
    bench_p2p_close(run->state);
    free(run->state);
}

static void work(struct bench_run *run, size_t size, size_t iterations,
                 struct bench_samples *samples)
{
    struct bench_p2p *bench = run->state;
    bench->errors = 0;
    bench_p2p_run(bench, engine_test(run), size, iterations, samples);
    run->errors += bench->errors;
}

static void report_rate(struct bench_run *run, size_t size, struct bench_samples *samples,
                        struct bench_row *row)
{
    double messages = (double)run->o->window * run->pairs;
    double bytes = (double)size * messages * (run->test->which == BIBW ? 2 : 1);
    bench_report_bandwidth(samples, bytes, row);
    if (run->test->which == MBW_MR) {
        struct bench_summary s = bench_summarize(samples);
        row->figures[3] = row->figures[1];
        row->figures[4] = row->figures[2];
        row->figures[1] = s.mean > 0 ? messages / s.mean : 0;
        row->figures[2] = s.p50 > 0 ? messages / s.p50 : 0;
    }
}

static const struct bench_column rate_columns[] = {{"MB/s", "bandwidth_mbps", 0},
                                                   {"Messages/s", "messages_per_s", 0},
                                                   {"P50 Messages/s", "p50_messages_per_s", 1},
                                                   {"Min (MB/s)", "min_mbps", 1},
                                                   {"Max (MB/s)", "max_mbps", 1},
                                                   {NULL, NULL, 0}};

#define COMMON \
    .max = 4U << 20, .min_ranks = 2, .open = open_pairs, .work = work, .close = close_pairs

const struct bench_test bench_pt2pt_tests[] = {
    {.name = "latency",
     .title = "MPI Latency Test",
     .accepted = "mixbcf",
     .columns = bench_latency_columns,
     .unit = "us",
     .iterations = 10000,
     .which = LATENCY,
     .report = bench_report_latency,
     COMMON},
    {.name = "multi_lat",
     .title = "MPI Multi Latency Test",
     .accepted = "mixbcfp",
     .columns = bench_latency_columns,
     .unit = "us",
     .iterations = 10000,
     .which = MULTI_LATENCY,
     .report = bench_report_latency,
     COMMON},
    {.name = "bw",
     .title = "MPI Bandwidth Test",
     .accepted = "mixbcfW",
     .columns = bench_bandwidth_columns,
     .unit = "MB/s",
     .min = 1,
     .iterations = 1000,
     .which = BW,
     .report = report_rate,
     COMMON},
    {.name = "bibw",
     .title = "MPI Bi-Directional Bandwidth Test",
     .accepted = "mixbcfW",
     .columns = bench_bandwidth_columns,
     .unit = "MB/s",
     .min = 1,
     .iterations = 1000,
     .which = BIBW,
     .report = report_rate,
     COMMON},
    {.name = "mbw_mr",
     .title = "MPI Multiple Bandwidth / Message Rate Test",
     .accepted = "mixbcfWp",
     .columns = rate_columns,
     .unit = "MB/s",
     .min = 1,
     .iterations = 1000,
     .which = MBW_MR,
     .report = report_rate,
     COMMON},
    {.name = NULL}};
