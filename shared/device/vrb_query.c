/* GID tables, partition keys and link speed of a port (see vrb_query.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "device/vrb_query.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables have up to 256 entries on hardware; a longer one is read up to here. */
#define GID_TABLE_MAX 1024

/* What soft-RoCE says for the vendor: the identifier of none (drivers/infiniband/sw/rxe). */
#define SOFT_ROCE_VENDOR 0xffffffU

/* First line of a file under /sys/class/infiniband, without its end. Returns 0 if there is none. */
static int sysfs_line(char *text, int size, const char *path)
{
    FILE *f = fopen(path, "r");
    int ok = f != NULL && fgets(text, size, f) != NULL;

    if (f != NULL) {
        fclose(f);
    }
    text[ok ? strcspn(text, "\n") : 0] = 0;
    return ok;
}

/* ---- GIDs ---- */

#if defined(VRB_HAVE_QUERY_GID_EX) || defined(VRB_HAVE_QUERY_GID_TABLE)
static void take_entry(const struct ibv_gid_entry *from, struct vrb_gid_entry *to)
{
    memcpy(to->gid.raw, from->gid.raw, VRB_GID_LEN);
    to->gid.index = (uint16_t)from->gid_index;
    to->gid.type = from->gid_type == IBV_GID_TYPE_ROCE_V2   ? VRB_GID_ROCE_V2
                   : from->gid_type == IBV_GID_TYPE_ROCE_V1 ? VRB_GID_ROCE_V1
                                                            : VRB_GID_IB;
    to->ifindex = from->ndev_ifindex;
}
#endif

#ifndef VRB_HAVE_QUERY_GID_EX
/* rdma-core before v31 (2020) tells type and network device in sysfs only. */
static void take_sysfs(struct ibv_context *ctx, uint8_t port, struct vrb_gid_entry *e)
{
    char path[160], text[64];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
             ibv_get_device_name(ctx->device), port, e->gid.index);
    sysfs_line(text, sizeof(text), path);
    /* "IB/RoCE v1" is what the kernel says for both. */
    e->gid.type = strncmp(text, "RoCE v2", 7) == 0 ? VRB_GID_ROCE_V2
                  : strstr(text, "v1") != NULL     ? VRB_GID_ROCE_V1
                                                   : VRB_GID_IB;
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d",
             ibv_get_device_name(ctx->device), port, e->gid.index);
    e->ifindex = sysfs_line(text, sizeof(text), path) ? if_nametoindex(text) : 0;
}
#endif

static int query_one_by_one(struct ibv_context *ctx, uint8_t port, int len,
                            struct vrb_gid_entry *out)
{
    int n = 0;

    for (int i = 0; i < len; i++) {
        struct vrb_gid_entry *to = &out[n];
#ifdef VRB_HAVE_QUERY_GID_EX
        struct ibv_gid_entry e;

        if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &e, 0) != 0) {
            continue;
        }
        take_entry(&e, to);
#else
        union ibv_gid gid;

        if (ibv_query_gid(ctx, port, i, &gid) != 0) {
            continue;
        }
        memcpy(to->gid.raw, gid.raw, VRB_GID_LEN);
        to->gid.index = (uint16_t)i;
        if (!vrb_gid_is_empty(to->gid.raw)) {
            take_sysfs(ctx, port, to);
        }
#endif
        n += !vrb_gid_is_empty(to->gid.raw);
    }
    return n;
}

static int query_at_once(struct ibv_context *ctx, uint8_t port, int len, struct vrb_gid_entry *out)
{
    int n = 0;
#ifdef VRB_HAVE_QUERY_GID_TABLE
    /* One call for the whole device: two-port devices list the other port's entries too. */
    size_t max = (size_t)len * 2 + 16;
    struct ibv_gid_entry *table = calloc(max, sizeof(*table));
    ssize_t got = table == NULL ? -1 : ibv_query_gid_table(ctx, table, max, 0);

    for (ssize_t i = 0; i < got && n < len; i++) {
        if (table[i].port_num == port) {
            take_entry(&table[i], &out[n]);
            n += !vrb_gid_is_empty(out[n].gid.raw);
        }
    }
    free(table);
#else
    (void)ctx;
    (void)port;
    (void)len;
    (void)out;
#endif
    return n;
}

