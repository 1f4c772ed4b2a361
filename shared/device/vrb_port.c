/* Finds the ports of this host, filters them, and says in words why one is not usable.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/vrb_filter.h"
#include "device/vrb_query.h"
#include "vrb.h"

struct found {
    struct vrb_port *ports;
    int n, room;
    char exists[512]; /* "dev:port, dev:port": for the message about unknown names */
};

static const char *unusable(const struct ibv_context *ctx, const struct ibv_port_attr *attr,
                            const struct vrb_port *p, int gids)
{
    if (ctx->device->transport_type == IBV_TRANSPORT_IWARP) {
        return "it is an iWARP device, which this transport does not serve";
    }
    if (ctx->device->transport_type != IBV_TRANSPORT_IB) {
        return "its transport is neither InfiniBand nor RoCE";
    }
    if (p->link == 0) {
        return "its link layer is unknown";
    }
    if (!p->active) {
        return attr->state == IBV_PORT_INIT ? "the port waits for the subnet manager (state INIT)"
                                            : "the port is down";
    }
    if (p->link == VRB_LINK_IB && attr->lid == 0) {
        return "the port has no LID: no subnet manager has configured it";
    }
    if (p->link == VRB_LINK_ROCE && gids == 0) {
        return "the port has no GID: its network interface is down or has no address";
    }
    return NULL;
}

static void describe_port(struct ibv_context *ctx, const struct ibv_device_attr *dev, int port,
                          struct vrb_port *p)
{
    struct vrb_gid gids[VRB_MAX_GIDS];
    struct ibv_port_attr attr;
    const char *why;

    snprintf(p->dev, sizeof(p->dev), "%s", ibv_get_device_name(ctx->device));
    p->port = (uint8_t)port;
    if (ibv_query_port(ctx, (uint8_t)port, &attr) != 0) {
        snprintf(p->why, sizeof(p->why), "the port cannot be queried: %s", strerror(errno));
        return;
    }
    /* Devices older than the field say 0, and are InfiniBand. */
    p->link = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? VRB_LINK_ROCE
              : attr.link_layer == IBV_LINK_LAYER_INFINIBAND ||
                      attr.link_layer == IBV_LINK_LAYER_UNSPECIFIED
                  ? VRB_LINK_IB
                  : 0;
    p->active = attr.state == IBV_PORT_ACTIVE;
    p->speed_mbps = vrb_query_speed(&attr);
    p->max_msg_sz = attr.max_msg_sz;
    p->atomics = dev->atomic_cap != IBV_ATOMIC_NONE;
    why =
        unusable(ctx, &attr, p,
                 p->link == VRB_LINK_ROCE ? vrb_query_gids(ctx, (uint8_t)port, p->link, gids) : 0);
    if (why != NULL) {
        snprintf(p->why, sizeof(p->why), "%s", why);
    }
    p->usable = why == NULL;
}

static void note_existing(struct found *f, const char *dev, int port)
{
    size_t used = strlen(f->exists);

    snprintf(f->exists + used, sizeof(f->exists) - used, "%s%s:%d", used > 0 ? ", " : "", dev,
             port);
}

static int add(struct found *f, const struct vrb_port *p)
{
    if (f->n == f->room) {
        int room = f->room == 0 ? 8 : f->room * 2;
        struct vrb_port *more = realloc(f->ports, (size_t)room * sizeof(*more));

        if (more == NULL) {
            return VRB_ERR_NOMEM;
        }
        f->ports = more;
        f->room = room;
    }
    f->ports[f->n++] = *p;
    return VRB_OK;
}

static void scan_device(struct found *f, struct ibv_device *device, struct vrb_filter *filter)
{
    struct ibv_context *ctx = ibv_open_device(device);
    struct ibv_device_attr attr;

    if (ctx == NULL || ibv_query_device(ctx, &attr) != 0) {
        vrb_log(VRB_LOG_INFO, "%s cannot be opened: %s", ibv_get_device_name(device),
                strerror(errno));
        if (ctx != NULL) {
            ibv_close_device(ctx);
        }
        return;
    }
    for (int port = 1; port <= attr.phys_port_cnt; port++) {
        struct vrb_port p = {.port = 0};

        note_existing(f, ibv_get_device_name(device), port);
        if (!vrb_filter_wants(filter, ibv_get_device_name(device), port)) {
            continue;
        }
        describe_port(ctx, &attr, port, &p);
        if (add(f, &p) != VRB_OK) {
            break;
        }
    }
    ibv_close_device(ctx);
}

int vrb_ports_find(const char *include, const char *exclude, struct vrb_port **ports, char *err,
                   size_t len)
{
    struct vrb_filter filter;
    struct found f = {.n = 0};
    struct ibv_device **list;
    char unused[512];
    int n = 0, rc = vrb_filter_parse(&filter, include, exclude, err, len);

    *ports = NULL;
    if (rc != VRB_OK) {
        return rc;
    }
    list = ibv_get_device_list(&n); /* NULL with ENOSYS when the kernel has no RDMA at all */
    for (int i = 0; list != NULL && i < n; i++) {
        scan_device(&f, list[i], &filter);
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    if (vrb_filter_unused(&filter, unused, sizeof(unused)) > 0) {
        vrb_log(VRB_LOG_WARN, "%s names '%s', which is not here; this host has: %s",
                filter.exclude ? "if_exclude" : "if_include", unused,
                f.exists[0] != 0 ? f.exists : "no RDMA device");
    }
    *ports = f.ports;
    return f.n;
}
