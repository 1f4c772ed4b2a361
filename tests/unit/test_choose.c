/* Which pair of addresses two ports use: cases that users reported, and symmetry.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "address/vrb_choose.h"
#include "gids.h"
#include "util/vrb_status.h"

enum { V1 = VRB_GID_ROCE_V1, V2 = VRB_GID_ROCE_V2 };

struct entry {
    int type, index;
    const char *ip; /* NULL ends a list */
};

static struct vrb_address roce(const struct entry *gids)
{
    struct vrb_address a = {.link = VRB_LINK_ROCE, .mtu = 3, .pkey = 0xffff, .ud_qpn = 10};

    for (; gids->ip; gids++) {
        assert_true(a.num_gids < VRB_MAX_GIDS);
        a.gids[a.num_gids++] = gid(gids->type, gids->index, gids->ip);
    }
    return a;
}

static struct vrb_address ib(uint16_t lid, uint16_t pkey, const char *ip)
{
    struct vrb_address a = {.link = VRB_LINK_IB, .mtu = 5, .lid = lid, .pkey = pkey, .ud_qpn = 10};

    if (ip) {
        a.gids[a.num_gids++] = gid(VRB_GID_IB, 0, ip);
    }
    return a;
}

/* Both directions at once: they must mirror each other. */
static int choose(const struct vrb_address *a, const struct vrb_address *b, struct vrb_path *path,
                  const char **why)
{
    struct vrb_path back;
    const char *back_why = NULL;
    int rc = vrb_choose(a, b, path, why);

    assert_int_equal(vrb_choose(b, a, &back, &back_why), rc);
    if (rc < 0) {
        assert_non_null(*why);
        assert_string_equal(*why, back_why);
        return rc;
    }
    assert_int_equal(path->sgid.type, back.dgid.type);
    assert_memory_equal(path->sgid.raw, back.dgid.raw, VRB_GID_LEN);
    assert_int_equal(path->dgid.type, back.sgid.type);
    assert_memory_equal(path->dgid.raw, back.sgid.raw, VRB_GID_LEN);
    assert_int_equal(path->link, back.link);
    assert_int_equal(path->mtu, back.mtu);
    assert_int_equal(path->use_grh, back.use_grh);
    assert_int_equal(path->hop_limit, back.hop_limit);
    assert_int_equal(path->pairs, back.pairs);
    assert_int_equal(path->near, back.near);
    assert_int_equal(path->flow_label, back.flow_label);
    if (path->link == VRB_LINK_IB) {
        /* An RC QP takes packets only from the LID that it sends to. */
        assert_int_equal(path->dlid, b->lid + back.src_path_bits);
        assert_int_equal(back.dlid, a->lid + path->src_path_bits);
        assert_true(path->src_path_bits < 1 << a->lmc);
    } else {
        assert_int_equal(path->use_grh, 1);
    }
    return rc;
}

struct roce_case {
    const char *name;
    struct entry local[VRB_MAX_GIDS + 1], remote[VRB_MAX_GIDS + 1];
    struct entry sgid, dgid; /* ip NULL: unreachable, and then: */
    const char *why;
};

