/* The simulated network and the simulated carriers on it.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "event_heap.h"

#define PACKET_MAX (VRB_UD_HDR_SIZE + VRB_UD_ACK_SIZE + 8 * VRB_UD_ACK_WORDS + 8)
#define RIDE_WORDS 4 /* the longest bitmap that rides on data */
#define NEVER UINT64_MAX
#define MILLION 1000000

enum event_type { ARRIVE, SERVE, TIMER, PRODUCE, AWAY };

/* One packet on its way. */
struct flight {
    uint32_t from, to, len;
    uint32_t next_free;
    uint8_t bytes[PACKET_MAX];
};

/* One direction between two nodes, seen from its sender. */
struct stream {
    uint32_t total;    /* packets that the application will send */
    uint32_t produced; /* it has made that many */
    uint32_t sent;
    uint32_t delivered, acked;
    uint8_t *state; /* per packet: DELIVERED, ACKED */
    uint64_t last_arrival;
};

enum packet_state { DELIVERED = 1, ACKED = 2 };

/* One engine: node `node`'s for its peer. */
struct end {
    struct vrb_rel rel;
    uint32_t node, peer;
    uint32_t token_out, token_in;
    uint64_t armed;
    struct stream out;
};

struct node {
    struct vrb_rel_env env;
    uint64_t busy_until; /* serving */
    uint32_t rq_used;
    uint64_t away_until;
    int was_away;
};

struct sim {
    const struct sim_config *cfg;
    struct sim_result *r;
    uint64_t rng, now;
    struct event_heap heap;
    struct flight *flight;
    uint32_t flights, flights_room, free_flight;
    struct node node[SIM_MAX_SENDERS + 1];
    struct end *end; /* end[2 * i]: node 0 for sender i + 1; end[2 * i + 1]: that sender */
    uint64_t link_free;
    uint64_t nth;
    uint32_t active; /* senders that are not done */
    int first_done;
};

