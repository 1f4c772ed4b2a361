/* The reliable datagram engine, concept by concept, and against peers that lie.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "reliable/vrb_rel.h"
#include "reliable/vrb_rel_num.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SEC (1000 * MS)
#define START 5000u

/* A sender whose packets are numbered from START, data and packet numbers alike. */
struct fixture {
    struct vrb_rel_env env;
    struct vrb_rel rel;
    uint64_t now;
    void *done[VRB_REL_WINDOW];
};

static void begin(struct fixture *f, const struct vrb_rel_config *cfg)
{
    struct vrb_rel_config usual;

    vrb_rel_config_defaults(&usual);
    assert_int_equal(vrb_rel_env_init(&f->env, cfg ? cfg : &usual, 256), VRB_OK);
    f->now = SEC;
    vrb_rel_init(&f->rel, &f->env, f->now, START, START);
}

static void end(struct fixture *f)
{
    while (vrb_rel_reclaim(&f->rel)) {
    }
    assert_int_equal(vrb_rel_outstanding(&f->rel), 0);
    assert_int_equal(f->env.pool.in_use, 0);
    vrb_rel_env_fini(&f->env);
}

static void *cookie(uint32_t i)
{
    return (void *)(uintptr_t)(i + 1);
}

static void send_some(struct fixture *f, uint32_t n)
{
    struct vrb_rel_numbers num;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = (uint32_t)f->rel.tx.next_dseq - START;

        assert_int_equal(vrb_rel_send(&f->rel, cookie(index), f->now, &num), VRB_OK);
    }
}

/* An acknowledgement: all below cum, and bits. */
static int acked(struct fixture *f, uint32_t cum, uint32_t echo, uint64_t bits)
{
    struct vrb_ud_ack ack = {.cum = START + cum,
                             .echo = START + echo,
                             .buffers = 512,
                             .words = bits ? 1 : 0,
                             .bits = {bits}};

    return vrb_rel_on_ack(&f->rel, &ack, f->now, f->done);
}

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

/* ---- receiving ------------------------------------------------------------------------------- */

/* The window against a model that remembers everything. */
static void window_tells_new_from_duplicate(void **state)
{
    struct rng r = {2};
    enum { SPACE = 20000 };
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

/* ---- loss ------------------------------------------------------------------------------------ */

static void packet_threshold(void **state)
{
    struct fixture f;
    struct vrb_rel_numbers num;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 6);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 0, 1, 1), 1); /* 1 arrived */
    assert_null(vrb_rel_resend(&f.rel, f.now, &num));
    assert_int_equal(acked(&f, 0, 2, 3), 1);
    assert_null(vrb_rel_resend(&f.rel, f.now, &num));
    assert_int_equal(acked(&f, 0, 3, 7), 1); /* three that left later */
    assert_ptr_equal(vrb_rel_resend(&f.rel, f.now, &num), cookie(0));
    assert_int_equal(num.dseq, START);
    assert_int_equal(num.pn, START + 6);
    assert_int_equal(num.flags, VRB_UD_AGAIN | VRB_UD_ASK);
    assert_null(vrb_rel_resend(&f.rel, f.now, &num));
    assert_int_equal(f.env.stats.timeouts, 0);
    /* The retransmission is lost as well: found in the same way, by newer numbers. */
    send_some(&f, 3);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 0, 9, 0xff), 5);
    assert_ptr_equal(vrb_rel_resend(&f.rel, f.now, &num), cookie(0));
    assert_int_equal(num.pn, START + 10);
    assert_int_equal(f.env.stats.timeouts, 0);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 9, 10, 0), 1);
    assert_int_equal(vrb_rel_outstanding(&f.rel), 0);
    end(&f);
}

static void time_threshold(void **state)
{
    struct fixture f;
    struct vrb_rel_numbers num;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 2);
    uint64_t sent = f.now;

    f.now += 80 * US;
    assert_int_equal(acked(&f, 0, 1, 1), 1);
    /* One that left later is here: 9/8 of a round trip. */
    assert_true(vrb_rel_deadline(&f.rel) == sent + 90 * US);
    f.now = sent + 90 * US - 1;
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
    assert_null(vrb_rel_resend(&f.rel, f.now, &num));
    f.now++;
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
    assert_ptr_equal(vrb_rel_resend(&f.rel, f.now, &num), cookie(0));
    assert_int_equal(f.env.stats.timeouts, 0);
    end(&f);
}

