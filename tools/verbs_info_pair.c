/* verbs_info --peer: explains what two hosts would choose.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>

#include "address/vrb_reach.h"
#include "tools/info.h"
#include "tools/output.h"
#include "util/vrb_status.h"

#define OTHERS_MAX 3

/* A pair of ports, in words. */
struct pair {
    const struct info_port *port;
    char peer[96]; /* the other port */
    char here[96], there[96], why[256];
    const char *sure; /* what cannot be known here; NULL: nothing */
    int index;        /* in the GID table; -1: none is used */
    int mtu;
    int others;
    char other[OTHERS_MAX][96]; /* what would be tried next */
};

static const char *doubt(const struct vrb_path *path)
{
    if (path->link == VRB_LINK_ROCE && path->near != VRB_NEAR_SAME) {
        return "masks and routes do not tell; the first messages of a job will";
    }
    if (path->link == VRB_LINK_IB && vrb_gid_is_link_scope(path->sgid.raw)) {
        return "if both are on one fabric: the default subnet prefix (fe80::) tells no two apart";
    }
    return NULL;
}

/* Returns 0 if the two ports do not fit, which vrb_choose_pairs pairs never do. */
static int describe(struct pair *p, const struct vrb_address *local,
                    const struct vrb_address *remote)
{
    struct vrb_address from = *local, to = *remote;
    struct vrb_path path, next;
    const char *why;

    if (vrb_choose(local, remote, &path, &why) < 0) {
        return 0;
    }
    from.lid = (uint16_t)(from.lid + path.src_path_bits); /* 0 on RoCE */
    to.lid = path.dlid;
    vrb_address_text(&from, path.use_grh ? &path.sgid : NULL, p->here, sizeof(p->here));
    vrb_address_text(&to, path.use_grh ? &path.dgid : NULL, p->there, sizeof(p->there));
    vrb_reach_why(&path, p->why, sizeof(p->why));
    p->sure = doubt(&path);
    p->index = path.link == VRB_LINK_ROCE ? path.sgid_index : -1;
    p->mtu = 128 << path.mtu;
    p->others = 0;
    for (int n = 1; n < path.pairs && p->others < OTHERS_MAX; n++) {
        if (vrb_choose_nth(local, remote, n, &next, &why) == VRB_OK) {
            vrb_address_text(remote, next.use_grh ? &next.dgid : NULL, p->other[p->others],
                             sizeof(p->other[0]));
            p->others++;
        }
    }
    return 1;
}

/* "mlx5_0 port 1 of the peer" */
static void name_port(const struct info_peer *peer, int at, char *buf, size_t len)
{
    const char *name = peer->names[at], *colon = strrchr(name, ':');

    if (colon != NULL) {
        snprintf(buf, len, "%.*s port %.8s of the peer", (int)(colon - name), name, colon + 1);
    } else {
        snprintf(buf, len, "the peer"); /* an address alone */
    }
}

static const char *why_alone(const struct vrb_address *local, const struct info_peer *peer)
{
    struct vrb_path path;
    const char *why;

    for (int i = 0; i < peer->n; i++) {
        if (vrb_choose(local, &peer->ports[i], &path, &why) >= 0) {
            return "each port of the peer that fits has another";
        }
    }
    return "no port of the peer fits";
}

static void print_pair(const struct pair *p, FILE *f)
{
    fprintf(f, "%s port %d -> %s\n  from       %s", p->port->facts.dev, p->port->facts.port,
            p->peer, p->here);
    if (p->index >= 0) {
        fprintf(f, ", index %d", p->index);
    }
    fprintf(f, "\n  to         %s\n  MTU        %d\n  why        %s\n", p->there, p->mtu, p->why);
    for (int i = 0; i < p->others; i++) {
        fprintf(f, "  else       %s\n", p->other[i]);
    }
    if (p->sure != NULL) {
        fprintf(f, "  sure?      %s\n", p->sure);
    }
}