static uint64_t random64(struct sim *s)
{
    uint64_t z = s->rng += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t random_below(struct sim *s, uint64_t n)
{
    return n ? random64(s) % n : 0;
}

static int chance(struct sim *s, uint32_t ppm)
{
    return ppm && random_below(s, MILLION) < ppm;
}

__attribute__((format(printf, 2, 3))) static void wrong(struct sim *s, const char *fmt, ...)
{
    char text[120];
    va_list ap;

    if (s->r->error[0]) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    snprintf(s->r->error, sizeof(s->r->error), "%s (seed %llu, time %llu ns)", text,
             (unsigned long long)s->cfg->seed, (unsigned long long)s->now);
}

static void remember(struct sim *s, uint64_t what)
{
    s->r->fingerprint = (s->r->fingerprint ^ what) * 0x100000001b3u;
}

static struct end *end_of(struct sim *s, uint32_t node, uint32_t peer)
{
    return node == 0 ? &s->end[2 * (peer - 1)] : &s->end[2 * (node - 1) + 1];
}

/* ---- the network ----------------------------------------------------------------------------- */

static uint32_t take_flight(struct sim *s)
{
    uint32_t f = s->free_flight;

    if (f != UINT32_MAX) {
        s->free_flight = s->flight[f].next_free;
        return f;
    }
    if (s->flights == s->flights_room) {
        s->flights_room = s->flights_room ? 2 * s->flights_room : 256;
        s->flight = realloc(s->flight, s->flights_room * sizeof(*s->flight));
        if (s->flight == NULL) {
            abort();
        }
    }
    return s->flights++;
}

static void free_flight(struct sim *s, uint32_t f)
{
    s->flight[f].next_free = s->free_flight;
    s->free_flight = f;
}

static int blacked_out(const struct sim *s)
{
    for (unsigned i = 0; i < 3; i++) {
        if (s->now >= s->cfg->blackout[i].from && s->now < s->cfg->blackout[i].to) {
            return 1;
        }
    }
    return 0;
}

/* The switch before the receiver's link: when the packet is through it, or NEVER if it is full. */
static uint64_t through_queue(struct sim *s, uint32_t to)
{
    if (to != 0 || s->cfg->slot_ns == 0) {
        return s->now;
    }
    uint64_t start = s->link_free > s->now ? s->link_free : s->now;

    if ((start - s->now) / s->cfg->slot_ns >= s->cfg->queue) {
        s->r->queue_drops++;
        return NEVER;
    }
    s->link_free = start + s->cfg->slot_ns;
    return s->link_free;
}

static void launch(struct sim *s, struct stream *way, uint32_t from, uint32_t to, uint64_t leaves,
                   const uint8_t *bytes, uint32_t len)
{
    uint64_t at = leaves + s->cfg->delay_ns + random_below(s, s->cfg->jitter_ns);
    uint32_t f = take_flight(s);

    if (chance(s, s->cfg->late_ppm)) {
        at += random_below(s, s->cfg->late_ns);
    }
    if (s->cfg->fifo && at < way->last_arrival) {
        at = way->last_arrival;
    }
    way->last_arrival = at;
    s->flight[f].from = from;
    s->flight[f].to = to;
    s->flight[f].len = len;
    memcpy(s->flight[f].bytes, bytes, len);
    event_push(&s->heap, at, ARRIVE, to, f);
}

/* A carrier posts a packet. */
static void transmit(struct sim *s, struct end *e, const struct vrb_ud_hdr *hdr,
                     const struct vrb_ud_ack *ack, uint64_t payload)
{
    uint8_t bytes[PACKET_MAX];
    uint32_t len = (uint32_t)vrb_ud_front_size((enum vrb_ud_kind)hdr->kind, ack);
    int data = hdr->kind == VRB_UD_DATA;

    vrb_ud_put(bytes, hdr, ack);
    if (data) {
        memcpy(bytes + len, &payload, sizeof(payload));
        len += sizeof(payload);
        s->r->data_sent++;
    }
    remember(s, s->now ^ hdr->pn);
    int lost = blacked_out(s) || chance(s, s->cfg->loss_ppm);

    if (s->cfg->drop_nth && data && e->node == 1 && s->nth++ + 1 == (uint64_t)s->cfg->drop_nth) {
        s->r->nth_sent_ns = s->now;
        lost = 1;
    }
    uint64_t leaves = lost ? NEVER : through_queue(s, e->peer);

    if (leaves == NEVER) {
        s->r->data_lost += (uint64_t)data;
        return;
    }
    launch(s, &e->out, e->node, e->peer, leaves, bytes, len);
    if (chance(s, s->cfg->dup_ppm)) {
        launch(s, &e->out, e->node, e->peer, leaves, bytes, len);
    }
}

/* ---- a carrier ------------------------------------------------------------------------------- */

static void send_data(struct sim *s, struct end *e, const struct vrb_rel_numbers *num,
                      uint64_t index)
{
    struct vrb_ud_hdr hdr = {.kind = VRB_UD_DATA,
                             .flags = num->flags,
                             .src = e->node,
                             .token = e->token_out,
                             .pn = num->pn,
                             .dseq = num->dseq};
    struct vrb_ud_ack ack;
    int rides = vrb_rel_ack_useful(&e->rel) && vrb_rel_build_ack(&e->rel, s->now, RIDE_WORDS, &ack);

    transmit(s, e, &hdr, rides ? &ack : NULL, index);
}

static void send_ack(struct sim *s, struct end *e)
{
    struct vrb_ud_hdr hdr = {.kind = VRB_UD_ACK, .src = e->node, .token = e->token_out};
    struct vrb_ud_ack ack;

    if (!vrb_rel_build_ack(&e->rel, s->now, VRB_UD_ACK_WORDS, &ack)) {
        wrong(s, "an acknowledgement was due and could not be made");
        return;
    }
    transmit(s, e, &hdr, &ack, 0);
}

/* Sends what may leave, sets the timer. */
static void pump(struct sim *s, struct end *e)
{
    struct vrb_rel_numbers num;
    struct stream *out = &e->out;
    void *cookie;

    while ((cookie = vrb_rel_resend(&e->rel, s->now, &num))) {
        send_data(s, e, &num, (uint64_t)(uintptr_t)cookie - 1);
    }
    while (out->sent < out->produced && vrb_rel_room(&e->rel, s->now)) {
        if (vrb_rel_send(&e->rel, (void *)(uintptr_t)(out->sent + 1), s->now, &num) != VRB_OK) {
            wrong(s, "room, but not taken");
            return;
        }
        send_data(s, e, &num, out->sent++);
    }
    if (vrb_rel_outstanding(&e->rel) > VRB_REL_SPAN) {
        wrong(s, "%u packets outstanding", vrb_rel_outstanding(&e->rel));
    }
    if (vrb_rel_ack_due(&e->rel, s->now)) {
        send_ack(s, e);
    }
    uint64_t when = vrb_rel_deadline(&e->rel);

    when = when < s->now ? s->now : when;
    if (when < e->armed) {
        e->armed = when;
        event_push(&s->heap, when, TIMER, e->node, e->peer);
    }
}

static void check_done(struct sim *s, struct end *e)
{
    if (e->node == 0 || e->out.delivered < e->out.total) {
        return;
    }
    s->r->done_ns[e->node] = s->now;
    s->active--;
    if (!s->first_done) {
        s->first_done = 1;
        for (uint32_t i = 1; i <= s->cfg->senders; i++) {
            s->r->share[i] = end_of(s, i, 0)->out.delivered;
        }
    }
}

static void deliver(struct sim *s, struct end *e, const struct vrb_ud_packet *p)
{
    struct end *from = end_of(s, e->peer, e->node);
    uint64_t index;

    memcpy(&index, p->payload, sizeof(index));
    if (p->len != sizeof(index) || index >= from->out.total) {
        wrong(s, "contents damaged");
        return;
    }
    if (from->out.state[index] & DELIVERED) {
        wrong(s, "packet %u delivered twice", (unsigned)index);
        return;
    }
    from->out.state[index] |= DELIVERED;
    from->out.delivered++;
    s->r->delivered++;
    if (s->cfg->drop_nth && e->node == 0 && index + 1 == (uint64_t)s->cfg->drop_nth) {
        s->r->nth_delivered_ns = s->now;
    }
    check_done(s, from);
}

static void take_back(struct sim *s, struct end *e, void *const *done, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t index = (uint64_t)(uintptr_t)done[i] - 1;

        if (index >= e->out.sent || e->out.state[index] != DELIVERED) {
            wrong(s, "packet %u acknowledged in state %d", (unsigned)index,
                  index < e->out.sent ? e->out.state[index] : -1);
            return;
        }
        e->out.state[index] |= ACKED;
        e->out.acked++;
    }
}

