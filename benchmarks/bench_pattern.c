/* What the messages of a validated run hold: every sender, message and place differs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_pattern.h"

uint64_t bench_pattern_seed(int from, int to, size_t size, size_t iteration)
{
    return ((uint64_t)from + 1) * 0x9e3779b97f4a7c15U + (uint64_t)to * 0xd6e8feb86659fd93U +
           iteration * 0xbf58476d1ce4e5b9U + (uint64_t)size * 0x94d049bb133111ebU;
}

static inline unsigned char byte_at(uint64_t seed, size_t offset)
{
    uint64_t x = seed + offset / 4 * 0x94d049bb133111ebU;
    return (unsigned char)(x >> (8 * (offset % 4) + 24));
}

void bench_pattern_fill(unsigned char *buffer, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++) {
        buffer[i] = byte_at(seed, i);
    }
}

unsigned long bench_pattern_check(const unsigned char *buffer, size_t size, uint64_t seed)
{
    unsigned long wrong = 0;
    for (size_t i = 0; i < size; i++) {
        wrong += buffer[i] != byte_at(seed, i);
    }
    return wrong;
}
