/* Chooses the pair of addresses for two ports, and pairs the ports of two processes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The check is permissive on purpose: no netmask, no routing table. Every static rule of that kind
 * has refused peers that could be reached; the handshake finds out, and has a time limit. */
#include "address/vrb_choose.h"

#include <string.h>

#include "util/vrb_status.h"

#define PKEY_FULL_MEMBER 0x8000
#define IB_SUBNET_PREFIX_LEN 8
#define HOP_LIMIT_ROUTED 64
#define HOP_LIMIT_LINK 1

/* Leading bits that hosts of one subnet share at the most: IPv4 /24 (behind the 96 bits of the
 * mapped prefix), IPv6 /64. What two addresses share beyond says nothing about the wire. */
#define SUBNET_BITS_IPV4 120
#define SUBNET_BITS_IPV6 64

/* 169.254.0.0/16 (RFC 3927) is as unroutable as fe80::/10. */
static int is_link_scope(const uint8_t *raw)
{
    return vrb_gid_is_link_local(raw) || (vrb_gid_is_ipv4(raw) && raw[12] == 169 && raw[13] == 254);
}

static int common_bits(const uint8_t *a, const uint8_t *b)
{
    int bits = 0;

    for (int i = 0; i < VRB_GID_LEN; i++) {
        uint8_t differ = a[i] ^ b[i];

        if (differ) {
            return bits + __builtin_clz(differ) - 24;
        }
        bits += 8;
    }
    return bits;
}

static int same_gid(const struct vrb_gid *a, const struct vrb_gid *b)
{
    return a->type == b->type && memcmp(a->raw, b->raw, VRB_GID_LEN) == 0;
}

static int has_gid(const struct vrb_address *a, const struct vrb_gid *gid)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (same_gid(&a->gids[i], gid)) {
            return 1;
        }
    }
    return 0;
}

/* Two processes on one port publish the same GIDs. */
static int same_port(const struct vrb_address *a, const struct vrb_address *b)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (!has_gid(b, &a->gids[i])) {
            return 0;
        }
    }
    for (int i = 0; i < b->num_gids; i++) {
        if (!has_gid(a, &b->gids[i])) {
            return 0;
        }
    }
    return 1;
}

/* A candidate pair of GIDs and what speaks for it, the weightiest first. Everything here is the
 * same when the two ends are swapped. */
struct pair {
    const struct vrb_gid *local, *remote;
    int unique; /* 0: the other host has this address too, so packets may never leave */
    int type;   /* RoCE v2 before v1 */
    int global; /* routable before link-local */
    int bits;   /* common prefix */
};

static int order_gids(const struct pair *a, const struct pair *b)
{
    const uint8_t *alow = a->local->raw, *ahigh = a->remote->raw;
    const uint8_t *blow = b->local->raw, *bhigh = b->remote->raw;

    if (memcmp(alow, ahigh, VRB_GID_LEN) > 0) {
        alow = a->remote->raw;
        ahigh = a->local->raw;
    }
    if (memcmp(blow, bhigh, VRB_GID_LEN) > 0) {
        blow = b->remote->raw;
        bhigh = b->local->raw;
    }
    int order = memcmp(alow, blow, VRB_GID_LEN);

    return order ? order : memcmp(ahigh, bhigh, VRB_GID_LEN);
}

/* True if a is the better pair. Two pairs that tie to the end hold the same two addresses
 * crosswise; then the pairs of each address with itself exist too, share all bits, and win over
 * both. */
static int is_better(const struct pair *a, const struct pair *b)
{
    if (a->unique != b->unique) {
        return a->unique;
    }
    if (a->type != b->type) {
        return a->type > b->type;
    }
    if (a->global != b->global) {
        return a->global;
    }
    if (a->bits != b->bits) {
        return a->bits > b->bits;
    }
    return order_gids(a, b) < 0;
}

