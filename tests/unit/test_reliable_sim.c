/* Reliable datagrams under random schedules and under the scenarios that they are made for.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * RELIABLE_SCHEDULES sets the number of random schedules (default 3000), RELIABLE_SEED the first
 * seed; a failure names the seed. */
#include "unit.h"

#include "reliable_sim.h"

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Runs, and requires that all arrived. */
static void run(const struct sim_config *cfg, struct sim_result *r)
{
    sim_run(cfg, r);
    if (r->error[0]) {
        fail_msg("%s", r->error);
    }
    if (!r->finished) {
        fail_msg("seed %llu: not finished at %llu ns: %llu of %llu delivered, %llu events",
                 (unsigned long long)cfg->seed, (unsigned long long)r->end_ns,
                 (unsigned long long)r->delivered,
                 (unsigned long long)cfg->senders * (cfg->packets + cfg->back),
                 (unsigned long long)r->events);
    }
    assert_int_equal(r->pool_left, 0);
}

#define AT_MOST(what, most)                                                \
    do {                                                                   \
        unsigned long long is_ = (unsigned long long)(what);               \
        if (is_ > (unsigned long long)(most)) {                            \
            fail_msg("%s is %llu, more than %s = %llu", #what, is_, #most, \
                     (unsigned long long)(most));                          \
        }                                                                  \
    } while (0)

/* A link of 32 Gb/s for packets of 4 KiB, RTT 11 us when empty. */
static void fast_link(struct sim_config *cfg, uint64_t seed)
{
    sim_defaults(cfg, seed);
    cfg->packets = 20000;
    cfg->slot_ns = 1 * SIM_US;
    cfg->queue = 256;
}

/* ---- anything may happen --------------------------------------------------------------------- */

static void random_schedules(void **state)
{
    uint64_t n = from_env("RELIABLE_SCHEDULES", 3000), first = from_env("RELIABLE_SEED", 1);
    uint64_t packets = 0, lost = 0, resent = 0, events = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++) {
        struct sim_config cfg;
        struct sim_result r;

        sim_random(&cfg, seed);
        run(&cfg, &r);
        /* Bounded work. An absence or a blackout costs some probes, and with 30 % loss the last
         * packet may need many; each packet costs a few events however bad things are. */
        if (r.events > 2000 + 60 * r.delivered) {
            fail_msg("seed %llu: %llu events for %llu packets", (unsigned long long)seed,
                     (unsigned long long)r.events, (unsigned long long)r.delivered);
        }
        packets += r.delivered;
        events += r.events;
        lost += r.data_lost;
        resent += r.tx.resent + r.rx.resent;
    }
    print_message("%llu schedules, %llu packets, %llu lost, %llu sent again, %llu events\n",
                  (unsigned long long)n, (unsigned long long)packets, (unsigned long long)lost,
                  (unsigned long long)resent, (unsigned long long)events);
}

/* Seeds that once found something: a timer that ran in two steps. */
static void seeds_to_remember(void **state)
{
    const uint64_t seeds[] = {1014207, 2070122, 3000086, 4014165};

    (void)state;
    for (int i = 0; i < COUNT_OF(seeds); i++) {
        struct sim_config cfg;
        struct sim_result r;

        sim_random(&cfg, seeds[i]);
        run(&cfg, &r);
    }
}

static void same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct sim_config cfg;
        struct sim_result a, b, c;

        sim_random(&cfg, seed);
        cfg.loss_ppm = 50000;
        cfg.packets = 300;
        run(&cfg, &a);
        run(&cfg, &b);
        assert_memory_equal(&a, &b, sizeof(a));
        cfg.seed++;
        run(&cfg, &c);
        assert_true(a.fingerprint != c.fingerprint);
    }
}

static void numbers_wrap(void **state)
{
    const uint32_t edges[] = {0, 1u << 16, 1u << 31, UINT32_MAX, UINT32_MAX - 1000};

    (void)state;
    for (int i = 0; i < COUNT_OF(edges); i++) {
        for (uint32_t before = 0; before < 40; before += 3) {
            struct sim_config cfg;
            struct sim_result r;

            sim_defaults(&cfg, before);
            cfg.start = edges[i] - before;
            cfg.packets = 2500;
            cfg.back = 100;
            cfg.loss_ppm = 20000;
            run(&cfg, &r);
        }
    }
}

