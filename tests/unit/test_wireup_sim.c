/* The handshake under random schedules: two machines, a virtual clock, a carrier that loses,
 * doubles, delays and reorders, ends that restart or give up, and messages from the past.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wireup/vrb_wireup.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SEC (1000 * MS)

#define MAX_PACKETS 256
#define MAX_EVENTS 20000
#define NEVER UINT64_MAX

/* Ids of the past: what either end was before this run. */
#define ID_A 1000
#define ID_B 2000

struct packet {
    uint64_t at;
    int to, is_data;
    struct vrb_hello hello;
};

/* One end, with what its caller would hold. */
struct end {
    struct vrb_wireup w;
    uint64_t starts; /* NEVER: passive */
    uint32_t loss;   /* percent of its packets */
    int qp_ready, ups, fails, was_up;
    uint32_t need_heard, timer_sends;
};

struct sim {
    struct rng rng;
    uint64_t seed, now;
    struct end end[2];
    struct packet packet[MAX_PACKETS];
    int packets, overflow;
    uint32_t dup;       /* percent */
    uint64_t delay_max; /* of one packet */
    int data;           /* an end that is up sends at once */
    int may_fail;       /* an end restarts or gives up in this run */
};

static void init_end(struct sim *s, int i, uint32_t id, uint64_t timeout)
{
    struct vrb_wireup_config cfg = {.first_ns = 20 * MS, .max_ns = 1 * SEC, .timeout_ns = timeout};
    struct vrb_hello local = {
        .src_name = (uint64_t)i,
        .dst_name = (uint64_t)!i,
        .src_id = id,
        .src_life = id,
        .qpn = id,
        .psn = id + 7,
        .mtu = 3,
        .grant = 64,
        .recv_size = 4096,
    };
    struct end *e = &s->end[i];

    vrb_wireup_init(&e->w, &cfg, &local, (uint32_t)rng_next(&s->rng));
    e->qp_ready = e->ups = e->fails = 0;
    e->need_heard = e->timer_sends = 0;
}

static void carry(struct sim *s, int to, int is_data, const struct vrb_hello *m)
{
    if (s->packets == MAX_PACKETS) {
        s->overflow = 1;
        return;
    }
    struct packet *p = &s->packet[s->packets++];

    p->at = s->now + 1 * US + rng_next(&s->rng) % s->delay_max;
    p->to = to;
    p->is_data = is_data;
    p->hello = *m;
}

static void send_hello(struct sim *s, int i)
{
    struct vrb_hello m;

    vrb_wireup_message(&s->end[i].w, &m);
    CHECK(s, m.src_id == s->end[i].w.local.src_id && m.qpn == m.src_id);
    CHECK(s, m.type == VRB_REJECT || s->end[i].w.state != VRB_WU_FAILED);
    CHECK(s, !(m.flags & VRB_HELLO_HAVE) || s->end[i].qp_ready);
    for (int copies = rng_chance(&s->rng, s->dup) ? 3 : 1; copies > 0; copies--) {
        if (!rng_chance(&s->rng, s->end[i].loss)) {
            carry(s, !i, 0, &m);
        }
    }
}

/* What the caller does with the actions, in their order. */
static void act(struct sim *s, int i, unsigned acts)
{
    struct end *e = &s->end[i], *peer = &s->end[!i];

    if (acts & VRB_WU_DO_REMOTE) {
        CHECK(s, !e->qp_ready);
        CHECK(s, e->w.remote.qpn == e->w.remote.src_id);
        e->qp_ready = 1;
    }
    if (acts & VRB_WU_DO_SEND) {
        send_hello(s, i);
    }
    if (acts & VRB_WU_DO_UP) {
        CHECK(s, ++e->ups == 1 && e->qp_ready && e->w.state == VRB_WU_UP);
        if (!s->may_fail) {
            CHECK(s, peer->qp_ready && peer->w.remote.src_id == e->w.local.src_id);
        }
        e->was_up = 1;
        if (s->data) {
            /* It goes over the reliable QP: never lost, but it may overtake messages. */
            struct vrb_hello data = e->w.local;

            data.dst_id = e->w.remote.src_id;
            carry(s, !i, 1, &data);
        }
    }
    if (acts & VRB_WU_DO_FAIL) {
        CHECK(s, ++e->fails == 1 && e->w.state == VRB_WU_FAILED);
    }
}

static void deliver(struct sim *s, const struct packet *p)
{
    struct end *e = &s->end[p->to];

    if (!p->is_data) {
        e->need_heard += (p->hello.flags & VRB_HELLO_NEED) != 0;
        act(s, p->to, vrb_wireup_on_message(&e->w, s->now, &p->hello));
        return;
    }
    if (p->hello.dst_id != e->w.local.src_id || e->w.state == VRB_WU_FAILED) {
        return; /* that QP is gone */
    }
    CHECK(s, e->qp_ready && e->w.remote.src_id == p->hello.src_id);
    act(s, p->to, vrb_wireup_on_data(&e->w, s->now));
}

