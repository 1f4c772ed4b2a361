/* The handshake's rules one by one, without a carrier.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wireup/vrb_wireup.h"

enum { MS = 1000000 };

static const struct vrb_wireup_config timers = {
    .first_ns = 10 * MS,
    .max_ns = 80 * MS,
    .timeout_ns = 1000 * MS,
    .recover_ns = 500 * MS,
};

static struct vrb_hello hello_of(uint32_t id)
{
    return (struct vrb_hello){.type = VRB_HELLO,
                              .src_id = id,
                              .src_life = id,
                              .qpn = 0x100 + id,
                              .psn = id,
                              .mtu = 3,
                              .grant = 8,
                              .recv_size = 4096,
                              .src_name = id};
}

static void init(struct vrb_wireup *w, uint32_t id)
{
    struct vrb_hello local = hello_of(id);

    vrb_wireup_init(w, &timers, &local, id);
}

/* A HELLO from id with these flags, that knows our id (or 0). */
static struct vrb_hello from(uint32_t id, uint8_t flags, uint32_t dst_id)
{
    struct vrb_hello m = hello_of(id);

    m.flags = flags;
    m.dst_id = dst_id;
    return m;
}

static struct vrb_hello reject(uint32_t id, uint32_t dst_id, uint8_t reason)
{
    return (struct vrb_hello){
        .type = VRB_REJECT, .src_id = id, .src_life = id, .dst_id = dst_id, .reason = reason};
}

static void says(struct vrb_wireup *w, uint8_t flags, uint32_t dst_id)
{
    struct vrb_hello m;

    vrb_wireup_message(w, &m);
    assert_int_equal(m.type, VRB_HELLO);
    assert_int_equal(m.flags, flags);
    assert_int_equal(m.dst_id, dst_id);
    assert_int_equal(m.src_id, w->local.src_id);
    assert_int_equal(m.qpn, w->local.qpn);
}

static void says_reject(struct vrb_wireup *w, uint8_t reason, uint32_t dst_id)
{
    struct vrb_hello m;

    vrb_wireup_message(w, &m);
    assert_int_equal(m.type, VRB_REJECT);
    assert_int_equal(m.reason, reason);
    assert_int_equal(m.dst_id, dst_id);
}

enum {
    HAVE = VRB_HELLO_HAVE,
    NEED = VRB_HELLO_NEED,
    REMOTE = VRB_WU_DO_REMOTE,
    SEND = VRB_WU_DO_SEND,
    UP = VRB_WU_DO_UP,
    PAUSE = VRB_WU_DO_PAUSE,
    FAIL = VRB_WU_DO_FAIL,
};

static void one_side_starts(void **state)
{
    struct vrb_wireup a, b;
    struct vrb_hello m;

    (void)state;
    init(&a, 1);
    init(&b, 2);
    assert_int_equal(vrb_wireup_start(&a, 0), SEND);
    assert_int_equal(vrb_wireup_start(&a, 0), 0);
    vrb_wireup_message(&a, &m);
    assert_int_equal(m.flags, NEED);
    assert_int_equal(m.dst_id, 0);
    assert_int_equal(vrb_wireup_on_message(&b, 1, &m), REMOTE | SEND);
    assert_int_equal(b.remote.qpn, 0x101);
    assert_int_equal(b.state, VRB_WU_CONNECTING);
    vrb_wireup_message(&b, &m);
    assert_int_equal(m.flags, HAVE | NEED);
    assert_int_equal(m.dst_id, 1);
    assert_int_equal(vrb_wireup_on_message(&a, 2, &m), REMOTE | SEND | UP);
    vrb_wireup_message(&a, &m);
    assert_int_equal(m.flags, HAVE);
    assert_int_equal(vrb_wireup_on_message(&b, 3, &m), UP);
    assert_int_equal(a.state, VRB_WU_UP);
    assert_int_equal(b.state, VRB_WU_UP);
    assert_int_equal(vrb_wireup_deadline(&a), UINT64_MAX);
    assert_int_equal(vrb_wireup_deadline(&b), UINT64_MAX);
    assert_int_equal(a.sent, 2);
}

static void remote_alone_is_not_up(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, NEED, 0);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), REMOTE | SEND);
    assert_int_equal(w.state, VRB_WU_CONNECTING);
    says(&w, HAVE | NEED, 2);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), SEND); /* a duplicate: answered again */
}

