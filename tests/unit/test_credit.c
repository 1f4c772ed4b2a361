/* Flow control: two ends under random schedules, wrap-around of the counts, hostile grants.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "rc/vrb_credit.h"

static void nothing_before_the_first_grant(void **state)
{
    struct vrb_credit c;

    (void)state;
    vrb_credit_init(&c, 64);
    assert_int_equal(vrb_credit_room(&c), 0);
    assert_int_equal(vrb_credit_granted(&c, 8), 1);
    assert_int_equal(vrb_credit_room(&c), 8);
    for (int i = 0; i < 8; i++) {
        vrb_credit_sent(&c);
    }
    assert_int_equal(vrb_credit_room(&c), 0);
}

static void old_grants_do_no_harm(void **state)
{
    struct vrb_credit c;

    (void)state;
    vrb_credit_init(&c, 64);
    assert_int_equal(vrb_credit_granted(&c, 10), 1);
    assert_int_equal(vrb_credit_granted(&c, 10), 0);
    assert_int_equal(vrb_credit_granted(&c, 3), 0);
    assert_int_equal(vrb_credit_room(&c), 10);
}

/* No grant may ever make room for more than the largest window. */
static void hostile_grants(void **state)
{
    (void)state;
    for (uint32_t next = 0; next < 65536; next += 257) {
        struct vrb_credit c;

        vrb_credit_init(&c, 64);
        c.tx_next = c.tx_limit = (uint16_t)next;
        for (uint32_t grant = 0; grant < 65536; grant++) {
            struct vrb_credit d = c;
            uint32_t ahead = (uint16_t)(grant - next);
            int honest = ahead > 0 && ahead <= VRB_CREDIT_MAX_WINDOW;

            assert_int_equal(vrb_credit_granted(&d, (uint16_t)grant), honest);
            assert_int_equal(vrb_credit_room(&d), honest ? (int)ahead : 0);
        }
    }
}

static void due_after_half_a_window(void **state)
{
    (void)state;
    for (uint16_t window = 2; window <= 65; window++) {
        struct vrb_credit c;
        int used = 0;

        vrb_credit_init(&c, window);
        assert_int_equal(vrb_credit_tell(&c), window);
        while (!vrb_credit_due(&c)) {
            vrb_credit_consumed(&c);
            used++;
        }
        assert_int_equal(used, (window + 1) / 2);
        assert_int_equal(vrb_credit_tell(&c), window + used);
        assert_false(vrb_credit_due(&c));
    }
}

/* ---- two ends on a reliable, ordered, slow carrier ------------------------------------------- */

#define RING 65536

struct packet {
    uint16_t grant;
    uint8_t is_credit;
};

/* One direction. The receiver's buffers hold what has arrived and was not yet consumed. */
struct end {
    struct vrb_credit credit;
    struct packet *wire; /* to the other end, by index modulo RING */
    uint32_t sent, arrived;
    struct packet *held; /* received, not consumed */
    uint32_t held_in, held_out;
    uint32_t credits_unread, credits_unread_max, held_max;
    uint64_t to_send, got;
};

static void end_init(struct end *e, uint16_t window, uint16_t start)
{
    memset(e, 0, sizeof(*e));
    vrb_credit_init(&e->credit, window);
    /* As after `start` packets in both directions. */
    e->credit.tx_next = e->credit.tx_limit = start;
    e->credit.rx_told = e->credit.rx_grant = (uint16_t)(start + window);
    e->wire = calloc(RING, sizeof(*e->wire));
    e->held = calloc(RING, sizeof(*e->held));
    assert_non_null(e->wire);
    assert_non_null(e->held);
}

static void end_free(struct end *e)
{
    free(e->wire);
    free(e->held);
}

static void put_on_wire(struct end *from, struct end *to, int is_credit)
{
    struct packet *p = &from->wire[from->sent++ % RING];

    assert_true(from->sent - from->arrived <= RING);
    p->grant = vrb_credit_tell(&from->credit);
    p->is_credit = (uint8_t)is_credit;
    if (is_credit) {
        to->credits_unread++;
        if (to->credits_unread > to->credits_unread_max) {
            to->credits_unread_max = to->credits_unread;
        }
    }
}

