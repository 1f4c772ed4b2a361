/* Where the transport core's words go: one sink, set by whoever embeds the core.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_LOG_H
#define VRB_LOG_H

enum vrb_log_level {
    VRB_LOG_ERROR = 0, /* the job cannot go on as asked */
    VRB_LOG_WARN = 1,  /* it goes on, but not as asked */
    VRB_LOG_INFO = 2,  /* choices made at setup: shown on request */
    VRB_LOG_DEBUG = 3, /* protocol events: shown on request */
};

/* Receives one finished message without a trailing newline. May be called from any thread that
 * calls into the core. */
typedef void (*vrb_log_sink_fn)(enum vrb_log_level level, const char *text);

/* Sets the sink and the most detailed level that it wants. Without a sink the core is silent. */
void vrb_log_set(vrb_log_sink_fn sink, enum vrb_log_level most);

/* True if a message of this level would be shown: guards costly formatting. */
int vrb_log_wants(enum vrb_log_level level);

void vrb_log(enum vrb_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
