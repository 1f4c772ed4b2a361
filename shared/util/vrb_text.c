/* Bounded and wrapped text.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TITLE_COLUMN 10 /* "  remote: " */
#define BLOCK_MAX 1536  /* characters of one block at the most */

void vrb_text_put(struct vrb_text *t, const char *fmt, ...)
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

void vrb_text_block(struct vrb_text *t, const char *title, const char *fmt, ...)
{
    char block[BLOCK_MAX];
    size_t column = TITLE_COLUMN;
    va_list args;

    va_start(args, fmt);
    vsnprintf(block, sizeof(block), fmt, args);
    va_end(args);
    vrb_text_put(t, "\n  %-*s", TITLE_COLUMN - 2, title);
    for (const char *word = block; *word;) {
        size_t n = strcspn(word, " ");

        if (column > TITLE_COLUMN && column + 1 + n > VRB_TEXT_WIDTH) {
            vrb_text_put(t, "\n%*s", TITLE_COLUMN, "");
            column = TITLE_COLUMN;
        }
        if (column > TITLE_COLUMN) {
            vrb_text_put(t, " ");
            column++;
        }
        vrb_text_put(t, "%.*s", (int)n, word);
        column += n;
        word += n + strspn(word + n, " ");
    }
}
