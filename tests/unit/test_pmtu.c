/* The path's MTU by the length of handshake messages: what is sent, what counts, and two whole ends
 * over paths that are too narrow, one way or both, with loss, slow ends and both starting at once.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wireup/vrb_pmtu.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define NEVER UINT64_MAX
#define MAX_PACKETS 4096

/* ---- one end ---- */

static void lengths_are_those_of_packets(void **state)
{
    (void)state;
    assert_int_equal(vrb_pmtu_of(0), 1);
    assert_int_equal(vrb_pmtu_of(VRB_HELLO_SIZE), 1);
    for (uint8_t mtu = 2; mtu <= 5; mtu++) {
        assert_int_equal(vrb_pmtu_of((size_t)128 << mtu), mtu);
        assert_int_equal(vrb_pmtu_of(((size_t)128 << mtu) - 1), mtu - 1);
    }
    assert_int_equal(vrb_pmtu_of(1 << 20), 5);
}

static void first_messages_are_alone(void **state)
{
    uint8_t l[VRB_PMTU_SERIES_MAX];
    struct vrb_pmtu p;

    (void)state;
    vrb_pmtu_init(&p, 5);
    assert_int_equal(vrb_pmtu_lengths(&p, 100 * MS, 0, l), 1);
    assert_int_equal(l[0], 5);
    assert_int_equal(vrb_pmtu_lengths(&p, 104 * MS, 0, l), 1);
    assert_int_equal(l[0], 5);
    assert_int_equal(vrb_pmtu_lengths(&p, 112 * MS, 0, l), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(l[i], i == 4 ? 0 : 5 - i);
    }
}

/* A burst of old messages is answered without a series. */
static void answers_at_once_are_one_try(void **state)
{
    uint8_t l[VRB_PMTU_SERIES_MAX];
    struct vrb_pmtu p;

    (void)state;
    vrb_pmtu_init(&p, 5);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(vrb_pmtu_lengths(&p, 100 * MS + (uint64_t)i * US, 0, l), 1);
        assert_int_equal(l[0], 5);
    }
}

static void short_when_nothing_is_to_be_seen(void **state)
{
    uint8_t l[VRB_PMTU_SERIES_MAX];
    struct vrb_pmtu p;

    (void)state;
    vrb_pmtu_init(&p, 5);
    assert_int_equal(vrb_pmtu_lengths(&p, 1, 1, l), 1); /* the peer has our QP */
    assert_int_equal(l[0], 0);
    vrb_pmtu_init(&p, 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vrb_pmtu_lengths(&p, (uint64_t)i * 10 * MS, 0, l), 1);
        assert_int_equal(l[0], 0);
    }
}

/* ---- two ends ---- */

struct packet {
    uint64_t at;
    int to;
    uint8_t length;
    struct vrb_hello hello;
};

struct end {
    struct vrb_wireup w;
    struct vrb_pmtu p;
    uint64_t starts;  /* NEVER: passive */
    uint64_t wakes;   /* deaf and dumb until then; messages wait */
    uint64_t resumes; /* its QP is quiet then */
    uint8_t takes;    /* the longest that arrives here */
    uint8_t bound;    /* what its QP was made with */
    uint32_t id;
    int up, failed, rebinds;
    uint64_t up_at;
};

struct sim {
    struct rng rng;
    uint64_t seed, now;
    struct end end[2];
    struct packet packet[MAX_PACKETS];
    int packets;
    uint32_t loss, sent;
};

static struct vrb_hello own(struct end *e)
{
    e->id++;
    return (struct vrb_hello){.src_id = e->id,
                              .src_life = e->id,
                              .qpn = e->id & 0xffffff,
                              .mtu = e->p.limit,
                              .grant = 64,
                              .recv_size = 4096};
}

static void send_hello(struct sim *s, int i)
{
    struct end *e = &s->end[i];
    uint8_t lengths[VRB_PMTU_SERIES_MAX] = {0};
    struct vrb_hello h;
    int n = 1;

    vrb_wireup_message(&e->w, &h);
    h.mtu = e->p.limit;
    if (h.type == VRB_HELLO) {
        n = vrb_pmtu_lengths(&e->p, s->now, e->w.peer_has, lengths);
    }
    for (int k = 0; k < n; k++) {
        struct packet *p = &s->packet[s->packets];

        s->sent++;
        if (lengths[k] > s->end[!i].takes || rng_chance(&s->rng, s->loss)) {
            continue;
        }
        CHECK(s, s->packets < MAX_PACKETS);
        s->packets++;
        *p = (struct packet){.at = s->now + 2 * US + (uint64_t)k * US + rng_below(&s->rng, 500),
                             .to = !i,
                             .length = lengths[k] == 0 ? VRB_PMTU_MIN : lengths[k],
                             .hello = h};
        if (k < n - 1) {
            p->hello.flags &= (uint8_t)~VRB_HELLO_NEED;
        } else if (n > 1) {
            p->hello.flags |= VRB_HELLO_LAST;
        }
    }
}

