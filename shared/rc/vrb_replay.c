/* Places for inline packets, and the choice of those to send again (see vrb_replay.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "rc/vrb_replay.h"

#include <stdlib.h>

#define CACHE_LINE 64

int vrb_replay_init(struct vrb_replay *r, uint32_t depth, uint32_t most)
{
    uint32_t places = 1;
    uint32_t size = (VRB_REPLAY_PREFIX + most + CACHE_LINE - 1) & ~(uint32_t)(CACHE_LINE - 1);

    while (places < depth) {
        places *= 2;
    }
    *r = (struct vrb_replay){.mask = places - 1, .stride = size};
    r->mem = aligned_alloc(CACHE_LINE, (size_t)places * size);
    if (r->mem == NULL) {
        return VRB_ERR_NOMEM;
    }
    /* An empty place has no version, so it is nobody's packet. */
    for (uint32_t i = 0; i < places; i++) {
        vrb_replay_place(r, i)[0] = 0;
    }
    return VRB_OK;
}

void vrb_replay_free(struct vrb_replay *r)
{
    free(r->mem);
    r->mem = NULL;
}

uint8_t *vrb_replay_find(const struct vrb_replay *r, uint32_t seq, uint32_t *len)
{
    uint8_t *pkt = vrb_replay_place(r, seq);

    *len = *(const uint32_t *)(const void *)(pkt - VRB_REPLAY_PREFIX);
    return pkt[0] >> 4 == VRB_WIRE_VERSION && vrb_get32(pkt + 4) == seq ? pkt : NULL;
}

int vrb_replay_begin(struct vrb_replay *r, uint32_t tx_seq, uint32_t rx_seq)
{
    if (tx_seq - rx_seq > r->mask + 1) {
        return VRB_ERR_MALFORMED;
    }
    r->next = rx_seq;
    r->end = tx_seq;
    return VRB_OK;
}