static const struct roce_case roce_cases[] = {
    {
        .name = "link-local entries come first in the table, index 0 is never the answer",
        .local = {{V1, 0, "fe80::a"},
                  {V2, 1, "fe80::a"},
                  {V1, 2, "::ffff:10.0.0.1"},
                  {V2, 3, "::ffff:10.0.0.1"}},
        .remote = {{V1, 0, "fe80::b"},
                   {V2, 1, "fe80::b"},
                   {V1, 2, "::ffff:10.0.0.2"},
                   {V2, 3, "::ffff:10.0.0.2"}},
        .sgid = {V2, 3, "::ffff:10.0.0.1"},
        .dgid = {V2, 3, "::ffff:10.0.0.2"},
    },
    {
        .name = "the same table in another order at the other end",
        .local = {{V1, 0, "fe80::a"},
                  {V2, 1, "fe80::a"},
                  {V1, 2, "::ffff:10.0.0.1"},
                  {V2, 3, "::ffff:10.0.0.1"}},
        .remote = {{V2, 0, "fe80::b"}, {V2, 1, "::ffff:10.0.0.2"}},
        .sgid = {V2, 3, "::ffff:10.0.0.1"},
        .dgid = {V2, 1, "::ffff:10.0.0.2"},
    },
    {
        .name = "only one subnet is v2 at both ends",
        .local = {{V2, 3, "::ffff:10.0.0.1"}, {V2, 5, "::ffff:192.168.1.1"}},
        .remote = {{V2, 5, "::ffff:192.168.1.2"}, {V1, 2, "::ffff:10.0.0.2"}},
        .sgid = {V2, 5, "::ffff:192.168.1.1"},
        .dgid = {V2, 5, "::ffff:192.168.1.2"},
    },
    {
        .name = "a container's table: valid entries at 4 and 12 only",
        .local = {{V1, 4, "::ffff:172.20.0.5"}, {V2, 12, "::ffff:172.20.0.5"}},
        .remote = {{V1, 2, "::ffff:172.20.0.9"}, {V2, 3, "::ffff:172.20.0.9"}},
        .sgid = {V2, 12, "::ffff:172.20.0.5"},
        .dgid = {V2, 3, "::ffff:172.20.0.9"},
    },
    {
        .name = "IPv6 only: global, not link-local, wherever it stands",
        .local = {{V2, 1, "fe80::a"}, {V2, 7, "2001:db8::1"}},
        .remote = {{V2, 0, "2001:db8::2"}, {V2, 1, "fe80::b"}},
        .sgid = {V2, 7, "2001:db8::1"},
        .dgid = {V2, 0, "2001:db8::2"},
    },
    {
        .name = "link-local when nothing else exists",
        .local = {{V1, 0, "fe80::a"}, {V2, 1, "fe80::a"}},
        .remote = {{V1, 0, "fe80::b"}, {V2, 1, "fe80::b"}},
        .sgid = {V2, 1, "fe80::a"},
        .dgid = {V2, 1, "fe80::b"},
    },
    {
        .name = "v2 before v1, even if the v2 pair is link-local only",
        .local = {{V1, 2, "::ffff:10.0.0.1"}, {V2, 1, "fe80::a"}},
        .remote = {{V1, 2, "::ffff:10.0.0.2"}, {V2, 1, "fe80::b"}},
        .sgid = {V2, 1, "fe80::a"},
        .dgid = {V2, 1, "fe80::b"},
    },
    {
        .name = "v1 only",
        .local = {{V1, 2, "::ffff:10.0.0.1"}},
        .remote = {{V1, 4, "::ffff:10.0.0.2"}, {V2, 5, "::ffff:10.0.0.2"}},
        .sgid = {V1, 2, "::ffff:10.0.0.1"},
        .dgid = {V1, 4, "::ffff:10.0.0.2"},
    },
    {
        .name = "v1 against v2",
        .local = {{V1, 2, "::ffff:10.0.0.1"}},
        .remote = {{V2, 3, "::ffff:10.0.0.2"}},
        .why = "the ends have no address of the same RoCE version: one has v1 only, the other v2 "
               "only",
    },
    {
        .name = "unlike families are never tried",
        .local = {{V2, 3, "::ffff:10.0.0.1"}},
        .remote = {{V2, 3, "2001:db8::2"}, {V2, 1, "fe80::b"}},
        .why = "the ends have no address of the same family: one has IPv4, the other IPv6",
    },
    {
        .name = "global against link-local",
        .local = {{V2, 3, "2001:db8::1"}},
        .remote = {{V2, 1, "fe80::b"}},
        .why = "the GIDs of one end are link-local only, those of the other are not",
    },
    {
        .name = "IPv4 link-local is link-local",
        .local = {{V2, 1, "::ffff:169.254.7.1"}, {V2, 3, "2001:db8::1"}},
        .remote = {{V2, 1, "::ffff:169.254.7.2"}, {V2, 3, "2001:db8:5::2"}},
        .sgid = {V2, 3, "2001:db8::1"},
        .dgid = {V2, 3, "2001:db8:5::2"},
    },
    {
        .name = "routed: no subnet in common",
        .local = {{V2, 3, "::ffff:10.1.0.1"}},
        .remote = {{V2, 3, "::ffff:172.16.9.2"}},
        .sgid = {V2, 3, "::ffff:10.1.0.1"},
        .dgid = {V2, 3, "::ffff:172.16.9.2"},
    },
    {
        .name = "same subnet before routed",
        .local = {{V2, 3, "::ffff:10.1.0.1"}, {V2, 5, "::ffff:10.2.0.1"}},
        .remote = {{V2, 3, "::ffff:10.3.0.2"}, {V2, 9, "::ffff:10.2.0.2"}},
        .sgid = {V2, 5, "::ffff:10.2.0.1"},
        .dgid = {V2, 9, "::ffff:10.2.0.2"},
    },
    {
        .name = "two networks in common: the smallest address decides, at both ends",
        .local = {{V2, 5, "::ffff:10.2.0.1"}, {V2, 3, "::ffff:10.1.0.1"}},
        .remote = {{V2, 3, "::ffff:10.1.0.3"}, {V2, 5, "::ffff:10.2.0.3"}},
        .sgid = {V2, 3, "::ffff:10.1.0.1"},
        .dgid = {V2, 3, "::ffff:10.1.0.3"},
    },
    {
        .name = "one port at both ends: an address with itself",
        .local = {{V2, 3, "::ffff:10.1.0.1"}, {V2, 5, "::ffff:10.2.0.1"}},
        .remote = {{V2, 3, "::ffff:10.1.0.1"}, {V2, 5, "::ffff:10.2.0.1"}},
        .sgid = {V2, 3, "::ffff:10.1.0.1"},
        .dgid = {V2, 3, "::ffff:10.1.0.1"},
    },
    {
        .name = "an address that both hosts have (a bridge) comes last",
        .local = {{V2, 3, "::ffff:172.17.0.1"}, {V2, 5, "::ffff:10.2.0.1"}},
        .remote = {{V2, 3, "::ffff:172.17.0.1"}, {V2, 5, "::ffff:10.9.0.1"}},
        .sgid = {V2, 5, "::ffff:10.2.0.1"},
        .dgid = {V2, 5, "::ffff:10.9.0.1"},
    },
};

