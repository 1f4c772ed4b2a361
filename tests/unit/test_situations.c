/* Situations of hosts and networks, each by its name: which addresses are used, or what is said.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A port is written as words:
 *   v1@2=10.0.0.1/24        RoCE v1 entry, index 2; /24 is the mask, without one it is unknown
 *   +v100 +untagged +gw +m1024   behind an entry: its VLAN, no tag, a gateway, its device's MTU
 *   mtu=1024                the port's MTU (4096)
 *   lid=17 lmc=1 grh pkey=8001,7fff gid=fe80::1    an InfiniBand port
 * and what is expected as "LOCAL > REMOTE" with words of the path that matter, or "no: REASON". */
#include "unit.h"

#include "address/vrb_choose.h"
#include "gids.h"
#include "util/vrb_status.h"

struct situation {
    const char *name, *local, *remote, *want;
};

static const struct situation situations[] = {
    /* ---- RoCE: GID tables ---- */
    {"index 0 is link-local v1, as on every host", /* lf#12673 */
     "v1@0=fe80::a v2@1=fe80::a v1@2=10.0.0.1/24 v2@3=10.0.0.1/24",
     "v1@0=fe80::b v2@1=fe80::b v1@2=10.0.0.2/24 v2@3=10.0.0.2/24", "v2@3 > v2@3 hop64"},
    {"the other driver lists its table in another order",
     "v1@0=fe80::a v2@1=fe80::a v2@3=10.0.0.1/24", "v2@0=10.0.0.2/24 v2@1=fe80::b", "v2@3 > v2@0"},
    {"a container's table starts at index 4", /* nccl#718 */
     "v1@4=172.20.0.5/16 v2@12=172.20.0.5/16", "v1@2=172.20.0.9/16 v2@3=172.20.0.9/16",
     "v2@12 > v2@3"},
    {"both containers have shifted tables", "v2@12=172.20.0.5/16", "v2@4=172.20.0.9/16",
     "v2@12 > v2@4"},
    {"host routes (/32) of a container network", "v2@5=10.244.1.7/32", "v2@5=10.244.9.3/32",
     "v2@5 > v2@5 near1"},
    {"no mask is known: netlink is closed", "v2@3=10.0.0.1", "v2@3=10.0.0.2", "v2@3 > v2@3 near1"},
    {"one end knows its mask only", "v2@3=10.0.0.1/24", "v2@3=10.0.0.2", "v2@3 > v2@3 near1"},
    {"all sixteen entries of a host with many VLANs",
     "v2@1=10.1.0.1/24 v2@2=10.2.0.1/24 v2@3=10.3.0.1/24 v2@4=10.4.0.1/24 v2@5=10.5.0.1/24 "
     "v2@6=10.6.0.1/24 v2@7=10.7.0.1/24 v2@8=10.8.0.1/24 v2@9=10.9.0.1/24 v2@10=10.10.0.1/24 "
     "v2@11=10.11.0.1/24 v2@12=10.12.0.1/24 v2@13=10.13.0.1/24 v2@14=10.14.0.1/24 "
     "v2@15=10.15.0.1/24 v2@16=10.16.0.1/24",
     "v2@3=10.16.0.2/24", "v2@16 > v2@3 near2"},
    /* ---- RoCE: families ---- */
    {"IPv6 only, global", "v2@1=fe80::a v2@7=2001:db8::1/64", "v2@0=2001:db8::2/64 v2@1=fe80::b",
     "v2@7 > v2@0 near2 hop64"},
    {"IPv6 only, unique local addresses", "v2@3=fd00:1::1/64", "v2@3=fd00:1::2/64", "v2@3 > v2@3"},
    {"link-local before the global one in the table", /* ucx#10939 */
     "v2@0=fe80::a v2@1=2001:db8::1/64", "v2@0=fe80::b v2@1=2001:db8::2/64", "v2@1 > v2@1"},
    {"IPv4 and IPv6 at both ends: same subnet in both, the smaller bytes",
     "v2@3=10.0.0.1/24 v2@5=2001:db8::1/64", "v2@3=10.0.0.2/24 v2@5=2001:db8::2/64", "v2@3 > v2@3"},
    {"IPv4 and IPv6, but one subnet in IPv6 only", "v2@3=10.0.0.1/24 v2@5=2001:db8::1/64",
     "v2@3=10.9.0.2/24 v2@5=2001:db8::2/64", "v2@5 > v2@5 near2"},
    {"IPv4 at one end, IPv6 at the other", /* ucx#9953 */
     "v2@3=10.0.0.1/24", "v2@3=2001:db8::2/64", "no: the same family"},
    {"IPv4 at one end, both at the other", "v2@3=10.0.0.1/24",
     "v2@3=2001:db8::2/64 v2@9=10.0.0.2/24", "v2@3 > v2@9"},
    {"an IPv6 end that has link-local too, against IPv4", "v2@3=10.0.0.1/24",
     "v2@3=2001:db8::2/64 v2@1=fe80::b", "no: the same family"},
    {"different families and both link-local: the last way", "v2@1=fe80::a v2@3=10.0.0.1/24",
     "v2@1=fe80::b v2@3=2001:db8::2/64", "v2@1 > v2@1 hop1"},
    /* ---- RoCE: link scope ---- */
    {"link-local is all there is", "v1@0=fe80::a v2@1=fe80::a", "v1@0=fe80::b v2@1=fe80::b",
     "v2@1 > v2@1 hop1"},
    {"global against link-local only", "v2@3=2001:db8::1/64", "v2@1=fe80::b",
     "no: link-local only"},
    {"IPv4 link-local (no DHCP answer) is link-local", "v2@1=169.254.7.1/16 v2@3=2001:db8::1/64",
     "v2@1=169.254.7.2/16 v2@3=2001:db8:5::2/64", "v2@3 > v2@3"},
    {"IPv4 link-local at both ends and nothing else", "v2@1=169.254.7.1/16", "v2@1=169.254.9.2/16",
     "v2@1 > v2@1 hop1"},
    {"IPv4 link-local against a real address", "v2@1=169.254.7.1/16", "v2@1=10.0.0.2/24",
     "no: link-local only"},
    {"link-local on two VLANs: the one in common", "v2@1=fe80::a+untagged v2@5=fe80::c+v100",
     "v2@7=fe80::d+v100", "v2@5 > v2@7"},
    {"link-local, VLANs that differ: tried all the same (an access port)", "v2@1=fe80::a+untagged",
     "v2@7=fe80::d+v100", "v2@1 > v2@7"},
    /* ---- RoCE: loopback (a device on top of lo) ---- */
    {"loopback addresses of two hosts", "v2@1=127.0.0.1/8", "v2@1=127.0.0.2/8", "no: loopback"},
    {"loopback against a real address", "v2@1=127.0.0.1/8", "v2@3=10.0.0.2/24", "no: loopback"},
    {"loopback beside real ones", "v2@0=127.0.0.1/8 v2@3=10.0.0.1/24",
     "v2@0=127.0.0.1/8 v2@3=10.0.0.2/24", "v2@3 > v2@3"},
    {"two processes on a device on lo", "v2@1=127.0.0.1/8", "v2@1=127.0.0.1/8", "v2@1 > v2@1"},
    /* ---- RoCE: versions ---- */
    {"v1 only at one end", "v1@2=10.0.0.1/24", "v1@4=10.0.0.2/24 v2@5=10.0.0.2/24", "v1@2 > v1@4"},
    {"v1 only at both ends", "v1@0=fe80::a v1@2=10.0.0.1/24", "v1@0=fe80::b v1@2=10.0.0.2/24",
     "v1@2 > v1@2"},
    {"v1 only against v2 only", "v1@2=10.0.0.1/24", "v2@3=10.0.0.2/24",
     "no: the same RoCE version"},
    {"v1 is not routed", "v1@2=10.1.0.1/24+gw", "v1@2=10.2.0.2/24+gw", "no: which is not routed"},
    {"v1 across subnets, but link-local v1 fits", "v1@0=fe80::a v1@2=10.1.0.1/24",
     "v1@0=fe80::b v1@2=10.2.0.2/24", "v1@0 > v1@0 hop1"},
    {"v1 with unknown masks is tried", "v1@2=10.1.0.1", "v1@2=10.2.0.2", "v1@2 > v1@2"},
    {"v2 before v1, even if link-local only", "v1@2=10.0.0.1/24 v2@1=fe80::a",
     "v1@2=10.0.0.2/24 v2@1=fe80::b", "v2@1 > v2@1"},
    {"v2 routed before v1 in one subnet", "v1@2=10.0.0.1/24 v2@5=10.1.0.1/24+gw",
     "v1@2=10.0.0.2/24 v2@5=10.2.0.2/24+gw", "v2@5 > v2@5 near0"},
    /* ---- RoCE: subnets and routes ---- */
    {"two networks crossed: one is v2 at both ends", /* ucx#2501 */
     "v2@3=10.0.0.1/24 v2@5=192.168.1.1/24", "v2@5=192.168.1.2/24 v1@2=10.0.0.2/24", "v2@5 > v2@5"},
    {"two networks, found in another order", "v2@3=10.1.0.1/24 v2@5=10.2.0.1/24",
     "v2@3=10.2.0.2/24 v2@5=10.1.0.2/24", "v2@3 > v2@5 near2"},
    {"same subnet before routed", "v2@3=10.1.0.1/24+gw v2@5=10.2.0.1/24",
     "v2@3=10.3.0.2/24+gw v2@9=10.2.0.2/24", "v2@5 > v2@9 near2"},
    {"leaf and spine: a /31 link each, all routed", /* ucx#10996 */
     "v2@3=10.1.0.1/31+gw", "v2@3=172.16.9.2/31+gw", "v2@3 > v2@3 near0 hop64"},
    {"no gateway is known: tried all the same", "v2@3=10.1.0.1/24", "v2@3=172.16.9.2/24",
     "v2@3 > v2@3 near0"},
    {"of two routed networks, the one with gateways at both ends",
     "v2@3=10.1.0.1/24 v2@5=10.8.0.1/24+gw", "v2@3=10.2.0.2/24 v2@5=10.9.0.2/24+gw", "v2@5 > v2@5"},
    {"a long common prefix is not a subnet", "v2@3=10.0.0.1/30 v2@5=10.4.0.1/16",
     "v2@3=10.0.0.5/30 v2@5=10.4.9.2/16", "v2@5 > v2@5 near2"},
    {"a wide subnet: /8", "v2@3=10.1.2.3/8", "v2@3=10.200.2.3/8", "v2@3 > v2@3 near2"},
    {"masks that differ: both must say the same subnet", "v2@3=10.0.0.1/24 v2@5=10.5.0.1/24",
     "v2@3=10.0.1.2/16 v2@5=10.5.0.2/24", "v2@5 > v2@5 near2"},
    {"masks that differ, and nothing better", "v2@3=10.0.0.1/24", "v2@3=10.0.1.2/16",
     "v2@3 > v2@3 near0"},
    {"IPv6 over a router", "v2@3=2001:db8:1::1/64+gw", "v2@3=2001:db8:2::2/64+gw",
     "v2@3 > v2@3 near0 hop64"},
    {"an address that both hosts have (docker0) comes last", "v2@3=172.17.0.1/16 v2@5=10.2.0.1/24",
     "v2@3=172.17.0.1/16 v2@5=10.9.0.1/24", "v2@5 > v2@5"},
    {"an address that both hosts have is all they share", "v2@3=172.17.0.1/16 v1@5=10.2.0.1/24",
     "v2@3=172.17.0.1/16 v2@6=2001:db8::1/64", "v2@3 > v2@3"},
    {"two processes on one port", "v2@3=10.1.0.1/24 v2@5=10.2.0.1/24",
     "v2@3=10.1.0.1/24 v2@5=10.2.0.1/24", "v2@3 > v2@3"},
    {"two ports of one host", "v2@3=10.1.0.1/24", "v2@3=10.1.0.2/24", "v2@3 > v2@3 near2"},
    /* ---- RoCE: VLANs ---- */
    {"a VLAN with a subnet of its own", "v2@3=10.0.0.1/24+untagged v2@5=10.100.0.1/24+v100",
     "v2@5=10.100.0.2/24+v100", "v2@5 > v2@5 near2"},
    {"one subnet on two VLANs: the same tag", "v2@3=10.0.0.1/24+v200 v2@5=10.0.0.9/24+v100",
     "v2@3=10.0.0.2/24+v100", "v2@5 > v2@3"},
    {"a tagged end and one behind an access port", "v2@3=10.0.0.1/24+untagged",
     "v2@3=10.0.0.2/24+v100", "v2@3 > v2@3 near2"},
    {"the tag is unknown at one end (a container)", "v2@3=10.0.0.1/24", "v2@3=10.0.0.2/24+v100",
     "v2@3 > v2@3"},
    /* ---- MTU ---- */
    {"MTU 1500 against 9000", "mtu=1024 v2@3=10.0.0.1/24", "mtu=4096 v2@3=10.0.0.2/24",
     "v2@3 > v2@3 mtu1024"},
    {"a VLAN device of 1500 on a port of 9000", "v2@3=10.0.0.1/24+v100+m1024",
     "v2@3=10.0.0.2/24+v100", "v2@3 > v2@3 mtu1024"},
    {"the other end's VLAN device is the smaller", "mtu=2048 v2@3=10.0.0.1/24+m2048",
     "v2@3=10.0.0.2/24+m1024", "v2@3 > v2@3 mtu1024"},
    {"InfiniBand MTU 2048 against 4096", "mtu=2048 lid=1", "lid=2", "lid1 > lid2 mtu2048"},
    /* ---- InfiniBand ---- */
    {"one subnet: LIDs alone", "lid=17 gid=fe80::1", "lid=18 gid=fe80::2", "lid17 > lid18 nogrh"},
    {"no GID is needed", "lid=17", "lid=18", "lid17 > lid18 nogrh"},
    {"two subnets, different prefixes", "lid=17 gid=fec0:0:0:1::1", "lid=17 gid=fec0:0:0:2::2",
     "lid17 > lid17 grh hop64 near0"},
    {"default prefixes of two fabrics look like one (the handshake finds out)", /* ucx#11426 */
     "lid=1 gid=fe80::1", "lid=1 gid=fe80::2", "lid1 > lid1 nogrh near2"},
    {"GRH required at the local port (a virtual function)", "lid=17 grh gid=fe80::1",
     "lid=18 gid=fe80::2", "lid17 > lid18 grh"},
    {"GRH required at the remote port", "lid=17 gid=fe80::1", "lid=18 grh gid=fe80::2",
     "lid17 > lid18 grh"},
    {"GRH required, but no GID", "lid=17 grh gid=fe80::1", "lid=18", "no: has no GID"},
    {"several GIDs: the pair of one subnet", "lid=17 grh gid=fe80::1 gid=fec0:0:0:1::1",
     "lid=18 gid=fec0:0:0:1::2", "gid=fec0:0:0:1::1 > gid=fec0:0:0:1::2 grh near2"},
    {"LMC at one end only", "lid=16 lmc=1", "lid=18", "lid16 > lid18"},
    {"LMC at both ends, a base LID that is none", "lid=17 lmc=1", "lid=18 lmc=1", "lid17 > lid18"},
    {"full members", "lid=1 pkey=ffff", "lid=2 pkey=ffff", "lid1 > lid2"},
    {"a full and a limited member", "lid=1 pkey=8001", "lid=2 pkey=0001", "lid1 > lid2"},
    {"two limited members", /* nvshmem#82 */
     "lid=1 pkey=7fff", "lid=2 pkey=7fff", "no: limited members"},
    {"different partitions", "lid=1 pkey=8001", "lid=2 pkey=8002", "no: different partitions"},
    {"the pkey stands at index 2", "lid=1 pkey=7fff,0,8001", "lid=2 pkey=7fff,0,8001",
     "lid1 > lid2 pkey8001"},
    {"a tenant's partition before the default one, which is limited", "lid=1 pkey=7fff,8005",
     "lid=2 pkey=8005,7fff", "lid1 > lid2 pkey8005"},
    {"the default partition at another index", "lid=1 pkey=8001,ffff", "lid=2 pkey=ffff",
     "lid1 > lid2 pkeyffff"},
    /* ---- mixed ---- */
    {"InfiniBand against RoCE", "lid=3 gid=fe80::3", "v2@3=10.0.0.1/24", "no: the other RoCE"},
};