static void put_pair(const struct pair *p, const char *peer_port, FILE *f)
{
    fprintf(f, "\n    {\"device\": \"%s\", \"port\": %d, ", p->port->facts.dev,
            p->port->facts.port);
    json_put_key(f, "peer_port", peer_port);
    fputs(", ", f);
    json_put_key(f, "from", p->here);
    fputs(", ", f);
    json_put_key(f, "to", p->there);
    if (p->index >= 0) {
        fprintf(f, ", \"gid_index\": %d", p->index);
    }
    fprintf(f, ", \"mtu\": %d, ", p->mtu);
    json_put_key(f, "why", p->why);
    fputs(", \"else\": [", f);
    for (int i = 0; i < p->others; i++) {
        fputs(i > 0 ? ", " : "", f);
        json_put_string(f, p->other[i]);
    }
    fputs("]", f);
    if (p->sure != NULL) {
        fputs(", ", f);
        json_put_key(f, "unsure", p->sure);
    }
    fputs("}", f);
}

/* The outcome of the whole: why is NULL if the two would talk. */
static void print_end(const struct info *info, const char *why, const char *next, FILE *f)
{
    if (!info->opt.json) {
        fprintf(f, "%s%s%s", why == NULL ? "" : why, why == NULL ? "" : next,
                why == NULL ? "" : "\n");
        return;
    }
    fprintf(f, "],\n  \"reachable\": %s", why == NULL ? "true" : "false");
    if (why != NULL) {
        fputs(",\n  ", f);
        json_put_key(f, "why", next);
    }
    fputs("\n}\n", f);
}

static void print_head(const struct info *info, const struct info_peer *peer, FILE *f)
{
    if (!info->opt.json) {
        fprintf(f, "host %s to host %s\n\n", info->host, peer->host[0] ? peer->host : "?");
        return;
    }
    fputs("{\n  ", f);
    json_put_key(f, "verbs_info", VRB_VERSION);
    fputs(",\n  ", f);
    json_put_key(f, "host", info->host);
    fputs(",\n  ", f);
    json_put_key(f, "peer", peer->host);
    fputs(",\n  \"pairs\": [", f);
}

int info_pair_explain(const struct info *info, const struct info_peer *peer, FILE *f)
{
    struct vrb_address local[VRB_MAX_RAILS];
    const struct info_port *from[VRB_MAX_RAILS];
    int map[VRB_MAX_RAILS], nlocal = info_addresses(info, local, from);
    const char *why = NULL;
    char text[4096];
    struct pair p;

    print_head(info, peer, f);
    if (nlocal == 0) {
        print_end(info, "This host has ",
                  "no usable port: run verbs_info without --peer to see why.", f);
        return 1;
    }
    /* Of two processes the one with the smaller name comes first; here, this host's. */
    if (vrb_choose_pairs(local, nlocal, peer->ports, peer->n, 1, map, &why) == 0) {
        vrb_reach_none_of(local, nlocal, peer->ports, peer->n, why, text, sizeof(text));
        print_end(info, "They cannot talk: ", text, f);
        return 1;
    }
    for (int i = 0, shown = 0; i < nlocal; i++) {
        p.port = from[i];
        if (map[i] < 0) {
            if (!info->opt.json) {
                fprintf(f, "%s port %d: no partner (%s)\n", from[i]->facts.dev, from[i]->facts.port,
                        why_alone(&local[i], peer));
            }
        } else if (describe(&p, &local[i], &peer->ports[map[i]])) {
            name_port(peer, map[i], p.peer, sizeof(p.peer));
            if (info->opt.json) {
                fputs(shown++ > 0 ? "," : "", f);
                put_pair(&p, peer->names[map[i]], f);
            } else {
                print_pair(&p, f);
            }
        }
    }
    print_end(info, NULL, NULL, f);
    return 0;
}
