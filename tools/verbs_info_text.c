/* verbs_info for people.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "address/vrb_choose.h"
#include "address/vrb_reach.h"
#include "tools/info.h"
#include "util/vrb_text.h"

/* "100 Gb/s" of a number in Mbit/s. */
static const char *rate_text(uint32_t mbps, char *buf, size_t len)
{
    if (mbps == 0) {
        snprintf(buf, len, "speed unknown");
    } else if (mbps % 1000 == 0) {
        snprintf(buf, len, "%u Gb/s", mbps / 1000);
    } else {
        snprintf(buf, len, "%u.%u Gb/s", mbps / 1000, mbps % 1000 / 100);
    }
    return buf;
}

static void print_line(FILE *f, const struct info_port *p)
{
    const struct vrb_facts *x = &p->facts;
    char rate[32], code[48], mtu[32] = "MTU unknown";

    if (x->port == 0 || x->state == 0) {
        fprintf(f, "%s%s%.0d\n", x->dev, x->port == 0 ? "" : " port ", x->port);
        return;
    }
    if (x->active_mtu != 0) {
        snprintf(mtu, sizeof(mtu), "MTU %d of %d", 128 << x->active_mtu, 128 << x->max_mtu);
    }
    fprintf(f, "%s port %d: %s, %s, %s (%s), %s\n", x->dev, x->port,
            vrb_facts_foreign(x->transport) != NULL ? vrb_facts_foreign(x->transport)
            : x->link == VRB_LINK_IB                ? "InfiniBand"
            : x->link == VRB_LINK_ROCE              ? "RoCE"
                                                    : "unknown link layer",
            vrb_facts_state_text(x->state), rate_text(x->speed_mbps, rate, sizeof(rate)),
            vrb_query_speed_text(x->active_speed, x->active_width, code, sizeof(code)), mtu);
}

static void print_device(FILE *f, const struct vrb_facts *x)
{
    fprintf(f, "  device     firmware %s, vendor 0x%04x, part %u, ", x->fw[0] ? x->fw : "unknown",
            x->vendor_id, x->part_id);
    if (x->numa >= 0) {
        fprintf(f, "NUMA node %d, ", x->numa);
    }
    fprintf(f, "%s atomics, %s shared receive queues\n", x->atomics ? "64-bit" : "no",
            x->max_srq > 0 ? "has" : "no");
}

static void print_ib(FILE *f, const struct info_port *p)
{
    const struct vrb_facts *x = &p->facts;

    fprintf(f, "  address    LID %u (0x%x), LMC %u, subnet manager LID %u%s\n", x->lid, x->lid,
            x->lmc, x->sm_lid, x->grh_required ? ", GRH on every packet" : "");
    for (int i = 0; i < x->num_pkeys; i++) {
        if ((x->pkeys[i] & ~VRB_PKEY_FULL) != 0) {
            fprintf(f, "  partition  %3d  0x%04x  %s%s\n", i, x->pkeys[i],
                    x->pkeys[i] & VRB_PKEY_FULL ? "full member" : "limited member",
                    p->used && i == p->pkey_index ? "  <- used" : "");
        }
    }
}

static void print_gid(FILE *f, const struct vrb_gid_entry *e, uint8_t link)
{
    char ip[INET6_ADDRSTRLEN + 8];

    vrb_reach_ip(&e->gid, ip, sizeof(ip));
    fprintf(f, "  GID        %3u  %s%s", e->gid.index,
            link == VRB_LINK_IB              ? ""
            : e->gid.type == VRB_GID_ROCE_V2 ? "v2  "
            : e->gid.type == VRB_GID_ROCE_V1 ? "v1  "
                                             : "?   ",
            ip);
    if (e->ndev[0] != '\0') {
        fprintf(f, "  %s", e->ndev);
    }
    if (e->gid.vlan != 0 && e->gid.vlan != VRB_VLAN_UNTAGGED) {
        fprintf(f, "  VLAN %u", e->gid.vlan);
    }
    if (e->gid.mtu != 0) {
        fprintf(f, "  room for MTU %d", 128 << e->gid.mtu);
    }
    if (e->gid.flags & VRB_GID_ROUTED) {
        fprintf(f, "  gateway");
    }
    if (e->unused != NULL) {
        fprintf(f, "  (not used: %s)", e->unused);
    }
    fputc('\n', f);
}

static void print_port(FILE *f, const struct info_port *p)
{
    const struct vrb_facts *x = &p->facts;
    char text[1024];

    print_line(f, p);
    if (x->port != 0 && x->state != 0) {
        print_device(f, x);
        if (x->link == VRB_LINK_IB) {
            print_ib(f, p);
        }
        for (int i = 0; i < x->num_gids; i++) {
            print_gid(f, &x->gids[i], x->link);
        }
        if (x->table_len > x->num_gids) {
            fprintf(f, "  GID        %d of %d entries of the table are empty\n",
                    x->table_len - x->num_gids, x->table_len);
        }
    }
    if (p->used) {
        fprintf(f, "  used       yes: %s\n", vrb_reach_addresses(&p->address, text, sizeof(text)));
    } else {
        fprintf(f, "  used       no: %s\n", p->why);
    }
}

static void print_finding(void *ctx, const struct info_port *port, enum info_level level,
                          const char *what, const char *text, const char *next)
{
    static const char *const marks[] = {"ok  ", "note", "WARN"};
    char buf[2048];
    struct vrb_text t = {.buf = buf, .len = sizeof(buf)};
    FILE *f = ctx;

    vrb_text_put(&t, "  %s  %s%s", marks[level], what, port == NULL ? "" : ", ");
    if (port != NULL) {
        vrb_text_put(&t, "%s port %d", port->facts.dev, port->facts.port);
    }
    vrb_text_put(&t, ": %s", text);
    if (next[0] != '\0') {
        vrb_text_block(&t, "next:", "%s", next);
    }
    fprintf(f, "%s\n", buf);
}

static void print_nothing(const struct info *info, FILE *f)
{
    fprintf(f, "No RDMA device was found%s%s.\n", info->error[0] ? ": " : "", info->error);
    fputs("  next:     `ls /sys/class/infiniband` shows what the kernel has. If it is empty, the\n"
          "            driver is not loaded (mlx5_ib, irdma, bnxt_re; rdma_rxe for soft-RoCE). If "
          "not,\n"
          "            the libibverbs provider is missing, or this container has no "
          "/dev/infiniband.\n",
          f);
}

void info_print_text(const struct info *info, FILE *f)
{
    int used = 0;

    fprintf(f, "host %s, verbs_info %s\n\n", info->host, VRB_VERSION);
    if (info->num_ports == 0) {
        print_nothing(info, f);
    }
    for (int i = 0; i < info->num_ports; i++) {
        print_port(f, &info->ports[i]);
        fputc('\n', f);
        used += info->ports[i].used;
    }
    if (info->num_ports > 0) {
        fprintf(f, "A job would use ");
        for (int i = 0, n = 0; i < info->num_ports; i++) {
            if (info->ports[i].used) {
                fprintf(f, "%s%s:%d", n++ > 0 ? ", " : "", info->ports[i].facts.dev,
                        info->ports[i].facts.port);
            }
        }
        fputs(used > 0 ? ".\n" : "none of them.\n", f);
    }
    if (info->opt.checks) {
        fputs("\nChecks\n", f);
        info_check(info, print_finding, f);
    }
}