/* Whether two GIDs can talk at all; *why says what is amiss. */
static int can_pair(const struct vrb_gid *l, const struct vrb_gid *r, const char **why)
{
    if (l->type != r->type || (l->type != VRB_GID_ROCE_V1 && l->type != VRB_GID_ROCE_V2) ||
        vrb_gid_is_ipv4(l->raw) != vrb_gid_is_ipv4(r->raw)) {
        return 0;
    }
    if (is_link_scope(l->raw) != is_link_scope(r->raw)) {
        *why = "the GIDs of one end are link-local only, those of the other are not";
        return 0;
    }
    return 1;
}

static int choose_roce(const struct vrb_address *local, const struct vrb_address *remote,
                       struct vrb_path *path, const char **why)
{
    struct pair best = {.local = NULL};
    int one_port = same_port(local, remote);

    *why = "no GID of the same type and address family";
    for (int i = 0; i < local->num_gids; i++) {
        for (int j = 0; j < remote->num_gids; j++) {
            const struct vrb_gid *l = &local->gids[i], *r = &remote->gids[j];

            if (!can_pair(l, r, why)) {
                continue;
            }
            struct pair p = {
                .local = l,
                .remote = r,
                .unique = one_port || (!has_gid(remote, l) && !has_gid(local, r)),
                .type = l->type,
                .global = !is_link_scope(l->raw),
                .bits = common_bits(l->raw, r->raw),
            };

            if (!best.local || is_better(&p, &best)) {
                best = p;
            }
        }
    }
    if (!best.local) {
        return VRB_ERR_UNREACH;
    }
    path->use_grh = 1;
    path->sgid = *best.local;
    path->dgid = *best.remote;
    path->sgid_index = best.local->index;
    path->hop_limit = best.global ? HOP_LIMIT_ROUTED : HOP_LIMIT_LINK;
    return VRB_OK;
}

static int check_pkeys(uint16_t a, uint16_t b, const char **why)
{
    if ((a & ~PKEY_FULL_MEMBER) != (b & ~PKEY_FULL_MEMBER)) {
        *why = "the ends use different partitions (P_Key)";
        return VRB_ERR_UNREACH;
    }
    if (!((a | b) & PKEY_FULL_MEMBER)) {
        *why = "both ends are limited members of the partition";
        return VRB_ERR_UNREACH;
    }
    return VRB_OK;
}

static int choose_ib(const struct vrb_address *local, const struct vrb_address *remote,
                     struct vrb_path *path, const char **why)
{
    int gids = local->num_gids > 0 && remote->num_gids > 0;
    const uint8_t *l = local->gids[0].raw, *r = remote->gids[0].raw;
    int other_subnet = gids && memcmp(l, r, IB_SUBNET_PREFIX_LEN) != 0;

    if (check_pkeys(local->pkey, remote->pkey, why) < 0) {
        return VRB_ERR_UNREACH;
    }
    path->use_grh = other_subnet || local->grh_required || remote->grh_required;
    if (path->use_grh && !gids) {
        *why = "a global route header is required, and one end has no GID";
        return VRB_ERR_UNREACH;
    }
    if (gids) {
        path->sgid = local->gids[0];
        path->dgid = remote->gids[0];
        path->sgid_index = local->gids[0].index;
    }
    path->hop_limit =
        gids && is_link_scope(l) && is_link_scope(r) ? HOP_LIMIT_LINK : HOP_LIMIT_ROUTED;
    /* An RC QP checks that packets come from the very LID that it sends to, so both ends must agree
     * on the path bits; the base LID (bits 0) is what both know. */
    path->dlid = remote->lid;
    path->src_path_bits = 0;
    return VRB_OK;
}

int vrb_choose(const struct vrb_address *local, const struct vrb_address *remote,
               struct vrb_path *path, const char **why)
{
    memset(path, 0, sizeof(*path));
    if (local->link != remote->link) {
        *why = "one end is InfiniBand, the other RoCE";
        return VRB_ERR_UNREACH;
    }
    path->link = local->link;
    path->mtu = local->mtu < remote->mtu ? local->mtu : remote->mtu;
    return local->link == VRB_LINK_IB ? choose_ib(local, remote, path, why)
                                      : choose_roce(local, remote, path, why);
}

