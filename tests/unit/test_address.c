/* Published addresses: packed form, what is refused, what they look like in messages.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "gids.h"
#include "util/vrb_status.h"

static struct vrb_address ib_port(void)
{
    struct vrb_address a = {
        .link = VRB_LINK_IB,
        .mtu = 5,
        .lmc = 1,
        .grh_required = 1,
        .num_gids = 1,
        .lid = 0x1234,
        .pkey = 0xffff,
        .ud_qpn = 0xabcdef,
        .qkey = 0x01020304,
        .recv_size = 16384,
        .speed_mbps = 200000,
        .nonce = UINT64_C(0x0123456789abcdef),
        .num_pkeys = 2,
        .pkeys = {0x7fff, 0x8001},
    };

    a.gids[0] = gid(VRB_GID_IB, 0, "fe80::2:c903:1:2");
    return a;
}

static struct vrb_address roce_port(int num_gids)
{
    struct vrb_address a = {
        .link = VRB_LINK_ROCE,
        .mtu = 3,
        .pkey = 0xffff,
        .ud_qpn = 2,
        .qkey = 0x80000001,
        .recv_size = 4096,
        .speed_mbps = 25000,
    };

    for (int i = 0; i < num_gids; i++) {
        char ip[64];

        snprintf(ip, sizeof(ip), "::ffff:10.0.%d.1", i);
        a.gids[a.num_gids] = gid(i % 2 ? VRB_GID_ROCE_V1 : VRB_GID_ROCE_V2, i, ip);
        if (i % 3 == 2) {
            a.gids[a.num_gids].plen = 120;
            a.gids[a.num_gids].mtu = 5;
            a.gids[a.num_gids].vlan = 100;
            a.gids[a.num_gids].flags = VRB_GID_ROUTED;
        }
        a.num_gids++;
    }
    return a;
}

static void assert_same(const struct vrb_address *a, const struct vrb_address *b)
{
    assert_int_equal(a->link, b->link);
    assert_int_equal(a->mtu, b->mtu);
    assert_int_equal(a->lmc, b->lmc);
    assert_int_equal(a->grh_required, b->grh_required);
    assert_int_equal(a->num_gids, b->num_gids);
    assert_int_equal(a->lid, b->lid);
    assert_int_equal(a->pkey, b->pkey);
    assert_int_equal(a->ud_qpn, b->ud_qpn);
    assert_int_equal(a->qkey, b->qkey);
    assert_int_equal(a->recv_size, b->recv_size);
    assert_int_equal(a->speed_mbps, b->speed_mbps);
    assert_int_equal(a->nonce, b->nonce);
    assert_int_equal(a->num_pkeys, b->num_pkeys);
    assert_memory_equal(a->pkeys, b->pkeys, sizeof(a->pkeys));
    for (int i = 0; i < a->num_gids; i++) {
        assert_int_equal(a->gids[i].type, b->gids[i].type);
        assert_memory_equal(a->gids[i].raw, b->gids[i].raw, VRB_GID_LEN);
        assert_int_equal(a->gids[i].plen, b->gids[i].plen);
        assert_int_equal(a->gids[i].mtu, b->gids[i].mtu);
        assert_int_equal(a->gids[i].vlan, b->gids[i].vlan);
        assert_int_equal(a->gids[i].flags, b->gids[i].flags);
    }
}

static void round_trip(void **state)
{
    (void)state;
    for (int n = 1; n <= VRB_MAX_RAILS; n++) {
        struct vrb_address in[VRB_MAX_RAILS], out[VRB_MAX_RAILS];
        uint8_t buf[4096];
        const char *why = NULL;

        for (int i = 0; i < n; i++) {
            in[i] = i % 3 == 1 ? ib_port() : roce_port(1 + i);
        }
        assert_true(vrb_address_packed_max(n) <= sizeof(buf));
        int len = vrb_address_pack(in, n, buf, vrb_address_packed_max(n));

        assert_true(len > 0 && (size_t)len <= vrb_address_packed_max(n));
        assert_int_equal(vrb_address_unpack(buf, (size_t)len, out, &why), n);
        for (int i = 0; i < n; i++) {
            assert_same(&in[i], &out[i]);
        }
    }
}

static void full_size(void **state)
{
    struct vrb_address in[VRB_MAX_RAILS];
    uint8_t buf[4096];

    (void)state;
    for (int i = 0; i < VRB_MAX_RAILS; i++) {
        in[i] = roce_port(VRB_MAX_GIDS);
        in[i].num_pkeys = VRB_MAX_PKEYS;
        for (int g = 0; g < VRB_MAX_GIDS; g++) {
            char ip[64];

            snprintf(ip, sizeof(ip), "2001:db8::%d", g);
            in[i].gids[g] = gid(VRB_GID_ROCE_V2, g, ip);
            in[i].gids[g].vlan = 7;
        }
    }
    size_t max = vrb_address_packed_max(VRB_MAX_RAILS);

    assert_int_equal(vrb_address_pack(in, VRB_MAX_RAILS, buf, max), max);
    assert_int_equal(vrb_address_pack(in, VRB_MAX_RAILS, buf, max - 1), VRB_ERR_ARG);
}

static void pack_refuses(void **state)
{
    struct vrb_address a[VRB_MAX_RAILS + 1] = {ib_port()};
    uint8_t buf[4096];

    (void)state;
    assert_int_equal(vrb_address_pack(a, 0, buf, sizeof(buf)), VRB_ERR_ARG);
    assert_int_equal(vrb_address_pack(a, VRB_MAX_RAILS + 1, buf, sizeof(buf)), VRB_ERR_ARG);
    assert_int_equal(vrb_address_pack(a, 1, buf, 10), VRB_ERR_ARG);
    a[0].num_gids = VRB_MAX_GIDS + 1;
    assert_int_equal(vrb_address_pack(a, 1, buf, sizeof(buf)), VRB_ERR_ARG);
    a[0] = roce_port(0);
    assert_int_equal(vrb_address_pack(a, 1, buf, sizeof(buf)), VRB_ERR_ARG);
}

static void cut_at_every_length(void **state)
{
    struct vrb_address in[2] = {roce_port(3), ib_port()}, out[VRB_MAX_RAILS];
    uint8_t buf[1024];
    int full = vrb_address_pack(in, 2, buf, sizeof(buf));

    (void)state;
    assert_true(full > 0);
    for (int len = 0; len < full; len++) {
        uint8_t *copy = exact_copy(buf, (size_t)len);
        const char *why = NULL;

        assert_int_equal(vrb_address_unpack(copy, (size_t)len, out, &why), VRB_ERR_MALFORMED);
        assert_non_null(why);
        free(copy);
    }
}

/* Packs one port, changes one byte, unpacks. */
static int with_byte(const struct vrb_address *a, int at, uint8_t value, struct vrb_address *out)
{
    uint8_t buf[1024];
    const char *why = NULL;
    int len = vrb_address_pack(a, 1, buf, sizeof(buf));

    assert_true(len > at);
    buf[at] = value;
    int rc = vrb_address_unpack(buf, (size_t)len, out, &why);

    assert_true(rc > 0 || why != NULL);
    return rc;
}

