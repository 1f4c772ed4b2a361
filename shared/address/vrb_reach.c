/* The wording of choices of addresses (see vrb_reach.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "address/vrb_reach.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "util/vrb_text.h"

#define IPV4_MAPPED_BITS 96

static int is_v4(const struct vrb_gid *g)
{
    return vrb_gid_is_ipv4(g->raw);
}

static int shown_bits(const struct vrb_gid *g)
{
    return is_v4(g) && g->plen >= IPV4_MAPPED_BITS ? g->plen - IPV4_MAPPED_BITS : g->plen;
}

const char *vrb_reach_ip(const struct vrb_gid *gid, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};
    char ip[INET6_ADDRSTRLEN] = "?";

    if (is_v4(gid)) {
        inet_ntop(AF_INET, gid->raw + 12, ip, sizeof(ip));
    } else {
        inet_ntop(AF_INET6, gid->raw, ip, sizeof(ip));
    }
    vrb_text_put(&t, "%s", ip);
    if (gid->plen > 0) {
        vrb_text_put(&t, "/%d", shown_bits(gid));
    }
    return buf;
}

static void put_roce_why(struct vrb_text *t, const struct vrb_path *p)
{
    if (vrb_gid_is_link_scope(p->sgid.raw)) {
        vrb_text_put(t, "link-local addresses: no better pair");
    } else if (p->near == VRB_NEAR_SAME && p->sgid.plen > 0) {
        vrb_text_put(t, "same subnet (/%d)", shown_bits(&p->sgid));
    } else if (p->near == VRB_NEAR_SAME) {
        vrb_text_put(t, "the same address");
    } else if (p->near == VRB_NEAR_OTHER) {
        vrb_text_put(t, "routed: different subnets%s",
                     p->sgid.flags & p->dgid.flags & VRB_GID_ROUTED ? ", each with a gateway" : "");
    } else {
        vrb_text_put(t, "subnet masks unknown");
    }
    if (p->sgid.vlan != 0 && p->sgid.vlan != VRB_VLAN_UNTAGGED) {
        vrb_text_put(t, ", VLAN %u", p->sgid.vlan);
    }
    if (p->sgid.type == VRB_GID_ROCE_V1) {
        vrb_text_put(t, ", RoCE v1: no pair of v2");
    }
    if (p->shared) {
        vrb_text_put(t, ", although both hosts have this address");
    }
}

static void put_ib_why(struct vrb_text *t, const struct vrb_path *p)
{
    vrb_text_put(t, p->near == VRB_NEAR_OTHER  ? "other InfiniBand subnet"
                    : p->near == VRB_NEAR_SAME ? "same InfiniBand subnet"
                                               : "InfiniBand subnet unknown");
    if (p->use_grh) {
        vrb_text_put(t, p->near == VRB_NEAR_OTHER ? ", by GRH through a router that takes FLIDs"
                                                  : ", with the GRH that a port asks for");
    }
    if (p->src_path_bits > 0) {
        vrb_text_put(t, ", path bits %u", p->src_path_bits);
    }
}

const char *vrb_reach_why(const struct vrb_path *path, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};

    if (path->link == VRB_LINK_IB) {
        put_ib_why(&t, path);
        return buf;
    }
    put_roce_why(&t, path);
    if (path->pairs <= 1) {
        vrb_text_put(&t, ", the only pair");
    } else if (path->rank == 0) {
        vrb_text_put(&t, ", the best of %u pairs", path->pairs);
    } else {
        vrb_text_put(&t, ", number %u of %u pairs: better ones do not work", path->rank + 1,
                     path->pairs);
    }
    return buf;
}

/* ---- no way ---- */

static const char *type_name(uint8_t type)
{
    return type == VRB_GID_ROCE_V1 ? "RoCE v1" : type == VRB_GID_ROCE_V2 ? "RoCE v2" : "IB";
}

static void put_roce_addresses(struct vrb_text *t, const struct vrb_address *a)
{
    static const uint8_t types[] = {VRB_GID_ROCE_V2, VRB_GID_ROCE_V1};
    const char *between = "";
    char ip[INET6_ADDRSTRLEN + 8];

    for (size_t k = 0; k < sizeof(types); k++) {
        int n = 0;

        for (int i = 0; i < a->num_gids; i++) {
            if (a->gids[i].type == types[k]) {
                vrb_text_put(t, "%s%s", n++ == 0 ? between : ", ",
                             vrb_reach_ip(&a->gids[i], ip, sizeof(ip)));
            }
        }
        if (n > 0) {
            vrb_text_put(t, " (%s)", type_name(types[k]));
            between = "; ";
        }
    }
}

const char *vrb_reach_addresses(const struct vrb_address *a, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};

    if (len > 0) {
        buf[0] = '\0';
    }
    if (a->link != VRB_LINK_IB) {
        put_roce_addresses(&t, a);
        return buf;
    }
    vrb_text_put(&t, "LID %u (0x%x), partition 0x%04x%s", a->lid, a->lid, a->pkey,
                 a->pkey & VRB_PKEY_FULL ? "" : " (limited member)");
    for (int i = 0, n = 0; i < a->num_pkeys; i++) {
        if (a->pkeys[i] != a->pkey) {
            vrb_text_put(&t, "%s0x%04x", n++ == 0 ? ", also in " : ", ", a->pkeys[i]);
        }
    }
    return buf;
}