/* What speaks for pairing two ports: the scope of the chosen GIDs and the subnet that they share.
 * 0 = they cannot talk. Symmetric. */
static int rate_ports(const struct vrb_address *a, const struct vrb_address *b, const char **why)
{
    struct vrb_path path;

    if (vrb_choose(a, b, &path, why) < 0) {
        return 0;
    }
    if (path.link == VRB_LINK_IB) {
        return memcmp(path.sgid.raw, path.dgid.raw, IB_SUBNET_PREFIX_LEN) == 0 ? 2 : 1;
    }
    int bits = common_bits(path.sgid.raw, path.dgid.raw);
    int most = vrb_gid_is_ipv4(path.sgid.raw) ? SUBNET_BITS_IPV4 : SUBNET_BITS_IPV6;
    int global = !is_link_scope(path.sgid.raw);

    return 1 + global * (VRB_GID_LEN * 8 + 1) + (bits < most ? bits : most);
}

static int distance(int a, int b)
{
    return a > b ? a - b : b - a;
}

/* Takes the best of the pairs that are left, again and again. rate: [first][second]. */
static int pair_up(int rate[VRB_MAX_RAILS][VRB_MAX_RAILS], int nfirst, int nsecond,
                   int to_second[VRB_MAX_RAILS])
{
    int taken[VRB_MAX_RAILS] = {0};
    int pairs = 0;

    for (int i = 0; i < nfirst; i++) {
        to_second[i] = -1;
    }
    for (;;) {
        int bi = -1, bj = -1;

        for (int i = 0; i < nfirst; i++) {
            for (int j = 0; j < nsecond; j++) {
                if (to_second[i] >= 0 || taken[j] || rate[i][j] == 0) {
                    continue;
                }
                if (bi < 0 || rate[i][j] > rate[bi][bj] ||
                    (rate[i][j] == rate[bi][bj] && distance(i, j) < distance(bi, bj))) {
                    bi = i;
                    bj = j;
                }
            }
        }
        if (bi < 0) {
            return pairs;
        }
        to_second[bi] = bj;
        taken[bj] = 1;
        pairs++;
    }
}

int vrb_choose_pairs(const struct vrb_address *local, int nlocal, const struct vrb_address *remote,
                     int nremote, int local_first, int map[VRB_MAX_RAILS], const char **why)
{
    const struct vrb_address *first = local_first ? local : remote;
    const struct vrb_address *second = local_first ? remote : local;
    int nfirst = local_first ? nlocal : nremote, nsecond = local_first ? nremote : nlocal;
    int rate[VRB_MAX_RAILS][VRB_MAX_RAILS], to_second[VRB_MAX_RAILS];
    const char *ignored;

    *why = "one end has no usable port";
    for (int i = 0; i < nfirst; i++) {
        for (int j = 0; j < nsecond; j++) {
            rate[i][j] = rate_ports(&first[i], &second[j], i + j == 0 ? why : &ignored);
        }
    }
    int pairs = pair_up(rate, nfirst, nsecond, to_second);

    for (int i = 0; i < VRB_MAX_RAILS; i++) {
        map[i] = -1;
    }
    for (int i = 0; i < nfirst; i++) {
        if (to_second[i] < 0) {
            continue;
        }
        if (local_first) {
            map[i] = to_second[i];
        } else {
            map[to_second[i]] = i;
        }
    }
    return pairs;
}

int vrb_choose_pkey(const uint16_t *table, int n)
{
    int limited = -1;

    for (int i = 0; i < n; i++) {
        if ((table[i] & ~PKEY_FULL_MEMBER) == 0) {
            continue; /* an empty slot (IBTA 10.9.1.1) */
        }
        if (table[i] & PKEY_FULL_MEMBER) {
            return i;
        }
        if (limited < 0) {
            limited = i;
        }
    }
    return limited;
}
