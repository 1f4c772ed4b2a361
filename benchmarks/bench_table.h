/* Prints results in the columns of the OSU benchmarks, or as one JSON object.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_TABLE_H
#define VRB_BENCH_TABLE_H

#include <stddef.h>

#include "benchmarks/bench_options.h"

#define BENCH_MAX_FIGURES 6
#define BENCH_TAILS 3 /* P50, P99, P99.9 */

struct bench_column {
    const char *title; /* NULL ends a list of columns */
    const char *key;   /* its name in JSON */
    int full;          /* only with -f; JSON has all */
};

struct bench_row {
    size_t size; /* BENCH_NO_SIZE: the program has none */
    double figures[BENCH_MAX_FIGURES];
    double tails[BENCH_TAILS];
    size_t iterations;
    unsigned long wrong; /* bytes, with -c */
};

struct bench_table {
    const struct bench_options *options;
    const struct bench_column *columns;
    const char *unit; /* of the tails; NULL: the program has no single iterations */
    int has_size;
    int rows;
};

/* What the head of a table tells beside its title; strings may be NULL. */
struct bench_heading {
    const char *program; /* vrb_latency */
    const char *title;   /* MPI Latency Test */
    const char *note;    /* lines that begin with "# " */
    int ranks, pairs;
};

void bench_table_begin(const struct bench_table *table, const struct bench_heading *heading);
void bench_table_row(struct bench_table *table, const struct bench_row *row);
void bench_table_end(const struct bench_table *table, unsigned long wrong);

#endif
