/* Which ports of two processes belong together: known layouts, and symmetry over random ones.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "address/vrb_choose.h"
#include "gids.h"
#include "util/vrb_status.h"

/* One port: "10.1.0.2" is RoCE v2, "ib:5" InfiniBand with that LID and the default subnet prefix,
 * "ib2:5" with another prefix. */
static struct vrb_address port(const char *text)
{
    struct vrb_address a = {.mtu = 3, .pkey = 0xffff};
    char ip[64];

    if (strncmp(text, "ib", 2) == 0) {
        a.link = VRB_LINK_IB;
        a.lid = (uint16_t)atoi(strchr(text, ':') + 1);
        snprintf(ip, sizeof(ip), "%s::%u", text[2] == '2' ? "fec0:0:0:2" : "fe80", a.lid);
        a.gids[a.num_gids++] = gid(VRB_GID_IB, 0, ip);
        return a;
    }
    a.link = VRB_LINK_ROCE;
    snprintf(ip, sizeof(ip), "%s%s", strchr(text, '.') ? "::ffff:" : "", text);
    a.gids[a.num_gids++] = gid(VRB_GID_ROCE_V2, 3, ip);
    return a;
}

/* Both processes compute: the maps must be each other's inverse. Returns the number of pairs. */
static int pair(const struct vrb_address *a, int na, const struct vrb_address *b, int nb,
                int a_first, int map[VRB_MAX_RAILS])
{
    int back[VRB_MAX_RAILS], pairs = 0;
    const char *why = NULL, *back_why = NULL;
    int n = vrb_choose_pairs(a, na, b, nb, a_first, map, &why);

    assert_int_equal(vrb_choose_pairs(b, nb, a, na, !a_first, back, &back_why), n);
    for (int i = 0; i < na; i++) {
        struct vrb_path path;
        const char *ignored;

        assert_in_range(map[i] + 1, 0, nb);
        if (map[i] >= 0) {
            assert_int_equal(back[map[i]], i);
            assert_int_equal(vrb_choose(&a[i], &b[map[i]], &path, &ignored), VRB_OK);
            pairs++;
        }
    }
    assert_int_equal(pairs, n);
    if (n == 0) {
        assert_non_null(why);
        assert_string_equal(why, back_why);
    }
    return n;
}

static const struct layout {
    const char *name;
    const char *a[VRB_MAX_RAILS], *b[VRB_MAX_RAILS];
    int map[VRB_MAX_RAILS];
} layouts[] = {
    {"one port each", {"10.1.0.1"}, {"10.1.0.2"}, {0}},
    {"two separate fabrics, no filter needed",
     {"10.1.0.1", "10.2.0.1"},
     {"10.1.0.2", "10.2.0.2"},
     {0, 1}},
    {"the same, found in another order",
     {"10.1.0.1", "10.2.0.1"},
     {"10.2.0.2", "10.1.0.2"},
     {1, 0}},
    {"one fabric: equal positions", {"10.1.0.1", "10.1.0.2"}, {"10.1.0.3", "10.1.0.4"}, {0, 1}},
    {"routed everywhere: equal positions",
     {"10.1.0.1", "10.1.1.1"},
     {"10.9.0.1", "10.9.1.1"},
     {0, 1}},
    {"InfiniBand and RoCE in another order", {"ib:1", "10.1.0.1"}, {"10.1.0.2", "ib:2"}, {1, 0}},
    {"two InfiniBand fabrics with prefixes of their own",
     {"ib:1", "ib2:1"},
     {"ib2:2", "ib:2"},
     {1, 0}},
    {"fewer ports there", {"10.1.0.1", "10.1.0.2", "10.1.0.3"}, {"10.1.0.9"}, {0, -1, -1}},
    {"more ports there", {"10.1.0.9"}, {"10.1.0.1", "10.1.0.2"}, {0}},
    {"only one of two fits", {"2001:db8::1", "10.1.0.1"}, {"10.1.0.2"}, {-1, 0}},
    {"nothing fits", {"2001:db8::1"}, {"10.1.0.2"}, {-1}},
};