static void probes_back_off(void **state)
{
    struct fixture f;
    struct vrb_rel_numbers num;
    uint64_t last = 0;
    int timeouts = 0;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 32);
    while (f.now < 3 * SEC) {
        uint64_t when = vrb_rel_deadline(&f.rel);
        int n = 0;

        assert_true(when > f.now && when != UINT64_MAX);
        assert_true(when - f.now <= f.env.cfg.probe_max_ns);
        assert_true(when - f.now >= last / 2); /* never faster */
        last = when - f.now;
        f.now = when;
        assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
        while (vrb_rel_resend(&f.rel, f.now, &num)) {
            n++;
        }
        assert_true(n == 1 || n == 2);
        timeouts++;
    }
    assert_true(timeouts >= 20 && timeouts < 40); /* 2 s at 100 ms, and the way there */
    /* It ends: the newest probe arrived, everything else is found lost at once. */
    f.now += 10 * US;
    uint32_t newest = num.pn - START, probed = num.dseq - START;

    assert_int_equal(acked(&f, 0, newest, UINT64_C(1) << (probed - 1)), 1);
    assert_true(f.rel.tx.lost >= 30);
    assert_true(vrb_rel_resend(&f.rel, f.now, &num) != NULL);
    end(&f);
}

static void dead_once(void **state)
{
    struct vrb_rel_config cfg;
    struct vrb_rel_numbers num;
    struct fixture f;
    int reports = 0;

    (void)state;
    vrb_rel_config_defaults(&cfg);
    cfg.dead_ns = 700 * MS;
    begin(&f, &cfg);
    f.now += 10 * SEC; /* idle for long is no death */
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
    send_some(&f, 3);
    uint64_t from = f.now;

    while (!reports) {
        f.now = vrb_rel_deadline(&f.rel);
        assert_true(f.now <= from + 700 * MS);
        reports += vrb_rel_on_timer(&f.rel, f.now) == VRB_ERR_TIMEOUT;
        while (vrb_rel_resend(&f.rel, f.now, &num)) {
        }
    }
    assert_true(f.now == from + 700 * MS);
    assert_true(vrb_rel_deadline(&f.rel) == UINT64_MAX);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 0);
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now + SEC), VRB_OK);
    unsigned back = 0;

    for (void *c; (c = vrb_rel_reclaim(&f.rel));) {
        back |= 1u << (uintptr_t)c;
    }
    assert_int_equal(back, 2 | 4 | 8);
    end(&f);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void receiver_slows_but_never_stops(void **state)
{
    struct fixture f;
    struct vrb_ud_ack ack = {.cum = START + 1, .echo = START, .buffers = 0};

    (void)state;
    begin(&f, NULL);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 32);
    send_some(&f, 1);
    f.now += 10 * US;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 1);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 1);
    send_some(&f, 1);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 0);
    ack.cum = START + 2;
    ack.echo = START + 1;
    ack.buffers = 5;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 1);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 5);
    end(&f);
}

/* However long the first packet is missing, no more than the span is outstanding. */
static void span_is_bounded(void **state)
{
    struct vrb_rel_config cfg;
    struct vrb_rel_numbers num;
    struct fixture f;
    uint32_t sent = 0;

    (void)state;
    vrb_rel_config_defaults(&cfg);
    cfg.cc.initial = cfg.cc.max = VRB_REL_SPAN;
    begin(&f, &cfg);
    f.rel.cc.buffers = UINT16_MAX;
    for (int round = 0; round < 200; round++) {
        struct vrb_ud_ack ack = {.cum = START, .buffers = UINT16_MAX, .words = VRB_UD_ACK_WORDS};

        while (vrb_rel_room(&f.rel, f.now)) {
            assert_int_equal(vrb_rel_send(&f.rel, cookie(sent++), f.now, &num), VRB_OK);
        }
        assert_true(sent <= VRB_REL_SPAN);
        f.now += 10 * US;
        for (uint32_t i = 1; i < sent; i++) {
            ack.bits[(i - 1) / 64] |= UINT64_C(1) << (i - 1) % 64;
        }
        ack.echo = (uint32_t)f.rel.tx.next_pn - 1;
        assert_true(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done) >= 0);
        while (vrb_rel_resend(&f.rel, f.now, &num)) {
            assert_int_equal(num.dseq, START);
        }
    }
    assert_int_equal(sent, VRB_REL_SPAN);
    assert_int_equal(vrb_rel_outstanding(&f.rel), 1);
    assert_int_equal(f.env.pool.in_use, 1);
    end(&f);
}

