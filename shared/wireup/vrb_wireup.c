/* The handshake's state machine. The rules by number are in the header.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "wireup/vrb_wireup.h"

#include <string.h>

/* A timer of 0 would keep the caller busy; half the range leaves room for the jitter. */
#define INTERVAL_MIN_NS 1000
#define INTERVAL_MAX_NS (UINT64_MAX / 2)

static uint32_t next_random(struct vrb_wireup *w)
{
    uint32_t x = w->rng;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    w->rng = x;
    return x;
}

static uint64_t add_time(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Sets the next repeat: 3/4 to 5/4 of the interval from now (rule 5). */
static void arm(struct vrb_wireup *w, uint64_t now)
{
    uint64_t quarter = w->interval / 4;
    uint64_t jitter = (uint64_t)next_random(w) % (2 * quarter + 1);

    w->next_send = add_time(now, w->interval - quarter + jitter);
}

void vrb_wireup_init(struct vrb_wireup *w, const struct vrb_wireup_config *cfg,
                     const struct vrb_hello *local, uint32_t seed)
{
    memset(w, 0, sizeof(*w));
    w->cfg = *cfg;
    if (w->cfg.first_ns < INTERVAL_MIN_NS) {
        w->cfg.first_ns = INTERVAL_MIN_NS;
    }
    if (w->cfg.first_ns > INTERVAL_MAX_NS) {
        w->cfg.first_ns = INTERVAL_MAX_NS;
    }
    if (w->cfg.max_ns > INTERVAL_MAX_NS) {
        w->cfg.max_ns = INTERVAL_MAX_NS;
    }
    if (w->cfg.max_ns < w->cfg.first_ns) {
        w->cfg.max_ns = w->cfg.first_ns;
    }
    w->local = *local;
    w->local.gen = 0;
    w->local.rx_seq = 0;
    w->local.src_life = local->src_id;
    w->decline = VRB_REJECT_FAILED;
    /* Neighbouring seeds must not give neighbouring jitter; the state may not be 0 (xorshift). */
    w->rng = (seed + 1) * 2654435761u;
    if (w->rng == 0) {
        w->rng = 1;
    }
}

static void begin(struct vrb_wireup *w, uint64_t now)
{
    w->state = VRB_WU_CONNECTING;
    w->interval = w->cfg.first_ns;
    arm(w, now);
}

/* The first connection. */
static void begin_life(struct vrb_wireup *w, uint64_t now)
{
    w->started = now;
    w->end = add_time(now, w->cfg.timeout_ns);
    begin(w, now);
}

static unsigned fail(struct vrb_wireup *w, enum vrb_wireup_failure failure)
{
    w->state = VRB_WU_FAILED;
    w->failure = failure;
    return VRB_WU_DO_FAIL;
}

/* Rule 3. */
static unsigned check_up(struct vrb_wireup *w)
{
    if (w->state != VRB_WU_CONNECTING || !w->have_remote || !w->peer_has) {
        return 0;
    }
    w->state = VRB_WU_UP;
    return VRB_WU_DO_UP;
}

unsigned vrb_wireup_start(struct vrb_wireup *w, uint64_t now)
{
    if (w->state != VRB_WU_IDLE) {
        return 0;
    }
    begin_life(w, now);
    return VRB_WU_DO_SEND;
}

/* Rules 11 and 12. A break on the way to UP gives no further time. */
static unsigned pause(struct vrb_wireup *w, uint64_t now, uint16_t want)
{
    if (w->state == VRB_WU_UP || w->local.gen == 0) {
        w->started = now;
        w->end = add_time(now, w->cfg.recover_ns);
        w->heard = 0;
        w->sent = 0;
    }
    w->state = VRB_WU_PAUSED;
    w->want = want;
    w->have_remote = 0;
    w->peer_has = 0;
    return VRB_WU_DO_PAUSE;
}

unsigned vrb_wireup_pause(struct vrb_wireup *w, uint64_t now, uint32_t work)
{
    if ((w->state != VRB_WU_CONNECTING && w->state != VRB_WU_UP) || w->cfg.recover_ns == 0 ||
        w->remote_life == 0) {
        return 0;
    }
    if (work != w->work) {
        w->work = work;
        w->stuck = 0;
    }
    if (w->state == VRB_WU_UP) {
        w->stuck++;
    }
    if (w->stuck > VRB_WU_STUCK_MAX || w->local.gen == UINT16_MAX) {
        return VRB_WU_DO_SEND | fail(w, VRB_WU_FAIL_STUCK);
    }
    return pause(w, now, (uint16_t)(w->local.gen + 1));
}

unsigned vrb_wireup_resume(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *local)
{
    uint32_t life = w->local.src_life;

    if (w->state != VRB_WU_PAUSED) {
        return 0;
    }
    if (local->rx_seq != w->local.rx_seq) {
        w->stuck = 0; /* the peer's packets got through, if none of ours */
    }
    w->local = *local;
    w->local.gen = w->want;
    w->local.src_life = life;
    begin(w, now);
    return VRB_WU_DO_SEND;
}

static unsigned on_reject(struct vrb_wireup *w, const struct vrb_hello *m)
{
    if (m->dst_id != w->local.src_id || w->state == VRB_WU_IDLE || w->state == VRB_WU_FAILED) {
        return 0;
    }
    /* One that has no connection has no id either. */
    if (w->have_remote && m->src_id != 0 && m->src_id != w->remote.src_id) {
        return 0;
    }
    w->heard = 1;
    w->reject_reason = m->reason;
    return fail(w, VRB_WU_FAIL_REJECTED);
}

/* A HELLO from another id than the one learnt, or from another life (rules 7 and 17). */
static unsigned on_other_id(struct vrb_wireup *w, const struct vrb_hello *m)
{
    if ((int32_t)(m->src_id - w->last_id) <= 0) {
        return 0;
    }
    w->asker = m->src_id;
    return VRB_WU_DO_SEND | fail(w, VRB_WU_FAIL_RESTART);
}

/* The peer's QP broke (rule 12), or did before ours (PAUSED). */
static unsigned on_later_generation(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m)
{
    if (m->dst_life == 0 || w->state == VRB_WU_IDLE) {
        return 0; /* no connection of ours can have been before that one */
    }
    w->asker = m->src_id;
    if (w->cfg.recover_ns == 0) {
        return VRB_WU_DO_SEND | fail(w, VRB_WU_FAIL_RESTART);
    }
    if (w->remote_life == 0) {
        w->remote_life = m->src_life;
    }
    if (w->state != VRB_WU_PAUSED) {
        unsigned acts = pause(w, now, m->gen);

        w->heard = 1;
        return acts;
    }
    w->heard = 1;
    if (m->gen > w->want) {
        w->want = m->gen;
    }
    return 0;
}

static void learn_remote(struct vrb_wireup *w, const struct vrb_hello *m)
{
    if (m->rx_seq != w->remote.rx_seq) {
        w->stuck = 0; /* packets got through since the generation before */
    }
    w->remote = *m;
    w->have_remote = 1;
    w->remote_life = m->src_life;
    w->last_id = m->src_id;
}

static unsigned on_this_generation(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m)
{
    unsigned acts = 0;

    if ((m->dst_id != 0 && m->dst_id != w->local.src_id) || w->state == VRB_WU_PAUSED) {
        return 0;
    }
    if (w->have_remote && m->src_id != w->remote.src_id) {
        return on_other_id(w, m);
    }
    w->heard = 1;
    w->asker = m->src_id;
    if (w->state == VRB_WU_IDLE) {
        begin_life(w, now);
    }
    if (!w->have_remote) {
        learn_remote(w, m);
        acts |= VRB_WU_DO_REMOTE;
    }
    if ((m->flags & VRB_HELLO_HAVE) && m->dst_id == w->local.src_id) {
        w->peer_has = 1;
    }
    acts |= check_up(w);
    if (m->flags & VRB_HELLO_NEED) {
        acts |= VRB_WU_DO_SEND;
        arm(w, now); /* the answer says all that a repeat would */
    }
    return acts;
}

static unsigned on_hello(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m)
{
    int asks = (m->flags & VRB_HELLO_NEED) != 0;

    if (m->dst_life != 0 && m->dst_life != w->local.src_life) {
        return 0;
    }
    if (w->state == VRB_WU_FAILED) {
        if (m->gen == w->local.gen && m->dst_id != 0 && m->dst_id != w->local.src_id) {
            return 0;
        }
        w->asker = m->src_id;
        return asks ? VRB_WU_DO_SEND : 0;
    }
    if (w->remote_life != 0 && m->src_life != w->remote_life) {
        return on_other_id(w, m);
    }
    if (m->gen > w->local.gen) {
        return on_later_generation(w, now, m);
    }
    if (m->gen < w->local.gen) { /* rule 14 */
        return asks && w->state != VRB_WU_PAUSED ? VRB_WU_DO_SEND : 0;
    }
    return on_this_generation(w, now, m);
}

unsigned vrb_wireup_on_message(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m)
{
    switch (m->type) {
    case VRB_HELLO:
        return on_hello(w, now, m);
    case VRB_REJECT:
        return on_reject(w, m);
    default:
        return 0;
    }
}

unsigned vrb_wireup_on_data(struct vrb_wireup *w, uint64_t now)
{
    (void)now;
    /* Nothing can arrive on a QP that was not yet told whom it belongs to. */
    if (w->state != VRB_WU_CONNECTING || !w->have_remote) {
        return 0;
    }
    w->heard = 1;
    w->peer_has = 1;
    return check_up(w);
}

unsigned vrb_wireup_on_timer(struct vrb_wireup *w, uint64_t now)
{
    if (w->state != VRB_WU_CONNECTING && w->state != VRB_WU_PAUSED) {
        return 0;
    }
    if (now >= w->end) {
        return (w->heard ? VRB_WU_DO_SEND : 0) | fail(w, VRB_WU_FAIL_TIMEOUT);
    }
    if (w->state == VRB_WU_PAUSED || now < w->next_send) {
        return 0;
    }
    w->interval = w->interval > w->cfg.max_ns / 2 ? w->cfg.max_ns : 2 * w->interval;
    arm(w, now);
    return VRB_WU_DO_SEND;
}

unsigned vrb_wireup_give_up(struct vrb_wireup *w, uint8_t reason)
{
    if (w->state == VRB_WU_FAILED) {
        return 0;
    }
    fail(w, VRB_WU_FAIL_LOCAL);
    w->decline = reason;
    return w->heard ? VRB_WU_DO_SEND : 0;
}

uint64_t vrb_wireup_deadline(const struct vrb_wireup *w)
{
    if (w->state == VRB_WU_PAUSED) {
        return w->end;
    }
    if (w->state != VRB_WU_CONNECTING) {
        return UINT64_MAX;
    }
    return w->next_send < w->end ? w->next_send : w->end;
}

void vrb_wireup_message(struct vrb_wireup *w, struct vrb_hello *out)
{
    *out = w->local;
    out->flags = w->local.flags & VRB_HELLO_MUST;
    out->reason = VRB_REJECT_NONE;
    out->dst_life = w->remote_life;
    if (w->state == VRB_WU_FAILED) {
        out->type = VRB_REJECT;
        out->reason = w->decline;
        out->dst_id = w->asker;
        return;
    }
    out->type = VRB_HELLO;
    out->dst_id = w->have_remote ? w->remote.src_id : 0;
    if (w->have_remote) {
        out->flags |= VRB_HELLO_HAVE;
    }
    if (!w->peer_has) {
        out->flags |= VRB_HELLO_NEED;
    }
    w->sent++;
}
