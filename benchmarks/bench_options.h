/* The options that all programs of the suite share, with the letters of the OSU benchmarks.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_OPTIONS_H
#define VRB_BENCH_OPTIONS_H

#include <stddef.h>

#define BENCH_MAX_LIST 64U
#define BENCH_NO_SIZE ((size_t)-1)

/* Message sizes, ascending: a list, or powers of two */
struct bench_sizes {
    int given; /* by the user */
    size_t min, max;
    size_t list[BENCH_MAX_LIST + 1]; /* ended by BENCH_NO_SIZE; not used when it begins with it */
};

enum bench_sync { BENCH_SYNC_FLUSH, BENCH_SYNC_LOCK, BENCH_SYNC_FENCE, BENCH_SYNC_PSCW };
enum bench_window { BENCH_WINDOW_ALLOCATE, BENCH_WINDOW_CREATE };

struct bench_options {
    struct bench_sizes sizes; /* min is BENCH_NO_SIZE: the program's own range */
    size_t iterations;        /* 0: the program's own number for the size */
    long warmup;              /* -1: a tenth of the iterations */
    double budget;            /* seconds for each size; 0: a fixed number of iterations */
    int window;               /* messages under way */
    int threads;              /* of each rank, or calls of MPI_Test; -1: the program's own number */
    int pairs;                /* 0: all that there are */
    enum bench_sync sync;
    enum bench_window window_kind;
    int validate, full, json;
};

/* Reads the options of `program`, which takes the letters of `accepted` beside -h, -v and --json.
 * Returns -1 to go on, otherwise the status to exit with; then all has been said. */
int bench_options_parse(int argc, char **argv, const char *program, const char *title,
                        const char *accepted, struct bench_options *options);

/* The parts, for programs with options of their own; 0, or -1 if the text is wrong. */
int bench_parse_size(const char *text, const char **end, size_t *size);
int bench_parse_range(const char *text, size_t *min, size_t *max); /* [MIN:]MAX */
int bench_parse_list(const char *text, struct bench_sizes *sizes); /* SIZE,SIZE,... */
int bench_parse_count(const char *text, long min, long *value);

/* The size after `size`, BENCH_NO_SIZE after the last of a list. */
size_t bench_sizes_next(const struct bench_sizes *sizes, size_t size);

#endif
