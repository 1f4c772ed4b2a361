/* Reads a port, and says in words why it cannot be used (see vrb_facts.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "device/vrb_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address/vrb_choose.h"

const char *vrb_facts_foreign(int transport)
{
    switch (transport) {
    case IBV_TRANSPORT_IB:
        return NULL;
    case IBV_TRANSPORT_IWARP:
        return "iWARP";
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP:
        return "usNIC";
    default:
        return "neither InfiniBand nor RoCE (EFA or another vendor's own)";
    }
}

const char *vrb_facts_state_text(uint8_t state)
{
    static const char *const names[] = {"nop",   "down",   "init",
                                        "armed", "active", "active (deferred)"};

    return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static int published(const struct vrb_facts *f)
{
    int n = 0;

    for (int i = 0; i < f->num_gids; i++) {
        n += f->gids[i].unused == NULL;
    }
    return n;
}

static void say_no_gid(struct vrb_facts *f)
{
    if (f->num_gids == 0) {
        snprintf(
            f->why, sizeof(f->why),
            "the port has no GID: its network interface is down, has no address, or belongs to "
            "another network namespace than this process (a container)");
    } else {
        snprintf(f->why, sizeof(f->why), "none of its %d GIDs can be used; of the first: %s",
                 f->num_gids, f->gids[0].unused);
    }
}

static void find_fault(struct vrb_facts *f)
{
    const char *foreign = vrb_facts_foreign(f->transport);

    if (foreign != NULL) {
        snprintf(f->why, sizeof(f->why),
                 "its transport is %s, which this one does not serve: another BTL must carry it",
                 foreign);
    } else if (f->link == 0) {
        snprintf(f->why, sizeof(f->why), "its link layer is unknown");
    } else if (f->state == IBV_PORT_INIT || f->state == IBV_PORT_ARMED) {
        snprintf(f->why, sizeof(f->why), "the port waits for the subnet manager (state %s)",
                 f->state == IBV_PORT_INIT ? "INIT" : "ARMED");
    } else if (f->state != IBV_PORT_ACTIVE && f->state != IBV_PORT_ACTIVE_DEFER) {
        snprintf(f->why, sizeof(f->why), "the port is down");
    } else if (f->link == VRB_LINK_IB && f->lid == 0) {
        snprintf(f->why, sizeof(f->why),
                 "the port has no LID: no subnet manager has configured it");
    } else if (f->link == VRB_LINK_IB && f->lid + (1 << f->lmc) - 1 > VRB_LID_MAX) {
        snprintf(f->why, sizeof(f->why),
                 "its LIDs, 0x%x to 0x%x, are not all below 0xc000: the subnet manager gave out a "
                 "wrong LID or LMC",
                 f->lid, f->lid + (1 << f->lmc) - 1);
    } else if (f->active_mtu == 0) {
        snprintf(f->why, sizeof(f->why), "its driver does not tell an MTU that there is");
    } else if (f->link == VRB_LINK_ROCE && published(f) == 0) {
        say_no_gid(f);
    }
}

/* 256 to 4096 bytes; 0: what a driver says of a port without a link, and anything else. */
static uint8_t mtu_code(int mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? (uint8_t)mtu : 0;
}

static void read_port(struct vrb_facts *f, struct ibv_context *ctx,
                      const struct ibv_port_attr *attr, const struct vrb_net *net)
{
    struct vrb_gid best[VRB_MAX_GIDS];

    /* Devices older than the field say 0, and are InfiniBand. */
    f->link = attr->link_layer == IBV_LINK_LAYER_ETHERNET ? VRB_LINK_ROCE
              : attr->link_layer == IBV_LINK_LAYER_INFINIBAND ||
                      attr->link_layer == IBV_LINK_LAYER_UNSPECIFIED
                  ? VRB_LINK_IB
                  : 0;
    f->state = (uint8_t)attr->state;
    f->active_mtu = mtu_code((int)attr->active_mtu);
    f->max_mtu = mtu_code((int)attr->max_mtu);
    f->active_speed = attr->active_speed;
    f->active_width = attr->active_width;
    f->speed_mbps = vrb_query_speed(attr->active_speed, attr->active_width);
    f->max_msg_sz = attr->max_msg_sz;
    f->table_len = attr->gid_tbl_len;
    f->num_gids = vrb_query_gid_table(ctx, f->port, f->link, attr->gid_tbl_len, net, &f->gids);
    (void)vrb_query_best_gids(f->gids, f->num_gids, f->link, best);
    f->num_pkeys = vrb_query_pkeys(ctx, f->port, attr->pkey_tbl_len, f->pkeys, VRB_FACTS_PKEYS);
    if (f->link == VRB_LINK_IB) {
        f->lid = attr->lid;
        f->sm_lid = attr->sm_lid;
        f->lmc = attr->lmc & VRB_LMC_MAX;
        f->grh_required = (attr->flags & IBV_QPF_GRH_REQUIRED) != 0;
    }
}

