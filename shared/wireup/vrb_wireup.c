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
    w->started = now;
    w->interval = w->cfg.first_ns;
    arm(w, now);
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
    begin(w, now);
    return VRB_WU_DO_SEND;
}

static unsigned on_reject(struct vrb_wireup *w, const struct vrb_hello *m)
{
    if (m->dst_id != w->local.src_id || (w->state != VRB_WU_CONNECTING && w->state != VRB_WU_UP)) {
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

/* A HELLO from another id than the one learnt (rule 7). */
static unsigned on_other_id(struct vrb_wireup *w, const struct vrb_hello *m)
{
    if ((int32_t)(m->src_id - w->remote.src_id) <= 0) {
        return 0;
    }
    w->asker = m->src_id;
    return VRB_WU_DO_SEND | fail(w, VRB_WU_FAIL_RESTART);
}

static unsigned on_hello(struct vrb_wireup *w, uint64_t now, const struct vrb_hello *m)
{
    unsigned acts = 0;

    if (m->dst_id != 0 && m->dst_id != w->local.src_id) {
        return 0;
    }
    if (w->state == VRB_WU_FAILED) {
        w->asker = m->src_id;
        return m->flags & VRB_HELLO_NEED ? VRB_WU_DO_SEND : 0;
    }
    if (w->have_remote && m->src_id != w->remote.src_id) {
        return on_other_id(w, m);
    }
    w->heard = 1;
    w->asker = m->src_id;
    if (w->state == VRB_WU_IDLE) {
        begin(w, now);
    }
    if (!w->have_remote) {
        w->remote = *m;
        w->have_remote = 1;
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
    if (w->state != VRB_WU_CONNECTING) {
        return 0;
    }
    if (now >= add_time(w->started, w->cfg.timeout_ns)) {
        return (w->heard ? VRB_WU_DO_SEND : 0) | fail(w, VRB_WU_FAIL_TIMEOUT);
    }
    if (now < w->next_send) {
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
    if (w->state != VRB_WU_CONNECTING) {
        return UINT64_MAX;
    }
    uint64_t end = add_time(w->started, w->cfg.timeout_ns);

    return w->next_send < end ? w->next_send : end;
}

void vrb_wireup_message(struct vrb_wireup *w, struct vrb_hello *out)
{
    *out = w->local;
    out->flags = 0;
    out->reason = VRB_REJECT_NONE;
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
