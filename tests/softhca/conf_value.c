/* Values of the configuration: numbers, limits, and complaints about what is wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conf.h"

#include <stdlib.h>
#include <string.h>

void shca_conf_complain(struct shca_conf *p, const char *what, const char *word)
{
    p->errors++;
    if (p->name) {
        shca_log("%s:%d: %s: %s", p->name, p->line, what, word);
    }
}

/* %h and %H. */
void shca_conf_expand(const struct shca_conf *p, const char *in, char *out, size_t len)
{
    size_t n = 0;

    for (; *in && n + 12 < len; in++) {
        if (in[0] == '%' && (in[1] == 'h' || in[1] == 'H')) {
            n += (size_t)snprintf(out + n, len - n, "%u", p->host + (in[1] == 'H'));
            in++;
        } else {
            out[n++] = *in;
        }
    }
    out[n] = '\0';
}

bool shca_conf_number(struct shca_conf *p, const char *text, uint64_t *out)
{
    char buf[128], *s = buf;

    shca_conf_expand(p, text, buf, sizeof(buf));
    *out = 0;
    for (;;) {
        char *end;
        unsigned long long v;

        errno = 0;
        v = strtoull(s, &end, 0);
        if (end == s || errno || *s == '-') {
            shca_conf_complain(p, "not a number", text);
            return false;
        }
        *out += v;
        switch (*end) {
        case 'k':
        case 'K':
            *out += v * 1023;
            end++;
            break;
        case 'm':
        case 'M':
            *out += v * ((1u << 20) - 1);
            end++;
            break;
        case 'g':
        case 'G':
            *out += v * ((1u << 30) - 1);
            end++;
            break;
        default:
            break;
        }
        if (!*end) {
            return true;
        }
        if (*end != '+') {
            shca_conf_complain(p, "not a number", text);
            return false;
        }
        s = end + 1;
    }
}

/* A number within bounds, stored into `size` bytes. */
void shca_conf_store(struct shca_conf *p, const char *v, uint64_t min, uint64_t max, void *to,
                     size_t size)
{
    uint64_t n;

    if (!shca_conf_number(p, v, &n)) {
        return;
    }
    if (n < min || n > max) {
        shca_conf_complain(p, "out of range", v);
        return;
    }
    switch (size) {
    case 1:
        *(uint8_t *)to = (uint8_t)n;
        break;
    case 2:
        *(uint16_t *)to = (uint16_t)n;
        break;
    case 4:
        *(uint32_t *)to = (uint32_t)n;
        break;
    default:
        *(uint64_t *)to = n;
    }
}

#define LIMIT(name, min, max)                                                                    \
    {                                                                                            \
#name, offsetof(struct sm_limits, name), sizeof(((struct sm_limits *)0)->name), min, max \
    }

static const struct {
    const char *name;
    size_t off, size;
    uint64_t min, max;
} limits[] = {
    LIMIT(max_qp, 1, SM_MAX_QP - 2),
    LIMIT(max_qp_wr, 1, 1 << 20),
    LIMIT(max_sge, 1, SM_MAX_SGE),
    LIMIT(max_sge_rd, 1, SM_MAX_SGE),
    LIMIT(max_inline, 0, 4096),
    LIMIT(max_cq, 1, SM_MAX_CQ - 2),
    LIMIT(max_cqe, 1, 1 << 24),
    LIMIT(max_srq, 0, SM_MAX_SRQ - 2),
    LIMIT(max_srq_wr, 1, 1 << 20),
    LIMIT(max_srq_sge, 1, SM_MAX_SGE),
    LIMIT(max_mr, 1, SM_MAX_MR - 2),
    LIMIT(max_pd, 1, 1 << 24),
    LIMIT(max_ah, 1, 1 << 24),
    LIMIT(max_rd_atom, 0, 255),
    LIMIT(max_init_rd_atom, 0, 255),
    LIMIT(comp_vectors, 1, 1024),
    LIMIT(no_ud, 0, 1),
    LIMIT(in_order, 0, 1),
    LIMIT(max_mr_size, 1, UINT64_MAX),
    LIMIT(memlock, 0, UINT64_MAX),
};

bool shca_conf_limit(struct shca_conf *p, struct sm_limits *l, const char *key, const char *v)
{
    if (!strcmp(key, "atomic_cap")) {
        if (!strcmp(v, "none")) {
            l->atomic_cap = IBV_ATOMIC_NONE;
        } else if (!strcmp(v, "hca")) {
            l->atomic_cap = IBV_ATOMIC_HCA;
        } else if (!strcmp(v, "glob")) {
            l->atomic_cap = IBV_ATOMIC_GLOB;
        } else {
            shca_conf_complain(p, "neither none, hca nor glob", v);
        }
        return true;
    }
    if (!strcmp(key, "max_qp_rd_atom")) { /* both directions at once */
        shca_conf_store(p, v, 0, 255, &l->max_rd_atom, 4);
        shca_conf_store(p, v, 0, 255, &l->max_init_rd_atom, 4);
        return true;
    }
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (!strcmp(key, limits[i].name)) {
            shca_conf_store(p, v, limits[i].min, limits[i].max, (char *)l + limits[i].off,
                            limits[i].size);
            return true;
        }
    }
    return false;
}
