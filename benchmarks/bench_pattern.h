/* What the messages of a validated run hold: every sender, message and place differs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VRB_BENCH_PATTERN_H
#define VRB_BENCH_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Whose message it is, for whom, how long, and in which iteration */
uint64_t bench_pattern_seed(int from, int to, size_t size, size_t iteration);

void bench_pattern_fill(unsigned char *buffer, size_t size, uint64_t seed);

/* Bytes that differ from what bench_pattern_fill would write. */
unsigned long bench_pattern_check(const unsigned char *buffer, size_t size, uint64_t seed);

/* What a buffer holds before a message arrives in it. */
#define BENCH_PATTERN_EMPTY 0x5a

#endif
