/* verbs_info --peer: explains what two hosts would choose.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address/vrb_reach.h"
#include "tools/info.h"
#include "util/vrb_status.h"

/* A saved listing is a few KiB; larger is something else. */
#define FILE_MAX (1 << 20)

/* The string value of a key at the top of what put_key() writes. NULL if it is not there. */
static const char *find_value(const char *json, const char *key)
{
    char pattern[40];
    const char *at;

    snprintf(pattern, sizeof(pattern), "\n  \"%s\": \"", key);
    at = strstr(json, pattern);
    return at == NULL ? NULL : at + strlen(pattern);
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

static int read_listing(const char *json, const char *from, struct vrb_address *ports, char *host,
                        size_t host_len, char *err, size_t len)
{
    const char *name = find_value(json, "host"), *published = find_value(json, "published");
    size_t size = vrb_address_packed_max(VRB_MAX_RAILS);
    uint8_t *blob = malloc(size);
    const char *why = "it is damaged";
    int n = published == NULL || blob == NULL ? -1 : read_hex(published, blob, size);

    if (n == 0) {
        snprintf(err, len, "%s: that host has no usable port (run verbs_info there to see why)",
                 from);
        n = -1;
    } else if (n < 0) {
        snprintf(err, len, "%s: not a listing of `verbs_info --json`", from);
    } else {
        n = vrb_address_unpack(blob, (size_t)n, ports, &why);
        if (n < 0) {
            snprintf(err, len, "%s: %s", from, why);
        }
    }
    if (name != NULL) {
        snprintf(host, host_len, "%.*s", (int)strcspn(name, "\""), name);
    }
    free(blob);
    return n < 0 ? -1 : n;
}

static int read_address(const char *text, struct vrb_address *port, char *host, size_t host_len)
{
    uint8_t raw[VRB_GID_LEN] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET, text, raw + 12) != 1 && inet_pton(AF_INET6, text, raw) != 1) {
        return 0;
    }
    *port = (struct vrb_address){.link = VRB_LINK_ROCE,
                                 .mtu = 5,
                                 .num_gids = 1,
                                 .pkey = 0xffff,
                                 .ud_qpn = 2,
                                 .recv_size = 1};
    port->gids[0].type = VRB_GID_ROCE_V2;
    memcpy(port->gids[0].raw, raw, VRB_GID_LEN);
    snprintf(host, host_len, "%s", text);
    return 1;
}

int info_peer_read(const char *from, struct vrb_address ports[VRB_MAX_RAILS], char *host,
                   size_t host_len, char *err, size_t len)
{
    FILE *f = fopen(from, "r");
    char *json;
    size_t n;
    int rc;

    if (f == NULL && read_address(from, &ports[0], host, host_len)) {
        return 1;
    }
    if (f == NULL) {
        snprintf(err, len, "%s: %s (and it is no IP address)", from, strerror(errno));
        return -1;
    }
    json = malloc(FILE_MAX + 1);
    n = json == NULL ? 0 : fread(json, 1, FILE_MAX, f);
    fclose(f);
    if (json == NULL) {
        snprintf(err, len, "out of memory");
        return -1;
    }
    json[n] = '\0';
    rc = read_listing(json, from, ports, host, host_len, err, len);
    free(json);
    return rc;
}

static void print_path(const struct info_port *p, const struct vrb_address *local,
                       const struct vrb_address *remote, int position, FILE *f)
{
    struct vrb_address from = *local, to = *remote;
    struct vrb_path path;
    const char *why;
    char here[96], there[96], text[256];

    if (vrb_choose(local, remote, &path, &why) < 0) {
        return; /* vrb_choose_pairs pairs no such ports */
    }
    from.lid = (uint16_t)(from.lid + path.src_path_bits); /* 0 on RoCE */
    to.lid = path.dlid;
    vrb_address_text(&from, path.use_grh ? &path.sgid : NULL, here, sizeof(here));
    vrb_address_text(&to, path.use_grh ? &path.dgid : NULL, there, sizeof(there));
    fprintf(f, "%s port %d -> port %d of the peer\n", p->facts.dev, p->facts.port, position + 1);
    fprintf(f, "  from       %s", here);
    if (path.link == VRB_LINK_ROCE) {
        fprintf(f, ", index %u", path.sgid_index);
    }
    fprintf(f, "\n  to         %s\n  MTU        %d\n  why        %s\n", there, 128 << path.mtu,
            vrb_reach_why(&path, text, sizeof(text)));
    for (int n = 1; n < path.pairs && n < 4; n++) {
        struct vrb_path next;

        if (vrb_choose_nth(local, remote, n, &next, &why) == VRB_OK) {
            fprintf(
                f, "  else       %s\n",
                vrb_address_text(remote, next.use_grh ? &next.dgid : NULL, there, sizeof(there)));
        }
    }
    if (path.link == VRB_LINK_ROCE && path.near != VRB_NEAR_SAME) {
        fprintf(f, "  sure?      masks and routes do not tell; the first messages of a job will\n");
    }
    if (path.link == VRB_LINK_IB && vrb_gid_is_link_scope(path.sgid.raw)) {
        fprintf(f,
                "  sure?      if both are on one fabric: the default subnet prefix (fe80::) tells "
                "no two apart\n");
    }
}

int info_peer_explain(const struct info *info, const struct vrb_address *remote, int n,
                      const char *host, FILE *f)
{
    struct vrb_address local[VRB_MAX_RAILS];
    const struct info_port *from[VRB_MAX_RAILS];
    int map[VRB_MAX_RAILS], pairs, nlocal = info_addresses(info, local, from);
    const char *why = NULL;
    char text[4096];

    fprintf(f, "host %s to host %s\n\n", info->host, host[0] ? host : "?");
    if (nlocal == 0) {
        fprintf(f, "This host has no usable port: run verbs_info without --peer to see why.\n");
        return 1;
    }
    /* Of two processes the one with the smaller name comes first; here, this host's. */
    pairs = vrb_choose_pairs(local, nlocal, remote, n, 1, map, &why);
    if (pairs == 0) {
        fprintf(f, "They cannot talk: %s\n",
                vrb_reach_none_of(local, nlocal, remote, n, why, text, sizeof(text)));
        return 1;
    }
    for (int i = 0; i < nlocal; i++) {
        if (map[i] >= 0) {
            print_path(from[i], &local[i], &remote[map[i]], map[i], f);
        } else {
            fprintf(f, "%s port %d: no partner (%s)\n", from[i]->facts.dev, from[i]->facts.port,
                    n <= pairs ? "each port of the peer has one" : "no port of the peer fits");
        }
    }
    return 0;
}
