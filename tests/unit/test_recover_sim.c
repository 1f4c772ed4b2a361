/* Connections that break and are made again, under random schedules.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ends with the engines that the core has (handshake, credits, replay), a virtual clock, a
 * carrier of HELLOs that loses, doubles and reorders, and QPs that break at any moment on either
 * side. Both ends send numbered packets all the time. What must hold: each packet arrives exactly
 * once, in order, with its contents; nothing stays undone; the receiver's window is never exceeded.
 */
#include "unit.h"

#include "rc/vrb_credit.h"
#include "rc/vrb_replay.h"
#include "wireup/vrb_wireup.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SEC (1000 * MS)

#define MAX_EVENTS 1024
#define MAX_STEPS 200000
#define DEPTH 16 /* send queue slots, one of them for the marker */
#define PLACES 16
#define CQ 64
#define PACKET 24

enum kind { HELLO, DATA, ACK, BREAK, QUIET, POLL, WORK };

struct event {
    uint64_t at, order;
    enum kind kind;
    int to;
    uint32_t src_id, dst_id; /* DATA, ACK: of the QPs; BREAK, QUIET: dst_id */
    uint32_t seq;
    uint8_t pkt[PACKET];
    struct vrb_hello hello;
};

struct end {
    struct vrb_wireup w;
    struct vrb_credit credit;
    struct vrb_replay replay;
    uint32_t tx_seq, rx_seq, acked; /* acked: below, the local completion was seen */
    uint32_t total;                 /* packets to send */
    uint32_t next_id, started;
    int qp;    /* it can receive and send */
    int bound; /* ... from and to the peer's */
    int up, failed;
    uint64_t last; /* arrival of the latest packet on this QP: it keeps order */
    struct {
        int used;
        uint8_t pkt[PACKET];
    } buf[PLACES];       /* packets that did not leave inline, until they are done */
    struct event cq[CQ]; /* arrived, not polled */
    int cq_n;
};

struct sim {
    struct rng rng;
    uint64_t seed, now, order;
    struct end end[2];
    struct event event[MAX_EVENTS];
    int events;
    int breaks; /* still to come */
    uint32_t loss, dup, eager_break;
    uint64_t delay;
    uint64_t replayed, generations;
};

static struct event *add(struct sim *s, enum kind kind, int to, uint64_t at)
{
    struct event *e = &s->event[s->events];

    CHECK(s, s->events < MAX_EVENTS);
    s->events++;
    *e = (struct event){.at = at, .order = s->order++, .kind = kind, .to = to};
    return e;
}

static uint64_t soon(struct sim *s, uint64_t most)
{
    return s->now + 1 + rng_next(&s->rng) % most;
}

static void send_hello(struct sim *s, int i)
{
    struct vrb_hello m;

    vrb_wireup_message(&s->end[i].w, &m);
    CHECK(s, s->end[i].w.state != VRB_WU_PAUSED);
    for (int copies = rng_chance(&s->rng, s->dup) ? 3 : 1; copies > 0; copies--) {
        if (!rng_chance(&s->rng, s->loss)) {
            add(s, HELLO, !i, soon(s, s->delay))->hello = m;
        }
    }
}

static void contents(uint8_t *pkt, int from, uint32_t seq)
{
    vrb_put32(pkt + VRB_HDR_SIZE, seq * 2654435761u);
    vrb_put32(pkt + VRB_HDR_SIZE + 4, (uint32_t)from);
}

static uint32_t length(uint32_t seq)
{
    return VRB_HDR_SIZE + 8 + seq % (PACKET - VRB_HDR_SIZE - 8 + 1);
}

/* A packet leaves on the QP. */
static void post(struct sim *s, int i, const uint8_t *pkt)
{
    struct end *e = &s->end[i];
    struct event *v = add(s, DATA, !i, 0);

    e->last = e->last > s->now ? e->last : s->now;
    e->last += 1 + rng_next(&s->rng) % (20 * US);
    v->at = e->last;
    v->src_id = e->w.local.src_id;
    v->dst_id = e->w.remote.src_id;
    v->seq = vrb_get32(pkt + 4);
    memcpy(v->pkt, pkt, PACKET);
}

static int may_send(const struct end *e, uint32_t next)
{
    return e->up && vrb_credit_room(&e->credit) > 0 && next - e->acked < DEPTH - 1;
}

