/* The benchmark suite: one program under many names (vrb_latency, vrb_bw, vrb_allreduce, ...).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain MPI-3, so it runs with any MPI and any transport:
 *     mpicc -std=gnu11 -O2 -pthread -I. -o vrb_bench benchmarks/vrb_bench.c
 * benchmarks/bench_[a-z]*.c
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmarks/bench_suite.h"

#define LARGE_SIZE 8192U /* from here on the OSU programs make fewer iterations */
#define MIN_ITERATIONS 10U
#define MAX_BUDGET_ITERATIONS 20000U
#define PROBE_ITERATIONS 5U /* from which the number for a budget is reckoned */

static const struct bench_test *const groups[] = {bench_pt2pt_tests,   bench_thread_tests,
                                                  bench_rma_tests,     bench_coll_tests,
                                                  bench_overlap_tests, bench_startup_tests};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

void *bench_buffer(size_t size)
{
    void *buffer = NULL;
    size_t room = size > 0 ? size : 1;
    if (posix_memalign(&buffer, (size_t)sysconf(_SC_PAGESIZE), room) != 0) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", room);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
    memset(buffer, 0, room);
    return buffer;
}

static const struct bench_test *find(const char *name)
{
    for (size_t g = 0; g < GROUPS; g++) {
        for (const struct bench_test *t = groups[g]; t->name != NULL; t++) {
            if (strcmp(t->name, name) == 0) {
                return t;
            }
        }
    }
    return NULL;
}

static void list(FILE *out)
{
    for (size_t g = 0; g < GROUPS; g++) {
        for (const struct bench_test *t = groups[g]; t->name != NULL; t++) {
            fprintf(out, "vrb_%-20s %s\n", t->name, t->title);
        }
    }
}

/* The program is named by the link through which it was started, or by the first argument. */
static const struct bench_test *choose(int *argc, char ***argv)
{
    const char *base = strrchr((*argv)[0], '/');
    base = base != NULL ? base + 1 : (*argv)[0];
    const struct bench_test *test = strncmp(base, "vrb_", 4) == 0 ? find(base + 4) : NULL;
    if (test == NULL && *argc > 1) {
        const char *name = (*argv)[1];
        test = find(strncmp(name, "vrb_", 4) == 0 ? name + 4 : name);
        (*argc)--;
        (*argv)++;
    }
    return test;
}