/* ---- loss ------------------------------------------------------------------------------------ */

static void quiet_network_costs_nothing(void **state)
{
    struct sim_config cfg;
    struct sim_result r;

    (void)state;
    fast_link(&cfg, 1);
    run(&cfg, &r);
    assert_int_equal(r.tx.resent, 0);
    assert_int_equal(r.tx.timeouts, 0);
    /* The link is kept busy, with an acknowledgement for several packets. */
    AT_MOST(r.end_ns, cfg.packets * cfg.slot_ns * 102 / 100);
    AT_MOST(r.rx.acks_sent, cfg.packets / 4);
}

static void random_loss_costs_what_was_lost(void **state)
{
    const uint32_t ppm[] = {1000, 10000, 50000, 100000};

    (void)state;
    for (int i = 0; i < COUNT_OF(ppm); i++) {
        struct sim_config cfg;
        struct sim_result r;

        fast_link(&cfg, 7);
        cfg.loss_ppm = ppm[i];
        run(&cfg, &r);
        assert_true(r.data_lost > 0);
        AT_MOST(r.tx.resent * 10, r.data_lost * 13);
        /* Throughput: what the loss itself takes, and a little. */
        AT_MOST(r.end_ns, cfg.packets * cfg.slot_ns * 110 / 100 * 1000000 / (1000000 - ppm[i]));
    }
}

/* Each packet but the last ones, lost alone: it arrives two round trips later than without, at the
 * most. */
static void single_loss_costs_two_round_trips(void **state)
{
    struct sim_config cfg;
    struct sim_result r;

    (void)state;
    for (int n = 1; n <= 190; n++) {
        sim_defaults(&cfg, 1);
        cfg.packets = 200;
        cfg.drop_nth = n;
        run(&cfg, &r);
        assert_int_equal(r.tx.resent, 1);
        AT_MOST(r.nth_delivered_ns - r.nth_sent_ns - cfg.delay_ns, 2 * 2 * cfg.delay_ns);
    }
}

/* The last packet, lost: one probe timeout, which is RTT + its spread (at least 50 us) + the time
 * an acknowledgement may be held back, and the way. */
static void lost_tail_costs_a_probe_timeout(void **state)
{
    (void)state;
    for (uint32_t packets = 100; packets < 140; packets++) {
        struct sim_config cfg;
        struct sim_result r;

        sim_defaults(&cfg, 1);
        cfg.packets = packets;
        cfg.drop_nth = (int)packets;
        run(&cfg, &r);
        AT_MOST(r.tx.timeouts, 1);
        AT_MOST(r.tx.resent, 1);
        AT_MOST(r.nth_delivered_ns - r.nth_sent_ns,
                2 * cfg.delay_ns + 60 * SIM_US + cfg.rel.ack_delay_ns + cfg.delay_ns);
    }
}

/* ---- no loss --------------------------------------------------------------------------------- */

static void reordering_is_not_loss(void **state)
{
    const uint64_t late[] = {2 * SIM_US, 10 * SIM_US, 50 * SIM_US, 200 * SIM_US};

    (void)state;
    for (int i = 0; i < COUNT_OF(late); i++) {
        struct sim_config cfg;
        struct sim_result r;

        fast_link(&cfg, 3);
        cfg.late_ppm = 100000;
        cfg.late_ns = late[i];
        run(&cfg, &r);
        assert_true(r.tx.reordered > 100);
        AT_MOST(r.tx.resent, cfg.packets / 200);
        /* Every packet on its own way. */
        fast_link(&cfg, 4);
        cfg.jitter_ns = late[i];
        run(&cfg, &r);
        AT_MOST(r.tx.resent, cfg.packets / 100);
    }
}

static void duplicates_are_not_answered_by_more(void **state)
{
    struct sim_config cfg;
    struct sim_result r;

    (void)state;
    fast_link(&cfg, 5);
    cfg.dup_ppm = 300000;
    run(&cfg, &r);
    assert_true(r.rx.dup > cfg.packets / 5);
    assert_int_equal(r.tx.resent, 0);
}

/* ---- silence --------------------------------------------------------------------------------- */

