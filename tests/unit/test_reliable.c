/* The reliable datagram engine: memory, receiving, acknowledgements, and peers that lie.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_fixture.h"

#include "reliable/vrb_rel_num.h"

/* ---- numbers, pool --------------------------------------------------------------------------- */

static void numbers_expand(void **state)
{
    struct rng r = {1};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t near = (UINT64_C(1) << 33) + (rng_next(&r) >> 8);
        int64_t off = (int64_t)(int32_t)rng_next(&r);

        if (off == INT32_MIN) {
            continue; /* as far up as down */
        }
        uint64_t number = near + (uint64_t)off;

        assert_true(vrb_rel_expand((uint32_t)number, near) == number);
    }
}

static void pool_gives_and_takes(void **state)
{
    struct vrb_rel_pool pool;
    uint16_t got[10];

    (void)state;
    assert_int_equal(vrb_rel_pool_init(&pool, 10), VRB_OK);
    for (int round = 0; round < 3; round++) {
        unsigned seen = 0;

        for (int i = 0; i < 10; i++) {
            assert_false(vrb_rel_pool_empty(&pool));
            got[i] = vrb_rel_pool_get(&pool);
            assert_true(got[i] < 10 && !(seen & 1u << got[i]));
            seen |= 1u << got[i];
        }
        assert_true(vrb_rel_pool_empty(&pool));
        assert_int_equal(vrb_rel_pool_get(&pool), VRB_REL_NIL);
        for (int i = 0; i < 10; i++) {
            vrb_rel_pool_put(&pool, got[(i * 7 + round) % 10]);
        }
        assert_int_equal(pool.in_use, 0);
    }
    vrb_rel_pool_fini(&pool);
    /* What was never used at once was never touched. */
    assert_int_equal(vrb_rel_pool_init(&pool, 1000000), VRB_OK);
    assert_int_equal(pool.total, VRB_REL_NIL);
    vrb_rel_pool_put(&pool, vrb_rel_pool_get(&pool));
    vrb_rel_pool_put(&pool, vrb_rel_pool_get(&pool));
    assert_int_equal(pool.touched, 1);
    vrb_rel_pool_fini(&pool);
}

static void idle_peers_hold_nothing(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    for (uint32_t i = 0; i < 100; i++) {
        send_some(&f, 1);
        assert_int_equal(f.env.pool.in_use, 1);
        f.now += 10 * US;
        assert_int_equal(acked(&f, i + 1, i, 0), 1);
        assert_ptr_equal(f.done[0], cookie(i));
        assert_int_equal(f.env.pool.in_use, 0);
        assert_true(vrb_rel_deadline(&f.rel) == UINT64_MAX);
    }
    assert_int_equal(f.env.pool.touched, 1);
    end(&f);
}

static void empty_pool_means_no_room(void **state)
{
    struct vrb_rel_config cfg;
    struct vrb_rel_env env;
    struct vrb_rel a, b;
    struct vrb_rel_numbers num;

    (void)state;
    vrb_rel_config_defaults(&cfg);
    assert_int_equal(vrb_rel_env_init(&env, &cfg, 1), VRB_OK);
    vrb_rel_init(&a, &env, 1, 0, 0);
    vrb_rel_init(&b, &env, 1, 0, 0);
    for (uint32_t i = 0; i < VRB_REL_CHUNK; i++) {
        assert_int_equal(vrb_rel_send(&a, cookie(i), 1, &num), VRB_OK);
    }
    assert_int_equal(vrb_rel_room(&a, 1), 0);
    assert_int_equal(vrb_rel_room(&b, 1), 0);
    assert_int_equal(vrb_rel_send(&b, cookie(0), 1, &num), VRB_ERR_AGAIN);
    while (vrb_rel_reclaim(&a)) {
    }
    assert_true(vrb_rel_room(&b, 1) > 0);
    vrb_rel_env_fini(&env);
}