/* Where the first port's fields start: behind the head and the length. */
#define FIELDS 10

static void hostile_values(void **state)
{
    struct vrb_address ib = ib_port(), roce = roce_port(2), out[VRB_MAX_RAILS];

    (void)state;
    assert_int_equal(with_byte(&ib, 0, 'X', out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, 4, 1, out), VRB_ERR_NOTSUP);
    assert_int_equal(with_byte(&ib, 4, 2, out), VRB_ERR_NOTSUP);
    assert_int_equal(with_byte(&ib, 4, 4, out), VRB_ERR_NOTSUP);
    assert_int_equal(with_byte(&ib, 5, 'x', out), VRB_ERR_NOTSUP);
    assert_int_equal(with_byte(&ib, 6, 0, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, 6, VRB_MAX_RAILS + 1, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, 6, 2, out), VRB_ERR_MALFORMED);      /* one is there */
    assert_int_equal(with_byte(&ib, 8, 27, out), VRB_ERR_MALFORMED);     /* too short */
    assert_int_equal(with_byte(&ib, 9, 0xff, out), VRB_ERR_MALFORMED);   /* too long */
    assert_int_equal(with_byte(&ib, FIELDS, 0, out), VRB_ERR_MALFORMED); /* link */
    assert_int_equal(with_byte(&ib, FIELDS, 77, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, FIELDS + 1, 0, out), VRB_ERR_MALFORMED); /* MTU */
    assert_int_equal(with_byte(&ib, FIELDS + 1, 6, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, FIELDS + 3, 2, out),
                     VRB_ERR_MALFORMED); /* GIDs: one is there */
    assert_int_equal(with_byte(&ib, FIELDS + 3, 0xff, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, FIELDS + 4, 9, out), VRB_ERR_MALFORMED); /* P_Keys */
    assert_int_equal(with_byte(&ib, FIELDS + 4, 8, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&roce, FIELDS + 3, 0, out), VRB_ERR_MALFORMED);
    assert_int_equal(with_byte(&ib, FIELDS + 9, 0xc0, out), VRB_ERR_MALFORMED); /* multicast LID */
    ib.lid = 0xbffe;
    ib.lmc = 0;
    assert_int_equal(with_byte(&ib, FIELDS + 2, 0, out), 1);
    assert_int_equal(with_byte(&ib, FIELDS + 2, 7, out), VRB_ERR_MALFORMED); /* LMC beyond */
    ib.lid = 0x0012;
    assert_int_equal(with_byte(&ib, FIELDS + 8, 0, out), VRB_ERR_MALFORMED);   /* LID 0 */
    assert_int_equal(with_byte(&roce, FIELDS + 5, 1, out), VRB_ERR_MALFORMED); /* QP 1 */
    roce.recv_size = 4096;
    assert_int_equal(with_byte(&roce, FIELDS + 17, 0, out), VRB_ERR_MALFORMED);
}

