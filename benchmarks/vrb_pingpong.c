/* OSU-style point-to-point benchmark: latency, bandwidth, bidirectional bandwidth, message rate.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_p2p.h"
#include "benchmarks/bench_stats.h"

#define TABLE_MAX_SIZE ((size_t)4 << 20)
#define LARGE_SIZE 8192U   /* from here on the OSU programs make fewer iterations */
#define DEFAULT_BUDGET 0.1 /* seconds for each cell of the table without options */
#define MIN_ITERATIONS 10U /* however slow the device is */
#define MAX_BUDGET_ITERATIONS 20000U

struct options {
    int table; /* both latency and bandwidth, a few sizes */
    enum bench_p2p_test test;
    struct bench_sizes sizes;
    size_t iterations; /* 0: the usual number for the size */
    long warmup;       /* -1: the usual number for the size */
    int window;
    int validate;
    int json;
    double budget; /* seconds for each size; 0: fixed number of iterations */
};

static const char *const test_names[BENCH_TESTS] = {"lat", "bw", "bibw", "mr"};
static const char *const test_titles[BENCH_TESTS] = {"Latency Test", "Bandwidth Test",
                                                     "Bi-Directional Bandwidth Test",
                                                     "Multiple Bandwidth / Message Rate Test"};

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: mpirun -n 2 ... vrb_pingpong [options]\n"
        "Measures latency and bandwidth between MPI ranks. Without -t: a table of both for a\n"
        "few sizes from 0 to 4 MiB. The first half of the ranks works with the second half\n"
        "(mr), or only rank 0 with the first rank of the second half (all other tests).\n\n"
        "  -t TEST         lat, bw, bibw or mr (message rate)\n"
        "  -m [MIN:]MAX    message sizes, powers of two from MIN to MAX bytes; K, M, G suffixes\n"
        "                  (default 0:4M, bw, bibw and mr 1:4M)\n"
        "  -s LIST         instead of -m: these sizes, separated by commas\n"
        "  -i N            iterations for each size (default lat 10000, others 1000; a tenth\n"
        "                  of it above 8 KiB)\n"
        "  -x N            iterations of warm-up before (default a tenth of -i)\n"
        "  -W N            messages in a window of bw, bibw and mr (default 64)\n"
        "  -b MS           instead of -i: about so many milliseconds for each size\n"
        "  -c              check the contents of every message, outside the clock\n"
        "  --json          results as JSON: seconds are microseconds, bandwidths 10^6 bytes/s\n"
        "  --help          this text\n\n"
        "Percentiles are taken over single iterations (lat: half a round trip; others: one\n"
        "window), so a disturbed iteration does not move the median (P50).\n");
}

static int parse_test(const char *text, enum bench_p2p_test *test)
{
    for (int t = 0; t < BENCH_TESTS; t++) {
        if (strcmp(text, test_names[t]) == 0) {
            *test = (enum bench_p2p_test)t;
            return 0;
        }
    }
    return -1;
}

/* Returns -1 to go on, otherwise the status to exit with. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int option, wrong = 0, has_range = 0;
    long number = 0;
    while ((option = getopt_long(argc, argv, "t:m:s:i:x:W:b:ch", longs, NULL)) != -1) {
        switch (option) {
        case 't':
            wrong |= parse_test(optarg, &o->test);
            o->table = 0;
            break;
        case 'm':
            wrong |= bench_parse_range(optarg, &o->sizes.min, &o->sizes.max);
            has_range = 1;
            break;
        case 's':
            wrong |= bench_parse_list(optarg, &o->sizes);
            has_range = 1;
            break;
        case 'i':
            wrong |= bench_parse_count(optarg, 1, &number);
            o->iterations = (size_t)number;
            o->budget = 0;
            break;
        case 'x':
            wrong |= bench_parse_count(optarg, 0, &o->warmup);
            break;
        case 'W':
            wrong |= bench_parse_count(optarg, 1, &number);
            o->window = (int)number;
            break;
        case 'b':
            wrong |= bench_parse_count(optarg, 1, &number);
            o->budget = (double)number * 1e-3;
            break;
        case 'c':
            o->validate = 1;
            break;
        case 'j':
            o->json = 1;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            wrong = 1;
            break;
        }
        if (wrong != 0) {
            fprintf(stderr, "vrb_pingpong: wrong option or value; see --help\n");
            return 2;
        }
    }
    if (o->table && !has_range) {
        bench_parse_list("0,1,8,64,256,1K,4K,8K,16K,64K,256K,1M,4M", &o->sizes);
    }
    if (o->table && o->budget == 0 && o->iterations == 0) {
        o->budget = DEFAULT_BUDGET;
    }
    if (o->sizes.min == BENCH_NO_SIZE) {
        o->sizes.min = o->test == BENCH_LAT || o->sizes.max == 0 ? 0 : 1;
    }
    if (optind < argc || o->window > 100000) {
        fprintf(stderr, "vrb_pingpong: wrong argument; see --help\n");
        return 2;
    }
    return -1;
}

/* Makes the first pair's figures those of the average pair: rates add up, not times. */
static void average_pairs(const struct bench_p2p *bench, struct bench_summary *s)
{
    double mine[2] = {0, 0}, all[2] = {0, 0};
    if (bench->is_first && s->count > 0) {
        mine[0] = 1 / s->mean;
        mine[1] = 1 / s->p50;
    }
    MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (bench->rank == 0 && all[0] > 0 && all[1] > 0) {
        s->mean = bench->pairs / all[0];
        s->p50 = bench->pairs / all[1];
    }
}