/* What is given up keeps its numbers, and leaves again under them as something else. */
static void given_up_packets_keep_their_numbers(void **state)
{
    struct fixture f;
    struct vrb_rel_numbers num;
    uint64_t at = 0;
    void *instead = cookie(999), *got;
    uint32_t n = 0, resent = 0;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 8);
    assert_int_equal(acked(&f, 0, 7, 0x22), 2); /* 2 and 6 */
    while ((got = vrb_rel_replace(&f.rel, instead, &at)) != NULL) {
        assert_true(got != instead && got != cookie(2) && got != cookie(6));
        n++;
    }
    assert_int_equal(n, 6);
    assert_int_equal(vrb_rel_outstanding(&f.rel), 6);
    at = 0;
    assert_null(vrb_rel_replace(&f.rel, instead, &at));
    vrb_rel_revive(&f.rel, f.now);
    for (int i = 0; i < 20 && resent < 6; i++) {
        f.now += SEC;
        (void)vrb_rel_on_timer(&f.rel, f.now);
        while ((got = vrb_rel_resend(&f.rel, f.now, &num)) != NULL) {
            assert_ptr_equal(got, instead);
            assert_true(num.dseq - START < 8 && num.dseq - START != 2 && num.dseq - START != 6);
            resent++;
        }
    }
    assert_true(resent >= 6);
    assert_int_equal(acked(&f, 8, (uint32_t)f.rel.tx.next_pn - 1 - START, 0), 6);
    assert_int_equal(vrb_rel_outstanding(&f.rel), 0);
    end(&f);
}

/* A number is told from those that have not arrived without being taken. */
static void looking_takes_nothing(void **state)
{
    struct vrb_rel_rx rx;
    enum vrb_rel_order order;

    (void)state;
    vrb_rel_rx_init(&rx, UINT32_MAX - 3);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t dseq = UINT32_MAX - 3 + i;

        assert_false(vrb_rel_rx_has(&rx, dseq));
        assert_false(vrb_rel_rx_has(&rx, dseq + 5));
        if (i % 3 != 1) {
            assert_int_equal(vrb_rel_rx_take(&rx, dseq, &order), VRB_REL_NEW);
            assert_true(vrb_rel_rx_has(&rx, dseq));
        } else { /* late by one */
            assert_int_equal(vrb_rel_rx_take(&rx, dseq + 1, &order), VRB_REL_NEW);
            assert_false(vrb_rel_rx_has(&rx, dseq));
            assert_int_equal(vrb_rel_rx_take(&rx, dseq, &order), VRB_REL_NEW);
            assert_true(vrb_rel_rx_has(&rx, dseq) && vrb_rel_rx_has(&rx, dseq + 1));
            i++;
        }
    }
    assert_true(vrb_rel_rx_has(&rx, UINT32_MAX - 3));
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* The window against a model that remembers everything. */
static void window_tells_new_from_duplicate(void **state)
{
    struct rng r = {2};
    enum { SPACE = 10000 };
    static uint8_t seen[SPACE + VRB_REL_WINDOW];

    (void)state;
    for (int run = 0; run < 4; run++) {
        uint32_t start = run & 1 ? UINT32_MAX - 300 : (uint32_t)rng_next(&r);
        uint64_t base = 0;
        struct vrb_rel_rx rx;
        enum vrb_rel_order order;

        memset(seen, 0, sizeof(seen));
        vrb_rel_rx_init(&rx, start);
        while (base < SPACE - 2 * VRB_REL_WINDOW) {
            /* Mostly near the base, so that it moves. */
            int64_t n = (int64_t)base + (int64_t)rng_below(&r, rng_chance(&r, 90) ? 4 : 2500) -
                        (rng_chance(&r, 10) ? 1200 : 0);
            enum vrb_rel_verdict wanted = VRB_REL_NEW;

            if (n < (int64_t)base) {
                wanted = (int64_t)base - n > VRB_REL_WINDOW ? VRB_REL_STALE : VRB_REL_DUP;
            } else if (n >= (int64_t)base + VRB_REL_WINDOW) {
                wanted = VRB_REL_OUT_OF_WINDOW;
            } else if (seen[n]) {
                wanted = VRB_REL_DUP;
            }
            assert_int_equal(vrb_rel_rx_take(&rx, start + (uint32_t)n, &order), wanted);
            if (wanted == VRB_REL_NEW) {
                seen[n] = 1;
            }
            while (seen[base]) {
                base++;
            }
            /* And what is told about it. */
            struct vrb_ud_ack ack;

            if (!rng_chance(&r, 10)) {
                continue;
            }

            vrb_rel_rx_tell(&rx, &ack);
            assert_int_equal(ack.cum, start + (uint32_t)base);
            assert_true(ack.words <= VRB_UD_ACK_WORDS);
            for (uint32_t i = 0; i < 64u * ack.words; i++) {
                assert_int_equal(ack.bits[i / 64] >> i % 64 & 1, seen[base + 1 + i]);
            }
        }
    }
}

