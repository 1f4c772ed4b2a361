/* Builds a text piece by piece in a fixed buffer, never past its end.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_TEXT_H
#define VRB_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct vrb_text {
    char *buf;
    size_t len, at; /* room; characters so far (at or above len: cut) */
};

__attribute__((format(printf, 2, 3))) static inline void vrb_text_put(struct vrb_text *t,
                                                                      const char *fmt, ...)
{
    va_list args;

    if (t->at >= t->len) {
        return;
    }
    va_start(args, fmt);
    int n = vsnprintf(t->buf + t->at, t->len - t->at, fmt, args);

    va_end(args);
    t->at += n > 0 ? (size_t)n : 0;
}

#endif
