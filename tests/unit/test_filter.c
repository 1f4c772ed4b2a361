/* if_include and if_exclude: what they let through, and what is said about bad lists.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "device/vrb_filter.h"
#include "util/vrb_status.h"

static void parse(struct vrb_filter *f, const char *include, const char *exclude)
{
    char err[128] = "";

    assert_int_equal(vrb_filter_parse(f, include, exclude, err, sizeof(err)), VRB_OK);
    assert_string_equal(err, "");
}

static void no_list_wants_all(void **state)
{
    static const char *const nothing[] = {NULL, "", "  ", ",", " , ,\t"};

    (void)state;
    for (int i = 0; i < COUNT_OF(nothing); i++) {
        for (int j = 0; j < COUNT_OF(nothing); j++) {
            struct vrb_filter f;
            char buf[16];

            parse(&f, nothing[i], nothing[j]);
            assert_true(vrb_filter_wants(&f, "mlx5_0", 1));
            assert_int_equal(vrb_filter_unused(&f, buf, sizeof(buf)), 0);
        }
    }
}

static void include_list(void **state)
{
    struct vrb_filter f;

    (void)state;
    parse(&f, " mlx5_0:2 ,mlx5_1,\tmlx5_3:255\n", NULL);
    assert_false(vrb_filter_wants(&f, "mlx5_0", 1));
    assert_true(vrb_filter_wants(&f, "mlx5_0", 2));
    assert_true(vrb_filter_wants(&f, "mlx5_1", 1));
    assert_true(vrb_filter_wants(&f, "mlx5_1", 2));
    assert_false(vrb_filter_wants(&f, "mlx5_2", 1));
    assert_true(vrb_filter_wants(&f, "mlx5_3", 255));
    assert_false(vrb_filter_wants(&f, "mlx5_10", 1));
    assert_false(vrb_filter_wants(&f, "mlx5_", 1));
}

/* Port 0: a device whose ports nobody could ask for. */
static void device_without_ports(void **state)
{
    struct vrb_filter f;
    char buf[32];

    (void)state;
    parse(&f, "mlx5_0:2", NULL);
    assert_true(vrb_filter_wants(&f, "mlx5_0", 0));
    assert_false(vrb_filter_wants(&f, "mlx5_1", 0));
    assert_int_equal(vrb_filter_unused(&f, buf, sizeof(buf)), 0);
    parse(&f, NULL, "mlx5_0:2,mlx5_1");
    assert_true(vrb_filter_wants(&f, "mlx5_0", 0));
    assert_false(vrb_filter_wants(&f, "mlx5_1", 0));
}

static void exclude_list(void **state)
{
    struct vrb_filter f;

    (void)state;
    parse(&f, "", "mlx5_0:1,,mlx5_1,");
    assert_false(vrb_filter_wants(&f, "mlx5_0", 1));
    assert_true(vrb_filter_wants(&f, "mlx5_0", 2));
    assert_false(vrb_filter_wants(&f, "mlx5_1", 2));
    assert_true(vrb_filter_wants(&f, "mlx5_2", 1));
}

static void unused_entries_are_named(void **state)
{
    struct vrb_filter f;
    char buf[64], tiny[6];

    (void)state;
    parse(&f, "shca0,mlx5_9:2,nope,shca0:1", NULL);
    assert_true(vrb_filter_wants(&f, "shca0", 1));
    assert_int_equal(vrb_filter_unused(&f, buf, sizeof(buf)), 2);
    assert_string_equal(buf, "mlx5_9:2, nope");
    assert_int_equal(vrb_filter_unused(&f, tiny, sizeof(tiny)), 2);
    assert_string_equal(tiny, "mlx5_");
    assert_int_equal(vrb_filter_unused(&f, NULL, 0), 2);
}

static void bad_lists(void **state)
{
    static const char long_name[] =
        "a23456789b123456789c123456789d123456789e123456789f123456789g1234";
    static const struct {
        const char *list, *says;
    } bad[] = {
        {"mlx5_0:x", "'mlx5_0:x': the port is not a number from 1 to 255"},
        {"mlx5_0:", "'mlx5_0:': the port is not a number from 1 to 255"},
        {"mlx5_0:0", "'mlx5_0:0': the port is not a number from 1 to 255"},
        {"mlx5_0:256", "'mlx5_0:256': the port is not a number from 1 to 255"},
        {"mlx5_0:-1", "'mlx5_0:-1': the port is not a number from 1 to 255"},
        {"mlx5_0:1:2", "'mlx5_0:1:2': the port is not a number from 1 to 255"},
        {"mlx5_0:99999999999999999999", "'mlx5_0:99999999999999999999': the port is not a number"},
        {"ok, :1", "':1': the device name is missing"},
        {long_name, "the device name is too long"},
    };

    (void)state;
    for (int i = 0; i < COUNT_OF(bad); i++) {
        struct vrb_filter f;
        char err[160];

        assert_int_equal(vrb_filter_parse(&f, bad[i].list, NULL, err, sizeof(err)), VRB_ERR_ARG);
        assert_non_null(strstr(err, bad[i].says));
        assert_int_equal(vrb_filter_parse(&f, NULL, bad[i].list, err, sizeof(err)), VRB_ERR_ARG);
        assert_non_null(strstr(err, bad[i].says));
        assert_int_equal(f.n, 0);
    }
}

static void both_lists(void **state)
{
    struct vrb_filter f;
    char err[80];

    (void)state;
    assert_int_equal(vrb_filter_parse(&f, "a", "b", err, sizeof(err)), VRB_ERR_ARG);
    assert_string_equal(err, "ports are both included and excluded: give one of the two lists");
}

static void long_lists(void **state)
{
    struct vrb_filter f;
    char list[2000] = "", err[160], buf[2000];

    (void)state;
    for (int i = 0; i < VRB_FILTER_MAX; i++) {
        snprintf(list + strlen(list), 16, "%sdev%d", i ? "," : "", i);
    }
    parse(&f, list, NULL);
    assert_int_equal(f.n, VRB_FILTER_MAX);
    assert_true(vrb_filter_wants(&f, "dev63", 1));
    assert_int_equal(vrb_filter_unused(&f, buf, sizeof(buf)), VRB_FILTER_MAX - 1);
    strcat(list, ",one_more");
    assert_int_equal(vrb_filter_parse(&f, list, NULL, err, sizeof(err)), VRB_ERR_ARG);
    assert_string_equal(err, "'one_more': the list has too many entries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_list_wants_all),
        cmocka_unit_test(include_list),
        cmocka_unit_test(device_without_ports),
        cmocka_unit_test(exclude_list),
        cmocka_unit_test(unused_entries_are_named),
        cmocka_unit_test(bad_lists),
        cmocka_unit_test(both_lists),
        cmocka_unit_test(long_lists),
    };

    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
