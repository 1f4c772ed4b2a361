/*
 * Unit test of the fault rules: what they select, what they refuse, and that no text can break
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fault_rule.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct shca_fault_shared table;

static int fresh(void **state)
{
    (void)state;
    memset(&table, 0, sizeof(table));
    shca_fault_attach(&table, 42, 0);
    return 0;
}

static void add(const char *rules)
{
    char err[200] = "";

    if (shca_fault_add(rules, false, err, sizeof(err))) {
        fail_msg("refused '%s': %s", rules, err);
    }
}

static void refused(const char *rules, const char *bad_word)
{
    char err[200] = "";

    assert_int_equal(shca_fault_add(rules, false, err, sizeof(err)), -1);
    if (!strstr(err, bad_word)) {
        fail_msg("'%s': message '%s' does not name '%s'", rules, err, bad_word);
    }
    assert_int_equal(table.slot[0].state, 0);
}

/* Passes the point n times; returns how often it hit. */
static int passes(enum shca_fault_point point, const struct shca_fault_site *site, int n)
{
    int hits = 0;

    while (n--) {
        hits += shca_fault_hit(point, site, NULL);
    }
    return hits;
}

static void test_no_rule(void **state)
{
    (void)state;
    assert_false(shca_fault_any());
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 100), 0);
}

static void test_nth_and_every(void **state)
{
    (void)state;
    add("rc.rnr nth=3; ud.dup every=4 count=2");
    assert_false(shca_fault_hit(SHCA_FAULT_RC_RNR, NULL, NULL));
    assert_false(shca_fault_hit(SHCA_FAULT_RC_RNR, NULL, NULL));
    assert_true(shca_fault_hit(SHCA_FAULT_RC_RNR, NULL, NULL));
    assert_int_equal(passes(SHCA_FAULT_RC_RNR, NULL, 100), 0);
    assert_int_equal(passes(SHCA_FAULT_UD_DUP, NULL, 7), 1);
    assert_int_equal(passes(SHCA_FAULT_UD_DUP, NULL, 100), 1);
    assert_int_equal(table.point_hits[SHCA_FAULT_UD_DUP], 2);
    assert_int_equal(table.slot[0].hits, 1);
    assert_int_equal(table.slot[0].passes, 103);
}

static void test_prob_is_seeded(void **state)
{
    int first;

    add("ud.drop prob=0.02");
    first = passes(SHCA_FAULT_UD_DROP, NULL, 100000);
    assert_in_range(first, 1800, 2200);
    fresh(state);
    add("ud.drop prob=2%");
    assert_in_range(passes(SHCA_FAULT_UD_DROP, NULL, 100000), 1800, 2200);
    fresh(state);
    add("ud.drop prob=0.02");
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 100000), first);
    memset(&table, 0, sizeof(table));
    shca_fault_attach(&table, 43, 0);
    add("ud.drop prob=0.02");
    assert_int_not_equal(passes(SHCA_FAULT_UD_DROP, NULL, 100000), first);
    fresh(state);
    add("ud.drop prob=0; rc.rnr prob=1");
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 1000), 0);
    assert_int_equal(passes(SHCA_FAULT_RC_RNR, NULL, 1000), 1000);
}

static void test_matches(void **state)
{
    struct shca_fault_site site = {.host = "n0",
                                   .dev = "shca0",
                                   .port = 1,
                                   .peer = "n1",
                                   .qpn = 77,
                                   .op = SHCA_FAULT_OP(IBV_WR_RDMA_READ),
                                   .qp_type = IBV_QPT_RC,
                                   .bytes = 4096};
    static const char *const yes[] = {
        "host=n0", "dev=shca0", "port=1", "qp=77",    "type=rc",
        "op=read", "peer=n1",   "min=4k", "max=4096", "min=1 max=1m op=read"};
    static const char *const no[] = {"host=n1",  "dev=shca1", "port=2", "qp=78",    "type=ud",
                                     "op=write", "peer=n0",   "min=5k", "max=4095", "op=send"};
    char rule[100];

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        fresh(state);
        snprintf(rule, sizeof(rule), "rc.retry_exc %s", yes[i]);
        add(rule);
        assert_int_equal(passes(SHCA_FAULT_RC_RETRY_EXC, &site, 5), 5);
        fresh(state);
        snprintf(rule, sizeof(rule), "rc.retry_exc %s", no[i]);
        add(rule);
        assert_int_equal(passes(SHCA_FAULT_RC_RETRY_EXC, &site, 5), 0);
    }
    fresh(state);
    add("rc.retry_exc op=read");
    assert_int_equal(passes(SHCA_FAULT_RC_RETRY_EXC, NULL, 5), 0);
}

