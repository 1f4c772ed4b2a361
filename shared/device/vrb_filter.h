/* The user's choice of ports: if_include and if_exclude lists of "dev" or "dev:port".
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. Names that match nothing are the caller's to report, with what exists beside them. */
#ifndef VRB_FILTER_H
#define VRB_FILTER_H

#include <stddef.h>

#define VRB_FILTER_MAX 64

struct vrb_filter_entry {
    char dev[64];
    int port; /* 0 = every port */
    int used; /* matched something */
};

struct vrb_filter {
    int exclude; /* the list names what is not wanted */
    int n;
    struct vrb_filter_entry entry[VRB_FILTER_MAX];
};

/* Parses the two lists (either may be NULL or empty, not both given). Blanks around entries are
 * ignored. Returns VRB_OK, or VRB_ERR_ARG with the cause in words in err ("both if_include and
 * if_exclude are set", "'mlx5_0:x': the port is not a number from 1 to 255", ...). */
int vrb_filter_parse(struct vrb_filter *f, const char *include, const char *exclude, char *err,
                     size_t len);

/* True if the port is wanted; marks the entry as used. Port 0 stands for a device whose ports are
 * unknown: it is wanted unless all of them are excluded. */
int vrb_filter_wants(struct vrb_filter *f, const char *dev, int port);

/* Writes the unused entries, comma separated, to buf; returns their number. */
int vrb_filter_unused(const struct vrb_filter *f, char *buf, size_t len);

#endif
