/* GID tables, partition keys and link speed of a port (see vrb_query.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "device/vrb_query.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables have up to 256 entries on hardware; a longer one is read up to here. */
#define GID_TABLE_MAX 1024

#if defined(VRB_HAVE_QUERY_GID_EX) || defined(VRB_HAVE_QUERY_GID_TABLE)
static uint8_t gid_type(uint32_t type)
{
    return type == IBV_GID_TYPE_ROCE_V2   ? VRB_GID_ROCE_V2
           : type == IBV_GID_TYPE_ROCE_V1 ? VRB_GID_ROCE_V1
                                          : VRB_GID_IB;
}
#endif

/* Smaller is better. */
static int rank_gid(const struct vrb_gid *g)
{
    int scope = vrb_gid_is_ipv4(g->raw) ? 0 : vrb_gid_is_link_local(g->raw) ? 2 : 1;

    return (g->type == VRB_GID_ROCE_V2 ? 0 : 4) + scope;
}

/* Keeps the table sorted; the last one falls off when it is full. Equal rank: lower index first. */
static int keep(struct vrb_gid *gids, int n, const struct vrb_gid *g)
{
    int i;

    for (i = 0; i < n; i++) {
        if (memcmp(gids[i].raw, g->raw, VRB_GID_LEN) == 0 && gids[i].type == g->type) {
            return n; /* the same address again, from another VLAN or macvlan device */
        }
    }
    for (i = n; i > 0 && rank_gid(&gids[i - 1]) > rank_gid(g); i--) {
        if (i < VRB_MAX_GIDS) {
            gids[i] = gids[i - 1];
        }
    }
    if (i < VRB_MAX_GIDS) {
        gids[i] = *g;
    }
    return n < VRB_MAX_GIDS ? n + 1 : n;
}

#ifndef VRB_HAVE_QUERY_GID_EX
/* rdma-core before v31 (2020) tells the type in sysfs only. */
static uint8_t gid_type_sysfs(struct ibv_context *ctx, uint8_t port, int index)
{
    char path[160], text[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
             ibv_get_device_name(ctx->device), port, index);
    f = fopen(path, "r");
    if (f != NULL) {
        if (fgets(text, sizeof(text), f) == NULL) {
            text[0] = 0;
        }
        fclose(f);
    }
    /* "IB/RoCE v1" is what the kernel says for both. */
    return strncmp(text, "RoCE v2", 7) == 0 ? VRB_GID_ROCE_V2
           : strstr(text, "v1") != NULL     ? VRB_GID_ROCE_V1
                                            : VRB_GID_IB;
}
#endif

static int query_one_by_one(struct ibv_context *ctx, uint8_t port, uint8_t link, int len,
                            struct vrb_gid *gids)
{
    int n = 0;

    for (int i = 0; i < len; i++) {
        struct vrb_gid g = {.index = (uint16_t)i};
#ifdef VRB_HAVE_QUERY_GID_EX
        struct ibv_gid_entry e;

        if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &e, 0) != 0) {
            continue;
        }
        memcpy(g.raw, e.gid.raw, VRB_GID_LEN);
        g.type = gid_type(e.gid_type);
#else
        union ibv_gid gid;

        if (ibv_query_gid(ctx, port, i, &gid) != 0) {
            continue;
        }
        memcpy(g.raw, gid.raw, VRB_GID_LEN);
        g.type = gid_type_sysfs(ctx, port, i);
        if (link == VRB_LINK_IB) {
            g.type = VRB_GID_IB;
        }
#endif
        if (vrb_gid_is_empty(g.raw) || (link == VRB_LINK_ROCE && g.type == VRB_GID_IB)) {
            continue;
        }
        n = keep(gids, n, &g);
    }
    return n;
}

int vrb_query_gids(struct ibv_context *ctx, uint8_t port, uint8_t link,
                   struct vrb_gid gids[VRB_MAX_GIDS])
{
    struct ibv_port_attr attr;
    int len;

    if (ibv_query_port(ctx, port, &attr) != 0) {
        return 0;
    }
    len = attr.gid_tbl_len < GID_TABLE_MAX ? attr.gid_tbl_len : GID_TABLE_MAX;
#ifdef VRB_HAVE_QUERY_GID_TABLE
    {
        /* One call for the whole device: two-port devices list the other port's entries too. */
        size_t max = (size_t)len * 2 + 16;
        struct ibv_gid_entry *table = calloc(max, sizeof(*table));
        ssize_t got = table == NULL ? -1 : ibv_query_gid_table(ctx, table, max, 0);
        int n = 0;

        for (ssize_t i = 0; i < got; i++) {
            struct vrb_gid g = {.index = (uint16_t)table[i].gid_index};

            if (table[i].port_num != port) {
                continue;
            }
            memcpy(g.raw, table[i].gid.raw, VRB_GID_LEN);
            g.type = gid_type(table[i].gid_type);
            if (!vrb_gid_is_empty(g.raw) && !(link == VRB_LINK_ROCE && g.type == VRB_GID_IB)) {
                n = keep(gids, n, &g);
            }
        }
        free(table);
        if (n > 0) {
            return n;
        }
    }
#endif
    return query_one_by_one(ctx, port, link, len, gids);
}

int vrb_query_pkey(struct ibv_context *ctx, uint8_t port, int table_len, uint16_t *pkey,
                   uint16_t *index)
{
    int found = 0;

    *pkey = 0xffff;
    *index = 0;
    for (int i = 0; i < table_len; i++) {
        __be16 be;
        uint16_t key;

        if (ibv_query_pkey(ctx, port, i, &be) != 0) {
            continue;
        }
        key = ntohs(be);
        if ((key & 0x7fff) == 0) {
            continue; /* an empty slot */
        }
        if (!found || (key & 0x8000)) {
            *pkey = key;
            *index = (uint16_t)i;
            found = 1;
        }
        if (key & 0x8000) {
            break;
        }
    }
    return found;
}

uint32_t vrb_query_speed(const struct ibv_port_attr *attr)
{
    /* Mbit/s of data per lane (IBTA table 175, PortInfo LinkSpeedActive and its extensions). */
    uint32_t lane, lanes;

    switch (attr->active_speed) {
    case 1: /* SDR */
        lane = 2000;
        break;
    case 2: /* DDR */
        lane = 4000;
        break;
    case 4: /* QDR */
        lane = 8000;
        break;
    case 8: /* FDR10 */
        lane = 10000;
        break;
    case 16: /* FDR */
        lane = 13640;
        break;
    case 32: /* EDR */
        lane = 25000;
        break;
    case 64: /* HDR */
        lane = 50000;
        break;
    case 128: /* NDR */
        lane = 100000;
        break;
    default:
        return 0;
    }
    switch (attr->active_width) {
    case 1:
        lanes = 1;
        break;
    case 2:
        lanes = 4;
        break;
    case 4:
        lanes = 8;
        break;
    case 8:
        lanes = 12;
        break;
    case 16:
        lanes = 2;
        break;
    default:
        return 0;
    }
    return lane * lanes;
}