static void send_again(struct sim *s, int i)
{
    struct end *e = &s->end[i];

    while (vrb_replay_pending(&e->replay) && may_send(e, e->replay.next)) {
        uint32_t seq = e->replay.next, len;
        uint8_t *pkt = e->buf[seq % PLACES].pkt;

        if (!e->buf[seq % PLACES].used || vrb_get32(pkt + 4) != seq) {
            pkt = vrb_replay_find(&e->replay, seq, &len);
            CHECK(s, pkt != NULL && len == length(seq));
        }
        vrb_put16(pkt + 2, vrb_credit_tell(&e->credit));
        post(s, i, pkt);
        vrb_credit_sent(&e->credit);
        e->replay.next++;
        s->replayed++;
    }
}

static void send_new(struct sim *s, int i)
{
    struct end *e = &s->end[i];

    send_again(s, i);
    while (!vrb_replay_pending(&e->replay) && e->tx_seq < e->total && may_send(e, e->tx_seq)) {
        uint32_t seq = e->tx_seq;
        int is_inline = rng_chance(&s->rng, 50);
        uint8_t *pkt;

        if (is_inline) {
            pkt = vrb_replay_place(&e->replay, seq);
            vrb_replay_set_len(pkt, length(seq));
        } else {
            CHECK(s, !e->buf[seq % PLACES].used);
            e->buf[seq % PLACES].used = 1;
            pkt = e->buf[seq % PLACES].pkt;
        }
        vrb_hdr_put(pkt, VRB_KIND_DATA, 0, vrb_credit_tell(&e->credit), seq);
        contents(pkt, i, seq);
        post(s, i, pkt);
        vrb_credit_sent(&e->credit);
        e->tx_seq++;
    }
}

/* Completions below seq: buffers are the owner's again. */
static void done_below(struct end *e, uint32_t seq)
{
    for (; (int32_t)(e->acked - seq) < 0; e->acked++) {
        e->buf[e->acked % PLACES].used = 0;
    }
}

static void act(struct sim *s, int i, unsigned acts);

static void break_qp(struct sim *s, int i)
{
    act(s, i, vrb_wireup_pause(&s->end[i].w, s->now, (uint32_t)rng_next(&s->rng)));
}

static void act(struct sim *s, int i, unsigned acts)
{
    struct end *e = &s->end[i], *peer = &s->end[!i];

    if (acts & VRB_WU_DO_PAUSE) {
        CHECK(s, e->w.state == VRB_WU_PAUSED);
        e->qp = e->bound = e->up = 0;
        e->replay.next = e->replay.end;
        struct event *q = add(s, QUIET, i, soon(s, 5 * MS));
        q->dst_id = e->w.local.src_id;
    }
    if (acts & VRB_WU_DO_REMOTE) {
        CHECK(s, e->qp && !e->bound);
        e->bound = 1;
        CHECK(s, (int32_t)(e->w.remote.rx_seq - e->acked) >= 0);
        CHECK(s, vrb_replay_begin(&e->replay, e->tx_seq, e->w.remote.rx_seq) == VRB_OK);
        done_below(e, e->w.remote.rx_seq);
        vrb_credit_restart_tx(&e->credit, e->w.remote.rx_seq, e->w.remote.grant);
    }
    if (acts & VRB_WU_DO_SEND) {
        send_hello(s, i);
    }
    if (acts & VRB_WU_DO_UP) {
        CHECK(s, e->bound && peer->w.local.gen >= e->w.local.gen);
        e->up = 1;
        send_new(s, i);
    }
    e->failed |= (acts & VRB_WU_DO_FAIL) != 0;
    /* The moments in which a break hurts most: right after something happened. */
    if (acts & (VRB_WU_DO_REMOTE | VRB_WU_DO_UP) && s->breaks > 0 &&
        rng_chance(&s->rng, s->eager_break)) {
        s->breaks--;
        break_qp(s, (int)rng_below(&s->rng, 2));
    }
}

static void poll_one(struct sim *s, int i)
{
    struct end *e = &s->end[i];
    struct event v = e->cq[0];
    struct vrb_hdr h = {0};
    uint8_t wanted[PACKET];

    memmove(&e->cq[0], &e->cq[1], (size_t)--e->cq_n * sizeof(v));
    act(s, i, vrb_wireup_on_data(&e->w, s->now));
    CHECK(s, vrb_hdr_get(v.pkt, PACKET, &h) == VRB_OK);
    CHECK(s, h.seq == e->rx_seq);
    memcpy(wanted, v.pkt, PACKET);
    contents(wanted, !i, h.seq);
    CHECK(s, memcmp(wanted, v.pkt, PACKET) == 0);
    vrb_credit_granted(&e->credit, h.grant);
    e->rx_seq++;
    vrb_credit_consumed(&e->credit);
}

