/* Fuzzes the port lists that users write. The first byte tells which list the rest is, or where
 * to cut it into both.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/vrb_filter.h"
#include "util/vrb_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vrb_filter f;
    char err[100] = "", unused[100];

    if (size == 0) {
        return 0;
    }
    char *first = strndup((const char *)data + 1, size - 1);
    size_t len = first ? strlen(first) : 0;
    char *second = data[0] > 1 && len > 0 ? strdup(first + data[0] % len) : NULL;

    if (second) {
        first[data[0] % len] = '\0';
    }
    int rc = data[0] == 1 ? vrb_filter_parse(&f, NULL, first, err, sizeof(err))
                          : vrb_filter_parse(&f, first, second, err, sizeof(err));

    if ((rc == VRB_OK) != (err[0] == '\0')) {
        abort();
    }
    if (rc == VRB_OK) {
        for (int i = 0; i < f.n; i++) {
            const struct vrb_filter_entry *e = &f.entry[i];

            if (vrb_filter_wants(&f, e->dev, e->port ? e->port : 1) == f.exclude) {
                abort();
            }
        }
        if (f.n > VRB_FILTER_MAX || vrb_filter_unused(&f, unused, sizeof(unused)) != 0) {
            abort();
        }
    }
    free(first);
    free(second);
    return 0;
}