static void reported_roce_cases(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(roce_cases); i++) {
        const struct roce_case *c = &roce_cases[i];
        struct vrb_address local = roce(c->local), remote = roce(c->remote);
        struct vrb_path path;
        const char *why = NULL;
        int rc = choose(&local, &remote, &path, &why);

        print_message("# %s\n", c->name);
        if (!c->sgid.ip) {
            assert_int_equal(rc, VRB_ERR_UNREACH);
            assert_string_equal(why, c->why);
            continue;
        }
        struct vrb_gid sgid = gid(c->sgid.type, c->sgid.index, c->sgid.ip);
        struct vrb_gid dgid = gid(c->dgid.type, c->dgid.index, c->dgid.ip);

        assert_int_equal(rc, VRB_OK);
        assert_int_equal(path.sgid.type, sgid.type);
        assert_memory_equal(path.sgid.raw, sgid.raw, VRB_GID_LEN);
        assert_memory_equal(path.dgid.raw, dgid.raw, VRB_GID_LEN);
        assert_int_equal(path.sgid_index, c->sgid.index);
        assert_int_equal(path.hop_limit, vrb_gid_is_link_local(sgid.raw) ? 1 : 64);
    }
}

static void mtu_is_the_smaller(void **state)
{
    const struct entry list[] = {{V2, 0, "::ffff:10.0.0.1"}, {0}};
    struct vrb_address a = roce(list), b = roce(list);
    struct vrb_path path;
    const char *why;

    (void)state;
    for (int x = 1; x <= 5; x++) {
        for (int y = 1; y <= 5; y++) {
            a.mtu = (uint8_t)x;
            b.mtu = (uint8_t)y;
            assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
            assert_int_equal(path.mtu, x < y ? x : y);
        }
    }
}

static void link_layers_do_not_mix(void **state)
{
    const struct entry list[] = {{V2, 0, "::ffff:10.0.0.1"}, {0}};
    struct vrb_address a = roce(list), b = ib(3, 0xffff, "fe80::3");
    struct vrb_path path;
    const char *why;

    (void)state;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_ERR_UNREACH);
    assert_string_equal(why, "one end is InfiniBand, the other RoCE");
}

static void partitions(void **state)
{
    const struct {
        uint16_t a, b;
        const char *why;
    } cases[] = {
        {0xffff, 0xffff, NULL},
        {0xffff, 0x7fff, NULL},
        {0x8001, 0x0001, NULL},
        {0x7fff, 0x7fff, "both ends are limited members of the partition"},
        {0x8001, 0x8002, "the ends use different partitions (P_Key)"},
        {0xffff, 0x8001, "the ends use different partitions (P_Key)"},
    };

    (void)state;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        struct vrb_address a = ib(1, cases[i].a, "fe80::1"), b = ib(2, cases[i].b, "fe80::2");
        struct vrb_path path;
        const char *why = NULL;

        assert_int_equal(choose(&a, &b, &path, &why), cases[i].why ? VRB_ERR_UNREACH : VRB_OK);
        if (cases[i].why) {
            assert_string_equal(why, cases[i].why);
        }
    }
}