static struct vrb_gid entry(const char *word)
{
    char text[80], *ip, *mask, *plus;
    struct vrb_gid g;
    int type, index;

    snprintf(text, sizeof(text), "%s", word);
    assert_int_equal(sscanf(text, "v%d@%d=", &type, &index), 2);
    plus = strchr(text, '+');
    if (plus) {
        *plus++ = '\0';
    }
    ip = strchr(text, '=') + 1;
    mask = strchr(ip, '/');
    if (mask) {
        *mask++ = '\0';
    }
    int v4 = strchr(ip, '.') != NULL;
    char full[80];

    snprintf(full, sizeof(full), "%s%s", v4 ? "::ffff:" : "", ip);
    g = gid(type == 1 ? VRB_GID_ROCE_V1 : VRB_GID_ROCE_V2, index, full);
    g.plen = (uint8_t)(mask ? atoi(mask) + (v4 ? 96 : 0) : 0);
    while (plus && *plus) {
        unsigned n = (unsigned)atoi(plus + 1);

        if (strncmp(plus, "untagged", 8) == 0) {
            g.vlan = VRB_VLAN_UNTAGGED;
        } else if (*plus == 'v') {
            g.vlan = (uint16_t)n;
        } else if (*plus == 'm') {
            g.mtu = (uint8_t)__builtin_ctz(n / 128);
        } else {
            assert_int_equal(strncmp(plus, "gw", 2), 0);
            g.flags = VRB_GID_ROUTED;
        }
        plus = strchr(plus, '+');
        plus += plus != NULL;
    }
    return g;
}