static void test_arguments(void **state)
{
    struct shca_fault_args args;

    (void)state;
    add("reg_mr.fail; create_qp.fail errno=EAGAIN\n# a comment; with a rule\nwc.error "
        "status=REM_OP_ERR "
        "nth=1 # why\n wc.error status=12 ;; rc.delay us=250 ; gid.set host=n1 index=3 "
        "gid=10.0.0.1");
    assert_true(shca_fault_hit(SHCA_FAULT_REG_MR_FAIL, NULL, &args));
    assert_int_equal(args.err, ENOMEM);
    assert_true(shca_fault_hit(SHCA_FAULT_CREATE_QP_FAIL, NULL, &args));
    assert_int_equal(args.err, EAGAIN);
    assert_true(shca_fault_hit(SHCA_FAULT_WC_ERROR, NULL, &args));
    assert_int_equal(args.status, IBV_WC_REM_OP_ERR);
    assert_true(shca_fault_hit(SHCA_FAULT_WC_ERROR, NULL, &args));
    assert_int_equal(args.status, IBV_WC_RETRY_EXC_ERR);
    assert_true(shca_fault_hit(SHCA_FAULT_RC_DELAY, NULL, &args));
    assert_int_equal(args.us, 250);
    assert_true(shca_fault_hit(SHCA_FAULT_GID_SET, &(struct shca_fault_site){.host = "n1"}, &args));
    assert_int_equal(args.index, 3);
    assert_memory_equal(args.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
    assert_string_equal(args.host, "n1");
    assert_false(
        shca_fault_hit(SHCA_FAULT_GID_SET, &(struct shca_fault_site){.host = "n1"}, &args));
}

static void test_refusals(void **state)
{
    (void)state;
    refused("nonsense", "nonsense");
    refused("ud.drop; rc.nrr nth=1", "rc.nrr");
    refused("ud.drop often", "often");
    refused("ud.drop nht=3", "nht=3");
    refused("ud.drop =3", "=3");
    refused("ud.drop nth=", "nth=");
    refused("ud.drop nth=0", "nth=0");
    refused("ud.drop nth=-1", "nth=-1");
    refused("ud.drop nth=3x", "nth=3x");
    refused("ud.drop nth=99999999999999999999", "nth=9999");
    refused("ud.drop prob=1.5", "prob=1.5");
    refused("ud.drop prob=nan", "prob=nan");
    refused("ud.drop prob=1e-3", "prob=1e-3");
    refused("ud.drop nth=1 every=2", "ud.drop");
    refused("ud.drop us=5", "us=");
    refused("ud.delay", "us=");
    refused("ud.delay us=5000000000", "us=5000000000");
    refused("ud.drop at=5", "at=5");
    refused("ud.drop at=5h", "at=5h");
    refused("ud.drop host=a/b", "host=a/b");
    refused("ud.drop port=0", "port=0");
    refused("ud.drop min=2 max=1", "max=");
    refused("wc.error status=SUCCESS", "status=SUCCESS");
    refused("wc.error status=0", "status=0");
    refused("reg_mr.fail errno=0", "errno=0");
    refused("gid.set index=1 gid=10.0.0", "gid=10.0.0");
    refused("gid.set index=1", "gid=");
    refused("lid.set lid=0xffff", "lid=0xffff");
    refused("dev.fatal for=1s", "for=");
    refused("port.down at=1s count=2", "count=");
    refused("ud.drop \x01\xff=3", "\077?=3");
}

static void test_all_or_none(void **state)
{
    char rules[SHCA_FAULT_RULES * 40] = "", err[200];

    (void)state;
    refused("ud.drop nth=1; ud.drop nth=2; ud.drop nth=x", "nth=x");
    for (int i = 1; i <= SHCA_FAULT_RULES + 1; i++) {
        snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), "ud.drop nth=%d;", i);
    }
    assert_int_equal(shca_fault_add(rules, false, err, sizeof(err)), -1);
    assert_non_null(strstr(err, "full"));
    assert_int_equal(table.slot[0].state, 0);
}