static int try_send(struct end *e, struct end *peer)
{
    if (e->to_send == 0 || vrb_credit_room(&e->credit) == 0) {
        return 0;
    }
    put_on_wire(e, peer, 0);
    vrb_credit_sent(&e->credit);
    e->to_send--;
    return 1;
}

/* A packet takes one of the receiver's buffers. */
static int arrive(struct end *from, struct end *to)
{
    if (from->arrived == from->sent) {
        return 0;
    }
    to->held[to->held_in++ % RING] = from->wire[from->arrived++ % RING];
    uint32_t held = to->held_in - to->held_out;

    if (held > to->held_max) {
        to->held_max = held;
    }
    assert_true(held <= (uint32_t)to->credit.window + VRB_CREDIT_RESERVE);
    return 1;
}

static int consume(struct end *e, struct end *peer)
{
    if (e->held_in == e->held_out) {
        return 0;
    }
    struct packet p = e->held[e->held_out++ % RING];

    vrb_credit_granted(&e->credit, p.grant);
    if (p.is_credit) {
        e->credits_unread--;
    } else {
        vrb_credit_consumed(&e->credit);
        e->got++;
    }
    if (vrb_credit_due(&e->credit)) {
        put_on_wire(e, peer, 1);
    }
    return 1;
}

/* Runs one schedule until everything has been sent and consumed. bias: how often, in percent, an
 * end acts on each of the three occasions; low ones make the carrier or the program slow. */
static void run(struct rng *r, uint16_t wa, uint16_t wb, uint16_t start, uint64_t na, uint64_t nb)
{
    struct end ends[2];
    uint64_t want[2] = {na, nb}, idle = 0;
    uint32_t bias[2][3];

    end_init(&ends[0], wa, start);
    end_init(&ends[1], wb, start);
    for (int i = 0; i < 2; i++) {
        ends[i].to_send = want[i];
        /* The handshake tells the first grant. */
        assert_int_equal(vrb_credit_granted(&ends[i].credit, vrb_credit_tell(&ends[!i].credit)), 1);
        for (int k = 0; k < 3; k++) {
            bias[i][k] = 1 + rng_below(r, 100);
        }
    }
    while (ends[0].got < nb || ends[1].got < na) {
        int acted = 0;

        for (int i = 0; i < 2; i++) {
            struct end *e = &ends[i], *peer = &ends[!i];

            acted |= rng_chance(r, bias[i][0]) && try_send(e, peer);
            acted |= rng_chance(r, bias[i][1]) && arrive(peer, e);
            acted |= rng_chance(r, bias[i][2]) && consume(e, peer);
        }
        /* Each occasion comes up at least once in 100 rounds on the average. */
        idle = acted ? 0 : idle + 1;
        assert_true(idle < 20000); /* deadlock */
    }
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i].credits_unread_max <= VRB_CREDIT_RESERVE);
        end_free(&ends[i]);
    }
}

static void random_schedules(void **state)
{
    struct rng r = {9};

    (void)state;
    for (int i = 0; i < 300; i++) {
        uint16_t wa = (uint16_t)(2 + rng_below(&r, 40)), wb = (uint16_t)(2 + rng_below(&r, 40));
        uint64_t one_way = rng_chance(&r, 30) ? 0 : 500;

        run(&r, wa, wb, (uint16_t)rng_next(&r), 1 + rng_below(&r, 1000), one_way);
    }
}

static void smallest_and_largest_windows(void **state)
{
    struct rng r = {10};

    (void)state;
    run(&r, 2, 2, 0, 3000, 3000);
    run(&r, 2, VRB_CREDIT_MAX_WINDOW, 65000, 20000, 3000);
    run(&r, VRB_CREDIT_MAX_WINDOW, VRB_CREDIT_MAX_WINDOW, 60000, 30000, 30000);
}

/* More packets than the counts have numbers. */
static void wrap_around(void **state)
{
    struct rng r = {11};

    (void)state;
    run(&r, 64, 48, 65530, 140000, 70000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_the_first_grant),
        cmocka_unit_test(old_grants_do_no_harm),
        cmocka_unit_test(hostile_grants),
        cmocka_unit_test(due_after_half_a_window),
        cmocka_unit_test(random_schedules),
        cmocka_unit_test(smallest_and_largest_windows),
        cmocka_unit_test(wrap_around),
    };

    return cmocka_run_group_tests_name("credit", tests, NULL, NULL);
}
