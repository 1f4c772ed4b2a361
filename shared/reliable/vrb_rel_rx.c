/* The window of received data sequence numbers.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_rx.h"

#include <string.h>

#include "reliable/vrb_rel_num.h"

#define WORDS (VRB_REL_WINDOW / 64)

int vrb_rel_rx_has(const struct vrb_rel_rx *rx, uint32_t wire)
{
    uint64_t dseq = vrb_rel_expand(wire, rx->base);

    return dseq < rx->base ||
           (dseq - rx->base < VRB_REL_WINDOW && (rx->bits[dseq / 64 % WORDS] >> dseq % 64 & 1));
}

static uint64_t *word_of(struct vrb_rel_rx *rx, uint64_t dseq)
{
    return &rx->bits[dseq / 64 % WORDS];
}

static uint64_t bit_of(uint64_t dseq)
{
    return UINT64_C(1) << dseq % 64;
}

void vrb_rel_rx_init(struct vrb_rel_rx *rx, uint32_t start)
{
    memset(rx, 0, sizeof(*rx));
    rx->base = rx->top = vrb_rel_first(start);
}

enum vrb_rel_verdict vrb_rel_rx_take(struct vrb_rel_rx *rx, uint32_t wire,
                                     enum vrb_rel_order *order)
{
    uint64_t dseq = vrb_rel_expand(wire, rx->base);

    *order = VRB_REL_IN_ORDER;
    if (dseq < rx->base) {
        return rx->base - dseq > VRB_REL_WINDOW ? VRB_REL_STALE : VRB_REL_DUP;
    }
    if (dseq - rx->base >= VRB_REL_WINDOW) {
        return VRB_REL_OUT_OF_WINDOW;
    }
    if (*word_of(rx, dseq) & bit_of(dseq)) {
        return VRB_REL_DUP;
    }
    if (dseq < rx->top) {
        *order = VRB_REL_FILLS_HOLE;
    } else {
        *order = dseq > rx->top       ? VRB_REL_OPENS_HOLE
                 : rx->top > rx->base ? VRB_REL_BEHIND_HOLE
                                      : VRB_REL_IN_ORDER;
        rx->top = dseq + 1;
    }
    if (dseq != rx->base) {
        *word_of(rx, dseq) |= bit_of(dseq);
        return VRB_REL_NEW;
    }
    do {
        *word_of(rx, rx->base) &= ~bit_of(rx->base);
        rx->base++;
    } while (*word_of(rx, rx->base) & bit_of(rx->base));
    return VRB_REL_NEW;
}

void vrb_rel_rx_tell(const struct vrb_rel_rx *rx, struct vrb_ud_ack *ack)
{
    uint64_t first = rx->base + 1;
    unsigned shift = (unsigned)(first % 64);

    ack->cum = (uint32_t)rx->base;
    ack->words = (uint8_t)vrb_rel_rx_words(rx);
    for (unsigned i = 0; i < ack->words; i++) {
        unsigned w = (unsigned)((first / 64 + i) % WORDS);

        ack->bits[i] = rx->bits[w] >> shift;
        if (shift) {
            ack->bits[i] |= rx->bits[(w + 1) % WORDS] << (64 - shift);
        }
    }
}