void vrb_facts_read(struct vrb_facts *f, struct ibv_context *ctx, const struct ibv_device_attr *dev,
                    uint8_t port, const struct vrb_net *net)
{
    struct ibv_port_attr attr;
    int err;

    memset(f, 0, sizeof(*f));
    snprintf(f->dev, sizeof(f->dev), "%s", ibv_get_device_name(ctx->device));
    snprintf(f->fw, sizeof(f->fw), "%s", dev->fw_ver);
    f->vendor_id = dev->vendor_id;
    f->part_id = dev->vendor_part_id;
    f->transport = ctx->device->transport_type;
    f->numa = vrb_query_numa(ctx);
    f->atomics = dev->atomic_cap != IBV_ATOMIC_NONE;
    f->max_srq = dev->max_srq;
    f->max_qp = dev->max_qp;
    f->max_qp_wr = dev->max_qp_wr;
    f->max_rd_atomic = dev->max_qp_rd_atom;
    f->port = port;
    err = ibv_query_port(ctx, port, &attr);
    if (err != 0) {
        snprintf(f->why, sizeof(f->why), "the port cannot be queried: %s",
                 strerror(err > 0 ? err : errno));
        return;
    }
    read_port(f, ctx, &attr, net);
    find_fault(f);
}

void vrb_facts_free(struct vrb_facts *f)
{
    free(f->gids);
    f->gids = NULL;
    f->num_gids = 0;
}

/* " 0x8001, 0x7fff": the partitions of a port. */
static void list_pkeys(const struct vrb_facts *f, char *buf, size_t len)
{
    size_t used = 0;

    snprintf(buf, len, " none");
    for (int i = 0; i < f->num_pkeys && used + 10 < len; i++) {
        if ((f->pkeys[i] & ~VRB_PKEY_FULL) != 0) {
            used += (size_t)snprintf(buf + used, len - used, "%s 0x%04x", used > 0 ? "," : "",
                                     f->pkeys[i]);
        }
    }
}

static int take_pkey(const struct vrb_facts *f, uint16_t wanted, struct vrb_address *a,
                     uint16_t *index, char *why, size_t len)
{
    int i = vrb_choose_pkey(f->pkeys, f->num_pkeys, wanted);
    char list[80];

    *index = 0;
    a->pkey = VRB_PKEY_FULL | VRB_PKEY_DEFAULT;
    if (f->link == VRB_LINK_ROCE) {
        return VRB_OK; /* Ethernet has one partition, at index 0, and not every driver shows it */
    }
    if (i < 0) {
        list_pkeys(f, list, sizeof(list));
        if (wanted != 0) {
            snprintf(why, len,
                     "the port is not a member of partition 0x%04x, which the parameter pkey asks "
                     "for; its partition keys are:%s",
                     wanted, list);
        } else {
            snprintf(
                why, len,
                "the port is a member of no partition: the subnet manager must put it into one "
                "(opensm: partitions.conf)");
        }
        return VRB_ERR_ARG;
    }
    *index = (uint16_t)i;
    a->pkey = f->pkeys[i];
    for (i = 0; i < f->num_pkeys && a->num_pkeys < VRB_MAX_PKEYS; i++) {
        if ((f->pkeys[i] & ~VRB_PKEY_FULL) != 0) {
            a->pkeys[a->num_pkeys++] = f->pkeys[i];
        }
    }
    return VRB_OK;
}

int vrb_facts_address(struct vrb_facts *f, uint16_t pkey, struct vrb_address *a,
                      uint16_t *pkey_index, char *why, size_t len)
{
    memset(a, 0, sizeof(*a));
    if (f->why[0] != 0) {
        snprintf(why, len, "%s", f->why);
        return VRB_ERR_ARG;
    }
    a->link = f->link;
    a->mtu = f->active_mtu;
    a->lid = f->lid;
    a->lmc = f->lmc;
    a->grh_required = f->grh_required;
    a->speed_mbps = f->speed_mbps;
    a->num_gids = (uint8_t)vrb_query_best_gids(f->gids, f->num_gids, f->link, a->gids);
    return take_pkey(f, pkey, a, pkey_index, why, len);
}
