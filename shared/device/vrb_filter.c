/* Parses and applies the lists of wanted and unwanted ports.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "device/vrb_filter.h"

#include <stdio.h>
#include <string.h>

#include "util/vrb_status.h"

#define BLANKS " \t\r\n"

/* Entries are quoted in messages up to this length: a list may be anything. */
#define QUOTE_MAX 80

static int is_blank_list(const char *list)
{
    return !list || list[strspn(list, BLANKS ",")] == '\0';
}

static int complain(char *err, size_t len, const char *text, size_t n, const char *cause)
{
    snprintf(err, len, "'%.*s': %s", (int)(n > QUOTE_MAX ? QUOTE_MAX : n), text, cause);
    return VRB_ERR_ARG;
}

/* A number from 1 to 255 that takes up all n characters, or 0. */
static int parse_port(const char *text, size_t n)
{
    int port = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || port > 255) {
            return 0;
        }
        port = port * 10 + (text[i] - '0');
    }
    return port <= 255 ? port : 0;
}

/* Parses one entry of n characters, blanks already cut off. */
static int parse_entry(struct vrb_filter *f, const char *text, size_t n, char *err, size_t len)
{
    const char *colon = memchr(text, ':', n);
    size_t dev_len = colon ? (size_t)(colon - text) : n;

    if (f->n == VRB_FILTER_MAX) {
        return complain(err, len, text, n, "the list has too many entries");
    }
    struct vrb_filter_entry *e = &f->entry[f->n];

    if (dev_len == 0) {
        return complain(err, len, text, n, "the device name is missing");
    }
    if (dev_len >= sizeof(e->dev)) {
        return complain(err, len, text, n, "the device name is too long");
    }
    e->port = 0;
    if (colon) {
        e->port = parse_port(colon + 1, n - dev_len - 1);
        if (e->port == 0) {
            return complain(err, len, text, n, "the port is not a number from 1 to 255");
        }
    }
    memcpy(e->dev, text, dev_len);
    e->dev[dev_len] = '\0';
    e->used = 0;
    f->n++;
    return VRB_OK;
}

int vrb_filter_parse(struct vrb_filter *f, const char *include, const char *exclude, char *err,
                     size_t len)
{
    memset(f, 0, sizeof(*f));
    if (!is_blank_list(include) && !is_blank_list(exclude)) {
        snprintf(err, len, "ports are both included and excluded: give one of the two lists");
        return VRB_ERR_ARG;
    }
    f->exclude = !is_blank_list(exclude);
    const char *p = f->exclude ? exclude : include;

    while (!is_blank_list(p)) {
        p += strspn(p, BLANKS ",");
        size_t n = strcspn(p, ",");
        const char *end = p + n;

        while (n > 0 && strchr(BLANKS, p[n - 1])) {
            n--;
        }
        int rc = parse_entry(f, p, n, err, len);

        if (rc < 0) {
            memset(f, 0, sizeof(*f));
            return rc;
        }
        p = end;
    }
    return VRB_OK;
}

int vrb_filter_wants(struct vrb_filter *f, const char *dev, int port)
{
    int listed = 0;

    for (int i = 0; i < f->n; i++) {
        struct vrb_filter_entry *e = &f->entry[i];

        int same_port = e->port == 0 || e->port == port || (port == 0 && !f->exclude);

        if (strcmp(e->dev, dev) == 0 && same_port) {
            e->used = 1;
            listed = 1;
        }
    }
    return f->n == 0 || listed != f->exclude;
}

int vrb_filter_unused(const struct vrb_filter *f, char *buf, size_t len)
{
    int unused = 0;
    size_t at = 0;

    if (len > 0) {
        buf[0] = '\0';
    }
    for (int i = 0; i < f->n; i++) {
        const struct vrb_filter_entry *e = &f->entry[i];
        char port[8] = "";

        if (e->used) {
            continue;
        }
        if (e->port != 0) {
            snprintf(port, sizeof(port), ":%d", e->port);
        }
        if (at < len) {
            int n = snprintf(buf + at, len - at, "%s%s%s", unused ? ", " : "", e->dev, port);
            at += n > 0 ? (size_t)n : 0;
        }
        unused++;
    }
    return unused;
}
