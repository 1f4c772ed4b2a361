/* The path's MTU, seen from what arrives. The rules by number are in the header.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "wireup/vrb_pmtu.h"

#include <string.h>

uint8_t vrb_pmtu_of(size_t len)
{
    uint8_t mtu = VRB_PMTU_MIN;

    while (mtu < VRB_PMTU_MAX && len >= (size_t)128 << (mtu + 1)) {
        mtu++;
    }
    return mtu;
}

void vrb_pmtu_init(struct vrb_pmtu *p, uint8_t mtu)
{
    memset(p, 0, sizeof(*p));
    p->limit = p->first = mtu < VRB_PMTU_MIN   ? VRB_PMTU_MIN
                          : mtu > VRB_PMTU_MAX ? VRB_PMTU_MAX
                                               : mtu;
}

void vrb_pmtu_begin(struct vrb_pmtu *p)
{
    p->heard = 0;
    p->missed = 0;
    p->tries = 0;
    p->last = 0;
}

static uint8_t lower(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* The sender's QP is bound to another MTU than ours would be (rule 5). */
static enum vrb_pmtu_verdict take(const struct vrb_pmtu *p, struct vrb_hello *h)
{
    if (h->mtu > p->limit) {
        h->flags &= (uint8_t)~VRB_HELLO_HAVE;
    }
    return VRB_PMTU_TAKE;
}

/* The machine will use it, for a QP that may still be bound to something. */
static int counts(const struct vrb_wireup *w, const struct vrb_hello *h)
{
    return h->type == VRB_HELLO && h->gen == w->local.gen &&
           (w->state == VRB_WU_IDLE || w->state == VRB_WU_CONNECTING) &&
           (!w->have_remote || h->src_id == w->remote.src_id) &&
           (h->dst_id == 0 || w->state == VRB_WU_IDLE || h->dst_id == w->local.src_id);
}

enum vrb_pmtu_verdict vrb_pmtu_hear(struct vrb_pmtu *p, const struct vrb_wireup *w,
                                    struct vrb_hello *h, uint8_t length)
{
    uint8_t want = lower(h->mtu, p->limit);

    if (!counts(w, h)) {
        return VRB_PMTU_TAKE;
    }
    if (length > p->heard) {
        p->heard = length;
    }
    if (w->have_remote) {
        if (want < p->limit) {
            p->limit = want;
            return VRB_PMTU_REBIND;
        }
        return take(p, h);
    }
    if (p->heard < want) {
        if (!(h->flags & VRB_HELLO_LAST) || ++p->missed < VRB_PMTU_SERIES_MISSED) {
            return VRB_PMTU_HOLD;
        }
        want = p->heard;
        p->lowered = 1;
    }
    p->limit = want;
    return take(p, h);
}

static int is_series(uint32_t tries)
{
    return tries == 3 || tries == 4 || tries % VRB_PMTU_SERIES_EVERY == 0;
}

int vrb_pmtu_lengths(struct vrb_pmtu *p, uint64_t now, int peer_has,
                     uint8_t lengths[VRB_PMTU_SERIES_MAX])
{
    int n = 0, counts = p->tries == 0 || now - p->last >= VRB_PMTU_SPACING_NS;

    if (counts) {
        p->tries++;
        p->last = now;
    }
    if (peer_has || p->limit == VRB_PMTU_MIN) {
        lengths[0] = 0;
        return 1;
    }
    lengths[n++] = p->limit;
    if (counts && is_series(p->tries)) {
        for (uint8_t mtu = (uint8_t)(p->limit - 1); mtu > VRB_PMTU_MIN; mtu--) {
            lengths[n++] = mtu;
        }
        lengths[n++] = 0;
    }
    return n;
}
