/* Builds a text piece by piece in a fixed buffer, never past its end.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_TEXT_H
#define VRB_TEXT_H

#include <stddef.h>

struct vrb_text {
    char *buf;
    size_t len, at; /* room; characters so far (at or above len: cut) */
};

void vrb_text_put(struct vrb_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A new line with the title in its own column, then words wrapped into lines of at most
 * VRB_TEXT_WIDTH characters beside it. */
#define VRB_TEXT_WIDTH 96
void vrb_text_block(struct vrb_text *t, const char *title, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