static void acknowledgements_are_delayed_or_not(void **state)
{
    struct fixture f;
    struct vrb_ud_ack ack;

    (void)state;
    begin(&f, NULL);
    assert_int_equal(vrb_rel_build_ack(&f.rel, f.now, 16, &ack), 0); /* nothing to tell */
    /* In order: after a while. */
    assert_int_equal(vrb_rel_receive(&f.rel, START, START, 0, f.now), VRB_REL_NEW);
    assert_false(vrb_rel_ack_due(&f.rel, f.now));
    assert_true(vrb_rel_ack_useful(&f.rel));
    assert_true(vrb_rel_deadline(&f.rel) == f.now + f.env.cfg.ack_delay_ns);
    f.now += f.env.cfg.ack_delay_ns;
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    assert_int_equal(vrb_rel_build_ack(&f.rel, f.now, 0, &ack), 1);
    assert_int_equal(ack.cum, START + 1);
    assert_int_equal(ack.echo, START);
    assert_int_equal(ack.delay, f.env.cfg.ack_delay_ns / VRB_UD_DELAY_UNIT);
    assert_int_equal(ack.buffers, f.env.cfg.buffers);
    assert_false(vrb_rel_ack_useful(&f.rel));
    /* Asked, a hole opened, a hole filled, a duplicate: at once. */
    vrb_rel_receive(&f.rel, START + 1, START + 1, VRB_UD_ASK, f.now);
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    vrb_rel_build_ack(&f.rel, f.now, 16, &ack);
    vrb_rel_receive(&f.rel, START + 3, START + 3, 0, f.now);
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    assert_int_equal(vrb_rel_build_ack(&f.rel, f.now, 0, &ack), 0); /* does not fit */
    assert_int_equal(vrb_rel_build_ack(&f.rel, f.now, 1, &ack), 1);
    assert_int_equal(ack.cum, START + 2);
    assert_int_equal(ack.bits[0], 1);
    vrb_rel_receive(&f.rel, START + 2, START + 2, 0, f.now);
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    vrb_rel_build_ack(&f.rel, f.now, 16, &ack);
    assert_int_equal(ack.cum, START + 4);
    assert_int_equal(ack.echo, START + 3);
    assert_int_equal(vrb_rel_receive(&f.rel, START + 2, START + 2, 0, f.now), VRB_REL_DUP);
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    vrb_rel_build_ack(&f.rel, f.now, 16, &ack);
    assert_int_equal(ack.repeats, 0); /* the network's copy */
    assert_int_equal(vrb_rel_receive(&f.rel, START + 9, START + 2, VRB_UD_AGAIN, f.now),
                     VRB_REL_DUP);
    vrb_rel_build_ack(&f.rel, f.now, 16, &ack);
    assert_int_equal(ack.repeats, 1); /* sent again for nothing */
    /* Many in order: one for ack_every. */
    for (uint32_t i = 0; i < f.env.cfg.ack_every; i++) {
        assert_false(vrb_rel_ack_due(&f.rel, f.now));
        vrb_rel_receive(&f.rel, START + 10 + i, START + 4 + i, 0, f.now);
    }
    assert_true(vrb_rel_ack_due(&f.rel, f.now));
    end(&f);
}

static void refused_packets_change_nothing(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    vrb_rel_receive(&f.rel, START, START, 0, f.now);
    struct vrb_rel before = f.rel;

    assert_int_equal(vrb_rel_receive(&f.rel, START + 5, START + 1 + VRB_REL_WINDOW, 0, f.now),
                     VRB_REL_OUT_OF_WINDOW);
    assert_int_equal(vrb_rel_receive(&f.rel, START + 5, START - VRB_REL_WINDOW, 0, f.now),
                     VRB_REL_STALE);
    assert_memory_equal(&before, &f.rel, sizeof(before));
    end(&f);
}

/* ---- acknowledgements that lie, or come late ------------------------------------------------- */

static void future_is_refused(void **state)
{
    struct fixture f;
    struct vrb_ud_ack ack = {.buffers = 64};

    (void)state;
    begin(&f, NULL);
    send_some(&f, 10);
    struct vrb_rel before = f.rel;

    ack.cum = START + 11; /* data never sent */
    ack.echo = START + 9;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), VRB_ERR_MALFORMED);
    ack.cum = START + 10;
    ack.echo = START + 10; /* a number never used */
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), VRB_ERR_MALFORMED);
    ack.cum = START; /* a bit beyond */
    ack.echo = START + 9;
    ack.words = 1;
    ack.bits[0] = UINT64_C(1) << 9;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), VRB_ERR_MALFORMED);
    ack.words = VRB_UD_ACK_WORDS + 1; /* a bitmap beyond */
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), VRB_ERR_MALFORMED);
    assert_memory_equal(&before, &f.rel, sizeof(before));
    assert_int_equal(f.env.stats.acks_refused, 4);
    ack.words = 1;
    ack.bits[0] = UINT64_C(1) << 8;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 1);
    end(&f);
}