/* Like a progress loop that never stops, but for its absences. */
static void polls(struct sim *s, struct node *node)
{
    if (!node->was_away) {
        node->env.polled = s->now;
    }
    node->was_away = 0;
    vrb_rel_env_poll(&node->env, s->now);
    if (node->rq_used == 0) {
        vrb_rel_env_drained(&node->env);
    }
}

static void process(struct sim *s, uint32_t f)
{
    static void *done[VRB_REL_WINDOW];
    struct flight *fl = &s->flight[f];
    struct end *e = end_of(s, fl->to, fl->from);
    struct vrb_ud_packet p;

    polls(s, &s->node[e->node]);
    if (vrb_ud_get(fl->bytes, fl->len, &p) != VRB_OK || p.hdr.token != e->token_in) {
        wrong(s, "a packet was not understood");
        return;
    }
    if (p.hdr.flags & VRB_UD_HAS_ACK) {
        int n = vrb_rel_on_ack(&e->rel, &p.ack, s->now, done);

        if (n < 0) {
            wrong(s, "an honest acknowledgement was refused");
            return;
        }
        take_back(s, e, done, n);
    }
    if (p.hdr.kind == VRB_UD_DATA) {
        enum vrb_rel_verdict v =
            vrb_rel_receive(&e->rel, p.hdr.pn, p.hdr.dseq, p.hdr.flags, s->now);

        if (v == VRB_REL_NEW) {
            deliver(s, e, &p);
        } else if (v == VRB_REL_OUT_OF_WINDOW) {
            wrong(s, "an honest packet was out of the window");
        }
        if (s->cfg->share_rq && e->node == 0) {
            uint32_t share = s->cfg->rq / (s->active ? s->active : 1);

            vrb_rel_set_buffers(&e->rel, (uint16_t)(share ? share : 1));
        }
    }
    pump(s, e);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_arrive(struct sim *s, const struct event *ev)
{
    struct node *node = &s->node[ev->who];
    uint64_t serve = ev->who == 0 ? s->cfg->serve_ns : 0;
    uint64_t from = node->busy_until > s->now ? node->busy_until : s->now;

    if (from < node->away_until) {
        from = node->away_until;
    }
    if (from + serve == s->now) {
        process(s, ev->what);
        free_flight(s, ev->what);
        return;
    }
    if (ev->who == 0 && s->cfg->rq && node->rq_used >= s->cfg->rq) {
        s->r->rq_drops++;
        s->r->data_lost += s->flight[ev->what].bytes[0] == (VRB_UD_VERSION << 4 | VRB_UD_DATA);
        free_flight(s, ev->what);
        return;
    }
    node->rq_used++;
    node->busy_until = from + serve;
    event_push(&s->heap, node->busy_until, SERVE, ev->who, ev->what);
}

static void on_serve(struct sim *s, const struct event *ev)
{
    struct node *node = &s->node[ev->who];

    if (s->now < node->away_until) { /* it went away in the meantime */
        event_push(&s->heap, node->away_until, SERVE, ev->who, ev->what);
        return;
    }
    node->rq_used--;
    process(s, ev->what);
    free_flight(s, ev->what);
}

static void on_timer(struct sim *s, const struct event *ev)
{
    struct node *node = &s->node[ev->who];
    struct end *e = end_of(s, ev->who, ev->what);

    if (ev->at != e->armed) {
        return;
    }
    if (s->now < node->away_until || node->rq_used) { /* packets come before timers */
        uint64_t later = s->now < node->away_until ? node->away_until : node->busy_until;

        e->armed = later > s->now ? later : s->now + 1;
        event_push(&s->heap, e->armed, TIMER, ev->who, ev->what);
        return;
    }
    e->armed = NEVER;
    polls(s, node);
    if (vrb_rel_deadline(&e->rel) <= s->now && vrb_rel_on_timer(&e->rel, s->now) != VRB_OK) {
        s->r->died = 1;
    }
    pump(s, e);
    if (e->armed <= s->now) {
        wrong(s, "node %u: a timer is due again at once", e->node);
    }
}

static void on_produce(struct sim *s, const struct event *ev)
{
    struct end *e = end_of(s, ev->who, ev->what);
    uint32_t burst = s->cfg->burst ? s->cfg->burst : e->out.total;

    if (s->now < s->node[ev->who].away_until) {
        event_push(&s->heap, s->node[ev->who].away_until, PRODUCE, ev->who, ev->what);
        return;
    }
    e->out.produced +=
        burst < e->out.total - e->out.produced ? burst : e->out.total - e->out.produced;
    if (e->out.produced < e->out.total) {
        event_push(&s->heap, s->now + 1 + random_below(s, s->cfg->gap_ns), PRODUCE, ev->who,
                   ev->what);
    }
    polls(s, &s->node[ev->who]);
    pump(s, e);
}

static void on_away(struct sim *s, const struct event *ev)
{
    struct node *node = &s->node[ev->who];

    node->env.polled = s->now;
    node->was_away = 1;
    node->away_until = s->now + 1 + random_below(s, s->cfg->away_ns);
    event_push(&s->heap, node->away_until + random_below(s, 2 * s->cfg->away_every_ns), AWAY,
               ev->who, 0);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static int all_done(const struct sim *s)
{
    for (uint32_t i = 0; i < 2 * s->cfg->senders; i++) {
        if (s->end[i].out.acked < s->end[i].out.total) {
            return 0;
        }
    }
    return 1;
}

static void begin_end(struct sim *s, uint32_t node, uint32_t peer, uint32_t total)
{
    struct end *e = end_of(s, node, peer);

    e->node = node;
    e->peer = peer;
    e->token_out = vrb_ud_token(node, peer);
    e->token_in = vrb_ud_token(peer, node);
    e->armed = NEVER;
    e->out.total = total;
    e->out.state = calloc(total + 1, 1);
    if (e->out.state == NULL) {
        abort();
    }
    vrb_rel_init(&e->rel, &s->node[node].env, 0, s->cfg->start + node * 7,
                 s->cfg->start + peer * 7);
    if (total) {
        event_push(&s->heap, random_below(s, s->cfg->gap_ns), PRODUCE, node, peer);
    }
}

static void begin(struct sim *s)
{
    uint32_t n = s->cfg->senders;

    for (uint32_t i = 0; i <= n; i++) {
        uint32_t chunks = (i == 0 ? n : 1) * VRB_REL_WINDOW / VRB_REL_CHUNK;

        if (vrb_rel_env_init(&s->node[i].env, &s->cfg->rel, chunks) != VRB_OK) {
            abort();
        }
        if (s->cfg->away_every_ns) {
            event_push(&s->heap, random_below(s, 2 * s->cfg->away_every_ns), AWAY, i, 0);
        }
    }
    s->end = calloc(2 * n, sizeof(*s->end));
    if (s->end == NULL) {
        abort();
    }
    for (uint32_t i = 1; i <= n; i++) {
        begin_end(s, 0, i, s->cfg->back);
        begin_end(s, i, 0, s->cfg->packets);
    }
    s->active = n;
}

static void add_stats(struct vrb_rel_stats *sum, const struct vrb_rel_stats *x)
{
    uint64_t *a = (uint64_t *)(void *)sum;
    const uint64_t *b = (const uint64_t *)(const void *)x;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*a); i++) {
        a[i] += b[i];
    }
}