/* A partition in which the two could talk; 0: there is none. */
static uint16_t common_pkey(const struct vrb_address *a, const struct vrb_address *b)
{
    for (int i = 0; i < a->num_pkeys; i++) {
        for (int j = 0; j < b->num_pkeys; j++) {
            if (((a->pkeys[i] ^ b->pkeys[j]) & ~VRB_PKEY_FULL) == 0 &&
                ((a->pkeys[i] | b->pkeys[j]) & VRB_PKEY_FULL)) {
                return (uint16_t)(a->pkeys[i] | VRB_PKEY_FULL);
            }
        }
    }
    return 0;
}

static void put_ib_advice(struct vrb_text *t, const struct vrb_address *a,
                          const struct vrb_address *b)
{
    uint16_t key = common_pkey(a, b);

    if (((a->pkey ^ b->pkey) & ~VRB_PKEY_FULL) == 0 && ((a->pkey | b->pkey) & VRB_PKEY_FULL)) {
        vrb_text_block(t, "next:",
                       "a packet to another subnet, or to a port that asks for it, needs GIDs: see "
                       "ibv_devinfo -v on both hosts");
    } else if (key != 0) {
        vrb_text_block(t, "next:",
                       "both are in partition 0x%04x: choose it on all hosts (--mca btl_verbs_pkey "
                       "0x%04x)",
                       key, key);
    } else {
        vrb_text_block(t, "next:",
                       "two ends need one partition in common, and one of them must be a full "
                       "member (bit 15 of its key set): have the subnet manager's partitions "
                       "changed (opensm: partitions.conf), or use another port");
    }
}

static int has_type(const struct vrb_address *a, uint8_t type)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (a->gids[i].type == type) {
            return 1;
        }
    }
    return 0;
}

static int is_on_loopback(const struct vrb_address *a)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (!vrb_gid_is_loopback(a->gids[i].raw)) {
            return 0;
        }
    }
    return 1;
}

static void put_roce_advice(struct vrb_text *t, const struct vrb_address *a,
                            const struct vrb_address *b)
{
    int v2 = has_type(a, VRB_GID_ROCE_V2) && has_type(b, VRB_GID_ROCE_V2);

    if (is_on_loopback(a) || is_on_loopback(b)) {
        vrb_text_block(t, "next:",
                       "an RDMA device on top of lo serves its own host only: make one on a "
                       "network device that leads to the other (rdma link add NAME type rxe netdev "
                       "DEVICE)");
    } else if (!v2 && (has_type(a, VRB_GID_ROCE_V2) || has_type(b, VRB_GID_ROCE_V2))) {
        vrb_text_block(
            t, "next:",
            "give the port that has RoCE v1 only an IP address, or have its driver offer "
            "RoCE v2 (cma_roce_mode and the adapter's firmware); v1 alone works only if "
            "both ends have it in one subnet");
    } else if (!v2) {
        vrb_text_block(
            t, "next:",
            "RoCE v1 needs addresses of one family in one subnet, and only v2 is routed: "
            "give both ports an IP address, and have their drivers offer RoCE v2 "
            "(cma_roce_mode and the adapter's firmware)");
    } else {
        vrb_text_block(t, "next:",
                       "give both ports addresses of one family, best in one subnet (ip address "
                       "add ADDRESS/BITS dev DEVICE); the GIDs follow by themselves (ibv_devinfo "
                       "-v shows them)");
    }
}

static void put_end(struct vrb_text *t, const char *title, const struct vrb_address *a)
{
    char text[1024];

    vrb_text_block(t, title, "%s %s", a->link == VRB_LINK_IB ? "InfiniBand," : "RoCE,",
                   vrb_reach_addresses(a, text, sizeof(text)));
}

const char *vrb_reach_none(const struct vrb_address *local, const struct vrb_address *remote,
                           const char *why, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};

    vrb_text_put(&t, "%s", why);
    put_end(&t, "local:", local);
    put_end(&t, "remote:", remote);
    if (local->link != remote->link) {
        vrb_text_block(&t, "next:",
                       "the two do not meet on one wire: use ports of one kind on all hosts "
                       "(if_include), or let another transport (TCP) carry this pair");
    } else if (local->link == VRB_LINK_IB) {
        put_ib_advice(&t, local, remote);
    } else {
        put_roce_advice(&t, local, remote);
    }
    return buf;
}

const char *vrb_reach_none_of(const struct vrb_address *local, int nlocal,
                              const struct vrb_address *remote, int nremote, const char *why,
                              char *buf, size_t len)
{
    /* The pair of one kind is the one that the user wanted to work. */
    for (int i = 0; i < nlocal; i++) {
        for (int j = 0; j < nremote; j++) {
            struct vrb_path path;
            const char *reason;

            if (local[i].link == remote[j].link &&
                vrb_choose(&local[i], &remote[j], &path, &reason) < 0) {
                return vrb_reach_none(&local[i], &remote[j], reason, buf, len);
            }
        }
    }
    if (nlocal > 0 && nremote > 0) {
        return vrb_reach_none(&local[0], &remote[0], why, buf, len);
    }
    snprintf(buf, len, "%s", why);
    return buf;
}