static void act(struct sim *s, int i, unsigned acts)
{
    struct end *e = &s->end[i], *peer = &s->end[!i];

    if (acts & VRB_WU_DO_PAUSE) {
        e->up = 0;
        e->bound = 0;
        e->resumes = s->now + 100 * US;
    }
    if (acts & VRB_WU_DO_REMOTE) {
        e->bound = e->p.limit;
    }
    if (acts & VRB_WU_DO_SEND) {
        send_hello(s, i);
    }
    if (acts & VRB_WU_DO_UP) {
        /* The moment from which data may leave. */
        CHECK(s, e->bound != 0 && peer->bound == e->bound);
        e->up = 1;
        e->up_at = s->now;
    }
    e->failed |= (acts & VRB_WU_DO_FAIL) != 0;
}

static void deliver(struct sim *s, const struct packet *p)
{
    struct end *e = &s->end[p->to];
    struct vrb_hello h = p->hello;

    switch (vrb_pmtu_hear(&e->p, &e->w, &h, p->length)) {
    case VRB_PMTU_HOLD:
        break;
    case VRB_PMTU_REBIND:
        e->rebinds++;
        act(s, p->to, vrb_wireup_pause(&e->w, s->now, 0));
        break;
    default:
        act(s, p->to, vrb_wireup_on_message(&e->w, s->now, &h));
        break;
    }
}

static void resume(struct sim *s, int i)
{
    struct end *e = &s->end[i];
    struct vrb_hello local = own(e);

    e->resumes = NEVER;
    local.rx_seq = 0;
    vrb_pmtu_begin(&e->p);
    act(s, i, vrb_wireup_resume(&e->w, s->now, &local));
}

static uint64_t awake(const struct end *e, uint64_t t)
{
    return t < e->wakes ? e->wakes : t;
}

/* Until both are up or have failed. */
static void run(struct sim *s)
{
    for (int step = 0; !(s->end[0].up && s->end[1].up) && step < 100000; step++) {
        uint64_t next = NEVER;
        int what = -1, which = -1;

        for (int i = 0; i < s->packets; i++) {
            uint64_t t = awake(&s->end[s->packet[i].to], s->packet[i].at);

            if (t < next) {
                next = t;
                what = 0;
                which = i;
            }
        }
        for (int i = 0; i < 2; i++) {
            uint64_t t[3] = {s->end[i].starts, s->end[i].resumes,
                             vrb_wireup_deadline(&s->end[i].w)};

            for (int k = 0; k < 3; k++) {
                if (t[k] != NEVER && awake(&s->end[i], t[k]) < next) {
                    next = awake(&s->end[i], t[k]);
                    what = k + 1;
                    which = i;
                }
            }
        }
        if (what < 0) {
            return;
        }
        s->now = next > s->now ? next : s->now;
        if (what == 0) {
            struct packet p = s->packet[which];

            s->packet[which] = s->packet[--s->packets];
            deliver(s, &p);
        } else if (what == 1) {
            s->end[which].starts = NEVER;
            act(s, which, vrb_wireup_start(&s->end[which].w, s->now));
        } else if (what == 2) {
            resume(s, which);
        } else {
            act(s, which, vrb_wireup_on_timer(&s->end[which].w, s->now));
        }
    }
}

static struct sim sim;

/* said: what the addresses allow at each end; takes: what really arrives there. */
static struct sim *begin(uint64_t seed, const uint8_t said[2], const uint8_t takes[2])
{
    struct vrb_wireup_config cfg = {
        .first_ns = 4 * MS, .max_ns = 500 * MS, .timeout_ns = 60000 * MS, .recover_ns = 60000 * MS};
    struct sim *s = &sim;

    memset(s, 0, sizeof(*s));
    s->rng.state = s->seed = seed;
    s->now = 1000 * MS;
    for (int i = 0; i < 2; i++) {
        struct end *e = &s->end[i];
        struct vrb_hello local;

        vrb_pmtu_init(&e->p, said[i]);
        e->id = 1000u * (uint32_t)(i + 1);
        local = own(e);
        vrb_wireup_init(&e->w, &cfg, &local, (uint32_t)rng_next(&s->rng));
        e->starts = e->resumes = NEVER;
        e->takes = takes[i];
    }
    return s;
}