/* What is left comes back, once. */
static void reclaim(struct sim *s, struct end *e)
{
    void *cookie;

    while ((cookie = vrb_rel_reclaim(&e->rel))) {
        uint64_t index = (uint64_t)(uintptr_t)cookie - 1;

        if (index >= e->out.sent || (e->out.state[index] & ACKED)) {
            wrong(s, "packet %u given back twice", (unsigned)index);
            return;
        }
        e->out.state[index] |= ACKED;
        e->out.acked++;
    }
    if (e->out.acked != e->out.sent) {
        wrong(s, "node %u: %u cookies missing", e->node, e->out.sent - e->out.acked);
    }
}

static void finish(struct sim *s)
{
    for (uint32_t i = 0; i < 2 * s->cfg->senders; i++) {
        if (!s->r->error[0]) {
            reclaim(s, &s->end[i]);
        }
        free(s->end[i].out.state);
    }
    for (uint32_t i = 0; i <= s->cfg->senders; i++) {
        add_stats(i ? &s->r->tx : &s->r->rx, &s->node[i].env.stats);
        s->r->pool_left += s->node[i].env.pool.in_use;
        vrb_rel_env_fini(&s->node[i].env);
    }
    free(s->end);
    free(s->flight);
    free(s->heap.e);
}

void sim_run(const struct sim_config *cfg, struct sim_result *result)
{
    static struct sim sim;
    struct sim *s = &sim;
    struct event ev;

    memset(s, 0, sizeof(*s));
    memset(result, 0, sizeof(*result));
    s->cfg = cfg;
    s->r = result;
    s->rng = cfg->seed * 0x2545f4914f6cdd1du + 1;
    s->free_flight = UINT32_MAX;
    begin(s);
    while (!result->error[0] && !result->died && event_pop(&s->heap, &ev)) {
        if (ev.at > cfg->limit_ns) {
            break;
        }
        s->now = ev.at;
        result->events += ev.type != AWAY;
        switch ((enum event_type)ev.type) {
        case ARRIVE:
            on_arrive(s, &ev);
            break;
        case SERVE:
            on_serve(s, &ev);
            break;
        case TIMER:
            on_timer(s, &ev);
            break;
        case PRODUCE:
            on_produce(s, &ev);
            break;
        case AWAY:
            on_away(s, &ev);
            break;
        }
        if (all_done(s)) {
            result->finished = 1;
            break;
        }
    }
    result->end_ns = s->now;
    finish(s);
}

