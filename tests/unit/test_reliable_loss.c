/* The reliable datagram engine: when packets count as lost, when it probes, how much it sends.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_fixture.h"

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

/* Packets that come late, but come, raise the tolerance beyond what was seen. */
static void tolerance_learns(void **state)
{
    struct vrb_rel_numbers num;
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 10);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 0, 3, 7), 3);
    assert_int_equal(f.rel.tx.lost, 1);
    assert_int_equal(acked(&f, 4, 3, 0), 1); /* the first transmission, not sent again yet */
    assert_int_equal(f.env.stats.reordered, 1);
    assert_null(vrb_rel_resend(&f.rel, f.now, &num));
    assert_int_equal(acked(&f, 4, 7, 7), 3); /* the same once more is no loss now */
    assert_int_equal(f.rel.tx.lost, 0);
    assert_int_equal(acked(&f, 4, 8, 15), 1); /* more is */
    assert_ptr_equal(vrb_rel_resend(&f.rel, f.now, &num), cookie(4));
    /* Its first transmission arrives: sending it again was needless. */
    uint16_t before = f.rel.loss.packets;

    assert_int_equal(acked(&f, 9, 8, 0), 1);
    assert_int_equal(f.rel.loss.packets, 2 * before);
    /* Without evidence it comes back. */
    for (int i = 0; i < 12 * VRB_REL_QUIET_ROUNDS; i++) {
        vrb_rel_loss_round(&f.rel.loss);
    }
    assert_int_equal(f.rel.loss.packets, VRB_REL_REORDER_PACKETS);
    end(&f);
}

/* An acknowledgement that was held up by a process that was away says nothing about lateness. */
static void lateness_needs_both_awake(void **state)
{
    struct fixture f;

    (void)state;
    for (int away = 0; away < 2; away++) {
        begin(&f, NULL);
        send_some(&f, 3);
        f.now += 10 * US;
        assert_int_equal(acked(&f, 0, 1, 1), 1);
        f.now += 5 * MS;
        struct vrb_ud_ack ack = {.cum = START + 2,
                                 .echo = START + 1,
                                 .buffers = 64,
                                 .delay = away ? VRB_UD_DELAY_UNKNOWN : 0};

        assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 1);
        assert_int_equal(f.env.stats.reordered, 1);
        assert_int_equal(f.rel.loss.late > 4 * MS, !away);
        end(&f);
    }
}

static void progress_ends_the_backoff(void **state)
{
    struct vrb_rel_numbers num;
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 2);
    for (int i = 0; i < 6; i++) {
        f.now = vrb_rel_deadline(&f.rel);
        assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
        while (vrb_rel_resend(&f.rel, f.now, &num)) {
        }
    }
    assert_true(vrb_rel_deadline(&f.rel) - f.now > 10 * MS);
    f.now += 10 * US;
    assert_int_equal(acked(&f, 2, num.pn - START, 0), 2);
    send_some(&f, 1);
    assert_true(vrb_rel_deadline(&f.rel) <= f.now + MS);
    end(&f);
}

/* A probe that is owed lapses when there is nothing left to probe with. */
static void owed_probes_lapse(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, NULL);
    send_some(&f, 1);
    f.now = vrb_rel_deadline(&f.rel);
    assert_int_equal(vrb_rel_on_timer(&f.rel, f.now), VRB_OK);
    assert_int_equal(f.rel.probes_owed, 1);
    assert_int_equal(acked(&f, 1, 0, 0), 1);
    assert_int_equal(f.rel.probes_owed, 0);
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

/* The sender asks for an acknowledgement four times per window. */
static void sender_asks(void **state)
{
    struct vrb_rel_numbers num;
    struct fixture f;
    int asked = 0;

    (void)state;
    begin(&f, NULL);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(vrb_rel_send(&f.rel, cookie(i), f.now, &num), VRB_OK);
        asked += (num.flags & VRB_UD_ASK) != 0;
    }
    assert_int_equal(vrb_rel_room(&f.rel, f.now), 0);
    assert_int_equal(asked, 4);
    end(&f);
}

