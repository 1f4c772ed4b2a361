/* Finds the ports of this host, filters them, and says in words why one is not usable.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/vrb_facts.h"
#include "device/vrb_filter.h"
#include "vrb.h"

struct found {
    struct vrb_port *ports;
    int n, room;
    struct vrb_net net;
    char exists[512]; /* "dev:port, dev:port": for the message about unknown names */
};

static void describe_port(struct ibv_context *ctx, const struct ibv_device_attr *dev, int port,
                          const struct vrb_net *net, struct vrb_port *p)
{
    struct vrb_facts f;

    vrb_facts_read(&f, ctx, dev, (uint8_t)port, net);
    snprintf(p->dev, sizeof(p->dev), "%s", f.dev);
    p->port = f.port;
    p->link = f.link;
    p->active = f.state == IBV_PORT_ACTIVE || f.state == IBV_PORT_ACTIVE_DEFER;
    p->speed_mbps = f.speed_mbps;
    p->max_msg_sz = f.max_msg_sz;
    p->atomics = f.atomics;
    snprintf(p->why, sizeof(p->why), "%s", f.why);
    p->usable = p->why[0] == 0;
    p->coming = f.link == VRB_LINK_IB && vrb_facts_foreign(f.transport) == NULL &&
                (f.state == IBV_PORT_INIT || f.state == IBV_PORT_ARMED);
    vrb_facts_free(&f);
}

static void note_existing(struct found *f, const char *dev, int port)
{
    size_t used = strlen(f->exists);
    char number[16] = "";

    if (port > 0) {
        snprintf(number, sizeof(number), ":%d", port);
    }
    snprintf(f->exists + used, sizeof(f->exists) - used, "%s%s%s", used > 0 ? ", " : "", dev,
             number);
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

/* A device that is there but cannot be asked, mostly for want of permissions: listed as port 0. */
static void add_closed(struct found *f, struct ibv_device *device, struct vrb_filter *filter,
                       int err)
{
    struct vrb_port p = {.port = 0};

    note_existing(f, ibv_get_device_name(device), 0);
    if (vrb_filter_wants(filter, ibv_get_device_name(device), 0)) {
        snprintf(p.dev, sizeof(p.dev), "%s", ibv_get_device_name(device));
        snprintf(p.why, sizeof(p.why), "it cannot be opened: %s%s", strerror(err),
                 err == EACCES || err == EPERM ? " (see the rights on /dev/infiniband/uverbs*)"
                                               : "");
        (void)add(f, &p);
    }
}

static void scan_device(struct found *f, struct ibv_device *device, struct vrb_filter *filter)
{
    struct ibv_context *ctx = ibv_open_device(device);
    struct ibv_device_attr attr;

    if (ctx == NULL || ibv_query_device(ctx, &attr) != 0) {
        add_closed(f, device, filter, errno);
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
        describe_port(ctx, &attr, port, &f->net, &p);
        if (add(f, &p) != VRB_OK) {
            break;
        }
    }
    ibv_close_device(ctx);
}

int vrb_fork_safe(void)
{
    return ibv_fork_init() == 0 ? VRB_OK : VRB_ERR_NOTSUP;
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
    if (list != NULL && n > 0) {
        vrb_net_read(&f.net);
    }
    for (int i = 0; list != NULL && i < n; i++) {
        scan_device(&f, list[i], &filter);
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    vrb_net_free(&f.net);
    if (vrb_filter_unused(&filter, unused, sizeof(unused)) > 0) {
        vrb_log(VRB_LOG_WARN, "%s names '%s', which is not here; this host has: %s",
                filter.exclude ? "if_exclude" : "if_include", unused,
                f.exists[0] != 0 ? f.exists : "no RDMA device");
    }
    *ports = f.ports;
    return f.n;
}