static void pkey_table(void **state)
{
    const uint16_t limited_first[] = {0x7fff, 0, 0xffff, 0x8001};
    const uint16_t limited_only[] = {0, 0x8000, 0x7fff};
    const uint16_t tenant_first[] = {0x8001, 0xffff, 0x8002};
    const uint16_t tenant_only[] = {0x7fff, 0x0001, 0x8002, 0x8003};
    const uint16_t empty[] = {0, 0};

    (void)state;
    assert_int_equal(vrb_choose_pkey(limited_first, 4, 0), 2);
    assert_int_equal(vrb_choose_pkey(limited_only, 3, 0), 2);
    assert_int_equal(vrb_choose_pkey(tenant_first, 3, 0), 1);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0), 2);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0x8003), 3);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0x0003), 3);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0xffff), 0);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0x8001), 1);
    assert_int_equal(vrb_choose_pkey(tenant_only, 4, 0x8009), -1);
    assert_int_equal(vrb_choose_pkey(empty, 2, 0), -1);
    assert_int_equal(vrb_choose_pkey(empty, 0, 0), -1);
}

static void ib_in_one_subnet_needs_no_grh(void **state)
{
    struct vrb_address a = ib(17, 0xffff, "fe80::1"), b = ib(18, 0xffff, "fe80::2");
    struct vrb_path path;
    const char *why;

    (void)state;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
    assert_int_equal(path.use_grh, 0);
    assert_int_equal(path.dlid, 18);
    b.grh_required = 1;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
    assert_int_equal(path.use_grh, 1);
    assert_memory_equal(path.dgid.raw, b.gids[0].raw, VRB_GID_LEN);
    b.num_gids = 0;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_ERR_UNREACH);
    b.grh_required = 0;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
}

static void ib_across_subnets_needs_a_grh(void **state)
{
    struct vrb_address a = ib(17, 0xffff, "fec0:0:0:1::1"), b = ib(17, 0xffff, "fec0:0:0:2::2");
    struct vrb_path path;
    const char *why;

    (void)state;
    assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
    assert_int_equal(path.use_grh, 1);
    assert_int_equal(path.hop_limit, 64);
}

static void path_bits_with_lmc(void **state)
{
    (void)state;
    for (int lmc = 0; lmc <= 7; lmc++) {
        struct vrb_address a = ib(0x80, 0xffff, "fe80::1"), b = ib(0x100, 0xffff, "fe80::2");
        struct vrb_path path;
        const char *why;

        a.lmc = (uint8_t)lmc;
        b.lmc = (uint8_t)(7 - lmc);
        assert_int_equal(choose(&a, &b, &path, &why), VRB_OK); /* checks the bits both ways */
    }
}

/* Addresses from small pools, so that lists share subnets and single addresses. */
static struct vrb_gid random_gid(struct rng *r, int index)
{
    char ip[64];

    switch (rng_below(r, 6)) {
    case 0:
        snprintf(ip, sizeof(ip), "fe80::%u", 1 + rng_below(r, 4));
        break;
    case 1:
        snprintf(ip, sizeof(ip), "2001:db8:%u::%u", rng_below(r, 3), 1 + rng_below(r, 4));
        break;
    case 2:
        snprintf(ip, sizeof(ip), "::ffff:169.254.0.%u", 1 + rng_below(r, 4));
        break;
    default:
        snprintf(ip, sizeof(ip), "::ffff:10.%u.0.%u", rng_below(r, 3), 1 + rng_below(r, 4));
        break;
    }
    struct vrb_gid g = gid(rng_chance(r, 30) ? V1 : V2, index, ip);
    static const uint8_t masks[] = {0, 64, 104, 120, 128};
    static const uint16_t vlans[] = {0, VRB_VLAN_UNTAGGED, 100, 200};

    g.plen = masks[rng_below(r, COUNT_OF(masks))];
    g.vlan = vlans[rng_below(r, COUNT_OF(vlans))];
    g.mtu = (uint8_t)rng_below(r, 6);
    g.flags = (uint8_t)rng_below(r, 2);
    return g;
}

static struct vrb_address random_port(struct rng *r)
{
    struct vrb_address a = {.mtu = (uint8_t)(1 + rng_below(r, 5)), .pkey = 0xffff};