/* A message that an earlier incarnation of `from` sent, or sent to one of the other end. */
static void inject_stale(struct sim *s, int from, uint32_t id, uint32_t peer_id)
{
    struct vrb_hello m = s->end[from].w.local;
    int to_us = rng_chance(&s->rng, 50);

    m.type = rng_chance(&s->rng, 30) ? VRB_REJECT : VRB_HELLO;
    m.reason = VRB_REJECT_FAILED;
    m.flags = (uint8_t)rng_below(&s->rng, 4);
    if (to_us) {
        m.dst_id = peer_id - 1 - rng_below(&s->rng, 50); /* to what the peer was before */
    } else {
        m.src_id = id - 1 - rng_below(&s->rng, 50);
        m.qpn = m.src_id;
        m.dst_id = m.type == VRB_REJECT || rng_chance(&s->rng, 50) ? peer_id : 0;
        if (!s->end[!from].w.have_remote) {
            return; /* before anything is learnt nobody could tell it from a current one */
        }
    }
    carry(s, !from, 0, &m);
}

/* Runs until nothing is due any more. event (may be NULL) is called before each step. */
static void run(struct sim *s, void (*event)(struct sim *s, int step))
{
    for (int step = 0;; step++) {
        uint64_t next = NEVER;
        int which = -1;

        CHECK(s, step < MAX_EVENTS);
        if (event) {
            event(s, step);
        }
        for (int i = 0; i < s->packets; i++) {
            if (s->packet[i].at < next) {
                next = s->packet[i].at;
                which = i;
            }
        }
        for (int i = 0; i < 2; i++) {
            uint64_t t = vrb_wireup_deadline(&s->end[i].w);

            if (s->end[i].starts < t) {
                t = s->end[i].starts;
            }
            if (t < next) {
                next = t;
                which = MAX_PACKETS + i;
            }
        }
        if (which < 0) {
            return;
        }
        s->now = next;
        if (which < MAX_PACKETS) {
            struct packet p = s->packet[which];

            s->packet[which] = s->packet[--s->packets];
            deliver(s, &p);
            continue;
        }
        int i = which - MAX_PACKETS;
        struct end *e = &s->end[i];

        if (e->starts <= s->now) {
            e->starts = NEVER;
            act(s, i, vrb_wireup_start(&e->w, s->now));
            continue;
        }
        unsigned acts = vrb_wireup_on_timer(&e->w, s->now);

        CHECK(s, acts != 0);
        e->timer_sends += (acts & VRB_WU_DO_SEND) != 0;
        act(s, i, acts);
    }
}

static void setup(struct sim *s, uint64_t seed, uint64_t timeout)
{
    static const uint32_t losses[] = {0, 0, 1, 10, 30, 60, 90};
    static const uint64_t delays[] = {2 * US, 100 * US, 30 * MS, 300 * MS};

    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->rng.state = seed;
    init_end(s, 0, ID_A, timeout);
    init_end(s, 1, ID_B, timeout);
    for (int i = 0; i < 2; i++) {
        s->end[i].loss = losses[rng_below(&s->rng, COUNT_OF(losses))];
    }
    s->dup = rng_chance(&s->rng, 40) ? rng_below(&s->rng, 60) : 0;
    s->data = rng_chance(&s->rng, 50);
    s->delay_max = delays[rng_below(&s->rng, COUNT_OF(delays))];
    s->end[0].starts = rng_next(&s->rng) % (50 * MS);
    switch (rng_below(&s->rng, 3)) {
    case 0: /* both at once */
        s->end[1].starts = s->end[0].starts;
        break;
    case 1:
        s->end[1].starts = rng_next(&s->rng) % (50 * MS);
        break;
    default: /* one side only */
        s->end[1].starts = NEVER;
        break;
    }
}

static void check_connected(struct sim *s)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &s->end[i];

        CHECK(s, e->w.state == VRB_WU_UP && e->ups == 1 && e->fails == 0 && e->qp_ready);
        CHECK(s, e->w.remote.src_id == s->end[!i].w.local.src_id);
        CHECK(s, e->w.remote.qpn == s->end[!i].w.local.qpn);
        CHECK(s, e->w.remote.psn == s->end[!i].w.local.psn);
        /* Each message has a reason: the start, a timer, or a question heard. */
        CHECK(s, e->w.sent <= 1 + e->timer_sends + e->need_heard);
    }
    CHECK(s, !s->overflow);
}

/* No timeout within reach, so whatever the loss (below 100 %), both come up. */
static void connects_in_spite_of_everything(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 100000; seed++) {
        setup(&s, seed, NEVER);
        run(&s, NULL);
        check_connected(&s);
    }
}

static void few_messages_without_loss(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        setup(&s, seed, 60 * SEC);
        s.end[0].loss = s.end[1].loss = s.dup = 0;
        s.delay_max = 1 * MS;
        int passive = s.end[1].starts == NEVER;

        run(&s, NULL);
        check_connected(&s);
        CHECK(&s, s.end[0].w.sent + s.end[1].w.sent <= (passive ? 3u : 6u));
    }
}

