/* The small tree of device files that the software HCA shows in place of the kernel's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SHCA_SYSFS_H
#define SHCA_SYSFS_H

#include "env.h"

#include <stdbool.h>
#include <stddef.h>

enum shca_node_kind {
    SHCA_NODE_NONE, /* not below our roots: none of our business */
    SHCA_NODE_MISSING,
    SHCA_NODE_DIR,
    SHCA_NODE_FILE,
    SHCA_NODE_CHARDEV,
};

enum { SHCA_SYSFS_TEXT = 256 }; /* longest file */

/* True if the path is, or is below, one of the roots. Cheap: called for every path of the program.
 */
SHCA_EARLY static inline bool shca_sysfs_owns(const char *path)
{
    static const char dev[] = "/dev/infiniband", sys[] = "/sys/class/infiniband";
    static const char verbs[] = "_verbs";
    const char *p = path, *q;

    if (!p || p[0] != '/' || (p[1] != 'd' && p[1] != 's')) {
        return false;
    }
    for (q = p[1] == 'd' ? dev : sys; *q && *p == *q; p++, q++) {
    }
    if (*q) {
        return false;
    }
    if (path[1] == 's' && *p == '_') {
        for (q = verbs; *q && *p == *q; p++, q++) {
        }
        if (*q) {
            return false;
        }
    }
    return *p == '/' || *p == '\0';
}

enum shca_node_kind shca_sysfs_find(const char *path);

/* The text of a file; returns its length, or a negative errno that reading it gives. */
int shca_sysfs_text(const char *path, char text[SHCA_SYSFS_TEXT]);

/* Calls emit for each name in a directory. */
void shca_sysfs_list(const char *path,
                     void (*emit)(void *arg, const char *name, enum shca_node_kind kind),
                     void *arg);

#endif
