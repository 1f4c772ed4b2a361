/* The one clock of the transport core; engines get its readings as arguments.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_CLOCK_H
#define VRB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define VRB_NS_PER_MS UINT64_C(1000000)
#define VRB_NS_PER_S UINT64_C(1000000000)

/* Monotonic nanoseconds (no system call where the vDSO serves it). */
static inline uint64_t vrb_clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * VRB_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