static void take_pkeys(struct vrb_address *a, const char *list)
{
    char *end;
    int chosen;

    a->num_pkeys = 0;
    for (; *list; list = *end ? end + 1 : end) {
        a->pkeys[a->num_pkeys++] = (uint16_t)strtoul(list, &end, 16);
    }
    chosen = vrb_choose_pkey(a->pkeys, a->num_pkeys, 0);
    assert_true(chosen >= 0);
    a->pkey = a->pkeys[chosen];
}

static struct vrb_address port(const char *text, uint64_t nonce)
{
    struct vrb_address a = {
        .link = VRB_LINK_ROCE, .mtu = 5, .pkey = 0xffff, .ud_qpn = 9, .recv_size = 4096};
    char words[1024], *word, *save;

    a.nonce = nonce;
    snprintf(words, sizeof(words), "%s", text);
    for (word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";

        if (word[0] == 'v') {
            assert_true(a.num_gids < VRB_MAX_GIDS);
            a.gids[a.num_gids++] = entry(word);
        } else if (strncmp(word, "mtu=", 4) == 0) {
            a.mtu = (uint8_t)__builtin_ctz((unsigned)atoi(value) / 128);
        } else if (strncmp(word, "lid=", 4) == 0) {
            a.link = VRB_LINK_IB;
            a.lid = (uint16_t)atoi(value);
        } else if (strncmp(word, "lmc=", 4) == 0) {
            a.lmc = (uint8_t)atoi(value);
        } else if (strncmp(word, "gid=", 4) == 0) {
            a.gids[a.num_gids] = gid(VRB_GID_IB, a.num_gids, value);
            a.num_gids++;
        } else if (strncmp(word, "pkey=", 5) == 0) {
            take_pkeys(&a, value);
        } else {
            assert_string_equal(word, "grh");
            a.grh_required = 1;
        }
    }
    return a;
}