/* All ranks make the same number of iterations. */
static size_t choose_iterations(struct bench_run *run, size_t size)
{
    const struct bench_options *o = run->o;
    unsigned long number = o->iterations;
    if (number == 0) {
        number = run->test->iterations / (size > LARGE_SIZE ? 10 : 1);
    }
    if (o->budget > 0) {
        struct bench_samples none = {.values = NULL};
        run->test->work(run, size, PROBE_ITERATIONS, &none);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        run->test->work(run, size, PROBE_ITERATIONS, &none);
        double wanted = o->budget * PROBE_ITERATIONS / (bench_now() - start);
        number = wanted > MAX_BUDGET_ITERATIONS ? MAX_BUDGET_ITERATIONS
                 : wanted < MIN_ITERATIONS      ? MIN_ITERATIONS
                                                : (unsigned long)wanted;
        MPI_Bcast(&number, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    }
    return number;
}

static unsigned long measure(struct bench_run *run, struct bench_table *table, size_t size,
                             struct bench_samples *samples)
{
    struct bench_row row = {.size = size};
    run->errors = 0;
    if (run->test->work != NULL) {
        struct bench_samples none = {.values = NULL};
        row.iterations = choose_iterations(run, size);
        size_t warmup = run->o->warmup >= 0 ? (size_t)run->o->warmup : row.iterations / 10;
        if (warmup > 0) {
            run->test->work(run, size, warmup, &none);
        }
        if (bench_samples_reset(samples, row.iterations) != 0) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        run->test->work(run, size, row.iterations, samples);
    }
    run->test->report(run, size, samples, &row);
    MPI_Reduce(&run->errors, &row.wrong, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (run->rank == 0) {
        bench_table_row(table, &row);
    }
    return row.wrong;
}

static unsigned long run_all(struct bench_run *run, const struct bench_sizes *sizes)
{
    const struct bench_test *t = run->test;
    char program[64];
    snprintf(program, sizeof(program), "vrb_%s", t->name);
    struct bench_table table = {.options = run->o,
                                .columns = t->columns,
                                .unit = t->unit,
                                .has_size = t->min != BENCH_NO_SIZE};
    struct bench_heading heading = {.program = program,
                                    .title = t->title,
                                    .note = run->note,
                                    .ranks = run->ranks,
                                    .pairs = run->pairs};
    struct bench_samples samples = {.values = NULL};
    unsigned long wrong = 0;
    if (run->rank == 0) {
        bench_table_begin(&table, &heading);
    }
    if (!table.has_size) {
        wrong = measure(run, &table, 0, &samples);
    } else {
        for (size_t size = sizes->min; size <= sizes->max && size != BENCH_NO_SIZE;
             size = bench_sizes_next(sizes, size)) {
            wrong += measure(run, &table, size, &samples);
        }
    }
    if (run->rank == 0) {
        bench_table_end(&table, wrong);
    }
    bench_samples_free(&samples);
    return wrong;
}

/* The range that was asked for, within what the program can do. */
static int choose_sizes(const struct bench_test *t, struct bench_sizes *sizes)
{
    if (!sizes->given) {
        sizes->min = t->min;
        sizes->max = t->max;
    } else if (sizes->min == BENCH_NO_SIZE) {
        sizes->min = sizes->max < t->min ? sizes->max : t->min;
    }
    if (t->min != BENCH_NO_SIZE && sizes->min < t->smallest) {
        fprintf(stderr, "vrb_%s: the smallest message is of %zu bytes\n", t->name, t->smallest);
        return -1;
    }
    return 0;
}

static int start_mpi(int *argc, char ***argv, const struct bench_test *t, struct bench_run *run)
{
    int provided = MPI_THREAD_SINGLE;
    double start = bench_now();
    if (t->threads) {
        MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    } else {
        MPI_Init(argc, argv);
    }
    run->init_seconds = bench_now() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &run->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run->ranks);
    if (t->threads && provided < MPI_THREAD_MULTIPLE) {
        if (run->rank == 0) {
            fprintf(stderr, "vrb_%s: this MPI has no MPI_THREAD_MULTIPLE\n", t->name);
        }
        return -1;
    }
    if (run->ranks < t->min_ranks) {
        fprintf(stderr, "vrb_%s: needs at least %d ranks, not %d\n", t->name, t->min_ranks,
                run->ranks);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct bench_test *test = choose(&argc, &argv);
    if (test == NULL) {
        int help = argc > 0 && (strcmp(argv[0], "--list") == 0 || strcmp(argv[0], "--help") == 0);
        fprintf(help ? stdout : stderr, "Usage: mpirun ... vrb_bench PROGRAM [options]\n"
                                        "or a link to it under the name of one of these:\n\n");
        list(help ? stdout : stderr);
        return help ? 0 : 2;
    }
    char name[64];
    snprintf(name, sizeof(name), "vrb_%s", test->name);
    struct bench_options options;
    int status = bench_options_parse(argc, argv, name, test->title, test->accepted, &options);
    struct bench_run run = {.o = &options, .test = test, .pairs = 1};
    if (status >= 0 || (status = choose_sizes(test, &options.sizes)) != 0) {
        return status < 0 ? 2 : status;
    }
    if (start_mpi(&argc, &argv, test, &run) != 0) {
        MPI_Finalize();
        return 2;
    }
    run.max_size = options.sizes.max;
    if (test->open != NULL) {
        test->open(&run);
    }
    unsigned long wrong = run_all(&run, &options.sizes);
    if (test->close != NULL) {
        test->close(&run);
    }
    MPI_Bcast(&wrong, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong > 0 ? 1 : 0;
}
