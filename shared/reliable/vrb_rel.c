/* Reliable datagrams: sending, receiving and timers of one peer. The protocol is in the header.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel.h"

#include <string.h>

#include "reliable/vrb_rel_num.h"
#include "util/vrb_probe.h"

#define IDLE_RESTART_NS UINT64_C(100000000) /* what was known about the path is old after that */

void vrb_rel_init(struct vrb_rel *rel, struct vrb_rel_env *env, uint64_t now, uint32_t local_start,
                  uint32_t remote_start)
{
    memset(rel, 0, sizeof(*rel));
    rel->env = env;
    vrb_rel_tx_init(&rel->tx, local_start);
    vrb_rel_rx_init(&rel->rx, remote_start);
    rel->ack.deadline = UINT64_MAX;
    rel->ack.largest = vrb_rel_first(remote_start) - 1;
    rel->ack.largest_at = UINT64_MAX;
    rel->ack.buffers = env->cfg.buffers;
    vrb_rel_rtt_init(&rel->rtt, now);
    vrb_rel_loss_init(&rel->loss);
    vrb_rel_cc_init(&rel->cc, &env->cfg.cc, env->cfg.buffers, rel->tx.next_pn);
    rel->last_sent = rel->last_progress = now;
}

/* ---- sending --------------------------------------------------------------------------------- */

static uint32_t smoothed(const struct vrb_rel *rel)
{
    return vrb_rel_rtt_smoothed(&rel->rtt, rel->env->cfg.rtt_ns);
}

/* How many more packets the windows let out now. */
static uint32_t allowed(const struct vrb_rel *rel, uint64_t now)
{
    uint32_t most = vrb_rel_cc_allows(&rel->cc);

    if (rel->dead || rel->cc.pace_until > now || rel->tx.in_flight >= most) {
        return 0;
    }
    return most - rel->tx.in_flight;
}

uint32_t vrb_rel_room(const struct vrb_rel *rel, uint64_t now)
{
    uint32_t n = allowed(rel, now),
             span = VRB_REL_SPAN - (uint32_t)(rel->tx.next_dseq - rel->tx.una);

    if (rel->tx.lost || n == 0 || !vrb_rel_tx_can_add(&rel->tx, &rel->env->pool)) {
        return 0;
    }
    return n < span ? n : span;
}

/* What every transmission does, after its packet was recorded. */
static void left(struct vrb_rel *rel, const struct vrb_rel_pkt *pkt, uint64_t dseq, uint64_t now,
                 struct vrb_rel_numbers *num)
{
    uint32_t quarter = vrb_rel_cc_allows(&rel->cc) / 4;

    num->pn = (uint32_t)pkt->pn;
    num->dseq = (uint32_t)dseq;
    num->flags = pkt->again ? VRB_UD_AGAIN : 0;
    rel->unasked++;
    if (pkt->again || rel->unasked >= quarter) {
        num->flags |= VRB_UD_ASK;
        rel->unasked = 0;
    }
    rel->last_sent = now;
    vrb_rel_cc_sent(&rel->cc, rel->tx.in_flight, smoothed(rel), now);
}

int vrb_rel_send(struct vrb_rel *rel, void *cookie, uint64_t now, struct vrb_rel_numbers *num)
{
    uint64_t dseq = rel->tx.next_dseq;

    if (vrb_rel_room(rel, now) == 0) {
        return VRB_ERR_AGAIN;
    }
    if (vrb_rel_outstanding(rel) == 0) {
        rel->last_progress = now;
        if (now - rel->last_sent > IDLE_RESTART_NS) {
            vrb_rel_cc_restart(&rel->cc, rel->env->cfg.cc.initial);
        }
    }
    struct vrb_rel_pkt *pkt = vrb_rel_tx_add(&rel->tx, &rel->env->pool, cookie, now);

    if (pkt == NULL) {
        return VRB_ERR_AGAIN;
    }
    left(rel, pkt, dseq, now, num);
    rel->env->stats.sent++;
    return VRB_OK;
}

/* True when the first lost packet may leave. */
static int may_resend(const struct vrb_rel *rel, uint64_t now)
{
    return rel->tx.lost && !rel->dead && (rel->probes_owed || allowed(rel, now));
}

