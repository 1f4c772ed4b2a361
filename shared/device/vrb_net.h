/* What this host's kernel knows of the network devices behind RoCE addresses.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Read once and kept as a table. With libnl everything below is known; without it (or where netlink
 * is closed, as in some containers) subnet masks and device states still are, and the rest stays
 * unknown. Nothing fails for want of it. */
#ifndef VRB_NET_H
#define VRB_NET_H

#include <stddef.h>
#include <stdint.h>

#include "address/vrb_address.h"

#define VRB_NET_NAME_MAX 16 /* IFNAMSIZ */

enum vrb_net_state { VRB_NET_UNKNOWN = 0, VRB_NET_DOWN = 1, VRB_NET_UP = 2 };

struct vrb_net_link {
    unsigned ifindex;
    char name[VRB_NET_NAME_MAX];
    uint8_t state;    /* enum vrb_net_state: administratively and by carrier */
    uint8_t loopback; /* says nothing about a wire */
    uint8_t gateway;  /* a route of any table leaves through it to a gateway */
    uint16_t vlan;    /* 802.1Q tag of it or of what it sits on; VRB_VLAN_UNTAGGED; 0 = unknown */
    uint32_t mtu;     /* bytes; 0 = unknown */
};

struct vrb_net_addr {
    unsigned ifindex;
    uint8_t raw[VRB_GID_LEN]; /* IPv4 mapped */
    uint8_t plen;             /* bits of raw: IPv4 /24 is 120 */
};

struct vrb_net {
    struct vrb_net_link *links;
    struct vrb_net_addr *addrs;
    int nlinks, naddrs, links_room, addrs_room;
};

/* Reads links, addresses and routes. What cannot be read stays empty. */
void vrb_net_read(struct vrb_net *net);

/* The same from what the kernel answered elsewhere, or might: netlink messages one after the other.
 * For tests of what no kernel at hand has. VRB_ERR_NOTSUP without libnl. */
int vrb_net_replay(struct vrb_net *net, const void *messages, size_t len);

void vrb_net_free(struct vrb_net *net);

/* NULL: unknown. */
const struct vrb_net_link *vrb_net_link(const struct vrb_net *net, unsigned ifindex);

/* Mask bits of an address on a link, as in struct vrb_gid; 0 = unknown. */
uint8_t vrb_net_plen(const struct vrb_net *net, unsigned ifindex, const uint8_t raw[VRB_GID_LEN]);

/* The largest InfiniBand MTU (enum ibv_mtu) whose RoCE packets fit a network device's MTU in bytes;
 * 0 if not even 256 does, or the device's is unknown. */
uint8_t vrb_net_roce_mtu(uint32_t bytes);

/* Completes an address by what is known of its network device. ifindex 0: nothing is. */
void vrb_net_describe(const struct vrb_net *net, unsigned ifindex, struct vrb_gid *gid);

#endif
