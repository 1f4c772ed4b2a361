/* verbs_info --peer: reads what another host has to offer.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/info.h"
#include "util/vrb_status.h"

/* A saved listing is a few KiB; larger is something else. */
#define FILE_MAX (1 << 20)

#define BLANKS " \t\r\n"

/* What follows `"key":`, wherever that stands: a listing may have been written anew by another
 * program. A quote within a string is escaped, so this is a key. NULL if it is not there. */
static const char *find_value(const char *json, const char *key)
{
    char pattern[40];
    const char *at = json;

    snprintf(pattern, sizeof(pattern), "\"%s\"", key);
    while ((at = strstr(at, pattern)) != NULL) {
        at += strlen(pattern);
        at += strspn(at, BLANKS);
        if (*at == ':') {
            return at + 1 + strspn(at + 1, BLANKS);
        }
    }
    return NULL;
}

/* Copies a string up to its closing quote; what terminals might take for a command is left out.
 * Returns what follows, NULL if it is no string. */
static const char *take_string(const char *from, char *to, size_t room)
{
    size_t n = 0;

    if (from == NULL || *from != '"') {
        return NULL;
    }
    for (from++; *from != '"' && *from != '\0'; from++) {
        if (n + 1 < room) {
            to[n++] = isprint((unsigned char)*from) ? *from : '?';
        }
    }
    to[n] = '\0';
    return *from == '"' ? from + 1 : NULL;
}

static int hex(int c)
{
    return isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the number of bytes, or -1 if the text is not hexadecimal up to its closing quote. */
static int read_hex(const char *text, uint8_t *out, size_t room)
{
    size_t n = 0;

    for (; *text != '"'; text += 2, n++) {
        int high = hex((unsigned char)text[0]), low = high < 0 ? -1 : hex((unsigned char)text[1]);

        if (high < 0 || low < 0 || n == room) {
            return -1;
        }
        out[n] = (uint8_t)(high << 4 | low);
    }
    return (int)n;
}

static int read_published(const char *text, const char *from, struct info_peer *peer, char *err,
                          size_t len)
{
    size_t size = vrb_address_packed_max(VRB_MAX_RAILS);
    uint8_t *blob = malloc(size);
    const char *why = "it is damaged";
    int n = blob == NULL || text == NULL || *text != '"' ? -1 : read_hex(text + 1, blob, size);

    if (n == 0) {
        snprintf(err, len, "%s: that host has no usable port (run verbs_info there to see why)",
                 from);
        n = -1;
    } else if (n < 0) {
        snprintf(err, len, "%s: %s", from,
                 text != NULL ? "its addresses are damaged: make the listing anew"
                              : "not a listing of `verbs_info --json`, or not all of it");
    } else {
        n = vrb_address_unpack(blob, (size_t)n, peer->ports, &why);
        if (n < 0) {
            snprintf(err, len, "%s: %s", from, why);
        }
    }
    free(blob);
    peer->n = n;
    return n < 0 ? -1 : 0;
}

static int read_listing(const char *json, const char *from, struct info_peer *peer, char *err,
                        size_t len)
{
    const char *name = find_value(json, "job_ports");

    if (read_published(find_value(json, "published"), from, peer, err, len) < 0) {
        return -1;
    }
    (void)take_string(find_value(json, "host"), peer->host, sizeof(peer->host));
    for (int i = 0; name != NULL && i < peer->n; i++) {
        name += strspn(name, BLANKS "[,");
        name = take_string(name, peer->names[i], sizeof(peer->names[i]));
    }
    return 0;
}

/* Returns 0 if the text is no address, -1 if it is none of a host. */
static int read_address(const char *text, struct info_peer *peer, char *err, size_t len)
{
    uint8_t raw[VRB_GID_LEN] = {[10] = 0xff, [11] = 0xff};
    struct vrb_address *port = &peer->ports[0];

    if (inet_pton(AF_INET, text, raw + 12) != 1 && inet_pton(AF_INET6, text, raw) != 1) {
        return 0;
    }
    if (vrb_gid_fault(raw) != NULL) {
        snprintf(err, len, "no host is reached by %s: %s", text, vrb_gid_fault(raw));
        return -1;
    }
    *port = (struct vrb_address){.link = VRB_LINK_ROCE,
                                 .mtu = 5,
                                 .num_gids = 1,
                                 .pkey = 0xffff,
                                 .ud_qpn = 2,
                                 .recv_size = 1};
    port->gids[0].type = VRB_GID_ROCE_V2;
    memcpy(port->gids[0].raw, raw, VRB_GID_LEN);
    snprintf(peer->host, sizeof(peer->host), "%s", text);
    peer->n = 1;
    return 1;
}

/* The whole of a stream, with a zero behind it. NULL: err says why not. */
static char *read_all(FILE *f, const char *from, char *err, size_t len)
{
    char *text = malloc(FILE_MAX + 1);
    size_t n = text == NULL ? 0 : fread(text, 1, FILE_MAX, f);
    const char *why = NULL;

    if (text == NULL) {
        why = "out of memory";
    } else if (ferror(f)) {
        why = strerror(errno); /* a directory, for one */
    } else if (n == FILE_MAX) {
        why = "much longer than any listing of `verbs_info --json`";
    } else {
        text[n] = '\0';
        return text;
    }
    snprintf(err, len, "%s: %s", from, why);
    free(text);
    return NULL;
}

int info_peer_read(const char *from, struct info_peer *peer, char *err, size_t len)
{
    int is_stdin = strcmp(from, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(from, "r");
    const char *name = is_stdin ? "standard input" : from;
    char *json;
    int rc;

    if (f == NULL) {
        int why = errno;

        rc = read_address(from, peer, err, len);
        if (rc == 0 && why == ENOENT) {
            snprintf(err, len,
                     "'%s' is neither an IP address nor a file; for another host, make one there: "
                     "ssh HOST verbs_info --json > FILE",
                     from);
        } else if (rc == 0) {
            snprintf(err, len, "%s: %s", from, strerror(why));
        }
        return rc > 0 ? 0 : -1;
    }
    json = read_all(f, name, err, len);
    if (!is_stdin) {
        fclose(f);
    }
    rc = json == NULL ? -1 : read_listing(json, name, peer, err, len);
    free(json);
    return rc;
}
