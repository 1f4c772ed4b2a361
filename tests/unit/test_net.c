/* Network devices as the kernel's netlink messages describe them: VLANs, and what sits on them,
 * which not every kernel at hand can make. SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "device/vrb_net.h"
#include "util/vrb_status.h"

/* A run of messages, as a dump of the kernel's. */
static _Alignas(8) uint8_t bytes[8192];
static size_t used;
static struct nlmsghdr *open_msg;

static void *begin(uint16_t type, size_t body)
{
    open_msg = (void *)(bytes + used);
    memset(bytes + used, 0, NLMSG_LENGTH(body));
    open_msg->nlmsg_type = type;
    open_msg->nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
    return NLMSG_DATA(open_msg);
}

static struct rtattr *attr(uint16_t type, const void *data, size_t len)
{
    struct rtattr *a = (void *)((uint8_t *)open_msg + NLMSG_ALIGN(open_msg->nlmsg_len));

    memset(a, 0, RTA_SPACE(len));
    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(len);
    if (len > 0) {
        memcpy(RTA_DATA(a), data, len);
    }
    open_msg->nlmsg_len = (uint32_t)(NLMSG_ALIGN(open_msg->nlmsg_len) + RTA_ALIGN(a->rta_len));
    return a;
}

static struct rtattr *nest(uint16_t type)
{
    return attr(type, NULL, 0);
}

static void end_nest(struct rtattr *a)
{
    a->rta_len = (uint16_t)((uint8_t *)open_msg + open_msg->nlmsg_len - (uint8_t *)a);
}

static void end(void)
{
    used += NLMSG_ALIGN(open_msg->nlmsg_len);
}

static void attr32(uint16_t type, uint32_t v)
{
    attr(type, &v, sizeof(v));
}

/* kind: NULL for a plain device. vlan: with kind "vlan". lower: what it sits on. */
static void link_msg(int index, const char *name, uint32_t mtu, unsigned flags, int lower,
                     const char *kind, uint16_t vlan)
{
    struct ifinfomsg *i = begin(RTM_NEWLINK, sizeof(*i));

    i->ifi_index = index;
    i->ifi_flags = flags;
    i->ifi_type = 1; /* ARPHRD_ETHER */
    attr(IFLA_IFNAME, name, strlen(name) + 1);
    attr32(IFLA_MTU, mtu);
    if (lower > 0) {
        attr32(IFLA_LINK, (uint32_t)lower);
    }
    if (kind != NULL) {
        struct rtattr *info = nest(IFLA_LINKINFO);

        attr(IFLA_INFO_KIND, kind, strlen(kind) + 1);
        if (vlan != 0) {
            struct rtattr *data = nest(IFLA_INFO_DATA);
            uint16_t protocol = htons(0x8100);

            attr(IFLA_VLAN_PROTOCOL, &protocol, sizeof(protocol));
            attr(IFLA_VLAN_ID, &vlan, sizeof(vlan));
            end_nest(data);
        }
        end_nest(info);
    }
    end();
}

static void addr_msg(int index, const char *text, uint8_t plen)
{
    struct ifaddrmsg *a = begin(RTM_NEWADDR, sizeof(*a));
    uint8_t raw[16];
    int v6 = strchr(text, ':') != NULL;

    a->ifa_index = (uint32_t)index;
    a->ifa_prefixlen = plen;
    a->ifa_family = v6 ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(a->ifa_family, text, raw), 1);
    attr(IFA_ADDRESS, raw, v6 ? 16 : 4);
    if (!v6) {
        attr(IFA_LOCAL, raw, 4);
    }
    end();
}

static void gateway_msg(int index, const char *text)
{
    struct rtmsg *r = begin(RTM_NEWROUTE, sizeof(*r));
    uint8_t raw[4];

    r->rtm_family = AF_INET;
    r->rtm_table = RT_TABLE_MAIN;
    r->rtm_type = RTN_UNICAST;
    assert_int_equal(inet_pton(AF_INET, text, raw), 1);
    attr(RTA_GATEWAY, raw, 4);
    attr32(RTA_OIF, (uint32_t)index);
    end();
}

#define RUNS (IFF_UP | IFF_RUNNING)

static int setup(void **state)
{
    (void)state;
    used = 0;
    return 0;
}

static void replay(struct vrb_net *net)
{
    assert_int_equal(vrb_net_replay(net, bytes, used), VRB_OK);
}