static void have_for_another_id_is_not_ours(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, HAVE | NEED, 77);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), 0);
    m.dst_id = 0; /* HAVE without saying whose */
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), REMOTE | SEND);
    assert_int_equal(w.state, VRB_WU_CONNECTING);
}

static void up_still_answers(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, HAVE | NEED, 1);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), REMOTE | SEND | UP);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), SEND);
    says(&w, HAVE, 2);
    m.flags = HAVE;
    assert_int_equal(vrb_wireup_on_message(&w, 3, &m), 0);
    m = from(2, NEED, 0); /* an old one, reordered */
    assert_int_equal(vrb_wireup_on_message(&w, 4, &m), SEND);
    assert_int_equal(w.state, VRB_WU_UP);
}

static void data_proves_have(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, NEED, 0);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_data(&w, 1), 0); /* no QP of ours can have received */
    vrb_wireup_on_message(&w, 1, &m);
    assert_int_equal(vrb_wireup_on_data(&w, 2), UP);
    assert_int_equal(vrb_wireup_on_data(&w, 3), 0);
    assert_int_equal(w.state, VRB_WU_UP);
}

/* Repeats double up to the maximum, each within a quarter of its interval, then the end comes. */
static void repeats_and_timeout(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        struct vrb_hello local = hello_of(1);
        uint64_t now = 5, interval = timers.first_ns, last = now;
        struct vrb_wireup w;
        unsigned acts;

        vrb_wireup_init(&w, &timers, &local, seed);
        assert_int_equal(vrb_wireup_deadline(&w), UINT64_MAX);
        assert_int_equal(vrb_wireup_start(&w, now), SEND);
        for (;;) {
            uint64_t next = vrb_wireup_deadline(&w);

            assert_true(next > now);
            assert_int_equal(vrb_wireup_on_timer(&w, next - 1), 0);
            now = next;
            acts = vrb_wireup_on_timer(&w, now);
            if (acts != SEND) {
                break;
            }
            assert_in_range(now - last, interval - interval / 4, interval + interval / 4);
            last = now;
            interval = interval * 2 > timers.max_ns ? timers.max_ns : interval * 2;
        }
        assert_int_equal(acts, FAIL);
        assert_int_equal(now, 5 + timers.timeout_ns);
        assert_int_equal(w.failure, VRB_WU_FAIL_TIMEOUT);
        assert_false(w.heard);
        assert_int_equal(vrb_wireup_on_timer(&w, now + 1), 0);
        assert_int_equal(vrb_wireup_deadline(&w), UINT64_MAX);
    }
}

static void jitter_differs(void **state)
{
    uint64_t first = 0;
    int differ = 0;

    (void)state;
    for (uint32_t seed = 0; seed < 32; seed++) {
        struct vrb_hello local = hello_of(1);
        struct vrb_wireup w;

        vrb_wireup_init(&w, &timers, &local, seed);
        vrb_wireup_start(&w, 0);
        differ += seed > 0 && vrb_wireup_deadline(&w) != first;
        first = seed == 0 ? vrb_wireup_deadline(&w) : first;
    }
    assert_true(differ > 25);
}

static void timeout_tells_a_peer_that_was_heard(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, NEED, 0);

    (void)state;
    init(&w, 1);
    vrb_wireup_on_message(&w, 0, &m); /* never started: the peer did */
    assert_int_equal(vrb_wireup_on_timer(&w, timers.timeout_ns), SEND | FAIL);
    assert_true(w.heard);
    says_reject(&w, VRB_REJECT_FAILED, 2);
}

static void rejected(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = reject(0, 1, VRB_REJECT_UNKNOWN), other = reject(0, 9, VRB_REJECT_NO_QP);

    (void)state;
    init(&w, 1);
    assert_int_equal(vrb_wireup_on_message(&w, 0, &m), 0); /* nothing was asked */
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &other), 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_REJECTED);
    assert_int_equal(w.reject_reason, VRB_REJECT_UNKNOWN);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
}

static void reject_of_an_older_incarnation_is_stale(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(5, HAVE | NEED, 1), old = reject(4, 1, VRB_REJECT_FAILED);
    struct vrb_hello current = reject(5, 1, VRB_REJECT_FAILED);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    vrb_wireup_on_message(&w, 1, &m);
    assert_int_equal(w.state, VRB_WU_UP);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &old), 0);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &current), FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_REJECTED);
}