    if (rng_chance(r, 15)) {
        char ip[64];

        snprintf(ip, sizeof(ip), "fec0:0:0:%u::%u", rng_below(r, 3), 1 + rng_below(r, 9));
        a = ib((uint16_t)(1 + rng_below(r, 1000)), rng_chance(r, 20) ? 0x7fff : 0xffff,
               rng_chance(r, 80) ? ip : NULL);
        a.grh_required = (uint8_t)rng_chance(r, 20);
        a.lmc = (uint8_t)rng_below(r, 8);
        a.lid = (uint16_t)(a.lid << 3 << (rng_chance(r, 50) ? 4 : 0));
        a.nonce = rng_next(r);
        return a;
    }
    a.nonce = rng_next(r);
    a.link = VRB_LINK_ROCE;
    /* Each once, as those who publish and those who read see to. */
    for (int i = 1 + (int)rng_below(r, VRB_MAX_GIDS); i > 0; i--) {
        struct vrb_gid g = random_gid(r, a.num_gids);
        int known = 0;

        for (int j = 0; j < a.num_gids; j++) {
            known |= a.gids[j].type == g.type && memcmp(a.gids[j].raw, g.raw, VRB_GID_LEN) == 0;
        }
        if (!known) {
            a.gids[a.num_gids++] = g;
        }
    }
    return a;
}

/* All that must hold of two GIDs for packets to arrive. */
static void assert_possible(const struct vrb_path *p)
{
    assert_int_equal(p->sgid.type, p->dgid.type);
    assert_true(p->sgid.type == V1 || p->sgid.type == V2);
    assert_int_equal(vrb_gid_is_ipv4(p->sgid.raw), vrb_gid_is_ipv4(p->dgid.raw));
    assert_int_equal(vrb_gid_is_link_scope(p->sgid.raw), vrb_gid_is_link_scope(p->dgid.raw));
    assert_true(p->sgid.type == V2 || p->near != VRB_NEAR_OTHER);
    assert_in_range(p->mtu, 1, 5);
    assert_true(p->sgid.mtu == 0 || p->mtu <= p->sgid.mtu);
    assert_true(p->dgid.mtu == 0 || p->mtu <= p->dgid.mtu);
    assert_in_range(p->flow_label, 1, 0xfffff);
}

static void both_ends_agree(void **state)
{
    struct rng r = {6};
    int reached = 0;

    (void)state;
    for (int run = 0; run < 50000; run++) {
        struct vrb_address a = random_port(&r), b = rng_chance(&r, 10) ? a : random_port(&r);
        struct vrb_path path;
        const char *why = NULL;

        if (choose(&a, &b, &path, &why) < 0) {
            continue;
        }
        reached++;
        if (path.link == VRB_LINK_ROCE) {
            const struct vrb_gid *g = &a.gids[path.sgid_index];

            assert_memory_equal(g->raw, path.sgid.raw, VRB_GID_LEN);
            assert_int_equal(g->type, path.sgid.type);
            assert_int_equal(path.sgid.type, path.dgid.type);
            assert_possible(&path);
        }
    }
    assert_true(reached > 20000);
}

/* The way down the list when better pairs cannot be used: both ends walk the same one, it holds
 * every possible pair once, and it ends. */
static void both_ends_walk_the_same_list(void **state)
{
    struct rng r = {8};

    (void)state;
    for (int run = 0; run < 200; run++) {
        struct vrb_address a = random_port(&r), b = random_port(&r);
        struct vrb_path path, back, seen[VRB_MAX_GIDS * VRB_MAX_GIDS];
        const char *why = NULL, *back_why = NULL;
        int n = 0;

        while (vrb_choose_nth(&a, &b, n, &path, &why) == VRB_OK) {
            assert_int_equal(vrb_choose_nth(&b, &a, n, &back, &back_why), VRB_OK);
            assert_int_equal(path.rank, n);
            assert_int_equal(path.use_grh, back.use_grh);
            assert_int_equal(path.mtu, back.mtu);
            if (path.link == VRB_LINK_ROCE) {
                assert_possible(&path);
                assert_memory_equal(path.sgid.raw, back.dgid.raw, VRB_GID_LEN);
                assert_memory_equal(path.dgid.raw, back.sgid.raw, VRB_GID_LEN);
                assert_int_equal(path.sgid.type, back.sgid.type);
                for (int i = 0; i < n; i++) {
                    assert_true(memcmp(seen[i].sgid.raw, path.sgid.raw, VRB_GID_LEN) != 0 ||
                                memcmp(seen[i].dgid.raw, path.dgid.raw, VRB_GID_LEN) != 0 ||
                                seen[i].sgid.type != path.sgid.type);
                }
            }
            assert_true(n < COUNT_OF(seen));
            seen[n++] = path;
        }
        assert_int_equal(vrb_choose_nth(&b, &a, n, &back, &back_why), VRB_ERR_UNREACH);
        assert_non_null(why);
        assert_string_equal(why, back_why);
        assert_true(n == 0 || n == seen[0].pairs);
    }
}

