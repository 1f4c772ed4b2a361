/* Strings of JSON, for all tools.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef JSON_H
#define JSON_H

#include <stdio.h>

/* A string, and "key": "value". */
void json_put_string(FILE *f, const char *s);
void json_put_key(FILE *f, const char *key, const char *value);

#endif