static void failed_answers_by_reject(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, NEED, 0), no = reject(2, 1, VRB_REJECT_FAILED);

    (void)state;
    init(&w, 1);
    assert_int_equal(vrb_wireup_on_message(&w, 0, &m), REMOTE | SEND);
    assert_int_equal(vrb_wireup_give_up(&w, VRB_REJECT_NO_QP), SEND);
    assert_int_equal(w.failure, VRB_WU_FAIL_LOCAL);
    says_reject(&w, VRB_REJECT_NO_QP, 2);
    assert_int_equal(vrb_wireup_give_up(&w, VRB_REJECT_NO_PATH), 0);
    m = from(3, NEED, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), SEND);
    says_reject(&w, VRB_REJECT_NO_QP, 3);
    m.flags = HAVE;
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
    assert_int_equal(vrb_wireup_on_message(&w, 3, &no), 0); /* a REJECT is never answered */
    assert_int_equal(vrb_wireup_start(&w, 4), 0);
    assert_int_equal(vrb_wireup_on_data(&w, 5), 0);
}

static void giving_up_unheard_is_silent(void **state)
{
    struct vrb_wireup w;

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_give_up(&w, VRB_REJECT_NO_QP), 0);
    assert_int_equal(w.state, VRB_WU_FAILED);
}

static void later_id_is_a_restart(void **state)
{
    static const uint32_t ids[][2] = {{5, 6}, {0xfffffff0, 3}, {0x7fffffff, 0x80000000}};

    (void)state;
    for (int i = 0; i < COUNT_OF(ids); i++) {
        for (int knows_us = 0; knows_us < 2; knows_us++) {
            struct vrb_hello m = from(ids[i][0], HAVE | NEED, 1);
            struct vrb_hello later = from(ids[i][1], NEED, knows_us ? 1 : 0);
            struct vrb_wireup w;

            init(&w, 1);
            vrb_wireup_start(&w, 0);
            vrb_wireup_on_message(&w, 1, &m);
            assert_int_equal(vrb_wireup_on_message(&w, 2, &later), SEND | FAIL);
            assert_int_equal(w.failure, VRB_WU_FAIL_RESTART);
            says_reject(&w, VRB_REJECT_FAILED, ids[i][1]);
        }
    }
}

static void earlier_id_is_stale(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(5, NEED, 0), old = from(4, NEED, 0),
                     older = from(0xfffffff0, HAVE, 1);

    (void)state;
    init(&w, 1);
    vrb_wireup_start(&w, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 1, &m), REMOTE | SEND);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &old), 0);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &older), 0);
    assert_int_equal(w.state, VRB_WU_CONNECTING);
    assert_int_equal(w.remote.src_id, 5);
}

/* An UP machine with id 1; the peer's is 2. */
static void init_up(struct vrb_wireup *w)
{
    struct vrb_hello m = from(2, HAVE | NEED, 1);

    init(w, 1);
    vrb_wireup_start(w, 0);
    assert_int_equal(vrb_wireup_on_message(w, 1, &m), REMOTE | SEND | UP);
}

/* A HELLO of a later generation, from id of life 2 to our life 1. */
static struct vrb_hello again(uint32_t id, uint16_t gen, uint32_t rx_seq, uint8_t flags)
{
    struct vrb_hello m = from(id, flags, 0);

    m.gen = gen;
    m.rx_seq = rx_seq;
    m.src_life = 2;
    m.dst_life = 1;
    return m;
}

/* rx_seq: packets that have arrived so far. */
static void resume_after(struct vrb_wireup *w, uint64_t now, uint32_t id, uint32_t rx_seq)
{
    struct vrb_hello local = hello_of(id);

    local.rx_seq = rx_seq;
    assert_int_equal(vrb_wireup_resume(w, now, &local), SEND);
    assert_int_equal(w->state, VRB_WU_CONNECTING);
}

static void resume(struct vrb_wireup *w, uint64_t now, uint32_t id)
{
    resume_after(w, now, id, 77);
}