/* GIDs that no packet can be sent to, or of a kind that only a later version knows. */
static void useless_gids_are_left_out(void **state)
{
    struct vrb_address a = roce_port(2), out[VRB_MAX_RAILS];
    const int gid0 = FIELDS + 32, second = gid0 + 6; /* each an IPv4 address without more */
    const uint8_t v2 = 0x08, ipv4 = 1, unknown = 3;

    (void)state;
    assert_int_equal(with_byte(&a, gid0, ipv4, out), 1); /* of InfiniBand */
    assert_int_equal(out[0].num_gids, 1);
    assert_memory_equal(out[0].gids[0].raw, a.gids[1].raw, VRB_GID_LEN);
    assert_int_equal(with_byte(&a, gid0 + 1, 129, out), 1); /* an impossible mask is no mask */
    assert_int_equal(out[0].num_gids, 2);
    assert_int_equal(out[0].gids[0].plen, 0);
    assert_int_equal(with_byte(&a, gid0, v2 | ipv4 | 7 << 4, out), 1); /* and MTU code 7 none */
    assert_int_equal(out[0].gids[0].mtu, 0);
    assert_int_equal(with_byte(&a, second, v2 | unknown, out), VRB_ERR_MALFORMED); /* cut short */
    a = roce_port(1);
    assert_int_equal(with_byte(&a, gid0, ipv4, out), VRB_ERR_MALFORMED); /* none is left */
    a.gids[0] = gid(VRB_GID_ROCE_V2, 0, "ff02::1");
    a.gids[1] = gid(VRB_GID_ROCE_V2, 1, "2001:db8::1");
    a.gids[2] = a.gids[1];
    a.gids[3] = gid(VRB_GID_ROCE_V2, 1, "::");
    a.gids[4] = gid(VRB_GID_ROCE_V2, 2, "::ffff:0.0.0.0");
    a.gids[5] = gid(VRB_GID_ROCE_V2, 3, "::ffff:239.1.2.3");
    a.gids[6] = gid(VRB_GID_ROCE_V2, 4, "::ffff:255.255.255.255");
    a.num_gids = 7;
    assert_int_equal(with_byte(&a, 7, 0, out), 1);
    assert_int_equal(out[0].num_gids, 1); /* no multicast, no empty one, nothing twice */
    assert_memory_equal(out[0].gids[0].raw, a.gids[1].raw, VRB_GID_LEN);
}

