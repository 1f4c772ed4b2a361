/* Samples of a measurement: mean, extremes and percentiles.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_STATS_H
#define VRB_BENCH_STATS_H

#include <stddef.h>

struct bench_samples {
    double *values;
    size_t count;
    size_t room;
};

struct bench_summary {
    size_t count;
    double mean, min, max;
    double p50, p90, p99, p999;
};

/* Room for `room` samples; returns 0, or -1 without memory. Old samples are dropped. */
int bench_samples_reset(struct bench_samples *samples, size_t room);
void bench_samples_free(struct bench_samples *samples);

/* Samples beyond the room are not kept. */
static inline void bench_samples_add(struct bench_samples *samples, double value)
{
    if (samples->count < samples->room) {
        samples->values[samples->count++] = value;
    }
}

/* Sorts the samples. All zeros if there is none. */
struct bench_summary bench_summarize(struct bench_samples *samples);

#endif
