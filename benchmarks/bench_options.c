/* The options that all programs of the suite share, with the letters of the OSU benchmarks.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_options.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef VRB_VERSION
#define VRB_VERSION "(built without configure)"
#endif

#define MAX_WINDOW 100000
#define MAX_THREADS 1024

static const struct {
    char letter;
    const char *name; /* the long option */
    int has_value;
    const char *text;
} known[] = {
    {'m', "message-size", 1, "[MIN:]MAX or A,B,C: bytes, powers of two or a list; K, M, G"},
    {'i', "iterations", 1, "N: iterations for each size (a tenth of the default above 8 KiB)"},
    {'x', "warmup", 1, "N: iterations before the clock runs (default: a tenth of them)"},
    {'b', "budget", 1, "MS: about so many milliseconds for each size, instead of -i"},
    {'W', "window-size", 1, "N: messages under way (default 64)"},
    {'p', "pairs", 1, "N: so many pairs of ranks (default: all)"},
    {'t', "num-threads", 1, "N: threads of each rank; of the i* programs, calls of MPI_Test"},
    {'w', "win-option", 1, "allocate | create: how the window is made (default allocate)"},
    {'s', "sync-option", 1, "flush | lock | fence | pscw: what completes (default flush)"},
    {'c', "validation", 0, "check every byte, outside the clock; status 1 if one is wrong"},
    {'f', "full", 0, "also minimum, maximum, P50, P99, P99.9 and the iterations"},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

int bench_parse_size(const char *text, const char **end, size_t *size)
{
    char *after = NULL;
    unsigned long long number = strtoull(text, &after, 10);
    if (after == text || !isdigit((unsigned char)*text)) {
        return -1;
    }
    int shift = 0;
    switch (toupper((unsigned char)*after)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    *end = shift != 0 ? after + 1 : after;
    *size = (size_t)(number << shift);
    return number > (1ULL << 30) >> shift ? -1 : 0; /* counts are ints in MPI */
}

int bench_parse_range(const char *text, size_t *min, size_t *max)
{
    const char *end;
    size_t first;
    if (bench_parse_size(text, &end, &first) != 0) {
        return -1;
    }
    if (*end == ':') {
        *min = first;
        if (bench_parse_size(end + 1, &end, max) != 0) {
            return -1;
        }
    } else {
        *max = first;
    }
    return *end == '\0' && (*min == BENCH_NO_SIZE || *min <= *max) ? 0 : -1;
}

int bench_parse_list(const char *text, struct bench_sizes *sizes)
{
    size_t count = 0;
    do {
        if (count == BENCH_MAX_LIST || bench_parse_size(text, &text, &sizes->list[count]) != 0 ||
            (count > 0 && sizes->list[count] <= sizes->list[count - 1])) {
            return -1;
        }
        count++;
    } while (*text++ == ',');
    sizes->list[count] = BENCH_NO_SIZE;
    sizes->min = sizes->list[0];
    sizes->max = sizes->list[count - 1];
    return text[-1] == '\0' ? 0 : -1;
}

int bench_parse_count(const char *text, long min, long *value)
{
    char *end = NULL;
    *value = strtol(text, &end, 10);
    return end != text && *end == '\0' && *value >= min && *value <= 1000000000 ? 0 : -1;
}

size_t bench_sizes_next(const struct bench_sizes *sizes, size_t size)
{
    if (sizes->list[0] == BENCH_NO_SIZE) {
        return size == 0 ? 1 : size * 2;
    }
    size_t i = 0;
    while (sizes->list[i] <= size && sizes->list[i] != BENCH_NO_SIZE) {
        i++;
    }
    return sizes->list[i];
}

static int parse_name(const char *text, const char *const names[], int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int parse_value(int letter, const char *text, struct bench_options *o)
{
    static const char *const syncs[] = {"flush", "lock", "fence", "pscw"};
    static const char *const windows[] = {"allocate", "create"};
    long number = 0;
    int wrong = 0, name = 0;
    switch (letter) {
    case 'm':
        o->sizes.given = 1;
        return strchr(text, ',') != NULL ? bench_parse_list(text, &o->sizes)
                                         : bench_parse_range(text, &o->sizes.min, &o->sizes.max);
    case 'i':
        wrong = bench_parse_count(text, 1, &number);
        o->iterations = (size_t)number;
        o->budget = 0;
        return wrong;
    case 'x':
        return bench_parse_count(text, 0, &o->warmup);
    case 'b':
        wrong = bench_parse_count(text, 1, &number);
        o->budget = (double)number * 1e-3;
        return wrong;
    case 'W':
        wrong = bench_parse_count(text, 1, &number);
        o->window = (int)number;
        return wrong != 0 || number > MAX_WINDOW ? -1 : 0;
    case 'p':
        wrong = bench_parse_count(text, 1, &number);
        o->pairs = (int)number;
        return wrong;
    case 't':
        wrong = bench_parse_count(text, 0, &number);
        o->threads = (int)number;
        return wrong != 0 || number > MAX_THREADS ? -1 : 0;
    case 'w':
        name = parse_name(text, windows, 2);
        o->window_kind = (enum bench_window)(name > 0 ? name : 0);
        return name < 0 ? -1 : 0;
    case 's':
        name = parse_name(text, syncs, 4);
        o->sync = (enum bench_sync)(name > 0 ? name : 0);
        return name < 0 ? -1 : 0;
    case 'c':
        o->validate = 1;
        return 0;
    case 'f':
        o->full = 1;
        return 0;
    default:
        return -1;
    }
}

static void usage(const char *program, const char *title, const char *accepted)
{
    printf("Usage: mpirun ... %s [options]\n%s\n\n", program, title);
    for (size_t i = 0; i < KNOWN; i++) {
        if (strchr(accepted, known[i].letter) != NULL) {
            printf("  -%c, --%-14s %s\n", known[i].letter, known[i].name, known[i].text);
        }
    }
    printf("      --%-14s the results as one JSON object, with all percentiles\n"
           "  -v, --%-14s the version\n"
           "  -h, --%-14s this text\n",
           "json", "version", "help");
}

int bench_options_parse(int argc, char **argv, const char *program, const char *title,
                        const char *accepted, struct bench_options *options)
{
    struct option longs[KNOWN + 4] = {{.name = NULL}};
    char shorts[2 * KNOWN + 3] = "hv";
    *options = (struct bench_options){.sizes = {.min = BENCH_NO_SIZE, .list = {BENCH_NO_SIZE}},
                                      .warmup = -1,
                                      .window = 64,
                                      .threads = -1};
    for (size_t i = 0; i < KNOWN; i++) {
        longs[i] = (struct option){known[i].name, known[i].has_value, NULL, known[i].letter};
        snprintf(shorts + strlen(shorts), 3, "%c%s", known[i].letter,
                 known[i].has_value ? ":" : "");
    }
    longs[KNOWN] = (struct option){"json", no_argument, NULL, 'j'};
    longs[KNOWN + 1] = (struct option){"version", no_argument, NULL, 'v'};
    longs[KNOWN + 2] = (struct option){"help", no_argument, NULL, 'h'};
    optind = 1;
    for (int letter; (letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        switch (letter) {
        case 'j':
            options->json = 1;
            continue;
        case 'v':
            printf("%s %s\n", program, VRB_VERSION);
            return 0;
        case 'h':
            usage(program, title, accepted);
            return 0;
        case '?':
            fprintf(stderr, "%s: see --help\n", program);
            return 2;
        default:
            break;
        }
        if (strchr(accepted, letter) == NULL) {
            fprintf(stderr, "%s has no option -%c; see --help\n", program, letter);
            return 2;
        }
        if (parse_value(letter, optarg, options) != 0) {
            fprintf(stderr, "%s: wrong value of -%c: %s\n", program, letter, optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: what is '%s'? see --help\n", program, argv[optind]);
        return 2;
    }
    return -1;
}