void *vrb_rel_resend(struct vrb_rel *rel, uint64_t now, struct vrb_rel_numbers *num)
{
    uint64_t dseq;

    if (!may_resend(rel, now)) {
        return NULL;
    }
    if (rel->probes_owed) {
        rel->probes_owed--;
    }
    struct vrb_rel_pkt *pkt = vrb_rel_tx_again(&rel->tx, &rel->env->pool, now, &dseq);

    left(rel, pkt, dseq, now, num);
    rel->env->stats.resent++;
    return pkt->cookie;
}

/* ---- receiving ------------------------------------------------------------------------------- */

enum vrb_rel_verdict vrb_rel_receive(struct vrb_rel *rel, uint32_t pn, uint32_t dseq, uint8_t flags,
                                     uint64_t now)
{
    struct vrb_rel_env *env = rel->env;
    uint64_t number = vrb_rel_expand(pn, rel->ack.largest);
    enum vrb_rel_order order;
    int newest = number > rel->ack.largest;
    enum vrb_rel_verdict verdict = vrb_rel_rx_take(&rel->rx, dseq, &order);

    if (verdict == VRB_REL_STALE || verdict == VRB_REL_OUT_OF_WINDOW) {
        *(verdict == VRB_REL_STALE ? &env->stats.stale : &env->stats.out_of_window) += 1;
        return verdict;
    }
    if (newest) {
        rel->ack.largest = number;
        rel->ack.largest_at = env->stale ? UINT64_MAX : now;
    }
    rel->ack.any = 1;
    if (verdict == VRB_REL_DUP) {
        env->stats.dup++;
        /* A new transmission of data that is here was needless. An old number is a copy made by the
         * network, or the first transmission after all. */
        rel->ack.repeats = (uint8_t)(rel->ack.repeats + newest);
    } else {
        env->stats.received++;
    }
    int at_once = verdict == VRB_REL_DUP || (flags & VRB_UD_ASK) || order == VRB_REL_OPENS_HOLE ||
                  order == VRB_REL_FILLS_HOLE;

    vrb_rel_ack_note(&rel->ack, at_once, order != VRB_REL_IN_ORDER, env->cfg.ack_every,
                     now + env->cfg.ack_delay_ns);
    return verdict;
}

void vrb_rel_set_buffers(struct vrb_rel *rel, uint16_t buffers)
{
    rel->ack.buffers = buffers;
}

static uint16_t told_delay(const struct vrb_rel_ack *a, uint64_t now)
{
    uint64_t units =
        a->largest_at > now ? VRB_UD_DELAY_UNKNOWN : (now - a->largest_at) / VRB_UD_DELAY_UNIT;

    return units < VRB_UD_DELAY_UNKNOWN ? (uint16_t)units : VRB_UD_DELAY_UNKNOWN;
}