static void run_start(struct sim *s, int both)
{
    s->end[0].starts = s->now;
    s->end[1].starts = both ? s->now : NEVER;
    run(s);
}

static uint8_t least(const uint8_t a[2], const uint8_t b[2])
{
    uint8_t m = 5;

    for (int i = 0; i < 2; i++) {
        m = a[i] < m ? a[i] : m;
        m = b[i] < m ? b[i] : m;
    }
    return m;
}

/* Every combination of what is said and what is so: the largest that passes both ways, agreed on,
 * soon. All being well it takes three messages and no timer. */
static void every_path(void **state)
{
    (void)state;
    for (int c = 0; c < 5 * 5 * 5 * 5 * 2; c++) {
        uint8_t said[2] = {(uint8_t)(1 + c % 5), (uint8_t)(1 + c / 5 % 5)};
        uint8_t takes[2] = {(uint8_t)(1 + c / 25 % 5), (uint8_t)(1 + c / 125 % 5)};
        uint8_t wanted = said[0] < said[1] ? said[0] : said[1];
        struct sim *s = begin((uint64_t)c, said, takes);
        uint64_t t0 = s->now;

        run_start(s, c / 625);
        CHECK(s, s->end[0].up && s->end[1].up && !s->end[0].failed && !s->end[1].failed);
        CHECK(s, s->end[0].bound == s->end[1].bound);
        CHECK(s, s->end[0].bound == least(said, takes));
        CHECK(s, s->now - t0 < 150 * MS);
        if (takes[0] >= said[1] && takes[1] >= said[0] && said[0] == said[1]) {
            CHECK(s, s->now - t0 < 1 * MS && s->sent <= (c / 625 ? 6u : 3u));
            CHECK(s, !s->end[0].p.lowered && !s->end[1].p.lowered);
        }
        if (takes[0] >= wanted && takes[1] >= wanted) {
            CHECK(s, s->end[0].rebinds + s->end[1].rebinds == 0);
        }
    }
}

/* A peer that computes for a while before it looks is not a narrow path. */
static void slow_peers(void **state)
{
    const uint8_t five[2] = {5, 5};

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sim *s = begin(seed, five, five);

        s->end[1].wakes = s->now + (seed + 1) * 37 * MS;
        run_start(s, seed & 1);
        CHECK(s, s->end[0].up && s->end[1].up);
        CHECK(s, s->end[0].bound == 5 && s->end[1].bound == 5);
        CHECK(s, s->now - s->end[1].wakes < 1 * MS);
    }
}

/* Loss costs time, and now and then speed; never agreement. */
static void lossy_paths(void **state)
{
    int lowered = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct rng r = {seed + 77};
        uint8_t said[2] = {(uint8_t)(1 + rng_below(&r, 5)), (uint8_t)(1 + rng_below(&r, 5))};
        uint8_t takes[2] = {(uint8_t)(1 + rng_below(&r, 5)), (uint8_t)(1 + rng_below(&r, 5))};
        struct sim *s = begin(seed, said, takes);

        s->loss = rng_below(&r, 50);
        s->end[0].wakes = rng_chance(&r, 20) ? s->now + rng_below(&r, 100) * MS : 0;
        run_start(s, rng_chance(&r, 50));
        CHECK(s, s->end[0].up && s->end[1].up);
        CHECK(s, s->end[0].bound == s->end[1].bound);
        CHECK(s, s->end[0].bound <= least(said, takes));
        lowered += s->loss <= 10 && s->end[0].bound < least(said, takes);
    }
    assert_true(lowered < 4); /* of the 900 with little loss */
}

/* The path gets narrower: the next connection fits, and never goes back. */
static void a_path_that_changes(void **state)
{
    const uint8_t five[2] = {5, 5};

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim *s = begin(seed, five, five);

        run_start(s, 0);
        CHECK(s, s->end[0].bound == 5 && s->end[1].bound == 5);
        s->end[seed & 1].takes = 3;
        act(s, 0, vrb_wireup_pause(&s->end[0].w, s->now, 0));
        run(s);
        CHECK(s, s->end[0].up && s->end[1].up);
        CHECK(s, s->end[0].bound == 3 && s->end[1].bound == 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_those_of_packets),
        cmocka_unit_test(first_messages_are_alone),
        cmocka_unit_test(answers_at_once_are_one_try),
        cmocka_unit_test(short_when_nothing_is_to_be_seen),
        cmocka_unit_test(every_path),
        cmocka_unit_test(slow_peers),
        cmocka_unit_test(lossy_paths),
        cmocka_unit_test(a_path_that_changes),
    };

    return cmocka_run_group_tests_name("pmtu", tests, NULL, NULL);
}