static uint16_t vlan_of(const struct vrb_net *net, unsigned ifindex)
{
    const struct vrb_net_link *l = vrb_net_link(net, ifindex);

    assert_non_null(l);
    return l->vlan;
}

static void vlan_device(void **state)
{
    struct vrb_net net;
    struct vrb_gid gid = {.raw = {[10] = 0xff, 0xff, 10, 100, 0, 1}};

    (void)state;
    link_msg(2, "eth0", 9000, RUNS, 0, NULL, 0);
    link_msg(5, "eth0.5", 1500, RUNS, 2, "vlan", 5);
    addr_msg(2, "10.0.0.1", 20);
    addr_msg(5, "10.100.0.1", 24);
    addr_msg(5, "2001:db8::1", 64);
    gateway_msg(2, "10.0.0.254");
    replay(&net);
    assert_int_equal(net.nlinks, 2);
    assert_int_equal(vlan_of(&net, 2), VRB_VLAN_UNTAGGED);
    assert_int_equal(vlan_of(&net, 5), 5);
    vrb_net_describe(&net, 5, &gid);
    assert_int_equal(gid.vlan, 5);
    assert_int_equal(gid.plen, 96 + 24);
    assert_int_equal(gid.mtu, 3); /* 1024 in 1500 */
    assert_int_equal(gid.flags & VRB_GID_ROUTED, 0);
    gid.raw[13] = 0;
    vrb_net_describe(&net, 2, &gid);
    assert_int_equal(gid.vlan, VRB_VLAN_UNTAGGED);
    assert_int_equal(gid.plen, 96 + 20);
    assert_int_equal(gid.mtu, 5);
    assert_int_equal(gid.flags & VRB_GID_ROUTED, VRB_GID_ROUTED);
    vrb_net_free(&net);
}

/* What sits on a VLAN is in it: a macvlan of a container, on a VLAN on a bond. */
static void on_a_vlan(void **state)
{
    struct vrb_net net;

    (void)state;
    link_msg(2, "bond0", 9000, RUNS, 0, "bond", 0);
    link_msg(3, "bond0.4094", 9000, RUNS, 2, "vlan", 4094);
    link_msg(4, "mac0", 9000, RUNS, 3, "macvlan", 0);
    link_msg(5, "down0", 9000, IFF_UP, 3, "macvlan", 0);
    replay(&net);
    assert_int_equal(vlan_of(&net, 2), VRB_VLAN_UNTAGGED);
    assert_int_equal(vlan_of(&net, 3), 4094);
    assert_int_equal(vlan_of(&net, 4), 4094);
    assert_int_equal(vrb_net_link(&net, 4)->state, VRB_NET_UP);
    assert_int_equal(vrb_net_link(&net, 5)->state, VRB_NET_DOWN);
    vrb_net_free(&net);
}

/* In a container the device below is in another network namespace: nobody knows. */
static void below_is_elsewhere(void **state)
{
    struct vrb_net net;

    (void)state;
    link_msg(7, "eth0", 1500, RUNS, 3, "macvlan", 0);
    link_msg(8, "eth1", 1500, RUNS, 4, "vlan", 100);
    replay(&net);
    assert_int_equal(vlan_of(&net, 7), 0);
    assert_int_equal(vlan_of(&net, 8), 100);
    vrb_net_free(&net);
}

/* Two ends of a veth sit on each other. */
static void circles(void **state)
{
    struct vrb_net net;

    (void)state;
    link_msg(2, "veth0", 1500, RUNS, 3, "veth", 0);
    link_msg(3, "veth1", 1500, RUNS, 2, "veth", 0);
    replay(&net);
    assert_int_equal(vlan_of(&net, 2), VRB_VLAN_UNTAGGED);
    vrb_net_free(&net);
}

static void without_libnl(void **state)
{
    struct vrb_net net;

    (void)state;
    assert_int_equal(vrb_net_replay(&net, bytes, 0), VRB_ERR_NOTSUP);
    assert_int_equal(net.nlinks, 0);
    vrb_net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(vlan_device, setup),
        cmocka_unit_test_setup(on_a_vlan, setup),
        cmocka_unit_test_setup(below_is_elsewhere, setup),
        cmocka_unit_test_setup(circles, setup),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(without_libnl)};
    struct vrb_net net;

    if (vrb_net_replay(&net, bytes, 0) == VRB_ERR_NOTSUP) {
        return cmocka_run_group_tests_name("net", without, NULL, NULL);
    }
    vrb_net_free(&net);
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
