/* Start-up: the time of MPI_Init (vrb_init), and of the first message to every peer
 * (vrb_first_message). SPDX-License-Identifier: BSD-3-Clause
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmarks/bench_pattern.h"
#include "benchmarks/bench_suite.h"

#define MESSAGE 8 /* bytes */
/* until the slowest rank has left MPI_Init too, as no message may tell */
#define SETTLE_US 300000

static void report_init(struct bench_run *run, size_t size, struct bench_samples *samples,
                        struct bench_row *row)
{
    double mine = run->init_seconds * 1e3, sum = 0;
    (void)size;
    (void)samples;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &row->figures[1], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &row->figures[2], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    row->figures[0] = sum / run->ranks;
}

/* One message to a peer and its answer; seconds */
static double exchange(struct bench_run *run, int peer, int round)
{
    unsigned char out[MESSAGE], in[MESSAGE];
    bench_pattern_fill(out, MESSAGE, bench_pattern_seed(run->rank, peer, MESSAGE, (size_t)round));
    memset(in, BENCH_PATTERN_EMPTY, MESSAGE);
    double start = bench_now();
    if (run->rank == 0) {
        MPI_Send(out, MESSAGE, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        MPI_Recv(in, MESSAGE, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, MESSAGE, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, MESSAGE, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    }
    double took = bench_now() - start;
    if (run->o->validate) {
        run->errors += bench_pattern_check(
            in, MESSAGE, bench_pattern_seed(peer, run->rank, MESSAGE, (size_t)round));
    }
    return took;
}

/* Round trips: the first with each peer makes the connection, the second finds it made. */
static void report_first(struct bench_run *run, size_t size, struct bench_samples *samples,
                         struct bench_row *row)
{
    (void)size;
    (void)samples;
    usleep(SETTLE_US);
    for (int round = 0; round < 2; round++) {
        double sum = 0, min = 0, max = 0;
        for (int peer = 1; peer < run->ranks; peer++) {
            if (run->rank == 0) {
                double took = exchange(run, peer, round) * 1e6;
                sum += took;
                min = peer == 1 || took < min ? took : min;
                max = took > max ? took : max;
            } else if (run->rank == peer) {
                exchange(run, 0, round);
            }
        }
        if (round == 0) {
            row->figures[1] = min;
            row->figures[2] = max;
        }
        row->figures[round == 0 ? 0 : 3] = sum / (run->ranks - 1);
    }
}

static const struct bench_column init_columns[] = {{"Avg (ms)", "avg_ms", 0},
                                                   {"Min (ms)", "min_ms", 0},
                                                   {"Max (ms)", "max_ms", 0},
                                                   {NULL, NULL, 0}};
static const struct bench_column first_columns[] = {{"First (us)", "first_us", 0},
                                                    {"Min (us)", "min_first_us", 0},
                                                    {"Max (us)", "max_first_us", 0},
                                                    {"Second (us)", "second_us", 0},
                                                    {NULL, NULL, 0}};

const struct bench_test bench_startup_tests[] = {{.name = "init",
                                                  .title = "MPI Init Test",
                                                  .accepted = "",
                                                  .columns = init_columns,
                                                  .min = BENCH_NO_SIZE,
                                                  .min_ranks = 1,
                                                  .report = report_init},
                                                 {.name = "first_message",
                                                  .title = "First Round Trip with Every Peer",
                                                  .accepted = "c",
                                                  .columns = first_columns,
                                                  .min = BENCH_NO_SIZE,
                                                  .min_ranks = 2,
                                                  .report = report_first},
                                                 {.name = NULL}};