static void make_qp(struct sim *s, int i, struct vrb_hello *local)
{
    struct end *e = &s->end[i];

    *local = (struct vrb_hello){
        .src_id = e->next_id++,
        .qpn = 1,
        .mtu = 3,
        .recv_size = 4096,
        .rx_seq = e->rx_seq,
        .grant = vrb_credit_tell(&e->credit),
    };
    e->qp = 1;
    e->last = 0;
    s->generations++;
}

/* The marker came back: the rest is polled, the count is final, a new QP is made. */
static void quiet(struct sim *s, int i)
{
    struct end *e = &s->end[i];
    struct vrb_hello local;

    while (e->cq_n > 0) {
        poll_one(s, i);
    }
    vrb_credit_restart_rx(&e->credit, e->rx_seq);
    make_qp(s, i, &local);
    act(s, i, vrb_wireup_resume(&e->w, s->now, &local));
}

static void data(struct sim *s, const struct event *v)
{
    struct end *e = &s->end[v->to], *from = &s->end[!v->to];

    if (!e->qp || !e->bound || e->w.local.src_id != v->dst_id || e->w.remote.src_id != v->src_id) {
        /* Nobody answers: the sender's retries run out. */
        if (from->qp && from->w.local.src_id == v->src_id) {
            add(s, BREAK, !v->to, soon(s, 50 * MS))->dst_id = v->src_id;
        }
        return;
    }
    if (!from->qp || from->w.local.src_id != v->src_id) {
        /* It may have been flushed before it left, and what follows one that was goes nowhere. */
        if (rng_chance(&s->rng, 50) || v->seq != e->rx_seq + (uint32_t)e->cq_n) {
            return;
        }
    }
    CHECK(s, e->cq_n < CQ && e->cq_n < e->credit.window);
    e->cq[e->cq_n++] = *v;
    struct event *a = add(s, ACK, !v->to, soon(s, 10 * US));
    a->dst_id = v->src_id;
    a->seq = v->seq;
    add(s, POLL, v->to, soon(s, rng_chance(&s->rng, 10) ? 5 * MS : 50 * US));
}

static void handle(struct sim *s, const struct event *v)
{
    struct end *e = &s->end[v->to];

    switch (v->kind) {
    case HELLO:
        act(s, v->to, vrb_wireup_on_message(&e->w, s->now, &v->hello));
        break;
    case DATA:
        data(s, v);
        break;
    case ACK:
        if (e->qp && e->w.local.src_id == v->dst_id && (int32_t)(v->seq - e->acked) >= 0) {
            done_below(e, v->seq + 1);
            send_new(s, v->to);
        }
        break;
    case BREAK:
        if (v->dst_id == 0 || (e->qp && e->w.local.src_id == v->dst_id)) {
            break_qp(s, v->to);
        }
        break;
    case QUIET:
        if (e->w.state == VRB_WU_PAUSED && !e->qp && e->w.local.src_id == v->dst_id) {
            quiet(s, v->to);
        }
        break;
    case POLL:
        if (e->cq_n > 0) {
            poll_one(s, v->to);
            send_new(s, v->to);
        }
        break;
    case WORK: /* CREDIT packets are left out: the other end learns its window from time to time */
        if (e->up && s->end[!v->to].up && s->end[!v->to].w.local.gen == e->w.local.gen) {
            vrb_credit_granted(&e->credit, vrb_credit_tell(&s->end[!v->to].credit));
            send_new(s, v->to);
        }
        if (e->tx_seq < e->total || s->end[!v->to].rx_seq < e->total) {
            add(s, WORK, v->to, soon(s, 2 * MS));
        }
        break;
    }
}

static void run(struct sim *s, uint64_t end)
{
    for (int step = 0;; step++) {
        uint64_t next = UINT64_MAX, order = 0;
        int which = -1;

        CHECK(s, step < MAX_STEPS);
        for (int i = 0; i < s->events; i++) {
            struct event *v = &s->event[i];

            if (v->at < next || (v->at == next && v->order < order)) {
                next = v->at;
                order = v->order;
                which = i;
            }
        }
        for (int i = 0; i < 2; i++) {
            uint64_t t = vrb_wireup_deadline(&s->end[i].w);

            if (t < next) {
                next = t;
                which = MAX_EVENTS + i;
            }
        }
        if (which < 0 || next > end) {
            return;
        }
        s->now = next > s->now ? next : s->now;
        if (which >= MAX_EVENTS) {
            act(s, which - MAX_EVENTS, vrb_wireup_on_timer(&s->end[which - MAX_EVENTS].w, s->now));
            continue;
        }
        struct event v = s->event[which];

        s->event[which] = s->event[--s->events];
        handle(s, &v);
    }
}

