/* The handshake's rules one by one, without a carrier.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wireup/vrb_wireup.h"

enum { MS = 1000000 };

static const struct vrb_wireup_config timers = {
    .first_ns = 10 * MS,
    .max_ns = 80 * MS,
    .timeout_ns = 1000 * MS,
};

static struct vrb_hello hello_of(uint32_t id)
{
    return (struct vrb_hello){.type = VRB_HELLO,
                              .src_id = id,
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
    return (struct vrb_hello){.type = VRB_REJECT, .src_id = id, .dst_id = dst_id, .reason = reason};
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

static void odd_timers(void **state)
{
    static const struct vrb_wireup_config odd[] = {
        {0, 0, UINT64_MAX},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {100, 10, 1000000},
        {1000, UINT64_MAX, UINT64_MAX},
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
        cmocka_unit_test(odd_timers),
        cmocka_unit_test(unknown_types_are_ignored),
    };

    return cmocka_run_group_tests_name("wireup", tests, NULL, NULL);
}