static void late_acknowledgements_do_no_harm(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 30);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 20, 24, 0xe), 23);
    f.rel.cc.buffers = 77;
    struct vrb_rel before = f.rel;

    assert_int_equal(acked(&f, 0, 5, 0x1f), 0);
    assert_int_equal(acked(&f, 20, 23, 0x6), 0);
    assert_memory_equal(&before, &f.rel, sizeof(before));
    assert_int_equal(acked(&f, 30, 29, 0), 7);
    assert_int_equal(vrb_rel_outstanding(&f.rel), 0);
    end(&f);
}

/* Random acknowledgements around what is outstanding: every cookie comes back once at most. */
static void arbitrary_acknowledgements(void **state)
{
    struct rng r = {3};

    (void)state;
    for (int run = 0; run < 300; run++) {
        static uint8_t back[200000];
        struct vrb_rel_numbers num;
        struct fixture f;
        uint32_t sent = 0;

        memset(back, 0, sizeof(back));
        begin(&f, NULL);
        for (int step = 0; step < 300; step++) {
            struct vrb_ud_ack ack;

            while (vrb_rel_room(&f.rel, f.now) && !rng_chance(&r, 5)) {
                assert_int_equal(vrb_rel_send(&f.rel, cookie(sent++), f.now, &num), VRB_OK);
            }
            ack.cum = (uint32_t)f.rel.tx.una + rng_below(&r, 40) - 20;
            ack.echo = (uint32_t)f.rel.tx.next_pn - rng_below(&r, 60);
            ack.delay = (uint16_t)rng_next(&r);
            ack.buffers = (uint16_t)rng_below(&r, 200);
            ack.repeats = (uint8_t)rng_next(&r);
            ack.words = (uint8_t)rng_below(&r, rng_chance(&r, 90) ? 2 : VRB_UD_ACK_WORDS + 1);
            for (int i = 0; i < VRB_UD_ACK_WORDS; i++) {
                ack.bits[i] = rng_next(&r) & rng_next(&r) & UINT64_MAX >> rng_below(&r, 64);
            }
            int n = vrb_rel_on_ack(&f.rel, &ack, f.now, f.done);

            for (int i = 0; i < n; i++) {
                uint32_t index = (uint32_t)(uintptr_t)f.done[i] - 1;

                assert_true(index < sent && !back[index]);
                back[index] = 1;
            }
            f.now += rng_below(&r, 200000);
            assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
            while (vrb_rel_resend(&f.rel, f.now, &num)) {
                assert_false(back[num.dseq - START]);
            }
            assert_true(vrb_rel_outstanding(&f.rel) <= VRB_REL_SPAN);
        }
        end(&f);
    }
}

static void settings_are_brought_into_range(void **state)
{
    struct vrb_rel_config cfg, usual;

    (void)state;
    vrb_rel_config_defaults(&usual);
    cfg = usual;
    vrb_rel_config_clamp(&cfg);
    assert_memory_equal(&cfg, &usual, sizeof(cfg)); /* the defaults are */
    memset(&cfg, 0, sizeof(cfg));
    vrb_rel_config_clamp(&cfg);
    assert_true(cfg.cc.max >= 1 && cfg.cc.initial >= 1 && cfg.cc.floor >= 1 && cfg.rtt_ns &&
                cfg.ack_every && cfg.buffers && cfg.probe_max_ns && cfg.cc.target_ns);
    memset(&cfg, 0xff, sizeof(cfg));
    vrb_rel_config_clamp(&cfg);
    assert_true(cfg.cc.max <= VRB_REL_SPAN && cfg.cc.initial <= cfg.cc.max &&
                cfg.buffers <= VRB_REL_SPAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_expand),
        cmocka_unit_test(pool_gives_and_takes),
        cmocka_unit_test(idle_peers_hold_nothing),
        cmocka_unit_test(empty_pool_means_no_room),
        cmocka_unit_test(given_up_packets_keep_their_numbers),
        cmocka_unit_test(looking_takes_nothing),
        cmocka_unit_test(window_tells_new_from_duplicate),
        cmocka_unit_test(acknowledgements_are_delayed_or_not),
        cmocka_unit_test(refused_packets_change_nothing),
        cmocka_unit_test(future_is_refused),
        cmocka_unit_test(late_acknowledgements_do_no_harm),
        cmocka_unit_test(arbitrary_acknowledgements),
        cmocka_unit_test(settings_are_brought_into_range),
    };

    return cmocka_run_group_tests_name("reliable", tests, NULL, NULL);
}
