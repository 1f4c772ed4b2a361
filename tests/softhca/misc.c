/* Clock, messages and the report of API misuse.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t shca_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* One write(2) per line, so that lines of several processes do not mix. */
static void say(const char *kind, const char *fmt, va_list ap)
{
    char line[512];
    size_t n = (size_t)snprintf(line, sizeof(line) - 1, "softhca: %s", kind);
    int m = vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);

    if (m < 0) {
        return;
    }
    n += (size_t)m;
    if (n > sizeof(line) - 2) {
        n = sizeof(line) - 2;
    }
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) {
        return; /* nowhere left to complain */
    }
}

void shca_log(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
}

int shca_strict(int err, const char *fmt, ...)
{
    va_list ap;

    if (shca.strict) {
        va_start(ap, fmt);
        say("strict: ", fmt, ap);
        va_end(ap);
        if (shca.strict > 1) {
            abort();
        }
    }
    errno = err;
    return err;
}
