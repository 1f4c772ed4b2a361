/* Which pair of addresses two ports use to talk, and which of their ports belong together.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure and symmetric: both ends compute the same pair from the same two published lists without
 * asking each other. That is why ties are broken by the bytes of the GIDs and never by local facts
 * such as a table index. */
#ifndef VRB_CHOOSE_H
#define VRB_CHOOSE_H

#include "address/vrb_address.h"

/* The outcome: all that an address handle or an RC QP needs. */
struct vrb_path {
    uint8_t link;          /* enum vrb_link */
    uint8_t use_grh;       /* always 1 on RoCE */
    uint8_t mtu;           /* enum ibv_mtu: the smaller of both ends */
    uint8_t sl;            /* service level */
    uint8_t hop_limit;     /* GRH; 64 unless both ends share a link-local scope (1) */
    uint8_t tclass;        /* GRH traffic class */
    uint8_t src_path_bits; /* IB, LMC */
    uint16_t dlid;         /* IB */
    uint16_t sgid_index;   /* in the local table */
    struct vrb_gid sgid;   /* local end; type valid on RoCE */
    struct vrb_gid dgid;   /* remote end */
};

/* Chooses a path from local to remote. Returns VRB_OK, or VRB_ERR_UNREACH with *why set to a
 * constant sentence ("one end is InfiniBand, the other RoCE", "both ends are limited members of
 * the partition", "no GID of the same type and address family", ...).
 *
 * RoCE order of preference: v2 before v1; same address family and same scope only;
 * global (IPv4-mapped or global IPv6) before link-local; among global ones a pair with the longest
 * common prefix (same subnet before routed), then the smallest bytes (smaller GID of the pair
 * first). An address that both hosts have (a bridge, a virtual address) comes last, whatever its
 * kind, unless both ends are one port. 169.254.0.0/16 counts as link-local. InfiniBand: partition
 * keys equal without the membership bit and at least one full member; GRH when the subnet prefixes
 * (first 8 bytes of GID 0) differ or either port requires one. */
int vrb_choose(const struct vrb_address *local, const struct vrb_address *remote,
               struct vrb_path *path, const char **why);

/* Pairs ports of two processes one to one: map[i] = remote port for local port i, or -1.
 * `local_first` tells who of the two comes first in the order of process names, so that both ends
 * compute the same pairing. Ports of one subnet are preferred (as far as their GIDs tell: the
 * longest common prefix, at the most 24 bits of IPv4 or 64 of IPv6; IB: the subnet prefix), then
 * equal positions, then the nearest. Returns the number of pairs made; when it is 0, *why tells the
 * reason of the first pair refused. */
int vrb_choose_pairs(const struct vrb_address *local, int nlocal, const struct vrb_address *remote,
                     int nremote, int local_first, int map[VRB_MAX_RAILS], const char **why);

/* The index of the partition key to use in a port's table: the first full membership, else the
 * first limited one, else -1. */
int vrb_choose_pkey(const uint16_t *table, int n);

#endif
