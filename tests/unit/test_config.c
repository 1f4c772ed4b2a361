/* Settings: defaults are in range, absurd values are brought into it with one warning each.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "rc/vrb_credit.h"
#include "vrb.h"

static char last[512];
static enum vrb_log_level last_level;
static int messages;

static void sink(enum vrb_log_level level, const char *text)
{
    snprintf(last, sizeof(last), "%s", text);
    last_level = level;
    messages++;
}

static int start(void **state)
{
    (void)state;
    last[0] = '\0';
    messages = 0;
    vrb_log_set(sink, VRB_LOG_WARN);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    vrb_log_set(NULL, VRB_LOG_ERROR);
    return 0;
}

static void defaults(void **state)
{
    struct vrb_config cfg, same;

    (void)state;
    vrb_config_defaults(&cfg);
    assert_int_equal(cfg.recv_size, 16384);
    assert_int_equal(cfg.recv_buffers, 512);
    assert_int_equal(cfg.credits, 64);
    assert_int_equal(cfg.sq_depth, 128);
    assert_int_equal(cfg.max_inline, 256);
    assert_int_equal(cfg.burst, 0);
    assert_int_equal(cfg.send_buffers, 1024);
    assert_int_equal(cfg.rd_atomic, 16);
    assert_int_equal(cfg.use_srq, 1);
    assert_int_equal(cfg.ib_timeout, 17);
    assert_int_equal(cfg.ib_retry_count, 7);
    assert_int_equal(cfg.connect_timeout, 60);
    assert_int_equal(cfg.rank, UINT64_MAX);
    same = cfg;
    vrb_config_clamp(&cfg, "btl_verbs_");
    assert_memory_equal(&cfg, &same, sizeof(cfg));
    assert_int_equal(messages, 0);
}

static void one_warning_names_it_all(void **state)
{
    struct vrb_config cfg;

    (void)state;
    vrb_config_defaults(&cfg);
    cfg.sq_depth = 1;
    vrb_config_clamp(&cfg, "btl_verbs_");
    assert_int_equal(cfg.sq_depth, 4);
    assert_int_equal(messages, 1);
    assert_int_equal(last_level, VRB_LOG_WARN);
    assert_string_equal(last, "btl_verbs_sq_depth = 1 is out of range (4 .. 32768); using 4");
}

static void credits_follow_buffers(void **state)
{
    struct vrb_config cfg;

    (void)state;
    vrb_config_defaults(&cfg);
    cfg.recv_buffers = 32;
    vrb_config_clamp(&cfg, "btl_verbs_");
    assert_int_equal(cfg.credits, 32);
    assert_int_equal(messages, 0); /* nobody asked for 64 */
    cfg.credits = 40;
    vrb_config_clamp(&cfg, "btl_verbs_");
    assert_int_equal(cfg.credits, 32);
    assert_int_equal(messages, 1);
    assert_string_equal(last, "btl_verbs_credits = 40 is out of range (2 .. 32); using 32");
}

static void everything_absurd(void **state)
{
    struct vrb_config low, high, again;

    (void)state;
    memset(&low, 0, sizeof(low));
    vrb_config_clamp(&low, NULL);
    assert_int_equal(low.max_inline, 0);
    assert_true(low.recv_size >= 512 && low.recv_buffers >= 8 && low.credits >= 2);
    assert_true(low.ib_timeout >= 1 && low.connect_timeout >= 1 && low.rd_atomic >= 1);
    memset(&high, 0xff, sizeof(high));
    vrb_config_clamp(&high, NULL);
    assert_true(high.credits <= VRB_CREDIT_MAX_WINDOW && high.credits <= high.recv_buffers);
    assert_true(high.ib_timeout < 32 && high.ib_retry_count <= 7 && high.sl <= 15);
    assert_true(high.rd_atomic <= 255 && high.use_srq == 1 && high.threads == 1);
    messages = 0;
    again = high;
    vrb_config_clamp(&again, NULL);
    assert_memory_equal(&again, &high, sizeof(high));
    assert_int_equal(messages, 0);
}

static void log_levels(void **state)
{
    (void)state;
    vrb_log(VRB_LOG_INFO, "not wanted");
    assert_int_equal(messages, 0);
    assert_false(vrb_log_wants(VRB_LOG_INFO));
    vrb_log(VRB_LOG_ERROR, "%s %d", "wanted", 1);
    assert_string_equal(last, "wanted 1");
    vrb_log_set(NULL, VRB_LOG_DEBUG);
    assert_false(vrb_log_wants(VRB_LOG_ERROR));
    vrb_log(VRB_LOG_ERROR, "nobody listens");
    assert_int_equal(messages, 1);
}

static void long_messages_are_cut(void **state)
{
    static char text[10000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    vrb_log(VRB_LOG_ERROR, "%s", text);
    assert_int_equal(messages, 1);
    assert_int_equal(strlen(last), sizeof(last) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults, start, stop),
        cmocka_unit_test_setup_teardown(one_warning_names_it_all, start, stop),
        cmocka_unit_test_setup_teardown(credits_follow_buffers, start, stop),
        cmocka_unit_test_setup_teardown(everything_absurd, start, stop),
        cmocka_unit_test_setup_teardown(log_levels, start, stop),
        cmocka_unit_test_setup_teardown(long_messages_are_cut, start, stop),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