static void setup(struct sim *s, uint64_t seed, uint64_t recover)
{
    static const uint32_t losses[] = {0, 0, 10, 30, 60};
    static const uint64_t delays[] = {2 * US, 100 * US, 5 * MS, 100 * MS};
    struct vrb_wireup_config cfg = {
        .first_ns = 4 * MS, .max_ns = 500 * MS, .timeout_ns = UINT64_MAX, .recover_ns = recover};

    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->rng.state = seed;
    s->loss = losses[rng_below(&s->rng, COUNT_OF(losses))];
    s->dup = rng_chance(&s->rng, 40) ? rng_below(&s->rng, 60) : 0;
    s->delay = delays[rng_below(&s->rng, COUNT_OF(delays))];
    s->eager_break = rng_chance(&s->rng, 50) ? rng_below(&s->rng, 60) : 0;
    s->breaks = (int)rng_below(&s->rng, 12);
    for (int i = 0; i < 2; i++) {
        struct end *e = &s->end[i];
        struct vrb_hello local;

        vrb_credit_init(&e->credit, (uint16_t)(2 + rng_below(&s->rng, 20)));
        assert_int_equal(vrb_replay_init(&e->replay, DEPTH, PACKET), VRB_OK);
        e->next_id = (uint32_t)rng_next(&s->rng) | 1;
        e->total = 20 + rng_below(&s->rng, 100);
        make_qp(s, i, &local);
        vrb_wireup_init(&e->w, &cfg, &local, (uint32_t)rng_next(&s->rng));
        add(s, WORK, i, soon(s, 2 * MS));
    }
    for (int n = s->breaks / 2; n > 0; n--) {
        add(s, BREAK, (int)rng_below(&s->rng, 2), soon(s, 200 * MS));
    }
    act(s, 0, vrb_wireup_start(&s->end[0].w, 0));
    if (rng_chance(&s->rng, 50)) {
        act(s, 1, vrb_wireup_start(&s->end[1].w, 0));
    }
}

static void teardown(struct sim *s)
{
    vrb_replay_free(&s->end[0].replay);
    vrb_replay_free(&s->end[1].replay);
}

static void exactly_once_in_order(void **state)
{
    static struct sim s;
    uint64_t replayed = 0, generations = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        setup(&s, seed, UINT64_MAX);
        run(&s, UINT64_MAX);
        for (int i = 0; i < 2; i++) {
            struct end *e = &s.end[i];

            CHECK(&s, !e->failed && e->w.state == VRB_WU_UP);
            CHECK(&s, e->tx_seq == e->total && s.end[!i].rx_seq == e->total);
            CHECK(&s, e->acked == e->total);
            CHECK(&s, e->w.local.gen == s.end[!i].w.local.gen);
        }
        replayed += s.replayed;
        generations += s.generations - 2;
        teardown(&s);
    }
    assert_true(generations > 2 * 40000 && replayed > 40000); /* it was tried at all */
}

/* A network that stays away: both ends find out in the time that was set, and not before. */
static void ends_in_time(void **state)
{
    static struct sim s;

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        setup(&s, seed, 30 * SEC);
        s.breaks = 0;
        run(&s, 5 * SEC);
        if (s.end[0].w.state != VRB_WU_UP || s.end[1].w.state != VRB_WU_UP) {
            teardown(&s);
            continue; /* one of those with much loss */
        }
        uint64_t began = s.now;
        s.loss = 100;
        s.events = 0;
        break_qp(&s, 0);
        run(&s, began + 29 * SEC);
        CHECK(&s, !s.end[0].failed);
        run(&s, began + 31 * SEC);
        CHECK(&s, s.end[0].failed && s.end[0].w.failure == VRB_WU_FAIL_TIMEOUT);
        CHECK(&s, vrb_wireup_deadline(&s.end[0].w) == UINT64_MAX);
        teardown(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_once_in_order),
        cmocka_unit_test(ends_in_time),
    };

    return cmocka_run_group_tests_name("recover_sim", tests, NULL, NULL);
}
