/* Links, addresses and gateways from the kernel (see vrb_net.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "device/vrb_net.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/vrb_status.h"

#ifdef VRB_HAVE_NETLINK
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#endif

#define IPV4_MAPPED_BITS 96

/* Devices that sit on devices: a VLAN on a bond, a macvlan on a VLAN. Deeper is a loop. */
#define LOWER_MAX 4

/* Room for one more in an array. NULL: out of memory, and the array is as before. */
static void *grow(void *array, int n, int *room, size_t size)
{
    void *more;

    if (n < *room) {
        return array;
    }
    more = realloc(array, (size_t)(*room + 16) * size);
    if (more != NULL) {
        *room += 16;
    }
    return more;
}

static struct vrb_net_link *find_link(const struct vrb_net *net, unsigned ifindex)
{
    for (int i = 0; i < net->nlinks; i++) {
        if (net->links[i].ifindex == ifindex) {
            return &net->links[i];
        }
    }
    return NULL;
}

static struct vrb_net_link *add_link(struct vrb_net *net, unsigned ifindex, const char *name)
{
    struct vrb_net_link *links =
        grow(net->links, net->nlinks, &net->links_room, sizeof(net->links[0]));
    struct vrb_net_link *l;

    if (links == NULL) {
        return NULL;
    }
    net->links = links;
    l = &links[net->nlinks++];
    memset(l, 0, sizeof(*l));
    l->ifindex = ifindex;
    snprintf(l->name, sizeof(l->name), "%s", name == NULL ? "" : name);
    return l;
}

/* bits: of the address in its own family. */
static void add_addr(struct vrb_net *net, unsigned ifindex, int family, const void *bytes, int bits)
{
    struct vrb_net_addr *addrs =
        grow(net->addrs, net->naddrs, &net->addrs_room, sizeof(net->addrs[0]));
    struct vrb_net_addr *a;

    if (addrs == NULL) {
        return;
    }
    net->addrs = addrs;
    a = &addrs[net->naddrs++];
    memset(a, 0, sizeof(*a));
    a->ifindex = ifindex;
    if (family == AF_INET) {
        a->raw[10] = a->raw[11] = 0xff;
        memcpy(a->raw + 12, bytes, 4);
        bits += IPV4_MAPPED_BITS;
    } else {
        memcpy(a->raw, bytes, VRB_GID_LEN);
    }
    a->plen = (uint8_t)bits;
}

static uint8_t state_of(unsigned flags)
{
    return (flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING) ? VRB_NET_UP : VRB_NET_DOWN;
}

/* ---- without libnl, and where netlink is closed to it ---- */

static int mask_bits(const uint8_t *mask, int bytes)
{
    int bits = 0;

    for (int i = 0; i < bytes; i++) {
        bits += __builtin_popcount(mask[i]);
    }
    return bits;
}

static uint32_t mtu_from_sysfs(const char *name)
{
    char path[64 + VRB_NET_NAME_MAX];
    unsigned mtu = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/sys/class/net/%.15s/mtu", name);
    f = fopen(path, "r");
    if (f != NULL) {
        if (fscanf(f, "%u", &mtu) != 1) {
            mtu = 0;
        }
        fclose(f);
    }
    return mtu;
}

static void take_ifaddr(struct vrb_net *net, const struct ifaddrs *i)
{
    unsigned ifindex = if_nametoindex(i->ifa_name);
    struct vrb_net_link *l = find_link(net, ifindex);

    if (ifindex == 0) {
        return;
    }
    if (l == NULL) {
        l = add_link(net, ifindex, i->ifa_name);
        if (l == NULL) {
            return;
        }
        l->state = state_of(i->ifa_flags);
        l->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        l->mtu = mtu_from_sysfs(i->ifa_name);
    }
    if (i->ifa_addr == NULL || i->ifa_netmask == NULL) {
        return;
    }
    if (i->ifa_addr->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const void *)i->ifa_addr, *m = (const void *)i->ifa_netmask;

        add_addr(net, ifindex, AF_INET, &a->sin_addr, mask_bits((const void *)&m->sin_addr, 4));
    } else if (i->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)i->ifa_addr, *m = (const void *)i->ifa_netmask;

        add_addr(net, ifindex, AF_INET6, &a->sin6_addr, mask_bits((const void *)&m->sin6_addr, 16));
    }
}

