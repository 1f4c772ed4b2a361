/* Fuzzes the reliable datagram engine: arbitrary acknowledgements, packets and times.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Input: steps, each a byte that tells what happens (low 3 bits) and how much time passes before it
 * (high 5), and for packets the bytes that arrive. Numbers in them are relative to what the engine
 * has sent or expects, so that the interesting ones are near. */
#include <stdlib.h>
#include <string.h>

#include "reliable/vrb_rel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COOKIES 4096
#define PIECE 24 /* bytes of input that make a packet */

struct state {
    struct vrb_rel_env env;
    struct vrb_rel rel;
    uint64_t now;
    uint32_t sent;
    uint8_t back[COOKIES];
};

static void must(int cond)
{
    if (!cond) {
        abort();
    }
}

static void take_back(struct state *s, void *cookie)
{
    uintptr_t index = (uintptr_t)cookie - 1;

    must(index < s->sent && !s->back[index]);
    s->back[index] = 1;
}

static void send_all(struct state *s)
{
    struct vrb_rel_numbers num;
    void *cookie;
    int n = 0;

    while ((cookie = vrb_rel_resend(&s->rel, s->now, &num))) {
        must(!s->back[(uintptr_t)cookie - 1] && ++n <= VRB_REL_SPAN);
    }
    while (s->sent < COOKIES && vrb_rel_room(&s->rel, s->now)) {
        must(vrb_rel_send(&s->rel, (void *)(uintptr_t)(s->sent + 1), s->now, &num) == VRB_OK);
        s->sent++;
        must(++n <= 2 * VRB_REL_SPAN);
    }
}

static void ack(struct state *s, const uint8_t *b)
{
    static void *done[VRB_REL_WINDOW];
    struct vrb_ud_ack a = {.cum = (uint32_t)s->rel.tx.una + b[0] - (uint32_t)(b[1] & 15),
                           .echo = (uint32_t)s->rel.tx.next_pn - b[2],
                           .delay = (uint16_t)(b[3] << 8 | b[4]),
                           .buffers = b[5],
                           .words = b[6] & 31,
                           .repeats = b[7]};

    for (unsigned i = 0; i < VRB_UD_ACK_WORDS; i++) {
        memcpy(&a.bits[i], b + 8 + i % 2 * 8, 8);
    }
    if (a.words > VRB_UD_ACK_WORDS) { /* the decoder lets no such thing through */
        a.words = (uint8_t)(a.words & 1);
    }
    int n = vrb_rel_on_ack(&s->rel, &a, s->now, done);

    for (int i = 0; i < n; i++) {
        take_back(s, done[i]);
    }
}

static void receive(struct state *s, const uint8_t *b)
{
    uint32_t dseq = (uint32_t)s->rel.rx.base + (uint32_t)(b[0] << 8 | b[1]) % 3000 - 1200;
    uint32_t pn = (uint32_t)s->rel.ack.largest + b[2] - (uint32_t)b[3];
    enum vrb_rel_verdict v = vrb_rel_receive(&s->rel, pn, dseq, b[4] & 7, s->now);

    must(v >= VRB_REL_NEW && v <= VRB_REL_OUT_OF_WINDOW);
    if (v == VRB_REL_NEW || v == VRB_REL_DUP) {
        must(vrb_rel_receive(&s->rel, pn, dseq, 0, s->now) == VRB_REL_DUP);
    }
}

static void tell(struct state *s, unsigned words)
{
    struct vrb_ud_ack a;

    if (vrb_rel_build_ack(&s->rel, s->now, words, &a)) {
        must(a.words <= words && !vrb_rel_ack_due(&s->rel, s->now));
    }
}

static void check(const struct state *s)
{
    must(vrb_rel_outstanding(&s->rel) <= VRB_REL_SPAN);
    must(s->rel.tx.next_dseq - s->rel.tx.una <= VRB_REL_SPAN);
    must(s->rel.rx.top - s->rel.rx.base <= VRB_REL_WINDOW);
    must(s->rel.cc.cwnd >= VRB_REL_CWND_MIN);
    must(s->env.pool.in_use <= VRB_REL_WINDOW / VRB_REL_CHUNK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state s;
    struct vrb_rel_config cfg;
    void *cookie;

    memset(&s, 0, sizeof(s));
    vrb_rel_config_defaults(&cfg);
    must(vrb_rel_env_init(&s.env, &cfg, VRB_REL_WINDOW / VRB_REL_CHUNK) == VRB_OK);
    s.now = 1;
    vrb_rel_init(&s.rel, &s.env, s.now, UINT32_MAX - 20, UINT32_MAX - 700);
    while (size > PIECE) {
        uint8_t what = *data;

        s.now += (UINT64_C(1) << (what >> 3)) - 1; /* up to 2 s */
        vrb_rel_env_poll(&s.env, s.now);
        switch (what & 7) {
        case 0:
        case 1:
            ack(&s, data + 1);
            break;
        case 2:
        case 3:
            receive(&s, data + 1);
            break;
        case 4:
            tell(&s, data[1] % (VRB_UD_ACK_WORDS + 1));
            break;
        case 5:
            vrb_rel_env_drained(&s.env);
            vrb_rel_set_buffers(&s.rel, data[1]);
            break;
        default:
            send_all(&s);
            break;
        }
        if (vrb_rel_deadline(&s.rel) <= s.now) {
            (void)vrb_rel_on_timer(&s.rel, s.now);
        }
        check(&s);
        data += (what & 7) < 4 ? PIECE : 2;
        size -= (what & 7) < 4 ? PIECE : 2;
    }
    while ((cookie = vrb_rel_reclaim(&s.rel))) {
        take_back(&s, cookie);
    }
    for (uint32_t i = 0; i < s.sent; i++) {
        must(s.back[i]);
    }
    must(s.env.pool.in_use == 0);
    vrb_rel_env_fini(&s.env);
    return 0;
}