static int ports(const char *const *text, struct vrb_address *out)
{
    int n = 0;

    while (n < VRB_MAX_RAILS && text[n]) {
        out[n] = port(text[n]);
        n++;
    }
    return n;
}

static void known_layouts(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(layouts); i++) {
        struct vrb_address a[VRB_MAX_RAILS], b[VRB_MAX_RAILS];
        int na = ports(layouts[i].a, a), nb = ports(layouts[i].b, b);

        print_message("# %s\n", layouts[i].name);
        for (int first = 0; first < 2; first++) {
            int map[VRB_MAX_RAILS];

            pair(a, na, b, nb, first, map);
            assert_memory_equal(map, layouts[i].map, (size_t)na * sizeof(int));
        }
    }
}

static void no_ports(void **state)
{
    struct vrb_address a[1] = {port("10.1.0.1")};
    int map[VRB_MAX_RAILS];
    const char *why = NULL;

    (void)state;
    assert_int_equal(vrb_choose_pairs(a, 1, a, 0, 1, map, &why), 0);
    assert_string_equal(why, "one end has no usable port");
    assert_int_equal(map[0], -1);
}

static void reason_of_the_first(void **state)
{
    struct vrb_address a[2] = {port("ib:1"), port("2001:db8::1")};
    struct vrb_address b[1] = {port("10.1.0.1")};
    int map[VRB_MAX_RAILS];
    const char *why = NULL;

    (void)state;
    assert_int_equal(vrb_choose_pairs(a, 2, b, 1, 1, map, &why), 0);
    assert_string_equal(why, "one end is InfiniBand, the other RoCE");
}

static struct vrb_address random_port(struct rng *r)
{
    char text[64];
    unsigned a = rng_below(r, 3), b = 1 + rng_below(r, 200);

    switch (rng_below(r, 5)) {
    case 0:
        snprintf(text, sizeof(text), "10.%u.0.%u", a, b);
        break;
    case 1:
        snprintf(text, sizeof(text), "10.1.%u.%u", a, b);
        break;
    case 2:
        snprintf(text, sizeof(text), "2001:db8:%u::%u", a, b);
        break;
    default:
        snprintf(text, sizeof(text), "%s:%u", a ? "ib" : "ib2", b);
        break;
    }
    return port(text);
}

static void random_layouts(void **state)
{
    struct rng r = {8};

    (void)state;
    for (int run = 0; run < 20000; run++) {
        struct vrb_address a[VRB_MAX_RAILS], b[VRB_MAX_RAILS];
        int na = (int)rng_below(&r, VRB_MAX_RAILS + 1), nb = (int)rng_below(&r, VRB_MAX_RAILS + 1);
        int map[VRB_MAX_RAILS], taken[VRB_MAX_RAILS] = {0};

        for (int i = 0; i < na; i++) {
            a[i] = random_port(&r);
        }
        for (int i = 0; i < nb; i++) {
            b[i] = random_port(&r);
        }
        pair(a, na, b, nb, run & 1, map);
        for (int i = 0; i < na; i++) {
            if (map[i] >= 0) {
                taken[map[i]]++;
            }
        }
        for (int j = 0; j < nb; j++) {
            assert_true(taken[j] <= 1);
        }
        /* Nothing that fits is left over on both sides. */
        for (int i = 0; i < na; i++) {
            for (int j = 0; j < nb; j++) {
                struct vrb_path path;
                const char *why;

                assert_false(map[i] < 0 && !taken[j] &&
                             vrb_choose(&a[i], &b[j], &path, &why) == VRB_OK);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_layouts),
        cmocka_unit_test(no_ports),
        cmocka_unit_test(reason_of_the_first),
        cmocka_unit_test(random_layouts),
    };

    return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