static void test_same_rule_is_one(void **state)
{
    (void)state;
    add("ud.drop   nth=2");
    add("ud.drop nth=2");
    assert_int_equal(table.slot[1].state, 0);
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 10), 1);
}

static void test_remove(void **state)
{
    (void)state;
    add("ud.drop; ud.dup");
    assert_true(shca_fault_hit(SHCA_FAULT_UD_DROP, NULL, NULL));
    shca_fault_remove(0);
    assert_false(shca_fault_hit(SHCA_FAULT_UD_DROP, NULL, NULL));
    assert_true(shca_fault_hit(SHCA_FAULT_UD_DUP, NULL, NULL));
    shca_fault_remove(-1);
    assert_false(shca_fault_any());
    assert_int_equal(table.point_hits[SHCA_FAULT_UD_DROP], 1);
}

/* Lets the first rule be that many seconds old, and everybody read it again. */
static void given_ago(uint64_t seconds)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    table.slot[0].given_ns = ((uint64_t)now.tv_sec - seconds) * UINT64_C(1000000000);
    table.epoch++;
}

/* A window: hits only between at= and at= plus for=. */
static void test_window(void **state)
{
    (void)state;
    add("ud.drop at=1000s for=1000s");
    assert_false(shca_fault_hit(SHCA_FAULT_UD_DROP, NULL, NULL));
    given_ago(1500);
    assert_true(shca_fault_hit(SHCA_FAULT_UD_DROP, NULL, NULL));
    given_ago(3000);
    assert_false(shca_fault_hit(SHCA_FAULT_UD_DROP, NULL, NULL));
}

static void test_clock(void **state)
{
    struct shca_fault_args args;
    uint64_t due;

    (void)state;
    assert_int_equal(shca_fault_next(), UINT64_MAX);
    add("port.down host=n1 dev=shca0 port=1 at=10s for=200ms; dev.fatal at=5s");
    due = shca_fault_next();
    assert_int_equal(due, table.slot[1].given_ns + UINT64_C(5000000000));
    assert_false(shca_fault_due(due - 1, &args));
    assert_true(shca_fault_due(due, &args));
    assert_int_equal(args.point, SHCA_FAULT_DEV_FATAL);
    assert_false(shca_fault_due(due, &args));
    due = shca_fault_next();
    assert_int_equal(due, table.slot[0].given_ns + UINT64_C(10000000000));
    assert_true(shca_fault_due(due + 1, &args));
    assert_int_equal(args.point, SHCA_FAULT_PORT_DOWN);
    assert_string_equal(args.host, "n1");
    assert_string_equal(args.dev, "shca0");
    assert_int_equal(args.port, 1);
    assert_int_equal(args.for_ns, 200000000);
    assert_int_equal(shca_fault_next(), UINT64_MAX);
}

