/* What the core asks of a device and its ports, kept apart so that old libraries are met in one
 * place. SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_QUERY_H
#define VRB_QUERY_H

#include <infiniband/verbs.h>

#include "address/vrb_address.h"
#include "device/vrb_net.h"

/* ibv_global_route.sgid_index has 8 bits; tables of some adapters are longer. */
#define VRB_GID_INDEX_MAX 255

/* One entry of a GID table. */
struct vrb_gid_entry {
    struct vrb_gid gid;
    unsigned ifindex;            /* of its network device, 0 = unknown */
    char ndev[VRB_NET_NAME_MAX]; /* its name, "" = unknown */
    const char *unused;          /* why it is not published, NULL if it is */
};

/* Reads the GID table of a port, in one call where the library has it: the entries that are there,
 * in the order of their indices. Empty slots, unreadable entries and shifted indices are normal.
 * net: what is known of network devices; NULL = nothing. Returns how many; *entries is malloc'ed,
 * NULL when there are none. */
int vrb_query_gid_table(struct ibv_context *ctx, uint8_t port, uint8_t link, int table_len,
                        const struct vrb_net *net, struct vrb_gid_entry **entries);

/* The entries worth publishing, the best first (as vrb_choose prefers them); the others learn why
 * not. Returns their number. */
int vrb_query_best_gids(struct vrb_gid_entry *entries, int n, uint8_t link,
                        struct vrb_gid gids[VRB_MAX_GIDS]);

/* Both of the above. */
int vrb_query_gids(struct ibv_context *ctx, uint8_t port, uint8_t link, int table_len,
                   const struct vrb_net *net, struct vrb_gid gids[VRB_MAX_GIDS]);

/* Reads the partition table: index i of the port is keys[i]; unreadable entries are 0 like empty
 * ones. Returns its length, at most `room`. */
int vrb_query_pkeys(struct ibv_context *ctx, uint8_t port, int table_len, uint16_t *keys, int room);

/* Speed times width in Mbit/s. Codes that nobody knows yet are estimated: each bit of the speed
 * doubles it. 0 when nothing is told at all. */
uint32_t vrb_query_speed(unsigned active_speed, unsigned active_width);

/* "4X EDR"; unknown codes are shown as numbers. Returns buf. */
const char *vrb_query_speed_text(unsigned active_speed, unsigned active_width, char *buf,
                                 size_t len);

/* NUMA node of a device; -1 = unknown or none (a device without PCI has none). */
int vrb_query_numa(struct ibv_context *ctx);

/* True for the kernel's soft-RoCE, which can say of an RDMA read that it succeeded when only the
 * first packets have come: an acknowledgement of an earlier request that the network delivers
 * between two packets of the read's response makes it lose its place, give the read's completion
 * with the status that the request had so far, and put the queue pair into error (Linux 7.2,
 * drivers/infiniband/sw/rxe/rxe_comp.c: check_psn and check_ack; tests/kernel/rxe_read.c shows it).
 * What was posted behind such a read never succeeds. */
int vrb_query_doubts_reads(const struct ibv_device_attr *dev);

/* The traffic class that the driver's administrator set for a port (the `Global tclass` of the
 * vendor's driver); -1 = not set. */
int vrb_query_tclass(const char *dev, uint8_t port);

#endif