/* ---- configurations -------------------------------------------------------------------------- */

void sim_defaults(struct sim_config *cfg, uint64_t seed)
{
    memset(cfg, 0, sizeof(*cfg));
    cfg->seed = seed;
    cfg->senders = 1;
    cfg->packets = 1000;
    cfg->start = 1000;
    cfg->delay_ns = 5 * SIM_US;
    cfg->queue = UINT32_MAX;
    cfg->limit_ns = 600 * SIM_SEC;
    vrb_rel_config_defaults(&cfg->rel);
    cfg->rel.dead_ns = 0;
}

void sim_random(struct sim_config *cfg, uint64_t seed)
{
    struct sim s = {.rng = seed};

    sim_defaults(cfg, seed);
    cfg->packets = 1 + (uint32_t)random_below(&s, random_below(&s, 8) ? 60 : 400);
    cfg->back = random_below(&s, 2) ? (uint32_t)random_below(&s, 60) : 0;
    cfg->senders = random_below(&s, 8) ? 1 : 1 + (uint32_t)random_below(&s, 6);
    if (random_below(&s, 3) == 0) {
        cfg->burst = 1 + (uint32_t)random_below(&s, 20);
        cfg->gap_ns = 1 + random_below(&s, 200 * SIM_US);
    }
    /* Near the wrap of 32 bits as often as not. */
    cfg->start =
        random_below(&s, 2) ? (uint32_t)random64(&s) : UINT32_MAX - (uint32_t)random_below(&s, 100);
    cfg->delay_ns =
        random_below(&s, 2) ? 1 + random_below(&s, 10 * SIM_US) : random_below(&s, 200 * SIM_US);
    cfg->jitter_ns = random_below(&s, 2) ? random_below(&s, 1 + 2 * cfg->delay_ns) : 0;
    cfg->fifo = random_below(&s, 3) == 0;
    cfg->loss_ppm = random_below(&s, 4) ? (uint32_t)random_below(&s, 300000) : 0;
    cfg->dup_ppm = random_below(&s, 2) ? (uint32_t)random_below(&s, 200000) : 0;
    cfg->late_ppm = random_below(&s, 2) ? (uint32_t)random_below(&s, 200000) : 0;
    cfg->late_ns = random_below(&s, 500 * SIM_US);
    for (unsigned i = 0; i < 3 && random_below(&s, 4) == 0; i++) {
        cfg->blackout[i].from = random_below(&s, SIM_MS);
        cfg->blackout[i].to = cfg->blackout[i].from + random_below(&s, 2 * SIM_SEC);
    }
    if (random_below(&s, 2)) {
        cfg->slot_ns = 1 + random_below(&s, 5 * SIM_US);
        cfg->queue = 4 + (uint32_t)random_below(&s, 200);
    }
    if (random_below(&s, 2)) {
        cfg->serve_ns = 1 + random_below(&s, 3 * SIM_US);
        cfg->rq = 4 + (uint32_t)random_below(&s, 64);
        cfg->share_rq = (int)random_below(&s, 2);
    }
    if (random_below(&s, 4) == 0) {
        cfg->away_every_ns = 100 * SIM_US + random_below(&s, SIM_MS);
        cfg->away_ns = random_below(&s, 5 * SIM_MS);
    }
    cfg->rel.buffers = (uint16_t)(1 + random_below(&s, 100));
    cfg->rel.cc.initial = 1 + (uint32_t)random_below(&s, 64);
}
