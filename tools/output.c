/* What all tools print alike: see output.h.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tools/output.h"

#include <errno.h>
#include <string.h>

void json_put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\') {
            fprintf(f, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(f, "\\u%04x", c);
        } else {
            fputc(c < 0x80 ? c : '?', f); /* names are ASCII, and JSON must be UTF-8 */
        }
    }
    fputc('"', f);
}

void json_put_key(FILE *f, const char *key, const char *value)
{
    fprintf(f, "\"%s\": ", key);
    json_put_string(f, value);
}

int output_end(const char *tool, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return status;
    }
    fprintf(stderr, "%s: the output cannot be written: %s\n", tool, strerror(errno));
    return 2;
}
