/* Which pair of addresses two ports use to talk, and which of their ports belong together.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure and symmetric: both ends compute the same pairs in the same order from the same two
 * published lists without asking each other. That is why ties are broken by the bytes of the GIDs
 * and never by local facts such as a table index. */
#ifndef VRB_CHOOSE_H
#define VRB_CHOOSE_H

#include "address/vrb_address.h"

/* What is known of the way between the two addresses of a path. */
enum vrb_near {
    VRB_NEAR_OTHER = 0,   /* different subnets, or subnet prefixes on InfiniBand */
    VRB_NEAR_UNKNOWN = 1, /* one end does not know its subnet mask */
    VRB_NEAR_SAME = 2,    /* one subnet */
};

/* The outcome: all that an address handle or an RC QP needs. */
struct vrb_path {
    uint8_t link;          /* enum vrb_link */
    uint8_t use_grh;       /* always 1 on RoCE */
    uint8_t mtu;           /* enum ibv_mtu: the smallest of both ends */
    uint8_t sl;            /* service level */
    uint8_t hop_limit;     /* GRH; 64 unless both ends share a link-local scope (1) */
    uint8_t tclass;        /* GRH traffic class */
    uint8_t src_path_bits; /* IB, LMC */
    uint8_t near;          /* enum vrb_near */
    uint8_t shared;        /* both hosts have these addresses: packets may never leave */
    uint8_t sgid_at;       /* positions of both GIDs in the two lists given */
    uint8_t dgid_at;
    uint16_t dlid;        /* IB */
    uint16_t sgid_index;  /* in the local table */
    uint16_t rank, pairs; /* this is the rank'th (0: the best) of so many pairs that are possible */
    uint32_t flow_label;  /* RoCE: 20 bits, never 0, the same for both directions */
    struct vrb_gid sgid;  /* local end; type valid on RoCE */
    struct vrb_gid dgid;  /* remote end */
};

/* Chooses a path from local to remote. Returns VRB_OK, or VRB_ERR_UNREACH with *why set to a
 * constant sentence ("one end is InfiniBand, the other RoCE", "both ends are limited members of
 * the partition", ...); address/vrb_reach.h has the long version for users.
 *
 * RoCE: two GIDs can talk if type, address family and scope (link-local or not) are the same; RoCE
 * v1 also needs one subnet. Among the pairs that can, in this order: an address that only one host
 * has before one that both have (a bridge, a virtual address), unless both ends are one port; v2
 * before v1; global before link-local; the same subnet by both ends' masks before unknown before
 * different; the same VLAN before unknown before different; both with a route through a gateway;
 * the longest common prefix; the smallest bytes (smaller GID of the pair first). 169.254.0.0/16
 * counts as link-local.
 *
 * InfiniBand: partition keys equal without the membership bit and at least one full member; GRH
 * when the subnet prefixes differ or either port requires one; of the LIDs that both ends have by
 * their LMC, one that differs from connection to connection. */
int vrb_choose(const struct vrb_address *local, const struct vrb_address *remote,
               struct vrb_path *path, const char **why);

/* Two processes on one port: it publishes the same for both. */
int vrb_choose_one_port(const struct vrb_address *a, const struct vrb_address *b);

/* The n-th best path (0: the one above), for when a better one cannot be used after all. InfiniBand
 * has a second one: with a GRH that nobody asked for. VRB_ERR_UNREACH beyond the last. */
int vrb_choose_nth(const struct vrb_address *local, const struct vrb_address *remote, int n,
                   struct vrb_path *path, const char **why);

/* Pairs ports of two processes one to one: map[i] = remote port for local port i, or -1.
 * `local_first` tells who of the two comes first in the order of process names, so that both ends
 * compute the same pairing. Ports that can talk are paired, those of one subnet first (as far as
 * masks tell, else the longest common prefix, at the most 24 bits of IPv4 or 64 of IPv6; IB: the
 * subnet prefix), then equal positions, then the nearest. Returns the number of pairs made; when it
 * is 0, *why tells the reason of the first pair refused. */
int vrb_choose_pairs(const struct vrb_address *local, int nlocal, const struct vrb_address *remote,
                     int nremote, int local_first, int map[VRB_MAX_RAILS], const char **why);

/* The index of the partition key to use in a port's table. wanted: its value, membership bit or
 * not; 0 = choose: full membership before limited, the default partition (0x7fff) before others,
 * then the lowest index. -1: there is none. */
int vrb_choose_pkey(const uint16_t *table, int n, uint16_t wanted);

#define VRB_PKEY_FULL 0x8000    /* membership bit (IBTA 10.9.1.1) */
#define VRB_PKEY_DEFAULT 0x7fff /* the partition that every port starts in */

#endif
