/* Changes of a running fabric: ports, addresses, broken devices, each with its asynchronous event.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <string.h>

static struct sm_port *port_of(uint32_t dev_idx, int port)
{
    struct sm_dev *d;

    if (dev_idx >= SM_MAX_DEVS) {
        return NULL;
    }
    d = &shca.seg->devs[dev_idx];
    if (!atomic_load(&d->used) || port < 1 || port > (int)d->nports) {
        return NULL;
    }
    return &d->ports[port - 1];
}

int shca_set_port_state(uint32_t dev_idx, int port, uint32_t state)
{
    struct sm_port *p = port_of(dev_idx, port);
    uint32_t old;

    if (!p) {
        return EINVAL;
    }
    old = atomic_exchange(&p->state, state);
    if (old == state) {
        return 0;
    }
    atomic_fetch_add(&shca.seg->epoch, 1);
    if (old == IBV_PORT_ACTIVE) {
        shca_event_dev(dev_idx, IBV_EVENT_PORT_ERR, (uint32_t)port);
    } else if (state == IBV_PORT_ACTIVE) {
        shca_event_dev(dev_idx, IBV_EVENT_PORT_ACTIVE, (uint32_t)port);
    }
    return 0;
}

int shca_set_gid(uint32_t dev_idx, int port, unsigned int index, const uint8_t gid[16], int type)
{
    struct sm_port *p = port_of(dev_idx, port);
    struct sm_gid *g;

    if (!p || index >= SM_MAX_GIDS) {
        return EINVAL;
    }
    g = &p->gids[index];
    memcpy(g->raw, gid, 16);
    if (type >= 0) {
        g->type = (uint8_t)type;
    }
    if (!g->plen) {
        g->plen = memcmp(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) ? 64 : 24;
    }
    if (p->link == SM_LINK_ETH && !g->ndev[0]) {
        strcpy(g->ndev, "lo");
    }
    if (index >= p->ngids) {
        p->ngids = (uint16_t)(index + 1);
    }
    atomic_fetch_add(&shca.seg->epoch, 1);
    shca_event_dev(dev_idx, IBV_EVENT_GID_CHANGE, (uint32_t)port);
    return 0;
}

int shca_set_lid(uint32_t dev_idx, int port, uint16_t lid)
{
    struct sm_port *p = port_of(dev_idx, port);

    if (!p || p->link != SM_LINK_IB || !lid || lid + (1u << p->lmc) > 0xc000) {
        return EINVAL; /* LIDs from 0xc000 on are multicast */
    }
    p->lid = lid;
    atomic_fetch_add(&shca.seg->epoch, 1);
    shca_event_dev(dev_idx, IBV_EVENT_LID_CHANGE, (uint32_t)port);
    return 0;
}

int shca_set_fatal(uint32_t dev_idx)
{
    struct sm_dev *d;

    if (!port_of(dev_idx, 1)) {
        return EINVAL;
    }
    d = &shca.seg->devs[dev_idx];
    if (atomic_exchange(&d->fatal, 1)) {
        return 0;
    }
    atomic_fetch_add(&shca.seg->epoch, 1);
    shca_event_dev(dev_idx, IBV_EVENT_DEVICE_FATAL, 0);
    for (uint32_t i = 0; i < SM_MAX_PROCS; i++) {
        if (shca_proc_alive(&shca.seg->procs[i]) && shca.seg->procs[i].host == d->host) {
            shca_proc_poke(i);
        }
    }
    return 0;
}