/* The UDP source port that the kernel makes of a flow label (include/rdma/ib_verbs.h). */
static unsigned udp_port(uint32_t label)
{
    return 0xc000 | ((label & 0x3fff) ^ (label & 0xfc000) >> 14);
}

/* Connections of one port spread over equal-cost paths: each over a port of its own, as far as
 * chance allows, and over both halves of what any single bit decides. */
static void flow_labels_spread(void **state)
{
    static uint8_t used[65536];
    const struct entry list[] = {{V2, 0, "::ffff:10.0.0.1"}, {0}};
    struct vrb_address a = roce(list), b = roce(list);
    struct rng r = {9};
    int distinct = 0, ones[14] = {0};

    (void)state;
    a.nonce = rng_next(&r);
    for (int i = 0; i < 1000; i++) {
        struct vrb_path path, again;
        const char *why;

        b.nonce = rng_next(&r);
        assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
        assert_int_equal(choose(&a, &b, &again, &why), VRB_OK);
        assert_int_equal(path.flow_label, again.flow_label);
        distinct += !used[udp_port(path.flow_label)];
        used[udp_port(path.flow_label)] = 1;
        for (int bit = 0; bit < 14; bit++) {
            ones[bit] += udp_port(path.flow_label) >> bit & 1;
        }
    }
    assert_true(distinct > 950); /* 970 of 1000 by chance, with 16384 ports */
    for (int bit = 0; bit < 14; bit++) {
        assert_in_range(ones[bit], 430, 570);
    }
}

/* The LIDs of a port with an LMC are all used, one by each connection. */
static void path_bits_spread(void **state)
{
    struct vrb_address a = ib(0x80, 0xffff, "fe80::1"), b = ib(0x100, 0xffff, "fe80::2");
    struct rng r = {10};
    int seen[4] = {0};

    (void)state;
    a.lmc = 2;
    b.lmc = 3;
    for (int i = 0; i < 400; i++) {
        struct vrb_path path;
        const char *why;

        b.nonce = rng_next(&r);
        assert_int_equal(choose(&a, &b, &path, &why), VRB_OK);
        assert_true(path.src_path_bits < 4);
        seen[path.src_path_bits]++;
    }
    for (int i = 0; i < 4; i++) {
        assert_in_range(seen[i], 60, 140);
    }
}

/* The order of the published list is a local fact: it must not change the pair. */
static void list_order_does_not_matter(void **state)
{
    struct rng r = {7};

    (void)state;
    for (int run = 0; run < 20000; run++) {
        struct vrb_address a = random_port(&r), b = random_port(&r), c = a;
        struct vrb_path path, again;
        const char *why = NULL;

        for (int i = 0; c.link == VRB_LINK_ROCE && i < c.num_gids; i++) {
            c.gids[i] = a.gids[(i + 1 + run) % a.num_gids];
        }
        int rc = choose(&a, &b, &path, &why);

        assert_int_equal(choose(&c, &b, &again, &why), rc);
        if (rc == VRB_OK) {
            assert_memory_equal(path.sgid.raw, again.sgid.raw, VRB_GID_LEN);
            assert_memory_equal(path.dgid.raw, again.dgid.raw, VRB_GID_LEN);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reported_roce_cases),
        cmocka_unit_test(mtu_is_the_smaller),
        cmocka_unit_test(link_layers_do_not_mix),
        cmocka_unit_test(partitions),
        cmocka_unit_test(pkey_table),
        cmocka_unit_test(ib_in_one_subnet_needs_no_grh),
        cmocka_unit_test(ib_across_subnets_needs_a_grh),
        cmocka_unit_test(path_bits_with_lmc),
        cmocka_unit_test(both_ends_agree),
        cmocka_unit_test(list_order_does_not_matter),
        cmocka_unit_test(both_ends_walk_the_same_list),
        cmocka_unit_test(flow_labels_spread),
        cmocka_unit_test(path_bits_spread),
    };

    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