/* The port as the other end sees it: packed and unpacked, without its table indices. */
static struct vrb_address over_the_wire(const struct vrb_address *a)
{
    struct vrb_address out[VRB_MAX_RAILS];
    uint8_t buf[1024];
    const char *why;
    int len = vrb_address_pack(a, 1, buf, sizeof(buf));

    assert_true(len > 0);
    assert_int_equal(vrb_address_unpack(buf, (size_t)len, out, &why), 1);
    return out[0];
}

/* "v2@3", "lid17" or "gid=..." of one end of a path. */
static void check_end(const char *word, const struct vrb_address *owner, const struct vrb_gid *used,
                      uint16_t lid)
{
    if (word[0] == 'v') {
        int type, index, found = 0;

        assert_int_equal(sscanf(word, "v%d@%d", &type, &index), 2);
        for (int i = 0; i < owner->num_gids; i++) {
            const struct vrb_gid *g = &owner->gids[i];

            if (g->index == index && memcmp(g->raw, used->raw, VRB_GID_LEN) == 0) {
                found = g->type == used->type;
            }
        }
        assert_int_equal(used->type, type);
        assert_true(found);
    } else if (strncmp(word, "lid", 3) == 0) {
        assert_int_equal(lid, atoi(word + 3));
    } else {
        struct vrb_gid g = gid(VRB_GID_IB, 0, word + 4);

        assert_memory_equal(g.raw, used->raw, VRB_GID_LEN);
    }
}