static void read_ifaddrs(struct vrb_net *net)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        take_ifaddr(net, i);
    }
    freeifaddrs(all);
}

/* ---- with libnl ---- */

#ifdef VRB_HAVE_NETLINK

static uint16_t vlan_of(struct nl_cache *cache, struct rtnl_link *link)
{
    uint16_t vlan = VRB_VLAN_UNTAGGED;
    struct rtnl_link *l = link;

    nl_object_get(OBJ_CAST(l));
    for (int depth = 0; l != NULL && depth < LOWER_MAX; depth++) {
        int lower = rtnl_link_get_link(l);

        if (rtnl_link_is_vlan(l)) {
            int id = rtnl_link_vlan_get_id(l);

            vlan = id > 0 && id < VRB_VLAN_UNTAGGED ? (uint16_t)id : 0;
            break;
        }
        rtnl_link_put(l);
        l = lower > 0 ? rtnl_link_get(cache, lower) : NULL;
        if (lower > 0 && l == NULL) {
            return 0; /* what it sits on is in another network namespace */
        }
    }
    if (l != NULL) {
        rtnl_link_put(l);
    }
    return vlan;
}

static void take_links(struct nl_cache *cache, struct vrb_net *net)
{
    for (struct nl_object *o = nl_cache_get_first(cache); o != NULL; o = nl_cache_get_next(o)) {
        struct rtnl_link *link = (struct rtnl_link *)o;
        struct vrb_net_link *l =
            add_link(net, (unsigned)rtnl_link_get_ifindex(link), rtnl_link_get_name(link));

        if (l != NULL) {
            l->state = state_of(rtnl_link_get_flags(link));
            l->loopback = (rtnl_link_get_flags(link) & IFF_LOOPBACK) != 0;
            l->mtu = rtnl_link_get_mtu(link);
            l->vlan = vlan_of(cache, link);
        }
    }
}

static void take_addrs(struct nl_cache *cache, struct vrb_net *net)
{
    for (struct nl_object *o = nl_cache_get_first(cache); o != NULL; o = nl_cache_get_next(o)) {
        struct rtnl_addr *a = (struct rtnl_addr *)o;
        struct nl_addr *local = rtnl_addr_get_local(a);
        int family = local == NULL ? 0 : nl_addr_get_family(local);

        if ((family == AF_INET && nl_addr_get_len(local) == 4) ||
            (family == AF_INET6 && nl_addr_get_len(local) == VRB_GID_LEN)) {
            add_addr(net, (unsigned)rtnl_addr_get_ifindex(a), family,
                     nl_addr_get_binary_addr(local), rtnl_addr_get_prefixlen(a));
        }
    }
}

static void take_nexthop(struct rtnl_nexthop *nh, void *arg)
{
    struct vrb_net_link *l = find_link(arg, (unsigned)rtnl_route_nh_get_ifindex(nh));

    if (l != NULL && (rtnl_route_nh_get_gateway(nh) != NULL || rtnl_route_nh_get_via(nh) != NULL)) {
        l->gateway = 1;
    }
}

/* All tables: hosts with several ports route each by a table of its own. */
static void take_routes(struct nl_cache *cache, struct vrb_net *net)
{
    for (struct nl_object *o = nl_cache_get_first(cache); o != NULL; o = nl_cache_get_next(o)) {
        rtnl_route_foreach_nexthop((struct rtnl_route *)o, take_nexthop, net);
    }
}

/* What the kernel answers, in the order in which it is understood. */
static const struct {
    const char *name; /* libnl's, of the cache */
    void (*take)(struct nl_cache *cache, struct vrb_net *net);
} answers[] = {
    {"route/link", take_links},
    {"route/addr", take_addrs},
    {"route/route", take_routes},
};
#define ANSWERS ((int)(sizeof(answers) / sizeof(answers[0])))