static void broken_and_made_again(void **state)
{
    struct vrb_hello m, stale = from(2, HAVE | NEED, 1);
    struct vrb_wireup w;

    (void)state;
    init_up(&w);
    assert_int_equal(vrb_wireup_pause(&w, 10 * MS, 0), PAUSE);
    assert_int_equal(vrb_wireup_pause(&w, 10 * MS, 0), 0);
    assert_int_equal(vrb_wireup_on_data(&w, 11 * MS), 0); /* what the old QP had received */
    assert_int_equal(vrb_wireup_on_message(&w, 11 * MS, &stale), 0);
    assert_int_equal(vrb_wireup_deadline(&w), 510 * MS);
    resume(&w, 20 * MS, 3);
    vrb_wireup_message(&w, &m);
    assert_int_equal(m.gen, 1);
    assert_int_equal(m.rx_seq, 77);
    assert_int_equal(m.flags, NEED);
    assert_int_equal(m.src_id, 3);
    assert_int_equal(m.dst_id, 0);
    assert_int_equal(m.src_life, 1);
    assert_int_equal(m.dst_life, 2);
    /* A late HELLO of the first connection is only answered: its sender may be behind. */
    assert_int_equal(vrb_wireup_on_message(&w, 21 * MS, &stale), SEND);
    stale.flags = HAVE;
    assert_int_equal(vrb_wireup_on_message(&w, 21 * MS, &stale), 0);
    m = again(5, 1, 0, HAVE | NEED);
    m.dst_id = 3;
    assert_int_equal(vrb_wireup_on_message(&w, 22 * MS, &m), REMOTE | SEND | UP);
    assert_int_equal(vrb_wireup_deadline(&w), UINT64_MAX);
}

static void the_peer_asks_for_another(void **state)
{
    struct vrb_hello m = again(5, 3, 9, NEED), older = again(4, 2, 9, NEED);
    struct vrb_wireup w;

    (void)state;
    init_up(&w);
    assert_int_equal(vrb_wireup_on_message(&w, 10 * MS, &m), PAUSE);
    assert_int_equal(vrb_wireup_on_message(&w, 11 * MS, &older), 0);
    assert_int_equal(vrb_wireup_on_message(&w, 11 * MS, &m), 0);
    resume(&w, 12 * MS, 3);
    assert_int_equal(w.local.gen, 3);
    assert_int_equal(vrb_wireup_on_message(&w, 13 * MS, &m), REMOTE | SEND);
    assert_int_equal(w.remote.rx_seq, 9);
    assert_int_equal(vrb_wireup_on_message(&w, 13 * MS, &older), SEND);
    assert_int_equal(w.state, VRB_WU_CONNECTING);
    m = again(6, 4, 9, NEED); /* it broke once more before we were up */
    assert_int_equal(vrb_wireup_on_message(&w, 14 * MS, &m), PAUSE);
    assert_int_equal(w.want, 4);
    assert_int_equal(vrb_wireup_deadline(&w), 510 * MS); /* counted from the first break */
}

static void only_the_right_lives_go_on(void **state)
{
    struct vrb_hello m = again(5, 1, 0, NEED);
    struct vrb_wireup w;

    (void)state;
    init_up(&w);
    m.dst_life = 9;
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
    m.dst_life = 0;
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
    m.dst_life = 1;
    m.src_life = 1; /* from before */
    m.src_id = 1;
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
    m.src_life = m.src_id = 7; /* started anew */
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), SEND | FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_RESTART);
    init(&w, 1); /* never connected: to nothing of ours can it refer */
    m = again(5, 1, 0, NEED);
    assert_int_equal(vrb_wireup_on_message(&w, 2, &m), 0);
    assert_int_equal(w.state, VRB_WU_IDLE);
}

static void repair_has_an_end(void **state)
{
    struct vrb_hello no = reject(2, 1, VRB_REJECT_FAILED);
    struct vrb_wireup w;

    (void)state;
    init_up(&w);
    vrb_wireup_pause(&w, 10 * MS, 0);
    assert_int_equal(vrb_wireup_on_timer(&w, 509 * MS), 0);
    assert_int_equal(vrb_wireup_on_timer(&w, 510 * MS), FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_TIMEOUT);
    init_up(&w);
    vrb_wireup_pause(&w, 10 * MS, 0);
    resume(&w, 100 * MS, 3);
    assert_int_equal(vrb_wireup_on_timer(&w, 510 * MS), FAIL);
    init_up(&w);
    vrb_wireup_pause(&w, 10 * MS, 0);
    assert_int_equal(vrb_wireup_on_message(&w, 11 * MS, &no), FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_REJECTED);
}

static void without_recovery_a_break_is_the_end(void **state)
{
    struct vrb_wireup_config none = timers;
    struct vrb_hello local = hello_of(1), m = from(2, HAVE | NEED, 1);
    struct vrb_wireup w;

    (void)state;
    none.recover_ns = 0;
    vrb_wireup_init(&w, &none, &local, 1);
    assert_int_equal(vrb_wireup_pause(&w, 1, 0), 0); /* not connected at all */
    vrb_wireup_on_message(&w, 1, &m);
    assert_int_equal(w.state, VRB_WU_UP);
    assert_int_equal(vrb_wireup_pause(&w, 2, 0), 0);
    m = again(5, 1, 0, NEED);
    assert_int_equal(vrb_wireup_on_message(&w, 3, &m), SEND | FAIL);
    assert_int_equal(w.failure, VRB_WU_FAIL_RESTART);
}