static void check_path(const char *want, const struct vrb_address *a, const struct vrb_address *b,
                       const struct vrb_path *path)
{
    char words[200], *word, *save;

    snprintf(words, sizeof(words), "%s", want);
    word = strtok_r(words, " ", &save);
    check_end(word, a, &path->sgid, (uint16_t)(a->lid + path->src_path_bits));
    if (path->link == VRB_LINK_ROCE) {
        assert_int_equal(path->sgid_index, atoi(strchr(word, '@') + 1));
    }
    word = strtok_r(NULL, " ", &save);
    assert_string_equal(word, ">");
    check_end(strtok_r(NULL, " ", &save), b, &path->dgid, path->dlid);
    while ((word = strtok_r(NULL, " ", &save)) != NULL) {
        if (strncmp(word, "hop", 3) == 0) {
            assert_int_equal(path->hop_limit, atoi(word + 3));
        } else if (strncmp(word, "mtu", 3) == 0) {
            assert_int_equal(128 << path->mtu, atoi(word + 3));
        } else if (strncmp(word, "near", 4) == 0) {
            assert_int_equal(path->near, atoi(word + 4));
        } else if (strncmp(word, "pkey", 4) == 0) {
            assert_int_equal(a->pkey, strtoul(word + 4, NULL, 16));
            assert_int_equal(b->pkey, strtoul(word + 4, NULL, 16));
        } else if (strcmp(word, "grh") == 0 || strcmp(word, "nogrh") == 0) {
            assert_int_equal(path->use_grh, word[0] == 'g');
        } else {
            fail_msg("'%s' is no word of a path", word);
        }
    }
}

