/* Latency of several threads at once (vrb_latency_mt): thread k of one rank with thread k of the
 * other. SPDX-License-Identifier: BSD-3-Clause
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench_pattern.h"
#include "benchmarks/bench_suite.h"

#define DEFAULT_THREADS 2

struct worker {
    pthread_t thread;
    struct bench_run *run;
    int tag, peer;
    size_t size, iterations;
    unsigned char *out, *in;
    struct bench_samples samples;
    unsigned long errors;
};

struct workers {
    int count;
    struct worker *all;
};

static void open_threads(struct bench_run *run)
{
    struct workers *w = bench_buffer(sizeof(*w));
    w->count = run->o->threads > 0 ? run->o->threads : DEFAULT_THREADS;
    w->all = bench_buffer((size_t)w->count * sizeof(*w->all));
    for (int i = 0; i < w->count; i++) {
        w->all[i].out = bench_buffer(run->max_size);
        w->all[i].in = bench_buffer(run->max_size);
    }
    run->state = w;
    snprintf(run->note, sizeof(run->note), "# Number of threads of each rank: %d\n", w->count);
}

static void close_threads(struct bench_run *run)
{
    struct workers *w = run->state;
    for (int i = 0; i < w->count; i++) {
        free(w->all[i].out);
        free(w->all[i].in);
        bench_samples_free(&w->all[i].samples);
    }
    free(w->all);
    free(w);
}

static void receive(struct worker *w)
{
    MPI_Recv(w->in, (int)w->size, MPI_BYTE, w->peer, w->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *pingpong(void *argument)
{
    struct worker *w = argument;
    int rank = w->run->rank, validate = w->run->o->validate;
    for (size_t i = 0; i < w->iterations; i++) {
        if (validate) {
            bench_pattern_fill(w->out, w->size, bench_pattern_seed(rank, w->tag, w->size, i));
            memset(w->in, BENCH_PATTERN_EMPTY, w->size);
        }
        if (rank == 0) {
            double start = bench_now();
            MPI_Send(w->out, (int)w->size, MPI_BYTE, w->peer, w->tag, MPI_COMM_WORLD);
            receive(w);
            bench_samples_add(&w->samples, (bench_now() - start) / 2);
        } else {
            receive(w);
            MPI_Send(w->out, (int)w->size, MPI_BYTE, w->peer, w->tag, MPI_COMM_WORLD);
        }
        if (validate) {
            w->errors += bench_pattern_check(w->in, w->size,
                                             bench_pattern_seed(w->peer, w->tag, w->size, i));
        }
    }
    return NULL;
}

/* Only the first two ranks work; each thread has a share of the samples. */
static void work_threads(struct bench_run *run, size_t size, size_t iterations,
                         struct bench_samples *samples)
{
    struct workers *w = run->state;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < w->count && run->rank < 2; i++) {
        struct worker *one = &w->all[i];
        one->run = run;
        one->tag = i + 1;
        one->peer = 1 - run->rank;
        one->size = size;
        one->iterations = iterations;
        one->errors = 0;
        if (bench_samples_reset(&one->samples, iterations) != 0 ||
            pthread_create(&one->thread, NULL, pingpong, one) != 0) {
            fprintf(stderr, "vrb_latency_mt: cannot start thread %d\n", i + 1);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    struct bench_samples all = {.values = NULL};
    int keep = run->rank == 0 && samples->room > 0;
    if (keep && bench_samples_reset(&all, iterations * (size_t)w->count) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < w->count && run->rank < 2; i++) {
        pthread_join(w->all[i].thread, NULL);
        run->errors += w->all[i].errors;
        for (size_t k = 0; k < w->all[i].samples.count && keep; k++) {
            bench_samples_add(&all, w->all[i].samples.values[k]);
        }
    }
    if (keep) {
        bench_samples_free(samples);
        *samples = all;
    }
}

const struct bench_test bench_thread_tests[] = {{.name = "latency_mt",
                                                 .title = "MPI Multi-threaded Latency Test",
                                                 .accepted = "mixbcft",
                                                 .columns = bench_latency_columns,
                                                 .unit = "us",
                                                 .max = 4U << 20,
                                                 .iterations = 1000,
                                                 .min_ranks = 2,
                                                 .threads = 1,
                                                 .open = open_threads,
                                                 .work = work_threads,
                                                 .report = bench_report_latency,
                                                 .close = close_threads},
                                                {.name = NULL}};
