/* Fuzzes the handshake: a machine is fed with arbitrary messages of any length, timers and packets.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Input: steps, each a byte that tells what happens and, for a message, the bytes that arrive. */
#include <stdlib.h>
#include <string.h>

#include "util/vrb_status.h"
#include "wireup/vrb_pmtu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN_ID 0x01010101u

/* What the caller says about the n-th QP of this end. */
static struct vrb_hello own(uint32_t n)
{
    return (struct vrb_hello){.src_id = OWN_ID + n,
                              .qpn = 17,
                              .psn = 3,
                              .mtu = 3,
                              .rx_seq = n * 5,
                              .grant = (uint16_t)(n * 5 + 64),
                              .recv_size = 4096};
}

/* The caller's part between two generations. */
static unsigned other(struct vrb_wireup *w, struct vrb_pmtu *p, uint64_t now, uint8_t what)
{
    static uint32_t n;
    struct vrb_hello local;

    switch (what) {
    case 31:
        return vrb_wireup_give_up(w, what);
    case 30:
    case 29:
        return vrb_wireup_pause(w, now, what);
    case 28:
    case 27:
    case 26:
        local = own(++n & 0xff);
        vrb_pmtu_begin(p);
        return vrb_wireup_resume(w, now, &local);
    default:
        return 0;
    }
}

static void check(const struct vrb_wireup *w, unsigned acts, unsigned seen)
{
    /* QP transitions and outcomes happen once; up needs the remote data. */
    unsigned once = VRB_WU_DO_REMOTE | VRB_WU_DO_UP | VRB_WU_DO_FAIL;

    if ((acts & seen & once) || ((acts & VRB_WU_DO_UP) && !w->have_remote) ||
        ((acts & VRB_WU_DO_FAIL) && w->state != VRB_WU_FAILED) ||
        ((seen & VRB_WU_DO_FAIL) && (acts & once))) {
        abort();
    }
}

/* Limits only fall, and what the QP is bound to is what both ends named. */
static unsigned hear(struct vrb_wireup *w, struct vrb_pmtu *p, uint64_t now, struct vrb_hello *m,
                     uint8_t length)
{
    uint8_t limit = p->limit, said = m->mtu;
    int bound = w->have_remote;
    enum vrb_pmtu_verdict verdict = vrb_pmtu_hear(p, w, m, length);
    unsigned acts;

    if (p->limit > limit || p->limit < VRB_PMTU_MIN) {
        abort();
    }
    if (verdict == VRB_PMTU_HOLD) {
        return 0;
    }
    if (verdict == VRB_PMTU_REBIND) {
        if (!bound || p->limit != said) {
            abort();
        }
        return vrb_wireup_pause(w, now, 1);
    }
    acts = vrb_wireup_on_message(w, now, m);
    if ((acts & VRB_WU_DO_REMOTE) && p->limit > said) {
        abort();
    }
    if ((acts & VRB_WU_DO_UP) && p->limit != said) {
        abort();
    }
    return acts;
}

static unsigned step(struct vrb_wireup *w, struct vrb_pmtu *p, uint64_t *now, const uint8_t **data,
                     size_t *size)
{
    uint8_t what = **data;
    struct vrb_hello m;

    ++*data;
    --*size;
    *now += (uint64_t)(what >> 3) * 10000000;
    switch (what & 7) {
    case 0:
        return vrb_wireup_start(w, *now);
    case 1:
        return vrb_wireup_on_timer(w, *now);
    case 2:
        return vrb_wireup_on_data(w, *now);
    case 3:
        return other(w, p, *now, what >> 3);
    default:
        break;
    }
    size_t len = *size < VRB_HELLO_SIZE ? *size : VRB_HELLO_SIZE;
    int rc = vrb_hello_get(*data, len, &m);

    *data += len;
    *size -= len;
    return rc == VRB_OK ? hear(w, p, *now, &m, (uint8_t)(1 + (what >> 3) % 5)) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vrb_wireup_config cfg = {.first_ns = 10000000,
                                    .max_ns = 1000000000,
                                    .timeout_ns = 10000000000,
                                    .recover_ns = size & 1 ? 5000000000 : 0};
    struct vrb_hello local = own(0);
    struct vrb_wireup w;
    struct vrb_pmtu p;
    unsigned seen = 0;
    uint64_t now = 1;

    vrb_wireup_init(&w, &cfg, &local, 1);
    vrb_pmtu_init(&p, (uint8_t)(size % 6));
    while (size > 0) {
        unsigned acts = step(&w, &p, &now, &data, &size);

        check(&w, acts, seen);
        seen = acts & VRB_WU_DO_PAUSE ? 0 : seen | acts;
        if (acts & VRB_WU_DO_SEND) {
            uint8_t buf[VRB_HELLO_SIZE];
            struct vrb_hello out, back;

            uint8_t lengths[VRB_PMTU_SERIES_MAX];
            int n = vrb_pmtu_lengths(&p, now, w.peer_has, lengths);

            if (n < 1 || n > VRB_PMTU_SERIES_MAX || lengths[0] > p.limit) {
                abort();
            }
            vrb_wireup_message(&w, &out);
            vrb_hello_put(&out, buf);
            if (vrb_hello_get(buf, sizeof(buf), &back) != VRB_OK) {
                abort();
            }
        }
        if (vrb_wireup_deadline(&w) != UINT64_MAX && w.state != VRB_WU_CONNECTING &&
            w.state != VRB_WU_PAUSED) {
            abort();
        }
    }
    return 0;
}