/* The dip: the window is halved for two rounds now and then, and comes back. */
static void window_dips(void **state)
{
    const struct vrb_rel_cc_limits limits = {
        .initial = 64, .floor = 16, .max = 64, .target_ns = 50 * US};
    struct vrb_rel_cc cc;
    int dips = 0, rounds = 5 * VRB_REL_DIP_EVERY;

    (void)state;
    vrb_rel_cc_init(&cc, &limits, 512, 0);
    cc.doubling = 0;
    for (int i = 0; i < rounds; i++) {
        vrb_rel_cc_sent(&cc, vrb_rel_cc_allows(&cc), 10 * US, 0);
        vrb_rel_cc_clean_rtt(&cc, 30 * US);
        vrb_rel_cc_round(&cc, &limits, 10 * US, 0);
        assert_true(cc.cwnd == 64 * VRB_REL_CWND_ONE || cc.cwnd == 32 * VRB_REL_CWND_ONE);
        dips += cc.cwnd == 32 * VRB_REL_CWND_ONE;
    }
    assert_true(dips == 2 * (rounds / (VRB_REL_DIP_EVERY + 2)));
}

/* Only clean samples make the base, and an old base is forgotten after two periods. */
static void base_is_clean_and_recent(void **state)
{
    struct vrb_rel_rtt rtt;

    (void)state;
    vrb_rel_rtt_init(&rtt, 0);
    vrb_rel_rtt_sample(&rtt, 10 * US, 0, 1, SEC);
    assert_int_equal(vrb_rel_rtt_base(&rtt), VRB_REL_NO_RTT);
    vrb_rel_rtt_sample(&rtt, 20 * US, 1, 2, SEC);
    assert_int_equal(vrb_rel_rtt_base(&rtt), 20 * US);
    vrb_rel_rtt_sample(&rtt, 15 * US, 0, 3, SEC);
    assert_int_equal(vrb_rel_rtt_base(&rtt), 20 * US);
    vrb_rel_rtt_sample(&rtt, 50 * US, 1, SEC + 4, SEC);
    assert_int_equal(vrb_rel_rtt_base(&rtt), 20 * US);
    vrb_rel_rtt_sample(&rtt, 60 * US, 1, 2 * SEC + 5, SEC);
    assert_int_equal(vrb_rel_rtt_base(&rtt), 50 * US);
}

/* A full window that wraps around in the chunk where it begins. */
static void full_window_does_not_alias(void **state)
{
    struct vrb_rel_config cfg;
    struct vrb_rel_numbers num;
    struct fixture f;
    struct vrb_ud_ack ack = {.cum = START + 4, .echo = START + 3, .buffers = UINT16_MAX};
    uint32_t sent = 4;

    (void)state;
    vrb_rel_config_defaults(&cfg);
    cfg.cc.initial = cfg.cc.max = VRB_REL_SPAN;
    begin(&f, &cfg);
    f.rel.cc.buffers = UINT16_MAX;
    send_some(&f, 4);
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 4);
    assert_true(f.rel.tx.una % VRB_REL_CHUNK != 0);
    while (vrb_rel_send(&f.rel, cookie(sent), f.now, &num) == VRB_OK) {
        sent++;
    }
    assert_int_equal(sent, 4 + VRB_REL_SPAN);
    ack.echo = num.pn;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), 0);
    ack.cum = START + sent;
    assert_int_equal(vrb_rel_on_ack(&f.rel, &ack, f.now, f.done), VRB_REL_SPAN);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packet_threshold),
        cmocka_unit_test(time_threshold),
        cmocka_unit_test(tolerance_learns),
        cmocka_unit_test(lateness_needs_both_awake),
        cmocka_unit_test(progress_ends_the_backoff),
        cmocka_unit_test(owed_probes_lapse),
        cmocka_unit_test(probes_back_off),
        cmocka_unit_test(dead_once),
        cmocka_unit_test(receiver_slows_but_never_stops),
        cmocka_unit_test(sender_asks),
        cmocka_unit_test(window_dips),
        cmocka_unit_test(base_is_clean_and_recent),
        cmocka_unit_test(full_window_does_not_alias),
        cmocka_unit_test(span_is_bounded),
        cmocka_unit_test(delay_is_taken_out_and_absence_left_out),
        cmocka_unit_test(below_one_packet_it_paces),
    };

    return cmocka_run_group_tests_name("reliable_loss", tests, NULL, NULL);
}