static void delay_is_taken_out_and_absence_left_out(void **state)
{
    struct fixture f;
    struct vrb_ud_ack ack = {.cum = START + 1, .echo = START, .buffers = 64, .delay = 1000};

    (void)state;
    begin(&f, NULL);
    vrb_rel_env_poll(&f.env, f.now);
    send_some(&f, 1);
    f.now += 150 * US;
    f.env.polled = f.now; /* it polled all the time */
    vrb_rel_env_poll(&f.env, f.now);
    vrb_rel_on_ack(&f.rel, &ack, f.now, f.done);
    assert_int_equal(f.rel.rtt.srtt, 150 * US - 1000 * VRB_UD_DELAY_UNIT);
    assert_int_equal(vrb_rel_rtt_base(&f.rel.rtt), f.rel.rtt.srtt);
    /* A sample from before an absence feeds the timers only. */
    uint32_t window = f.rel.cc.cwnd, base = vrb_rel_rtt_base(&f.rel.rtt);

    for (uint32_t i = 1; i < 40; i++) {
        send_some(&f, 1);
        f.now += 5 * MS;
        vrb_rel_env_poll(&f.env, f.now);
        assert_int_equal(acked(&f, i + 1, i, 0), 1);
    }
    assert_true(f.rel.rtt.srtt > 4 * MS);
    assert_int_equal(vrb_rel_rtt_base(&f.rel.rtt), base);
    assert_true(f.rel.cc.cwnd >= window);
    /* The same delays while polling all the time are a queue. */
    for (uint32_t i = 40; i < 80; i++) {
        send_some(&f, 1);
        f.now += 5 * MS;
        f.env.polled = f.now;
        vrb_rel_env_poll(&f.env, f.now);
        assert_int_equal(acked(&f, i + 1, i, 0), 1);
    }
    assert_true(f.rel.cc.cwnd < window);
    end(&f);
}

static void below_one_packet_it_paces(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    f.rel.cc.cwnd = VRB_REL_CWND_ONE / 4;
    f.rel.rtt.srtt = 20 * US;
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 1);
    send_some(&f, 1);
    assert_int_equal(acked(&f, 1, 0, 0), 1);
    f.rel.cc.cwnd = VRB_REL_CWND_ONE / 4;
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 0);
    uint64_t when = vrb_rel_deadline(&f.rel);

    assert_true(when == f.now + 80 * US);
    f.now = when;
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 1);
    assert_true(vrb_rel_deadline(&f.rel) == UINT64_MAX);
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
        cmocka_unit_test(window_tells_new_from_duplicate),
        cmocka_unit_test(acknowledgements_are_delayed_or_not),
        cmocka_unit_test(refused_packets_change_nothing),
        cmocka_unit_test(packet_threshold),
        cmocka_unit_test(time_threshold),
        cmocka_unit_test(probes_back_off),
        cmocka_unit_test(dead_once),
        cmocka_unit_test(receiver_slows_but_never_stops),
        cmocka_unit_test(span_is_bounded),
        cmocka_unit_test(delay_is_taken_out_and_absence_left_out),
        cmocka_unit_test(below_one_packet_it_paces),
        cmocka_unit_test(future_is_refused),
        cmocka_unit_test(late_acknowledgements_do_no_harm),
        cmocka_unit_test(arbitrary_acknowledgements),
        cmocka_unit_test(settings_are_brought_into_range),
    };

    return cmocka_run_group_tests_name("reliable", tests, NULL, NULL);
}
