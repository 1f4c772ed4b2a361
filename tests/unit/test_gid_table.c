/* Which entries of a GID table are published, in which order, and what is said of the others.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "device/vrb_query.h"
#include "gids.h"

enum { V1 = VRB_GID_ROCE_V1, V2 = VRB_GID_ROCE_V2 };

struct row {
    int type, index;
    const char *ip;
    int place;          /* in the list that is published, -1: not in it */
    const char *unused; /* then: a part of the reason */
};

static const struct row rows[] = {
    {V2, 0, "::ffff:127.0.0.1", 5, NULL},
    {V1, 1, "::ffff:10.0.0.1", 6, NULL},
    {V2, 2, "fe80::1", 3, NULL},
    {V2, 3, "2001:db8::1", 2, NULL},
    {V2, 4, "::ffff:10.0.0.1", 0, NULL},
    {V2, 5, "::ffff:10.0.0.1", -1, "the same address"},
    {V2, 6, "::ffff:0.0.0.0", -1, "unspecified"},
    {V2, 7, "::ffff:224.0.0.9", -1, "multicast"},
    {V2, 8, "ff0e::9", -1, "multicast"},
    {V2, 9, "::ffff:255.255.255.255", -1, "broadcast"},
    {V2, 10, "::ffff:169.254.1.1", 4, NULL},
    {VRB_GID_IB, 11, "2001:db8::2", -1, "RoCE version is unknown"},
    {V2, 255, "::ffff:10.0.0.255", 1, NULL},
    {V2, 256, "::ffff:10.0.1.0", -1, "above 255"},
    {V2, 1000, "2001:db8::3", -1, "above 255"},
};

static void what_is_published(void **state)
{
    struct vrb_gid_entry entries[COUNT_OF(rows)] = {{.ifindex = 0}};
    struct vrb_gid gids[VRB_MAX_GIDS];

    (void)state;
    for (int i = 0; i < COUNT_OF(rows); i++) {
        entries[i].gid = gid(rows[i].type, rows[i].index, rows[i].ip);
    }
    assert_int_equal(vrb_query_best_gids(entries, COUNT_OF(rows), VRB_LINK_ROCE, gids), 7);
    for (int i = 0; i < COUNT_OF(rows); i++) {
        print_message("# %s\n", rows[i].ip);
        if (rows[i].place < 0) {
            assert_non_null(entries[i].unused);
            assert_non_null(strstr(entries[i].unused, rows[i].unused));
        } else {
            assert_null(entries[i].unused);
            assert_int_equal(gids[rows[i].place].index, rows[i].index);
        }
    }
}

/* A host with more addresses than fit: the best are published, wherever they stand. */
static void a_full_list(void **state)
{
    struct vrb_gid_entry entries[128] = {{.ifindex = 0}};
    struct vrb_gid gids[VRB_MAX_GIDS];

    (void)state;
    for (int i = 0; i < 128; i++) {
        entries[i].gid = gid(V2, i, i < 120 ? "fe80::1" : "::ffff:10.0.0.1");
        entries[i].gid.raw[VRB_GID_LEN - 1] = (uint8_t)i;
    }
    assert_int_equal(vrb_query_best_gids(entries, 128, VRB_LINK_ROCE, gids), VRB_MAX_GIDS);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(gids[i].index, 120 + i);
        assert_int_equal(gids[8 + i].index, i);
    }
    assert_string_equal(entries[50].unused, "better ones fill the list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_published),
        cmocka_unit_test(a_full_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