/* The usual table: one IPv4 and one link-local address, each as RoCE v1 and as v2. */
static void few_bytes(void **state)
{
    struct vrb_address a = roce_port(0), out[VRB_MAX_RAILS];
    uint8_t buf[256];
    const char *why;

    (void)state;
    a.gids[0] = gid(VRB_GID_ROCE_V2, 3, "::ffff:10.77.1.1");
    a.gids[1] = gid(VRB_GID_ROCE_V2, 1, "fe80::1");
    a.gids[2] = gid(VRB_GID_ROCE_V1, 2, "::ffff:10.77.1.1");
    a.gids[3] = gid(VRB_GID_ROCE_V1, 0, "fe80::1");
    for (int i = 0; i < 4; i++) {
        a.gids[i].plen = i % 2 ? 64 : 120;
        a.gids[i].vlan = VRB_VLAN_UNTAGGED;
    }
    a.num_gids = 4;
    int len = vrb_address_pack(&a, 1, buf, sizeof(buf));

    assert_int_equal(len, 8 + 2 + 32 + 20);
    assert_int_equal(vrb_address_unpack(buf, (size_t)len, out, &why), 1);
    assert_int_equal(out[0].num_gids, 4);
    for (int i = 0; i < 4; i++) {
        int found = 0;

        for (int j = 0; j < 4; j++) {
            found += out[0].gids[j].type == a.gids[i].type &&
                     out[0].gids[j].plen == a.gids[i].plen &&
                     memcmp(out[0].gids[j].raw, a.gids[i].raw, VRB_GID_LEN) == 0;
        }
        assert_int_equal(found, 1);
    }
}

/* More GIDs than this version has room for: the first ones count. */
static void more_gids_than_room(void **state)
{
    struct vrb_address a = roce_port(VRB_MAX_GIDS), out[VRB_MAX_RAILS];
    uint8_t buf[1024];
    const char *why;
    int len = vrb_address_pack(&a, 1, buf, sizeof(buf));

    (void)state;
    assert_true(len > 0);
    memcpy(buf + len, (const uint8_t[]){0x08 | 1, 0, 10, 9, 9, 9}, 6);
    buf[8] = (uint8_t)(buf[8] + 6);
    buf[FIELDS + 3]++;
    assert_int_equal(vrb_address_unpack(buf, (size_t)len + 6, out, &why), 1);
    assert_same(&out[0], &a);
}

/* What a process adds behind its ports. */
static void extras(void **state)
{
    struct vrb_address in[2] = {roce_port(1), ib_port()}, out[VRB_MAX_RAILS];
    uint8_t buf[512], n = 0;
    const char *why;
    int ports = vrb_address_pack(in, 2, buf, sizeof(buf));
    int len = vrb_address_extra_put(buf, (size_t)ports, sizeof(buf), 9, "abc", 3);

    (void)state;
    len = vrb_address_extra_put(buf, (size_t)len, sizeof(buf), VRB_EXTRA_TCP, "xyz!", 4);
    assert_int_equal(len, ports + 5 + 6);
    assert_int_equal(vrb_address_unpack(buf, (size_t)len, out, &why), 2);
    const uint8_t *found = vrb_address_extra_get(buf, (size_t)len, VRB_EXTRA_TCP, &n);

    assert_non_null(found);
    assert_int_equal(n, 4);
    assert_memory_equal(found, "xyz!", 4);
    assert_non_null(vrb_address_extra_get(buf, (size_t)len, 9, &n));
    assert_null(vrb_address_extra_get(buf, (size_t)len, 77, &n));
    for (int cut = 0; cut < len; cut++) {
        uint8_t *copy = exact_copy(buf, (size_t)cut);

        assert_null(vrb_address_extra_get(copy, (size_t)cut, VRB_EXTRA_TCP, &n));
        free(copy);
    }
    assert_int_equal(vrb_address_extra_put(buf, 10, 13, 1, "ab", 2), VRB_ERR_ARG);
    assert_int_equal(vrb_address_extra_put(buf, 14, 13, 1, "", 0), VRB_ERR_ARG);
}

/* A later version may append fields to each address, and addresses may be followed by more. */
static void longer_addresses(void **state)
{
    struct vrb_address in[2] = {roce_port(1), ib_port()}, out[VRB_MAX_RAILS];
    uint8_t buf[1024], longer[1024];
    const char *why = NULL;
    int len = vrb_address_pack(in, 2, buf, sizeof(buf));
    size_t first = 8 + 2 + (size_t)(buf[8] | buf[9] << 8);

    (void)state;
    memcpy(longer, buf, first);
    memset(longer + first, 0x5a, 5);
    longer[8] = (uint8_t)(longer[8] + 5);
    memcpy(longer + first + 5, buf + first, (size_t)len - first);
    memset(longer + len + 5, 0xa5, 11);
    assert_int_equal(vrb_address_unpack(longer, (size_t)len + 5 + 11, out, &why), 2);
    assert_same(&in[0], &out[0]);
    assert_same(&in[1], &out[1]);
}