static void blackout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_config cfg;
        struct sim_result r;

        fast_link(&cfg, seed);
        cfg.back = (uint32_t)(seed % 2) * 500;
        cfg.blackout[0].from = 3 * SIM_MS + seed * 1237;
        cfg.blackout[0].to = cfg.blackout[0].from + seed * SIM_SEC / 4;
        run(&cfg, &r);
        /* Work goes on after one probe at most, and little was sent in vain: a window, and two
         * packets per probe. */
        AT_MOST(r.end_ns,
                cfg.blackout[0].to + cfg.rel.probe_max_ns + cfg.packets * cfg.slot_ns * 11 / 10);
        AT_MOST(r.tx.resent, 600 + 2 * (seed * SIM_SEC / 4 / cfg.rel.probe_max_ns + 12));
    }
}

static void dead_only_after_the_configured_time(void **state)
{
    struct sim_config cfg;
    struct sim_result r;

    (void)state;
    fast_link(&cfg, 1);
    cfg.rel.dead_ns = 2 * SIM_SEC;
    cfg.blackout[0].from = SIM_MS;
    cfg.blackout[0].to = SIM_MS + 1500 * SIM_MS;
    run(&cfg, &r); /* too short to die of */
    assert_int_equal(r.died, 0);
    cfg.blackout[0].to = UINT64_MAX;
    sim_run(&cfg, &r);
    assert_string_equal(r.error, "");
    assert_int_equal(r.died, 1);
    assert_int_equal(r.tx.dead, 1);
    assert_true(r.end_ns >= 2 * SIM_SEC);
    AT_MOST(r.end_ns, 2 * SIM_SEC + 10 * SIM_MS);
    assert_int_equal(r.pool_left, 0); /* the simulator took the cookies back */
}

/* A process that computes is neither dead nor congested. */
static void absences(void **state)
{
    struct sim_config cfg;
    struct sim_result r;

    (void)state;
    fast_link(&cfg, 2);
    cfg.away_every_ns = 2 * SIM_MS;
    cfg.away_ns = 2 * SIM_MS;
    run(&cfg, &r);
    /* Either end is away for a third of the time, 1 ms each; what is left is used. */
    AT_MOST(r.end_ns, 4 * cfg.packets * cfg.slot_ns);
    AT_MOST(r.tx.resent, cfg.packets / 20);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void two_streams_share_a_link(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim_config cfg;
        struct sim_result r;

        fast_link(&cfg, seed);
        cfg.senders = 2;
        cfg.gap_ns = 200 * SIM_US; /* one starts when the other is there */
        run(&cfg, &r);
        AT_MOST(r.end_ns, 2 * cfg.packets * cfg.slot_ns * 105 / 100);
        uint64_t less = r.share[1] < r.share[2] ? r.share[1] : r.share[2];

        assert_true(less * 100 >= (uint64_t)cfg.packets * 35);
    }
}

static void incast(void **state)
{
    const uint32_t senders[] = {4, 16, 64};

    (void)state;
    for (int i = 0; i < COUNT_OF(senders); i++) {
        struct sim_config cfg;
        struct sim_result r;

        fast_link(&cfg, 1);
        cfg.senders = senders[i];
        cfg.packets = 32000 / senders[i];
        cfg.rq = 256;
        cfg.serve_ns = 900;
        cfg.share_rq = 1;
        cfg.gap_ns = 20 * SIM_US;
        cfg.jitter_ns = 2 * SIM_US;
        cfg.fifo = 1;
        run(&cfg, &r);
        AT_MOST(r.end_ns, 32000 * cfg.slot_ns * 14 / 10);
        AT_MOST(r.tx.resent, 32000 / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules),
        cmocka_unit_test(seeds_to_remember),
        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(numbers_wrap),
        cmocka_unit_test(quiet_network_costs_nothing),
        cmocka_unit_test(random_loss_costs_what_was_lost),
        cmocka_unit_test(single_loss_costs_two_round_trips),
        cmocka_unit_test(lost_tail_costs_a_probe_timeout),
        cmocka_unit_test(reordering_is_not_loss),
        cmocka_unit_test(duplicates_are_not_answered_by_more),
        cmocka_unit_test(blackout),
        cmocka_unit_test(dead_only_after_the_configured_time),
        cmocka_unit_test(absences),
        cmocka_unit_test(two_streams_share_a_link),
        cmocka_unit_test(incast),
    };

    return cmocka_run_group_tests_name("reliable_sim", tests, NULL, NULL);
}