int vrb_rel_build_ack(struct vrb_rel *rel, uint64_t now, unsigned max_words, struct vrb_ud_ack *ack)
{
    if (!rel->ack.any || vrb_rel_rx_words(&rel->rx) > max_words) {
        return 0;
    }
    vrb_rel_rx_tell(&rel->rx, ack);
    ack->echo = (uint32_t)rel->ack.largest;
    ack->delay = told_delay(&rel->ack, now);
    ack->buffers = rel->ack.buffers;
    ack->repeats = rel->ack.repeats;
    vrb_rel_ack_told(&rel->ack);
    rel->env->stats.acks_sent++;
    return 1;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void detect_losses(struct vrb_rel *rel, uint64_t now)
{
    uint64_t delay = vrb_rel_loss_delay(&rel->loss, smoothed(rel), rel->rtt.latest);
    const struct vrb_rel_pkt *pkt;
    uint64_t pn;

    rel->loss.at = UINT64_MAX;
    while ((pkt = vrb_rel_tx_oldest(&rel->tx, &rel->env->pool)) && pkt->pn < rel->tx.echoed) {
        if (rel->tx.echoed - pkt->pn < rel->loss.packets && now - pkt->sent < delay) {
            rel->loss.at = pkt->sent + delay;
            return;
        }
        pn = pkt->pn;
        vrb_rel_tx_lose_oldest(&rel->tx, &rel->env->pool, 0);
        vrb_rel_cc_lost(&rel->cc);
        rel->env->stats.lost++;
        VRB_PROBE2(ud_lost, rel, pn);
    }
}

/* When the probe timeout expires, if something is in flight: counted from the last departure, but
 * not while acknowledgements keep coming (a long queue that drains). */
static uint64_t probe_at(const struct vrb_rel *rel)
{
    const struct vrb_rel_config *cfg = &rel->env->cfg;
    uint32_t srtt = smoothed(rel);
    uint32_t var = rel->rtt.srtt == VRB_REL_NO_RTT ? cfg->rtt_ns / 2 : rel->rtt.var;
    uint64_t at = rel->last_sent +
                  vrb_rel_loss_timeout(&rel->loss, srtt, var, cfg->ack_delay_ns, cfg->probe_max_ns);
    uint64_t silent = rel->last_progress + srtt + 4 * (uint64_t)var;

    return at > silent ? at : silent;
}

static void probe(struct vrb_rel *rel, uint64_t now)
{
    if (rel->loss.probes < UINT8_MAX) {
        rel->loss.probes++;
    }
    rel->env->stats.timeouts++;
    VRB_PROBE2(ud_timeout, rel, rel->loss.probes);
    rel->last_sent = now; /* the next expiry counts from here even if nothing can leave */
    if (rel->loss.probes == 2) {
        vrb_rel_cc_restart(&rel->cc, rel->env->cfg.cc.initial);
    }
    for (int i = rel->loss.probes > 1 && rel->loss.probes < 5 ? 2 : 1; i > 0 && rel->tx.in_flight;
         i--) {
        vrb_rel_tx_lose_oldest(&rel->tx, &rel->env->pool, VRB_REL_PKT_PROBE);
        rel->probes_owed++;
        rel->env->stats.probes++;
    }
}

uint64_t vrb_rel_deadline(const struct vrb_rel *rel)
{
    uint64_t when = rel->ack.deadline;

    if (rel->dead) {
        return when;
    }
    if (rel->tx.in_flight) {
        uint64_t timer = rel->loss.at != UINT64_MAX ? rel->loss.at : probe_at(rel);

        when = timer < when ? timer : when;
    }
    if (vrb_rel_outstanding(rel) && rel->env->cfg.dead_ns) {
        uint64_t dead = rel->last_progress + rel->env->cfg.dead_ns;

        when = dead < when ? dead : when;
    }
    if (may_resend(rel, rel->cc.pace_until) ||
        (rel->cc.pace_until && rel->tx.in_flight < vrb_rel_cc_allows(&rel->cc))) {
        when = rel->cc.pace_until < when ? rel->cc.pace_until : when;
    }
    return when;
}

int vrb_rel_on_timer(struct vrb_rel *rel, uint64_t now)
{
    uint64_t dead_ns = rel->env->cfg.dead_ns;

    if (rel->dead) {
        return VRB_OK;
    }
    if (dead_ns && vrb_rel_outstanding(rel) && now - rel->last_progress >= dead_ns) {
        rel->dead = 1;
        rel->env->stats.dead++;
        return VRB_ERR_TIMEOUT;
    }
    if (rel->cc.pace_until <= now) {
        rel->cc.pace_until = 0;
    }
    if (rel->loss.at <= now) {
        detect_losses(rel, now);
    }
    /* What was just found lost probes as well as a probe. */
    if (rel->loss.at == UINT64_MAX && rel->tx.in_flight && probe_at(rel) <= now &&
        !may_resend(rel, now)) {
        probe(rel, now);
    }
    return VRB_OK;
}

/* ---- acknowledgements ------------------------------------------------------------------------ */

/* What an acknowledgement says, in numbers of 64 bits. */
struct news {
    uint64_t cum, end; /* data: all below cum; nothing from end on */
    uint64_t echo;     /* packet number */
    uint64_t echoed;   /* the largest that was known before */
    uint64_t now;
    uint64_t awake; /* for packets sent since then no process was away; UINT64_MAX: none */
    uint32_t acked;
    uint32_t sample; /* round trip of the echoed packet, VRB_REL_NO_RTT if it gives none */
    uint64_t sent;   /* when that packet left */
};

/* Reads the numbers; refuses what is about the future. */
static int read_news(const struct vrb_rel *rel, const struct vrb_ud_ack *ack, struct news *n)
{
    unsigned words = ack->words;

    if (words > VRB_UD_ACK_WORDS) {
        return VRB_ERR_MALFORMED;
    }
    n->cum = vrb_rel_expand(ack->cum, rel->tx.una);
    n->echo = vrb_rel_expand(ack->echo, rel->tx.echoed);
    while (words && ack->bits[words - 1] == 0) {
        words--;
    }
    n->end = n->cum;
    if (words) {
        n->end += 64 * words + 1 - (unsigned)__builtin_clzll(ack->bits[words - 1]);
    }
    return n->end > rel->tx.next_dseq || n->echo >= rel->tx.next_pn ? VRB_ERR_MALFORMED : VRB_OK;
}

/* The bits of the chunk that starts at base: which of its numbers have arrived. */
static uint32_t arrived(const struct vrb_ud_ack *ack, const struct news *n, uint64_t base)
{
    uint32_t below, shift;
    uint64_t index; /* in the bitmap, of the first number that the bitmap tells about */

    if (n->cum >= base + VRB_REL_CHUNK) {
        return UINT32_MAX;
    }
    if (n->cum >= base) {
        shift = (uint32_t)(n->cum - base) + 1;
        below = (1u << (shift - 1)) - 1;
        index = 0;
    } else {
        shift = below = 0;
        index = base - n->cum - 1;
    }
    uint64_t word = index / 64 < ack->words ? ack->bits[index / 64] >> index % 64 : 0;

    if (index % 64 && index / 64 + 1 < ack->words) {
        word |= ack->bits[index / 64 + 1] << (64 - index % 64);
    }
    return below | (uint32_t)(word << shift);
}

/* Takes one packet as acknowledged; learns from how it arrived. */
static void *take(struct vrb_rel *rel, uint64_t dseq, struct news *n)
{
    const struct vrb_rel_pkt *pkt = vrb_rel_tx_find(&rel->tx, &rel->env->pool, dseq);
    uint64_t took = n->now - pkt->sent;
    void *cookie = pkt->cookie;

    if (pkt->pn == n->echo && !(pkt->flags & VRB_REL_PKT_LOST)) {
        n->sample = took < VRB_REL_NO_RTT ? (uint32_t)took : VRB_REL_NO_RTT - 1;
        n->sent = pkt->sent;
    }
    if (pkt->flags & VRB_REL_PKT_LOST && !(pkt->flags & VRB_REL_PKT_PROBE)) {
        vrb_rel_cc_not_lost(&rel->cc);
    }
    if (!pkt->again && pkt->pn < n->echoed) {
        /* The first transmission, after later ones: no doubt that the network reorders. */
        uint64_t late = took > smoothed(rel) && pkt->sent >= n->awake ? took - smoothed(rel) : 0;

        vrb_rel_loss_reordered(&rel->loss, n->echoed - pkt->pn,
                               late < UINT32_MAX ? (uint32_t)late : UINT32_MAX);
        rel->env->stats.reordered++;
    } else if (pkt->again && pkt->pn > n->echo && !(pkt->flags & VRB_REL_PKT_PROBE)) {
        /* An earlier transmission arrived, after it was taken for lost. */
        vrb_rel_loss_needless(&rel->loss, smoothed(rel));
        vrb_rel_cc_not_lost(&rel->cc);
    }
    vrb_rel_tx_remove(&rel->tx, &rel->env->pool, dseq);
    return cookie;
}

static void sample_rtt(struct vrb_rel *rel, const struct vrb_ud_ack *ack, const struct news *n)
{
    const struct vrb_rel_env *env = rel->env;
    uint64_t held = (uint64_t)ack->delay * VRB_UD_DELAY_UNIT;
    int known = ack->delay != VRB_UD_DELAY_UNKNOWN;
    uint32_t rtt = known && held < n->sample ? n->sample - (uint32_t)held : n->sample;
    int clean = n->sent >= n->awake;

    vrb_rel_rtt_sample(&rel->rtt, rtt, clean, n->now, env->cfg.least_period_ns);
    if (clean) {
        vrb_rel_cc_clean_rtt(&rel->cc, rtt);
    }
}

/* What only the newest acknowledgement may tell: an older one may come after it. */
static void take_newest(struct vrb_rel *rel, const struct vrb_ud_ack *ack, const struct news *n)
{
    rel->tx.echoed = n->echo;
    rel->cc.buffers = ack->buffers;
    rel->env->stats.needless += (uint8_t)(ack->repeats - rel->peer_repeats);
    rel->peer_repeats = ack->repeats;
    if (n->sample != VRB_REL_NO_RTT) {
        sample_rtt(rel, ack, n);
    }
}

int vrb_rel_on_ack(struct vrb_rel *rel, const struct vrb_ud_ack *ack, uint64_t now,
                   void *done[VRB_REL_WINDOW])
{
    struct news n = {.now = now, .sample = VRB_REL_NO_RTT, .echoed = rel->tx.echoed};

    if (read_news(rel, ack, &n) < 0) {
        rel->env->stats.acks_refused++;
        return VRB_ERR_MALFORMED;
    }
    rel->env->stats.acks_received++;
    n.awake = ack->delay == VRB_UD_DELAY_UNKNOWN ? UINT64_MAX : rel->env->returned;
    for (uint64_t base = rel->tx.una - rel->tx.una % VRB_REL_CHUNK; base < n.end;
         base += VRB_REL_CHUNK) {
        uint32_t fresh = vrb_rel_tx_live(&rel->tx, &rel->env->pool, base);

        for (fresh &= fresh ? arrived(ack, &n, base) : 0; fresh; fresh &= fresh - 1) {
            void *cookie = take(rel, base + (unsigned)__builtin_ctz(fresh), &n);

            done[n.acked++] = cookie;
        }
    }
    if (n.echo >= n.echoed) {
        take_newest(rel, ack, &n);
    }
    if (n.acked) {
        vrb_rel_tx_advance(&rel->tx, &rel->env->pool);
        vrb_rel_cc_acked(&rel->cc, n.acked);
        rel->loss.probes = 0;
        rel->last_progress = now;
        rel->env->stats.acked += n.acked;
    }
    if (rel->tx.lost == 0) {
        rel->probes_owed = 0;
    }
    detect_losses(rel, now);
    if (rel->tx.echoed >= rel->cc.round_end) {
        vrb_rel_cc_round(&rel->cc, &rel->env->cfg.cc, vrb_rel_rtt_base(&rel->rtt), rel->tx.next_pn);
        vrb_rel_loss_round(&rel->loss);
    }
    return (int)n.acked;
}

void *vrb_rel_replace(struct vrb_rel *rel, void *instead, uint64_t *at)
{
    if (*at < rel->tx.una) {
        *at = rel->tx.una;
    }
    for (; *at < rel->tx.next_dseq; ++*at) {
        unsigned in_chunk = (unsigned)(*at % VRB_REL_CHUNK);

        if (vrb_rel_tx_live(&rel->tx, &rel->env->pool, *at - in_chunk) >> in_chunk & 1) {
            struct vrb_rel_pkt *pkt = vrb_rel_tx_find(&rel->tx, &rel->env->pool, *at);
            void *cookie = pkt->cookie;

            if (cookie != instead) {
                pkt->cookie = instead;
                return cookie;
            }
        }
    }
    return NULL;
}

void vrb_rel_revive(struct vrb_rel *rel, uint64_t now)
{
    rel->dead = 0;
    rel->loss.probes = 0;
    rel->last_progress = rel->last_sent = now;
    vrb_rel_cc_restart(&rel->cc, rel->env->cfg.cc.initial);
}

void *vrb_rel_reclaim(struct vrb_rel *rel)
{
    void *cookie;

    if (vrb_rel_outstanding(rel) == 0) {
        return NULL;
    }
    vrb_rel_tx_advance(&rel->tx, &rel->env->pool);
    cookie = vrb_rel_tx_find(&rel->tx, &rel->env->pool, rel->tx.una)->cookie;
    vrb_rel_tx_remove(&rel->tx, &rel->env->pool, rel->tx.una);
    vrb_rel_tx_advance(&rel->tx, &rel->env->pool);
    return cookie;
}
