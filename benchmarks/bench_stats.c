/* Samples of a measurement: mean, extremes and percentiles.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_stats.h"

#include <stdlib.h>

int bench_samples_reset(struct bench_samples *samples, size_t room)
{
    if (room > samples->room) {
        double *values = realloc(samples->values, room * sizeof(*values));
        if (values == NULL) {
            return -1;
        }
        samples->values = values;
        samples->room = room;
    }
    samples->count = 0;
    return 0;
}

void bench_samples_free(struct bench_samples *samples)
{
    free(samples->values);
    *samples = (struct bench_samples){.values = NULL};
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that at least a share `p` of all samples does not exceed */
static double percentile(const struct bench_samples *samples, double p)
{
    double rank = p * (double)samples->count;
    size_t index = (size_t)rank;
    if ((double)index < rank) {
        index++;
    }
    return samples->values[index > 0 ? index - 1 : 0];
}

struct bench_summary bench_summarize(struct bench_samples *samples)
{
    struct bench_summary summary = {.count = samples->count};
    if (samples->count == 0) {
        return summary;
    }
    qsort(samples->values, samples->count, sizeof(samples->values[0]), compare);
    double sum = 0;
    for (size_t i = 0; i < samples->count; i++) {
        sum += samples->values[i];
    }
    summary.mean = sum / (double)samples->count;
    summary.min = samples->values[0];
    summary.max = samples->values[samples->count - 1];
    summary.p50 = percentile(samples, 0.5);
    summary.p90 = percentile(samples, 0.9);
    summary.p99 = percentile(samples, 0.99);
    summary.p999 = percentile(samples, 0.999);
    return summary;
}