static void random_changes(void **state)
{
    struct rng r = {5};
    struct vrb_address in[3] = {roce_port(3), ib_port(), roce_port(8)}, out[VRB_MAX_RAILS];
    uint8_t buf[1024];
    int len = vrb_address_pack(in, 3, buf, sizeof(buf));

    (void)state;
    for (int run = 0; run < 50000; run++) {
        uint8_t *copy = exact_copy(buf, (size_t)len);
        const char *why = NULL;

        for (int i = (int)rng_below(&r, 6); i >= 0; i--) {
            copy[rng_below(&r, (uint32_t)len)] = (uint8_t)rng_next(&r);
        }
        int n = vrb_address_unpack(copy, (size_t)len, out, &why);

        assert_true(n > 0 || why != NULL);
        for (int i = 0; i < n; i++) {
            assert_true(out[i].num_gids <= VRB_MAX_GIDS && out[i].mtu >= 1 && out[i].mtu <= 5);
            assert_true(out[i].link == VRB_LINK_IB || out[i].num_gids > 0);
        }
        free(copy);
    }
}

static void kinds_of_gids(void **state)
{
    struct vrb_gid ll = gid(2, 0, "fe80::1"), top = gid(2, 0, "febf::1"),
                   site = gid(2, 0, "fec0::1");
    struct vrb_gid v4 = gid(2, 0, "::ffff:10.1.2.3"), compat = gid(2, 0, "::10.1.2.3");
    struct vrb_gid none = {.type = 2};

    (void)state;
    assert_true(vrb_gid_is_link_local(ll.raw));
    assert_true(vrb_gid_is_link_local(top.raw));
    assert_false(vrb_gid_is_link_local(site.raw));
    assert_false(vrb_gid_is_link_local(v4.raw));
    assert_true(vrb_gid_is_ipv4(v4.raw));
    assert_false(vrb_gid_is_ipv4(compat.raw));
    assert_false(vrb_gid_is_ipv4(ll.raw));
    assert_true(vrb_gid_is_empty(none.raw));
    assert_false(vrb_gid_is_empty(v4.raw));
}

static void texts(void **state)
{
    struct vrb_address ib = ib_port(), roce = roce_port(2);
    struct vrb_gid none = {.type = VRB_GID_ROCE_V2};
    char buf[96], tiny[8];

    (void)state;
    ib.lid = 17;
    assert_string_equal(vrb_address_text(&ib, NULL, buf, sizeof(buf)), "LID 17 (0x11)");
    assert_string_equal(vrb_address_text(&ib, &ib.gids[0], buf, sizeof(buf)),
                        "LID 17 (0x11), GID fe80::2:c903:1:2");
    assert_string_equal(vrb_address_text(&roce, NULL, buf, sizeof(buf)),
                        "GID ::ffff:10.0.0.1 (RoCE v2)");
    assert_string_equal(vrb_address_text(&roce, &roce.gids[1], buf, sizeof(buf)),
                        "GID ::ffff:10.0.1.1 (RoCE v1)");
    assert_string_equal(vrb_gid_text(&none, buf, sizeof(buf)), "none");
    assert_string_equal(vrb_gid_text(&roce.gids[0], tiny, sizeof(tiny)), "::ffff:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),       cmocka_unit_test(full_size),
        cmocka_unit_test(pack_refuses),     cmocka_unit_test(cut_at_every_length),
        cmocka_unit_test(hostile_values),   cmocka_unit_test(useless_gids_are_left_out),
        cmocka_unit_test(longer_addresses), cmocka_unit_test(random_changes),
        cmocka_unit_test(kinds_of_gids),    cmocka_unit_test(texts),
        cmocka_unit_test(few_bytes),        cmocka_unit_test(more_gids_than_room),
        cmocka_unit_test(extras),
    };

    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
