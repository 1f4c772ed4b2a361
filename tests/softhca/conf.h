/* What the files of the configuration parser share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOFTHCA_CONF_H
#define SOFTHCA_CONF_H

#include "softhca.h"

/* What the lines of a section apply to. */
struct shca_conf_scope {
    enum { S_NONE, S_SKIP, S_FABRIC, S_HOST, S_LIMITS, S_DEVICE, S_PORT } kind;
    struct sm_dev *dev;
    int port; /* 0: all */
};

struct shca_conf {
    const char *name; /* of the text, for messages; NULL: stay quiet */
    int line;
    int errors;
    bool dry;      /* only check */
    uint32_t host; /* which host is being made */
    const char *host_name;
    struct shca_conf_scope s;
    /* answers */
    bool defaults;
    const char *want; /* host name whose index is asked for */
    int index, section_index;
};

/* Counts an error and, in a named text, says where it is. */
void shca_conf_complain(struct shca_conf *p, const char *what, const char *word);
/* Replaces %h and %H. */
void shca_conf_expand(const struct shca_conf *p, const char *in, char *out, size_t len);
bool shca_conf_number(struct shca_conf *p, const char *text, uint64_t *out);
/* A number within bounds, stored into `size` bytes. */
void shca_conf_store(struct shca_conf *p, const char *v, uint64_t min, uint64_t max, void *to,
                     size_t size);
/* False: there is no limit of this name. */
bool shca_conf_limit(struct shca_conf *p, struct sm_limits *l, const char *key, const char *v);
void shca_conf_port(struct shca_conf *p, struct sm_port *port, const char *key, const char *v);

#endif
