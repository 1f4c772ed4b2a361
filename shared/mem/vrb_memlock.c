/* Reads RLIMIT_MEMLOCK into words (see vrb_memlock.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "mem/vrb_memlock.h"

#include <stdio.h>
#include <sys/resource.h>

uint64_t vrb_memlock_limit(void)
{
    struct rlimit r;

    return getrlimit(RLIMIT_MEMLOCK, &r) != 0 || r.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                             : r.rlim_cur;
}

const char *vrb_memlock_text(char *buf, size_t len)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_MEMLOCK, &r) != 0) {
        snprintf(buf, len, "locked memory limit unknown");
    } else if (r.rlim_cur == RLIM_INFINITY) {
        snprintf(buf, len, "locked memory limit: unlimited");
    } else {
        snprintf(buf, len, "locked memory limit: %llu KiB (ulimit -l)",
                 (unsigned long long)r.rlim_cur / 1024);
    }
    return buf;
}
