/* What all tools print alike: strings of JSON, and the word when it cannot be printed.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdio.h>

/* A string, and "key": "value". */
void json_put_string(FILE *f, const char *s);
void json_put_key(FILE *f, const char *key, const char *value);

/* The exit status: that one, or 2, with a word, if not all that was printed has arrived. */
int output_end(const char *tool, int status);

#endif