/* Runs body in another process of the same fabric; returns its exit status. */
static int in_child(struct shca_fault_shared *shared, uint64_t salt, int (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        shca_fault_attach(shared, 42, salt);
        _exit(body());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int child_drops(void)
{
    return passes(SHCA_FAULT_UD_DROP, NULL, 20);
}

static int child_injects(void)
{
    char err[200];

    return shca_fault_add("ud.drop", true, err, sizeof(err)) ? 1 : 0;
}

static int child_adds_own(void)
{
    char err[200];

    shca_fault_add("ud.drop count=5 scope=fabric", false, err, sizeof(err));
    return passes(SHCA_FAULT_UD_DROP, NULL, 20);
}

static void test_other_processes(void **state)
{
    struct shca_fault_shared *shared;

    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    shca_fault_attach(shared, 42, 0);
    /* a private rule does not concern others; a rule for everyone reaches a running process */
    add("ud.drop nth=1");
    assert_int_equal(in_child(shared, 1, child_drops), 0);
    assert_int_equal(in_child(shared, 1, child_injects), 0);
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 5), 5);
    assert_int_equal(in_child(shared, 1, child_drops), 20);
    shca_fault_remove(-1);
    /* scope=fabric: five hits in all */
    add("ud.drop count=5 scope=fabric");
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 3), 3);
    assert_int_equal(in_child(shared, 1, child_adds_own), 2);
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 3), 0);
    shca_fault_detach();
    munmap(shared, sizeof(*shared));
}

static void test_dead_lock_holder(void **state)
{
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    table.lock = (uint32_t)pid;
    add("ud.drop");
    assert_int_equal(table.lock, 0);
}

/* Any text is refused or accepted, never worse; mutated rules, all bytes, long words. */
static void test_hostile_text(void **state)
{
    static const char *const seeds[] = {
        "ud.drop prob=0.02 host=node1 dev=shca0 port=1 qp=17 type=ud op=send peer=n2 min=1 max=4k",
        "gid.set index=3 gid=fe80::1 host=n1 at=500ms", "port.down at=1s for=2s # comment",
        "wc.error status=REM_ACCESS_ERR every=7 count=3 scope=fabric;reg_mr.limit bytes=4m"};
    char text[600], err[200];
    uint32_t rng = 1;
    int accepted = 0;

    (void)state;
    for (int round = 0; round < 30000; round++) {
        int len = snprintf(text, sizeof(text), "%s", seeds[round % 4]);

        for (int i = round % 5; i >= 0; i--) {
            rng = rng * 1664525u + 1013904223u;
            switch (rng >> 30) {
            case 0:
                text[(rng >> 8) % (uint32_t)len] = (char)(rng >> 16);
                break;
            case 1:
                len = (int)((rng >> 8) % (uint32_t)len) + 1;
                text[len] = '\0';
                break;
            case 2:
                memset(text + len, 'a' + (int)(rng % 20), sizeof(text) - 1 - (size_t)len);
                text[sizeof(text) - 1] = '\0';
                break;
            default:
                text[(rng >> 8) % (uint32_t)len] = "=; #\n0"[(rng >> 4) % 6];
                break;
            }
        }
        if (shca_fault_check(text, err, sizeof(err)) == 0) {
            accepted++;
        } else {
            assert_true(strlen(err) > 10 && strlen(err) < sizeof(err));
        }
    }
    assert_in_range(accepted, 100, 29000);
    /* junk that another process left in the segment */
    memset(table.slot, 0xff, sizeof(table.slot));
    table.slot[0].state = table.slot[1].state = 2;
    memset(table.slot[1].text, 'x', SHCA_FAULT_TEXT);
    table.epoch++;
    assert_int_equal(passes(SHCA_FAULT_UD_DROP, NULL, 10), 0);
}

static void test_points_are_described(void **state)
{
    (void)state;
    for (int i = 0; i < SHCA_FAULT_POINTS; i++) {
        assert_non_null(strchr(shca_fault_point_name(i), '.'));
        assert_true(strlen(shca_fault_point_help(i)) > 10);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {
        TEST(test_no_rule),
        TEST(test_nth_and_every),
        TEST(test_prob_is_seeded),
        TEST(test_matches),
        TEST(test_arguments),
        TEST(test_refusals),
        TEST(test_all_or_none),
        TEST(test_same_rule_is_one),
        TEST(test_remove),
        TEST(test_window),
        TEST(test_clock),
        TEST(test_other_processes),
        TEST(test_hostile_text),
        TEST(test_dead_lock_holder),
        TEST(test_points_are_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