static int read_netlink(struct vrb_net *net)
{
    struct nl_sock *sock = nl_socket_alloc();
    int rc = VRB_ERR_NOTSUP;

    if (sock != NULL && nl_connect(sock, NETLINK_ROUTE) == 0) {
        for (int i = 0; i < ANSWERS; i++) {
            struct nl_cache *cache = NULL;

            if (nl_cache_alloc_name(answers[i].name, &cache) < 0) {
                break;
            }
            if (nl_cache_refill(sock, cache) == 0) {
                answers[i].take(cache, net);
                rc = VRB_OK; /* the links are there, the rest is a bonus */
            }
            nl_cache_free(cache);
            if (rc != VRB_OK) {
                break;
            }
        }
    }
    if (sock != NULL) {
        nl_socket_free(sock);
    }
    return rc;
}

int vrb_net_replay(struct vrb_net *net, const void *messages, size_t len)
{
    memset(net, 0, sizeof(*net));
    for (int i = 0; i < ANSWERS; i++) {
        struct nlmsghdr *h = (struct nlmsghdr *)(uintptr_t)messages;
        struct nl_cache *cache = NULL;
        int left = (int)len;

        if (nl_cache_alloc_name(answers[i].name, &cache) < 0) {
            return VRB_ERR_NOMEM;
        }
        for (; nlmsg_ok(h, left); h = nlmsg_next(h, &left)) {
            struct nl_msg *m = nlmsg_convert(h);

            if (m != NULL) {
                (void)nl_cache_parse_and_add(cache,
                                             m); /* one of another kind is not for this one */
                nlmsg_free(m);
            }
        }
        answers[i].take(cache, net);
        nl_cache_free(cache);
    }
    return VRB_OK;
}

#else

int vrb_net_replay(struct vrb_net *net, const void *messages, size_t len)
{
    (void)messages;
    (void)len;
    memset(net, 0, sizeof(*net));
    return VRB_ERR_NOTSUP;
}

static int read_netlink(struct vrb_net *net)
{
    (void)net;
    return VRB_ERR_NOTSUP;
}

#endif

void vrb_net_read(struct vrb_net *net)
{
    memset(net, 0, sizeof(*net));
    if (read_netlink(net) != VRB_OK) {
        vrb_net_free(net);
        read_ifaddrs(net);
    }
}

void vrb_net_free(struct vrb_net *net)
{
    free(net->links);
    free(net->addrs);
    memset(net, 0, sizeof(*net));
}

const struct vrb_net_link *vrb_net_link(const struct vrb_net *net, unsigned ifindex)
{
    return ifindex == 0 ? NULL : find_link(net, ifindex);
}

uint8_t vrb_net_plen(const struct vrb_net *net, unsigned ifindex, const uint8_t raw[VRB_GID_LEN])
{
    for (int i = 0; i < net->naddrs; i++) {
        if (net->addrs[i].ifindex == ifindex && memcmp(net->addrs[i].raw, raw, VRB_GID_LEN) == 0) {
            return net->addrs[i].plen;
        }
    }
    return 0;
}

uint8_t vrb_net_roce_mtu(uint32_t bytes)
{
    /* GRH or IP 40, UDP 8, BTH 12, XRC 4, atomic extension 28, ICRC 4: what the kernel takes off
     * (include/rdma/ib_addr.h, iboe_get_mtu). */
    const uint32_t headers = 96;
    uint8_t mtu = 0;

    while (mtu < 5 && bytes >= headers + (128u << (mtu + 1))) {
        mtu++;
    }
    return mtu;
}

void vrb_net_describe(const struct vrb_net *net, unsigned ifindex, struct vrb_gid *gid)
{
    const struct vrb_net_link *l = vrb_net_link(net, ifindex);

    if (l == NULL || l->loopback) {
        return;
    }
    gid->plen = vrb_net_plen(net, ifindex, gid->raw);
    gid->vlan = l->vlan;
    gid->mtu = vrb_net_roce_mtu(l->mtu);
    gid->flags = l->gateway ? VRB_GID_ROUTED : 0;
}