/* Breaks one generation after the other; returns in which one the machine gave up. */
static int breaks_until_stuck(uint32_t works_every, uint32_t received_every, uint32_t arrives_every)
{
    struct vrb_wireup w;

    init_up(&w);
    for (uint32_t gen = 1; gen <= 40; gen++) {
        struct vrb_hello m = again(10 + gen, (uint16_t)gen,
                                   received_every == 0 ? 0 : gen / received_every, HAVE | NEED);
        unsigned acts = vrb_wireup_pause(&w, gen * MS, works_every == 0 ? 0 : gen / works_every);

        if (acts != PAUSE) {
            assert_int_equal(acts, SEND | FAIL);
            assert_int_equal(w.failure, VRB_WU_FAIL_STUCK);
            return (int)gen;
        }
        resume_after(&w, gen * MS, 100 + gen, arrives_every == 0 ? 0 : gen / arrives_every);
        m.dst_id = 100 + gen;
        assert_int_equal(vrb_wireup_on_message(&w, gen * MS, &m), REMOTE | SEND | UP);
    }
    return 0;
}

static void breaking_again_and_again_has_an_end(void **state)
{
    (void)state;
    assert_int_equal(breaks_until_stuck(0, 0, 0), VRB_WU_STUCK_MAX + 1);
    assert_int_equal(breaks_until_stuck(3, 0, 0), 0);
    assert_int_equal(breaks_until_stuck(0, 3, 0), 0);
    assert_int_equal(breaks_until_stuck(0, 0, 3), 0); /* an end that only receives */
}

static void odd_timers(void **state)
{
    static const struct vrb_wireup_config odd[] = {
        {0, 0, UINT64_MAX, 0},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {100, 10, 1000000, 1},
        {1000, UINT64_MAX, UINT64_MAX, 0},
    };
    struct vrb_hello local = hello_of(1);

    (void)state;
    for (int i = 0; i < COUNT_OF(odd); i++) {
        uint64_t now = UINT64_MAX / 2, last = now;
        struct vrb_wireup w;

        vrb_wireup_init(&w, &odd[i], &local, UINT32_MAX);
        vrb_wireup_start(&w, now);
        for (int k = 0; k < 200; k++) {
            now = vrb_wireup_deadline(&w);
            if (now == UINT64_MAX) {
                break;
            }
            assert_true(now > last);
            last = now;
            vrb_wireup_on_timer(&w, now);
        }
    }
}

static void unknown_types_are_ignored(void **state)
{
    struct vrb_wireup w;
    struct vrb_hello m = from(2, NEED, 0);

    (void)state;
    init(&w, 1);
    m.type = 9;
    assert_int_equal(vrb_wireup_on_message(&w, 0, &m), 0);
    assert_int_equal(w.state, VRB_WU_IDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_side_starts),
        cmocka_unit_test(remote_alone_is_not_up),
        cmocka_unit_test(have_for_another_id_is_not_ours),
        cmocka_unit_test(up_still_answers),
        cmocka_unit_test(data_proves_have),
        cmocka_unit_test(repeats_and_timeout),
        cmocka_unit_test(jitter_differs),
        cmocka_unit_test(timeout_tells_a_peer_that_was_heard),
        cmocka_unit_test(rejected),
        cmocka_unit_test(reject_of_an_older_incarnation_is_stale),
        cmocka_unit_test(failed_answers_by_reject),
        cmocka_unit_test(giving_up_unheard_is_silent),
        cmocka_unit_test(later_id_is_a_restart),
        cmocka_unit_test(earlier_id_is_stale),
        cmocka_unit_test(broken_and_made_again),
        cmocka_unit_test(the_peer_asks_for_another),
        cmocka_unit_test(only_the_right_lives_go_on),
        cmocka_unit_test(repair_has_an_end),
        cmocka_unit_test(without_recovery_a_break_is_the_end),
        cmocka_unit_test(breaking_again_and_again_has_an_end),
        cmocka_unit_test(odd_timers),
        cmocka_unit_test(unknown_types_are_ignored),
    };

    return cmocka_run_group_tests_name("wireup", tests, NULL, NULL);
}