static void add_stale(struct sim *s, int step)
{
    if (step < 30 && rng_chance(&s->rng, 20)) {
        int from = (int)rng_below(&s->rng, 2);

        inject_stale(s, from, from ? ID_B : ID_A, from ? ID_A : ID_B);
    }
}

static void the_past_changes_nothing(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 50000; seed++) {
        setup(&s, seed, NEVER);
        run(&s, add_stale);
        for (int i = 0; i < 2; i++) {
            CHECK(&s, s.end[i].w.state == VRB_WU_UP && s.end[i].fails == 0);
            CHECK(&s, s.end[i].w.remote.src_id == s.end[!i].w.local.src_id);
        }
    }
}

static void no_way_at_all(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        setup(&s, seed, 60 * SEC);
        s.end[0].loss = s.end[1].loss = 100;
        int passive = s.end[1].starts == NEVER;

        run(&s, NULL);
        CHECK(&s, s.end[0].w.failure == VRB_WU_FAIL_TIMEOUT && !s.end[0].w.heard);
        CHECK(&s, s.end[1].w.state == (passive ? VRB_WU_IDLE : VRB_WU_FAILED));
        CHECK(&s, s.now >= 60 * SEC && s.now <= 60 * SEC + 50 * MS);
        /* 20 ms doubling to 1 s takes 7 messages, then one per 3/4 s at the most. */
        CHECK(&s, s.end[0].w.sent <= 7 + 80);
    }
}

static void one_way_only(void **state)
{
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        setup(&s, seed, 60 * SEC);
        int deaf = (int)rng_below(&s.rng, 2);

        s.end[!deaf].loss = 100; /* nothing reaches it */
        s.end[deaf].loss = 0;
        run(&s, NULL);
        for (int i = 0; i < 2; i++) {
            CHECK(&s, s.end[i].w.state != VRB_WU_UP && s.end[i].ups == 0);
        }
        CHECK(&s, !s.end[deaf].w.heard);
        if (s.end[deaf].w.sent > 0) {
            CHECK(&s, s.end[!deaf].w.heard && s.end[!deaf].w.state == VRB_WU_FAILED);
        }
    }
}

static void b_gives_up(struct sim *s, int step)
{
    if (step > 0 && s->end[1].w.state != VRB_WU_FAILED && rng_chance(&s->rng, 15)) {
        s->end[1].starts = NEVER;
        unsigned acts = vrb_wireup_give_up(&s->end[1].w, VRB_REJECT_NO_QP);

        CHECK(s, acts == (s->end[1].w.heard ? VRB_WU_DO_SEND : 0u));
        act(s, 1, acts);
    }
}

/* The other end learns of it: at once, or by asking again. */
static void giving_up_is_told(void **state)
{
    int told = 0;
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        setup(&s, seed, 100000 * SEC);
        s.may_fail = 1;
        run(&s, b_gives_up);
        struct end *a = &s.end[0], *b = &s.end[1];

        if (b->w.state != VRB_WU_FAILED) {
            CHECK(&s, a->w.state == VRB_WU_UP);
            continue;
        }
        if (a->w.state == VRB_WU_UP) {
            continue; /* it was up before, and the one message got lost: the QP will tell */
        }
        CHECK(&s, a->w.failure == VRB_WU_FAIL_REJECTED);
        CHECK(&s, a->w.reject_reason == VRB_REJECT_NO_QP);
        told++;
    }
    assert_true(told > 5000);
}

static void b_restarts(struct sim *s, int step)
{
    if (step > 3 && s->end[1].w.local.src_id == ID_B && rng_chance(&s->rng, 25)) {
        init_end(s, 1, ID_B + 1, 100000 * SEC);
        s->end[1].starts = s->now + rng_next(&s->rng) % (100 * MS);
    }
}

/* After one end starts anew either both are connected, knowing each other, or both know that they
 * are not: no end is left that believes in the old connection once the new one has asked. */
static void restart_is_noticed(void **state)
{
    int connected = 0, failed = 0;
    struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        setup(&s, seed, 100000 * SEC);
        s.may_fail = 1;
        run(&s, b_restarts);
        struct end *a = &s.end[0], *b = &s.end[1];

        if (a->w.state == VRB_WU_UP) {
            CHECK(&s, b->w.state == VRB_WU_UP);
            CHECK(&s, a->w.remote.src_id == b->w.local.src_id);
            CHECK(&s, b->w.remote.src_id == a->w.local.src_id);
            connected++;
            continue;
        }
        CHECK(&s, a->w.failure == VRB_WU_FAIL_RESTART);
        CHECK(&s, b->w.failure == VRB_WU_FAIL_REJECTED);
        failed++;
    }
    assert_true(connected > 500 && failed > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_in_spite_of_everything),
        cmocka_unit_test(few_messages_without_loss),
        cmocka_unit_test(the_past_changes_nothing),
        cmocka_unit_test(no_way_at_all),
        cmocka_unit_test(one_way_only),
        cmocka_unit_test(giving_up_is_told),
        cmocka_unit_test(restart_is_noticed),
    };

    return cmocka_run_group_tests_name("wireup_sim", tests, NULL, NULL);
}
