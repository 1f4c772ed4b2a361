/* Formats messages and hands them to the one sink.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_log.h"

#include <stdarg.h>
#include <stdio.h>

/* Longer texts are cut: the longest message of the core (vrb_explain) stays well below. */
#define TEXT_MAX 4096

static vrb_log_sink_fn log_sink;
static enum vrb_log_level log_most = VRB_LOG_ERROR;

void vrb_log_set(vrb_log_sink_fn sink, enum vrb_log_level most)
{
    log_sink = sink;
    log_most = most;
}

int vrb_log_wants(enum vrb_log_level level)
{
    return log_sink && level <= log_most;
}

void vrb_log(enum vrb_log_level level, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    if (!vrb_log_wants(level)) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    log_sink(level, text);
}
