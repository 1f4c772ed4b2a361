/* What every unit test needs: cmocka, random numbers with a seed, captured log messages.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Repeatable random numbers (splitmix64): a failure is reported with the seed that leads to it. */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}

/* True in `percent` of all cases. */
static inline int rng_chance(struct rng *r, uint32_t percent)
{
    return rng_below(r, 100) < percent;
}

/* A heap copy of exactly len bytes, so that the address sanitizer sees every read beyond it. */
static inline uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    if (len) {
        memcpy(copy, data, len);
    }
    return copy;
}

/* Of a simulation s with a seed and a time: what failed names the run that repeats it. */
#define CHECK(s, cond)                                                                    \
    do {                                                                                  \
        if (!(cond)) {                                                                    \
            fail_msg("%s, seed %llu, time %llu ns", #cond, (unsigned long long)(s)->seed, \
                     (unsigned long long)(s)->now);                                       \
        }                                                                                 \
    } while (0)

#endif
