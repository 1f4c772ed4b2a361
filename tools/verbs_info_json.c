/* verbs_info for programs, and for --peer on another host.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "address/vrb_reach.h"
#include "tools/info.h"
#include "tools/output.h"

static void put_gids(FILE *f, const struct vrb_facts *x)
{
    for (int i = 0; i < x->num_gids; i++) {
        const struct vrb_gid_entry *e = &x->gids[i];
        char ip[INET6_ADDRSTRLEN] = "";

        inet_ntop(AF_INET6, e->gid.raw, ip, sizeof(ip));
        fprintf(f, "%s\n      {\"index\": %u, \"type\": \"%s\", ", i > 0 ? "," : "", e->gid.index,
                e->gid.type == VRB_GID_ROCE_V2   ? "RoCE v2"
                : e->gid.type == VRB_GID_ROCE_V1 ? "RoCE v1"
                                                 : "IB");
        json_put_key(f, "gid", ip);
        fputs(", ", f);
        json_put_key(f, "ndev", e->ndev);
        fprintf(f, ", \"subnet_bits\": %u, \"vlan\": %u, \"mtu\": %d, \"gateway\": %s", e->gid.plen,
                e->gid.vlan == VRB_VLAN_UNTAGGED ? 0 : e->gid.vlan,
                e->gid.mtu == 0 ? 0 : 128 << e->gid.mtu,
                e->gid.flags & VRB_GID_ROUTED ? "true" : "false");
        if (e->unused != NULL) {
            fputs(", ", f);
            json_put_key(f, "unused", e->unused);
        }
        fputc('}', f);
    }
}

static void put_port(FILE *f, const struct info_port *p)
{
    const struct vrb_facts *x = &p->facts;

    fputs("{", f);
    json_put_key(f, "device", x->dev);
    fprintf(f, ", \"port\": %d,\n    \"link\": \"%s\", \"state\": \"%s\", ", x->port,
            x->link == VRB_LINK_IB     ? "InfiniBand"
            : x->link == VRB_LINK_ROCE ? "RoCE"
                                       : "unknown",
            vrb_facts_state_text(x->state));
    fprintf(f, "\"transport\": \"%s\", ",
            vrb_facts_foreign(x->transport) != NULL ? vrb_facts_foreign(x->transport) : "IB");
    json_put_key(f, "firmware", x->fw);
    fprintf(
        f,
        ", \"vendor\": %u, \"part\": %u,\n    \"numa_node\": %d, \"atomics\": %s, \"max_srq\": %d, "
        "\"max_qp\": %d, \"max_message\": %llu,\n",
        x->vendor_id, x->part_id, x->numa, x->atomics ? "true" : "false", x->max_srq, x->max_qp,
        (unsigned long long)x->max_msg_sz);
    fprintf(
        f,
        "    \"mbps\": %u, \"mtu\": %d, \"max_mtu\": %d, \"lid\": %u, \"lmc\": %u, \"sm_lid\": %u, "
        "\"grh_required\": %s,\n    \"pkeys\": [",
        x->speed_mbps, x->active_mtu == 0 ? 0 : 128 << x->active_mtu,
        x->max_mtu == 0 ? 0 : 128 << x->max_mtu, x->lid, x->lmc, x->sm_lid,
        x->grh_required ? "true" : "false");
    for (int i = 0; i < x->num_pkeys; i++) {
        fprintf(f, "%s%u", i > 0 ? ", " : "", x->pkeys[i]);
    }
    fputs("],\n    \"gids\": [", f);
    put_gids(f, x);
    fprintf(f, "],\n    \"used\": %s", p->used ? "true" : "false");
    if (p->used && x->link == VRB_LINK_IB) {
        fprintf(f, ", \"pkey\": %u, \"pkey_index\": %u", p->address.pkey, p->pkey_index);
    }
    if (!p->used) {
        fputs(", ", f);
        json_put_key(f, "why", p->why);
    }
    fputs("}", f);
}

/* The bytes that a job would publish: what --peer reads. */
static void put_published(const struct info *info, FILE *f)
{
    struct vrb_address out[VRB_MAX_RAILS];
    const struct info_port *from[VRB_MAX_RAILS];
    int n = info_addresses(info, out, from);
    size_t size = vrb_address_packed_max(VRB_MAX_RAILS);
    uint8_t *blob = malloc(size);
    int len = n > 0 && blob != NULL ? vrb_address_pack(out, n, blob, size) : 0;

    fputs("  \"job_ports\": [", f); /* whose addresses follow, in this order */
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s\"%s:%d\"", i > 0 ? ", " : "", from[i]->facts.dev, from[i]->facts.port);
    }
    fputs("],\n  \"published\": \"", f);
    for (int i = 0; i < len; i++) {
        fprintf(f, "%02x", blob[i]);
    }
    fputs("\"", f);
    free(blob);
}

struct findings {
    FILE *f;
    int n;
};

static void put_finding(void *ctx, const struct info_port *port, enum info_level level,
                        const char *what, const char *text, const char *next)
{
    static const char *const levels[] = {"ok", "note", "warning"};
    struct findings *s = ctx;

    fprintf(s->f, "%s\n    {\"level\": \"%s\", ", s->n++ > 0 ? "," : "", levels[level]);
    json_put_key(s->f, "check", what);
    if (port != NULL) {
        fputs(", ", s->f);
        json_put_key(s->f, "device", port->facts.dev);
        fprintf(s->f, ", \"port\": %d", port->facts.port);
    }
    fputs(", ", s->f);
    json_put_key(s->f, "text", text);
    if (next[0] != '\0') {
        fputs(", ", s->f);
        json_put_key(s->f, "next", next);
    }
    fputs("}", s->f);
}

void info_print_json(const struct info *info, FILE *f)
{
    struct findings s = {.f = f};

    fputs("{\n  ", f);
    json_put_key(f, "verbs_info", VRB_VERSION);
    fputs(",\n  ", f);
    json_put_key(f, "host", info->host);
    fputs(",\n  \"ports\": [", f);
    for (int i = 0; i < info->num_ports; i++) {
        fputs(i > 0 ? ",\n   " : "\n   ", f);
        put_port(f, &info->ports[i]);
    }
    fputs("],\n", f);
    put_published(info, f);
    if (info->opt.checks) {
        fputs(",\n  \"checks\": [", f);
        info_check(info, put_finding, &s);
        fputs("]", f);
    }
    fputs("\n}\n", f);
}
