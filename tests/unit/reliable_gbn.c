/* The go-back-N reference.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_gbn.h"

#include <string.h>

#include "event_heap.h"

enum gbn_event { DATA, ACK, NAK, TIMEOUT, TURN };

struct gbn {
    const struct sim_config *cfg;
    const struct gbn_config *gbn;
    struct sim_result *r;
    struct event_heap heap;
    uint64_t rng, now, link_free, armed;
    uint32_t next, una, furthest; /* sender */
    uint32_t expected, unacked;   /* receiver */
    int nak_sent, turn_set;
};

static int is_lost(struct gbn *g)
{
    uint64_t z = g->rng += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % 1000000 < g->cfg->loss_ppm;
}

static void wait_for_turn(struct gbn *g, uint64_t at)
{
    if (!g->turn_set) {
        g->turn_set = 1;
        event_push(&g->heap, at, TURN, 0, 0);
    }
}

/* The sender's own port is as fast as the link: it hands packets out one slot apart. */
static void send_some(struct gbn *g)
{
    uint64_t start = g->link_free > g->now ? g->link_free : g->now;

    if (g->next >= g->cfg->packets || g->next - g->una >= g->gbn->window) {
        return;
    }
    if (start > g->now) {
        wait_for_turn(g, start);
        return;
    }
    g->r->data_sent++;
    g->link_free = g->now + (g->cfg->slot_ns ? g->cfg->slot_ns : 1);
    if (is_lost(g)) {
        g->r->data_lost++;
    } else {
        event_push(&g->heap, g->link_free + g->cfg->delay_ns, DATA, 0, g->next);
    }
    g->next++;
    wait_for_turn(g, g->link_free);
}

static void answer(struct gbn *g, enum gbn_event type)
{
    if (!is_lost(g)) {
        event_push(&g->heap, g->now + g->cfg->delay_ns, type, 0, g->expected);
    }
    g->unacked = 0;
}

static void on_data(struct gbn *g, uint32_t n)
{
    if (n == g->expected) {
        g->expected++;
        g->r->delivered++;
        g->nak_sent = 0;
        if (++g->unacked >= g->gbn->ack_every || g->expected == g->cfg->packets) {
            answer(g, ACK);
        }
    } else if (n > g->expected && !g->nak_sent) {
        g->nak_sent = 1;
        answer(g, NAK);
    } else if (n < g->expected) {
        answer(g, ACK);
    }
}

static void on_answer(struct gbn *g, enum gbn_event type, uint32_t expected)
{
    if (expected > g->una) {
        g->una = expected;
        g->armed = g->now + g->gbn->timeout_ns;
        event_push(&g->heap, g->armed, TIMEOUT, 0, 0);
    }
    if (g->next < g->una || type == NAK) {
        g->next = g->una;
    }
    send_some(g);
}

void gbn_run(const struct sim_config *cfg, const struct gbn_config *gbn, struct sim_result *result)
{
    struct gbn g = {.cfg = cfg, .gbn = gbn, .r = result, .rng = cfg->seed};
    struct event ev;

    memset(result, 0, sizeof(*result));
    g.armed = gbn->timeout_ns;
    event_push(&g.heap, g.armed, TIMEOUT, 0, 0);
    send_some(&g);
    while (g.una < cfg->packets && event_pop(&g.heap, &ev) && ev.at <= cfg->limit_ns) {
        g.now = ev.at;
        switch ((enum gbn_event)ev.type) {
        case DATA:
            on_data(&g, ev.what);
            break;
        case ACK:
        case NAK:
            on_answer(&g, (enum gbn_event)ev.type, ev.what);
            break;
        case TIMEOUT:
            if (ev.at == g.armed) {
                g.next = g.una;
                g.armed = g.now + gbn->timeout_ns;
                event_push(&g.heap, g.armed, TIMEOUT, 0, 0);
                send_some(&g);
            }
            break;
        case TURN:
            g.turn_set = 0;
            send_some(&g);
            break;
        }
    }
    result->finished = g.una >= cfg->packets;
    result->end_ns = g.now;
    free(g.heap.e);
}
