/* Chooses the pair of addresses for two ports, and pairs the ports of two processes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The check is permissive on purpose: masks and routes decide what is tried first, not what is
 * possible. Every static rule of that kind has refused peers that could be reached; the handshake
 * finds out, and has a time limit. */
#include "address/vrb_choose.h"

#include <string.h>

#include "util/vrb_status.h"

#define IB_SUBNET_PREFIX_LEN 8
#define HOP_LIMIT_ROUTED 64
#define HOP_LIMIT_LINK 1

#define FLOW_LABEL_MASK 0xfffff

/* Leading bits that hosts of one subnet share at the most: IPv4 /24 (behind the 96 bits of the
 * mapped prefix), IPv6 /64. What two addresses share beyond says nothing about the wire. */
#define SUBNET_BITS_IPV4 120
#define SUBNET_BITS_IPV6 64

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

static int has_gid(const struct vrb_address *a, const struct vrb_gid *gid)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (a->gids[i].type == gid->type && memcmp(a->gids[i].raw, gid->raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return 0;
}

int vrb_choose_one_port(const struct vrb_address *a, const struct vrb_address *b)
{
    if (a->link != b->link || a->lid != b->lid) {
        return 0;
    }
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

/* Mixes both ends' nonces, the same for either order. */
static uint64_t both_nonces(const struct vrb_address *a, const struct vrb_address *b)
{
    uint64_t x = a->nonce + b->nonce;

    x ^= x >> 30; /* the finalizer of splitmix64 */
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- RoCE ---- */

/* Both masks must say so. A mask of all bits (a host route, as container networks use) and an
 * unknown one say nothing. */
static uint8_t nearness(const struct vrb_gid *a, const struct vrb_gid *b, int bits)
{
    const int all = VRB_GID_LEN * 8;

    if (vrb_gid_is_link_scope(a->raw) || bits == all) {
        return VRB_NEAR_SAME;
    }
    if (a->plen == 0 || b->plen == 0 || a->plen >= all || b->plen >= all) {
        return VRB_NEAR_UNKNOWN;
    }
    return bits >= a->plen && bits >= b->plen ? VRB_NEAR_SAME : VRB_NEAR_OTHER;
}

/* A candidate pair of GIDs and what speaks for it, the weightiest first. Everything here is the
 * same when the two ends are swapped. */
struct pair {
    const struct vrb_gid *local, *remote;
    uint8_t unique; /* 0: the other host has this address too, so packets may never leave */
    uint8_t type;   /* RoCE v2 before v1 */
    uint8_t global; /* routable before link-local */
    uint8_t near;   /* enum vrb_near */
    uint8_t vlan;   /* 2 the same, 1 unknown, 0 different: an access port may hide a tag */
    uint8_t routed; /* both can leave their subnet */
    int bits;       /* common prefix */
};

static void order_pair(const struct pair *p, const uint8_t **low, const uint8_t **high)
{
    *low = p->local->raw;
    *high = p->remote->raw;
    if (memcmp(*low, *high, VRB_GID_LEN) > 0) {
        *low = p->remote->raw;
        *high = p->local->raw;
    }
}

static int order_gids(const struct pair *a, const struct pair *b)
{
    const uint8_t *alow, *ahigh, *blow, *bhigh;
    int order;

    order_pair(a, &alow, &ahigh);
    order_pair(b, &blow, &bhigh);
    order = memcmp(alow, blow, VRB_GID_LEN);
    return order ? order : memcmp(ahigh, bhigh, VRB_GID_LEN);
}

/* Below zero if a is the better pair. Two different pairs that tie to the end hold the same two
 * addresses crosswise, and are told apart by who published them: local_low says that the local end
 * is the one that counts. */
static int compare(const struct pair *a, const struct pair *b, int local_low)
{
    int order;

    if (a->unique != b->unique) {
        return b->unique - a->unique;
    }
    if (a->type != b->type) {
        return b->type - a->type;
    }
    if (a->global != b->global) {
        return b->global - a->global;
    }
    if (a->near != b->near) {
        return b->near - a->near;
    }
    if (a->vlan != b->vlan) {
        return b->vlan - a->vlan;
    }
    if (a->routed != b->routed) {
        return b->routed - a->routed;
    }
    if (a->bits != b->bits) {
        return b->bits - a->bits;
    }
    order = order_gids(a, b);
    if (order == 0) {
        order = local_low ? memcmp(a->local->raw, b->local->raw, VRB_GID_LEN)
                          : memcmp(a->remote->raw, b->remote->raw, VRB_GID_LEN);
    }
    return order;
}

/* Reasons against a pair, the later the closer to a match: the closest miss is what users hear. */
static const char *const misses[] = {
    "the ends have no address of the same kind",
    "the only addresses of one end are those of its loopback interface, which nobody else reaches",
    "the ends have no address of the same RoCE version: one has v1 only, the other v2 only",
    "the ends have no address of the same family: one has IPv4, the other IPv6",
    "the GIDs of one end are link-local only, those of the other are not",
    "only RoCE v1 fits, which is not routed, and the ends are in different subnets",
};
enum miss {
    MISS_NONE = -1,
    MISS_KIND,
    MISS_LOOPBACK,
    MISS_VERSION,
    MISS_FAMILY,
    MISS_SCOPE,
    MISS_V1_ROUTED
};

static enum miss can_pair(const struct vrb_gid *l, const struct vrb_gid *r, uint8_t near)
{
    int roce = l->type == VRB_GID_ROCE_V1 || l->type == VRB_GID_ROCE_V2;

    if (!roce) {
        return MISS_KIND;
    }
    if ((vrb_gid_is_loopback(l->raw) || vrb_gid_is_loopback(r->raw)) &&
        memcmp(l->raw, r->raw, VRB_GID_LEN) != 0) {
        return MISS_LOOPBACK;
    }
    if (l->type != r->type) {
        return MISS_VERSION;
    }
    if (vrb_gid_is_ipv4(l->raw) != vrb_gid_is_ipv4(r->raw)) {
        return MISS_FAMILY;
    }
    if (vrb_gid_is_link_scope(l->raw) != vrb_gid_is_link_scope(r->raw)) {
        return MISS_SCOPE;
    }
    return l->type == VRB_GID_ROCE_V1 && near == VRB_NEAR_OTHER ? MISS_V1_ROUTED : MISS_NONE;
}

static uint8_t vlan_fit(uint16_t a, uint16_t b)
{
    return a == 0 || b == 0 ? 1 : a == b ? 2 : 0;
}

struct search {
    const struct vrb_address *local, *remote;
    int one_port, local_low;
    int possible; /* pairs, all */
    enum miss miss;
};

static struct pair make_pair(const struct search *s, const struct vrb_gid *l,
                             const struct vrb_gid *r)
{
    struct pair p = {
        .local = l,
        .remote = r,
        .type = l->type,
        .global = !vrb_gid_is_link_scope(l->raw),
        .vlan = vlan_fit(l->vlan, r->vlan),
        .routed = l->flags & r->flags & VRB_GID_ROUTED,
        .bits = common_bits(l->raw, r->raw),
    };

    p.near = nearness(l, r, p.bits);
    p.unique = s->one_port || (!has_gid(s->remote, l) && !has_gid(s->local, r));
    return p;
}

/* The best pair that is worse than `beyond` (NULL: the best of all). */
static int find_pair(struct search *s, const struct pair *beyond, struct pair *best)
{
    best->local = NULL;
    s->possible = 0;
    for (int i = 0; i < s->local->num_gids; i++) {
        for (int j = 0; j < s->remote->num_gids; j++) {
            struct pair p = make_pair(s, &s->local->gids[i], &s->remote->gids[j]);
            enum miss miss = can_pair(p.local, p.remote, p.near);

            if (miss != MISS_NONE) {
                s->miss = miss > s->miss ? miss : s->miss;
                continue;
            }
            s->possible++;
            if ((beyond == NULL || compare(&p, beyond, s->local_low) > 0) &&
                (best->local == NULL || compare(&p, best, s->local_low) < 0)) {
                *best = p;
            }
        }
    }
    return best->local != NULL;
}

static uint8_t least_mtu(uint8_t a, uint8_t b)
{
    return b != 0 && b < a ? b : a;
}

static int choose_roce(const struct vrb_address *local, const struct vrb_address *remote, int n,
                       struct vrb_path *path, const char **why)
{
    struct search s = {.local = local,
                       .remote = remote,
                       .one_port = vrb_choose_one_port(local, remote),
                       .local_low = local->nonce < remote->nonce,
                       .miss = MISS_KIND};
    struct pair best = {.local = NULL}, before;

    for (int i = 0; i <= n; i++) {
        before = best;
        if (!find_pair(&s, i == 0 ? NULL : &before, &best)) {
            *why = s.possible > 0 ? "all pairs of addresses were tried" : misses[s.miss];
            return VRB_ERR_UNREACH;
        }
    }
    path->use_grh = 1;
    path->sgid = *best.local;
    path->dgid = *best.remote;
    path->sgid_at = (uint8_t)(best.local - local->gids);
    path->dgid_at = (uint8_t)(best.remote - remote->gids);
    path->sgid_index = best.local->index;
    path->hop_limit = best.global ? HOP_LIMIT_ROUTED : HOP_LIMIT_LINK;
    path->near = best.near;
    path->shared = !best.unique;
    path->rank = (uint16_t)n;
    path->pairs = (uint16_t)s.possible;
    path->mtu = least_mtu(least_mtu(path->mtu, best.local->mtu), best.remote->mtu);
    path->flow_label = (uint32_t)(both_nonces(local, remote) & FLOW_LABEL_MASK);
    if (path->flow_label == 0) {
        path->flow_label = 1; /* 0 means that the sender does not tell its flows apart */
    }
    return VRB_OK;
}

/* ---- InfiniBand ---- */

static int check_pkeys(uint16_t a, uint16_t b, const char **why)
{
    if ((a & ~VRB_PKEY_FULL) != (b & ~VRB_PKEY_FULL)) {
        *why = "the ends use different partitions (P_Key)";
        return VRB_ERR_UNREACH;
    }
    if (!((a | b) & VRB_PKEY_FULL)) {
        *why = "both ends are limited members of the partition";
        return VRB_ERR_UNREACH;
    }
    return VRB_OK;
}

/* The GIDs of one subnet, else the first of each. Positions in the list are known to both. */
static int ib_gids(const struct vrb_address *local, const struct vrb_address *remote,
                   struct vrb_path *path)
{
    int local_low = local->nonce < remote->nonce;
    int found = 0, best = 0, bi = 0, bj = 0;

    for (int i = 0; i < local->num_gids; i++) {
        for (int j = 0; j < remote->num_gids; j++) {
            int same = memcmp(local->gids[i].raw, remote->gids[j].raw, IB_SUBNET_PREFIX_LEN) == 0;
            int rate = same * 1000 - (i + j) * 2 - ((local_low ? i > j : j > i) ? 1 : 0);

            if (!found || rate > best) {
                found = 1;
                best = rate;
                bi = i;
                bj = j;
            }
        }
    }
    if (!found) {
        return 0;
    }
    path->sgid = local->gids[bi];
    path->dgid = remote->gids[bj];
    path->sgid_at = (uint8_t)bi;
    path->dgid_at = (uint8_t)bj;
    path->sgid_index = path->sgid.index;
    return 1;
}

/* An RC QP checks that packets come from the very LID that it sends to, so both ends must agree on
 * the path bits: they take the same ones, which both have and know. */
static uint8_t path_bits(const struct vrb_address *local, const struct vrb_address *remote)
{
    uint8_t lmc = local->lmc < remote->lmc ? local->lmc : remote->lmc;
    uint8_t mask = (uint8_t)((1u << lmc) - 1);

    if ((local->lid & mask) != 0 || (remote->lid & mask) != 0) {
        return 0; /* not a base LID: bits would be added at one end and or'ed at the other */
    }
    return (uint8_t)(both_nonces(local, remote) & mask);
}

static int choose_ib(const struct vrb_address *local, const struct vrb_address *remote, int n,
                     struct vrb_path *path, const char **why)
{
    int gids, other_subnet, needs_grh;

    if (check_pkeys(local->pkey, remote->pkey, why) < 0) {
        return VRB_ERR_UNREACH;
    }
    gids = ib_gids(local, remote, path);
    other_subnet = gids && memcmp(path->sgid.raw, path->dgid.raw, IB_SUBNET_PREFIX_LEN) != 0;
    needs_grh = other_subnet || local->grh_required || remote->grh_required;
    if (needs_grh && !gids) {
        *why = "a global route header is required, and one end has no GID";
        return VRB_ERR_UNREACH;
    }
    path->pairs = gids && !needs_grh ? 2 : 1;
    if (n >= path->pairs) {
        *why = "all pairs of addresses were tried";
        return VRB_ERR_UNREACH;
    }
    path->rank = (uint16_t)n;
    path->use_grh = (uint8_t)(needs_grh || n > 0);
    path->near = !gids ? VRB_NEAR_UNKNOWN : other_subnet ? VRB_NEAR_OTHER : VRB_NEAR_SAME;
    path->hop_limit =
        gids && vrb_gid_is_link_scope(path->sgid.raw) && vrb_gid_is_link_scope(path->dgid.raw)
            ? HOP_LIMIT_LINK
            : HOP_LIMIT_ROUTED;
    path->src_path_bits = path_bits(local, remote);
    path->dlid = (uint16_t)(remote->lid + path->src_path_bits);
    return VRB_OK;
}

int vrb_choose_nth(const struct vrb_address *local, const struct vrb_address *remote, int n,
                   struct vrb_path *path, const char **why)
{
    memset(path, 0, sizeof(*path));
    if (local->link != remote->link) {
        *why = "one end is InfiniBand, the other RoCE";
        return VRB_ERR_UNREACH;
    }
    path->link = local->link;
    path->mtu = local->mtu < remote->mtu ? local->mtu : remote->mtu;
    return local->link == VRB_LINK_IB ? choose_ib(local, remote, n, path, why)
                                      : choose_roce(local, remote, n, path, why);
}

int vrb_choose(const struct vrb_address *local, const struct vrb_address *remote,
               struct vrb_path *path, const char **why)
{
    return vrb_choose_nth(local, remote, 0, path, why);
}

/* ---- ports ---- */

/* What speaks for pairing two ports: the scope of the chosen GIDs and the subnet that they share.
 * 0 = they cannot talk. Symmetric. */
static int rate_ports(const struct vrb_address *a, const struct vrb_address *b, const char **why)
{
    const int global_weight = VRB_GID_LEN * 8 + 1;
    struct vrb_path path;

    if (vrb_choose(a, b, &path, why) < 0) {
        return 0;
    }
    if (path.link == VRB_LINK_IB) {
        return path.near == VRB_NEAR_SAME ? 2 : 1;
    }
    int bits = common_bits(path.sgid.raw, path.dgid.raw);
    int most = vrb_gid_is_ipv4(path.sgid.raw) ? SUBNET_BITS_IPV4 : SUBNET_BITS_IPV6;
    int global = !vrb_gid_is_link_scope(path.sgid.raw);

    if (global && path.near == VRB_NEAR_SAME) {
        bits = most;
    } else if (path.near == VRB_NEAR_OTHER) {
        most--;
    }
    return 1 + !path.shared * 2 * global_weight + global * global_weight +
           (bits < most ? bits : most);
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

int vrb_choose_pkey(const uint16_t *table, int n, uint16_t wanted)
{
    int best = -1, best_rate = 0;

    for (int i = 0; i < n; i++) {
        uint16_t key = table[i] & (uint16_t)~VRB_PKEY_FULL;
        int rate = 1 + (table[i] & VRB_PKEY_FULL ? 2 : 0) + (key == VRB_PKEY_DEFAULT ? 1 : 0);

        if (key == 0 || (wanted != 0 && key != (wanted & ~VRB_PKEY_FULL))) {
            continue; /* an empty slot (IBTA 10.9.1.1), or another partition */
        }
        if (rate > best_rate) {
            best = i;
            best_rate = rate;
        }
    }
    return best;
}
