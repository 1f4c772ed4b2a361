/* All that can be known of a port before it is used: for choosing, and for telling the user.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_FACTS_H
#define VRB_FACTS_H

#include <infiniband/verbs.h>

#include "device/vrb_query.h"
#include "vrb.h"

/* Tables of hardware have up to 128 entries. */
#define VRB_FACTS_PKEYS 128

struct vrb_facts {
    char dev[VRB_DEV_NAME_MAX];
    char fw[64];
    uint32_t vendor_id, part_id;
    int transport; /* enum ibv_transport_type */
    int numa;      /* -1 = none or unknown */
    int atomics;   /* 64-bit atomics */
    int max_srq, max_qp, max_qp_wr, max_rd_atomic;
    uint8_t port;
    uint8_t link;                /* enum vrb_link; 0 = neither */
    uint8_t state;               /* enum ibv_port_state */
    uint8_t active_mtu, max_mtu; /* enum ibv_mtu */
    uint8_t lmc;
    uint8_t grh_required; /* InfiniBand: on every packet */
    unsigned active_speed, active_width;
    uint32_t speed_mbps;  /* 0 = unknown */
    uint16_t lid, sm_lid; /* InfiniBand */
    uint64_t max_msg_sz;
    int table_len;              /* of the GID table, empty slots included */
    struct vrb_gid_entry *gids; /* entries that are there */
    int num_gids;
    uint16_t pkeys[VRB_FACTS_PKEYS]; /* by index; 0 = empty */
    int num_pkeys;
    char why[192]; /* why the port is not usable, "" if it is */
};

/* Reads a port of an opened device; net: see vrb_query.h. The caller frees with vrb_facts_free().
 */
void vrb_facts_read(struct vrb_facts *f, struct ibv_context *ctx, const struct ibv_device_attr *dev,
                    uint8_t port, const struct vrb_net *net);
void vrb_facts_free(struct vrb_facts *f);

/* What the port publishes, but for what its queue pair adds (number, Q_Key, nonce, sizes). pkey:
 * the partition asked for, 0 = choose. *pkey_index tells where in the table. VRB_OK, or VRB_ERR_ARG
 * with the reason in words in why[len]. The entries of f->gids learn whether they are published. */
int vrb_facts_address(struct vrb_facts *f, uint16_t pkey, struct vrb_address *a,
                      uint16_t *pkey_index, char *why, size_t len);

/* "PORT_ACTIVE" and the like without the prefix, in small letters. */
const char *vrb_facts_state_text(uint8_t state);

/* "iWARP", "usNIC", ...: the name of a transport that is not served; NULL for those that are. */
const char *vrb_facts_foreign(int transport);

#endif