static void check(const struct situation *s)
{
    struct vrb_address a = port(s->local, 111), b = port(s->remote, 222);
    struct vrb_address a_far = over_the_wire(&a), b_far = over_the_wire(&b);
    struct vrb_path path, back;
    const char *why = NULL, *back_why = NULL;
    int rc = vrb_choose(&a, &b_far, &path, &why);

    assert_int_equal(vrb_choose(&b, &a_far, &back, &back_why), rc);
    if (strncmp(s->want, "no: ", 4) == 0) {
        assert_int_equal(rc, VRB_ERR_UNREACH);
        assert_string_equal(why, back_why);
        assert_non_null(strstr(why, s->want + 4));
        return;
    }
    assert_int_equal(rc, VRB_OK);
    check_path(s->want, &a, &b, &path);
    assert_memory_equal(path.sgid.raw, back.dgid.raw, VRB_GID_LEN);
    assert_memory_equal(path.dgid.raw, back.sgid.raw, VRB_GID_LEN);
    assert_int_equal(path.mtu, back.mtu);
    assert_int_equal(path.use_grh, back.use_grh);
    assert_int_equal(path.hop_limit, back.hop_limit);
    assert_int_equal(path.flow_label, back.flow_label);
    assert_int_equal(path.src_path_bits, back.src_path_bits);
    if (path.link == VRB_LINK_IB) {
        assert_int_equal(back.dlid, a.lid + path.src_path_bits);
    }
}

static void all_situations(void **state)
{
    (void)state;
    assert_true(COUNT_OF(situations) >= 60);
    for (int i = 0; i < COUNT_OF(situations); i++) {
        print_message("# %s\n", situations[i].name);
        check(&situations[i]);
    }
}

/* An address handle cannot be made: the next pair, at both ends the same, until none is left. */
static void next_pairs(void **state)
{
    struct vrb_address a = port("v2@3=10.0.0.1/24 v2@5=2001:db8::1/64 v2@1=fe80::a", 1);
    struct vrb_address b = port("v2@3=10.0.0.2/24 v2@5=2001:db8::2/64 v2@1=fe80::b", 2);
    static const int order[] = {3, 5, 1};
    struct vrb_path path;
    const char *why = NULL;

    (void)state;
    for (int n = 0; n < 3; n++) {
        assert_int_equal(vrb_choose_nth(&a, &b, n, &path, &why), VRB_OK);
        assert_int_equal(path.sgid_index, order[n]);
        assert_int_equal(path.rank, n);
        assert_int_equal(path.pairs, 3);
    }
    assert_int_equal(vrb_choose_nth(&a, &b, 3, &path, &why), VRB_ERR_UNREACH);
    assert_string_equal(why, "all pairs of addresses were tried");
    a = port("lid=1 gid=fe80::1", 1);
    b = port("lid=2 gid=fe80::2", 2);
    assert_int_equal(vrb_choose_nth(&a, &b, 1, &path, &why), VRB_OK);
    assert_int_equal(path.use_grh, 1);
    assert_int_equal(vrb_choose_nth(&a, &b, 2, &path, &why), VRB_ERR_UNREACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_situations),
        cmocka_unit_test(next_pairs),
    };

    return cmocka_run_group_tests_name("situations", tests, NULL, NULL);
}