/* One size of one test: warm-up, then the samples at rank 0. */
static struct bench_summary measure(struct bench_p2p *bench, const struct options *o,
                                    enum bench_p2p_test test, size_t size,
                                    struct bench_samples *samples)
{
    unsigned long iterations = o->iterations;
    if (iterations == 0) {
        iterations = (test == BENCH_LAT ? 10000 : 1000) / (size > LARGE_SIZE ? 10 : 1);
    }
    unsigned long warmup = o->warmup >= 0 ? (unsigned long)o->warmup
                                          : (o->budget > 0 ? MIN_ITERATIONS : iterations / 10);
    if (o->budget > 0) {
        /* the warm-up tells how many iterations fit, and all ranks do as rank 0 found */
        if (bench_samples_reset(samples, warmup) != 0) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        bench_p2p_run(bench, test, size, warmup, samples);
        double one = bench_summarize(samples).p50 * (test == BENCH_LAT ? 2 : 1);
        double fit = one > 0 ? o->budget / one : MIN_ITERATIONS;
        iterations = fit > MAX_BUDGET_ITERATIONS ? MAX_BUDGET_ITERATIONS : (unsigned long)fit;
        iterations = iterations < MIN_ITERATIONS ? MIN_ITERATIONS : iterations;
        MPI_Bcast(&iterations, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
        warmup = iterations / 10;
    }
    struct bench_samples none = {.values = NULL};
    bench_p2p_run(bench, test, size, warmup, &none);
    if (bench_samples_reset(samples, iterations) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    bench_p2p_run(bench, test, size, iterations, samples);
    struct bench_summary summary = bench_summarize(samples);
    if (test == BENCH_MR) {
        average_pairs(bench, &summary);
    }
    return summary;
}

/* 10^6 bytes per second; one iteration of `seconds` moved the window of every pair */
static double rate(const struct bench_p2p *bench, enum bench_p2p_test test, size_t size,
                   double seconds)
{
    double bytes = (double)size * bench->window * (test == BENCH_BIBW ? 2 : 1);
    return seconds > 0 ? bytes * bench->pairs / seconds * 1e-6 : 0;
}

static double message_rate(const struct bench_p2p *bench, double seconds)
{
    return seconds > 0 ? (double)bench->window * bench->pairs / seconds : 0;
}

static void print_header(const struct options *o, const struct bench_p2p *bench)
{
    if (o->json) {
        printf("{\"benchmark\": \"vrb_pingpong\", \"ranks\": %d, \"pairs\": %d, \"window\": %d, "
               "\"validate\": %s, \"results\": [",
               bench->size, bench->pairs, o->window, o->validate ? "true" : "false");
        return;
    }
    if (o->table) {
        printf("# vrb_pingpong: latency is half a round trip, bandwidth has %d messages under "
               "way\n",
               o->window);
        printf("%-10s %12s %12s %12s %18s\n", "# Size", "P50 (us)", "P99 (us)", "Min (us)",
               "Bandwidth (MB/s)");
        return;
    }
    printf("# vrb_pingpong MPI %s\n", test_titles[o->test]);
    if (o->test == BENCH_LAT) {
        printf("%-10s %18s %12s %12s %12s %12s\n", "# Size", "Avg Latency(us)", "Min (us)",
               "P50 (us)", "P99 (us)", "P99.9 (us)");
    } else if (o->test == BENCH_MR) {
        printf("# [ pairs: %d ] [ window size: %d ]\n", bench->pairs, o->window);
        printf("%-10s %18s %18s %18s\n", "# Size", "MB/s", "Messages/s", "P50 Messages/s");
    } else {
        printf("%-10s %18s %18s\n", "# Size", "Bandwidth (MB/s)", "P50 (MB/s)");
    }
}

static void print_json(const struct bench_p2p *bench, enum bench_p2p_test test, size_t size,
                       const struct bench_summary *s, int first)
{
    printf("%s\n {\"test\": \"%s\", \"size\": %zu, \"iterations\": %zu, \"avg_us\": %.4f, "
           "\"min_us\": %.4f, \"p50_us\": %.4f, \"p90_us\": %.4f, \"p99_us\": %.4f, "
           "\"p999_us\": %.4f, \"max_us\": %.4f",
           first ? "" : ",", test_names[test], size, s->count, s->mean * 1e6, s->min * 1e6,
           s->p50 * 1e6, s->p90 * 1e6, s->p99 * 1e6, s->p999 * 1e6, s->max * 1e6);
    if (test != BENCH_LAT) {
        printf(", \"avg_mbps\": %.3f, \"p50_mbps\": %.3f, \"p50_msgs\": %.0f",
               rate(bench, test, size, s->mean), rate(bench, test, size, s->p50),
               message_rate(bench, s->p50));
    }
    printf("}");
}

static void print_line(const struct options *o, const struct bench_p2p *bench, size_t size,
                       const struct bench_summary *s)
{
    if (o->test == BENCH_LAT) {
        printf("%-10zu %18.2f %12.2f %12.2f %12.2f %12.2f\n", size, s->mean * 1e6, s->min * 1e6,
               s->p50 * 1e6, s->p99 * 1e6, s->p999 * 1e6);
    } else if (o->test == BENCH_MR) {
        printf("%-10zu %18.2f %18.0f %18.0f\n", size, rate(bench, o->test, size, s->mean),
               message_rate(bench, s->mean), message_rate(bench, s->p50));
    } else {
        printf("%-10zu %18.2f %18.2f\n", size, rate(bench, o->test, size, s->mean),
               rate(bench, o->test, size, s->p50));
    }
}

static void run_all(const struct options *o, struct bench_p2p *bench)
{
    struct bench_samples samples = {.values = NULL};
    int show = bench->rank == 0, first = 1;
    for (size_t size = o->sizes.min; size <= o->sizes.max && size != BENCH_NO_SIZE;
         size = bench_sizes_next(&o->sizes, size)) {
        struct bench_summary s = measure(bench, o, o->test, size, &samples);
        struct bench_summary w = {.count = 0};
        if (o->table && size > 0) {
            w = measure(bench, o, BENCH_BW, size, &samples);
        }
        /* only now, so that what the transport tells of its connections comes before it */
        if (show && first) {
            print_header(o, bench);
        }
        if (show && o->json) {
            print_json(bench, o->test, size, &s, first);
            if (w.count > 0) {
                print_json(bench, BENCH_BW, size, &w, 0);
            }
        } else if (show && o->table) {
            char bandwidth[32] = "-";
            if (w.count > 0) {
                snprintf(bandwidth, sizeof(bandwidth), "%.2f", rate(bench, BENCH_BW, size, w.p50));
            }
            printf("%-10zu %12.2f %12.2f %12.2f %18s\n", size, s.p50 * 1e6, s.p99 * 1e6,
                   s.min * 1e6, bandwidth);
        } else if (show) {
            print_line(o, bench, size, &s);
        }
        fflush(stdout);
        first = 0;
    }
    if (show && o->json) {
        printf("\n]}\n");
    }
    bench_samples_free(&samples);
}

int main(int argc, char **argv)
{
    struct options o = {
        .table = 1,
        .test = BENCH_LAT,
        .sizes = {.min = BENCH_NO_SIZE, .max = TABLE_MAX_SIZE, .list = {BENCH_NO_SIZE}},
        .warmup = -1,
        .window = 64};
    int status = parse(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    MPI_Init(&argc, &argv);
    struct bench_p2p bench;
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) {
        fprintf(stderr, "vrb_pingpong: needs at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (bench_p2p_open(&bench, o.test == BENCH_MR ? 0 : 1, o.sizes.max, o.window, o.validate) !=
        0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    run_all(&o, &bench);
    unsigned long errors = 0;
    MPI_Reduce(&bench.errors, &errors, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    status = 0;
    if (bench.rank == 0 && o.validate) {
        fprintf(o.json ? stderr : stdout, "# validation: %s, %lu wrong bytes\n",
                errors == 0 ? "passed" : "FAILED", errors);
        status = errors == 0 ? 0 : 1;
    }
    bench_p2p_close(&bench);
    MPI_Finalize();
    return status;
}