int vrb_query_gid_table(struct ibv_context *ctx, uint8_t port, uint8_t link, int table_len,
                        const struct vrb_net *net, struct vrb_gid_entry **entries)
{
    int len = table_len < GID_TABLE_MAX ? table_len : GID_TABLE_MAX;
    struct vrb_gid_entry *out = len > 0 ? calloc((size_t)len + 1, sizeof(*out)) : NULL;
    int n = 0;

    *entries = NULL;
    if (out == NULL) {
        return 0;
    }
    n = query_at_once(ctx, port, len, out);
    if (n == 0) {
        n = query_one_by_one(ctx, port, len, out);
    }
    for (int i = 0; i < n; i++) {
        const struct vrb_net_link *l = net ? vrb_net_link(net, out[i].ifindex) : NULL;

        if (link == VRB_LINK_IB) {
            out[i].gid.type = VRB_GID_IB;
        } else if (l != NULL) {
            snprintf(out[i].ndev, sizeof(out[i].ndev), "%s", l->name);
            vrb_net_describe(net, out[i].ifindex, &out[i].gid);
            if (l->state == VRB_NET_DOWN && !l->loopback) {
                out[i].unused = "its network device is down";
            }
        }
    }
    if (n == 0) {
        free(out);
        return 0;
    }
    *entries = out;
    return n;
}

int vrb_query_gids(struct ibv_context *ctx, uint8_t port, uint8_t link, int table_len,
                   const struct vrb_net *net, struct vrb_gid gids[VRB_MAX_GIDS])
{
    struct vrb_gid_entry *entries;
    int n = vrb_query_gid_table(ctx, port, link, table_len, net, &entries);
    int used = vrb_query_best_gids(entries, n, link, gids);

    free(entries);
    return used;
}

/* ---- partitions ---- */

int vrb_query_pkeys(struct ibv_context *ctx, uint8_t port, int table_len, uint16_t *keys, int room)
{
    int n = table_len < room ? table_len : room;

    for (int i = 0; i < n; i++) {
        __be16 be;

        keys[i] = ibv_query_pkey(ctx, port, i, &be) == 0 ? ntohs(be) : 0;
    }
    return n < 0 ? 0 : n;
}

/* ---- speed ---- */

/* Mbit/s of data per lane (IBTA table 175, PortInfo LinkSpeedActive and its extensions). */
static const struct {
    unsigned code;
    uint32_t lane;
    const char *name;
} speeds[] = {{1, 2000, "SDR"},    {2, 4000, "DDR"},     {4, 8000, "QDR"},
              {8, 10000, "FDR10"}, {16, 13640, "FDR"},   {32, 25000, "EDR"},
              {64, 50000, "HDR"},  {128, 100000, "NDR"}, {256, 200000, "XDR"}};

static const struct {
    unsigned code, lanes;
} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

#define SPEEDS (sizeof(speeds) / sizeof(speeds[0]))
#define WIDTHS (sizeof(widths) / sizeof(widths[0]))
#define USUAL_LANES 4

static unsigned lanes_of(unsigned active_width)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        if (widths[i].code == active_width) {
            return widths[i].lanes;
        }
    }
    return 0;
}

uint32_t vrb_query_speed(unsigned active_speed, unsigned active_width)
{
    unsigned lanes = lanes_of(active_width);
    unsigned code = active_speed;
    uint32_t lane = 0;

    if (code == 0) {
        return 0;
    }
    while (code & (code - 1)) {
        code &= code - 1; /* the highest bit counts */
    }
    for (size_t i = 0; i < SPEEDS; i++) {
        if (speeds[i].code <= code) {
            lane = speeds[i].lane;
        }
    }
    for (unsigned top = speeds[SPEEDS - 1].code; top < code && lane < UINT32_MAX / 64; top <<= 1) {
        lane *= 2;
    }
    return lane * (lanes == 0 ? USUAL_LANES : lanes);
}

const char *vrb_query_speed_text(unsigned active_speed, unsigned active_width, char *buf,
                                 size_t len)
{
    char width[16];

    snprintf(width, sizeof(width), lanes_of(active_width) ? "%uX" : "width code %u",
             lanes_of(active_width) ? lanes_of(active_width) : active_width);
    for (size_t i = 0; i < SPEEDS; i++) {
        if (speeds[i].code == active_speed) {
            snprintf(buf, len, "%s %s", width, speeds[i].name);
            return buf;
        }
    }
    snprintf(buf, len, "%s speed code %u", width, active_speed);
    return buf;
}

/* ---- sysfs ---- */

int vrb_query_numa(struct ibv_context *ctx)
{
    char path[160], text[32];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node",
             ibv_get_device_name(ctx->device));
    return sysfs_line(text, sizeof(text), path) ? atoi(text) : -1;
}

int vrb_query_doubts_reads(const struct ibv_device_attr *dev)
{
    return dev->vendor_id == SOFT_ROCE_VENDOR;
}

int vrb_query_tclass(const char *dev, uint8_t port)
{
    char path[160], text[64];
    int value;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/tc/%d/traffic_class", dev, port);
    if (!sysfs_line(text, sizeof(text), path) || sscanf(text, "Global tclass=%d", &value) != 1 ||
        value < 0 || value > 255) {
        return -1;
    }
    return value;
}
