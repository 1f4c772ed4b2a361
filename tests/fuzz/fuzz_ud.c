/* Fuzzes the packets of the UD transport: what is accepted lies inside the bytes and reads the same
 * when written again.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Input: one packet. */
#include <stdlib.h>
#include <string.h>

#include "wire/vrb_ud_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t
        again[VRB_UD_HDR_SIZE + VRB_UD_SEGMENT_SIZE + VRB_UD_ACK_SIZE + 8 * VRB_UD_ACK_WORDS];
    struct vrb_ud_packet p;

    if (vrb_ud_get(data, size, &p) != VRB_OK) {
        return 0;
    }
    const struct vrb_ud_ack *ack = p.hdr.flags & VRB_UD_HAS_ACK ? &p.ack : NULL;
    size_t front = vrb_ud_front_size((enum vrb_ud_kind)p.hdr.kind, ack);

    if (p.payload != data + front || p.len != size - front || front > sizeof(again)) {
        abort();
    }
    vrb_ud_put(again, &p.hdr, ack);
    if (ack) { /* the two bytes that are ignored */
        size_t at = front - VRB_UD_ACK_SIZE - 8u * ack->words + 14;

        memcpy(again + at, data + at, 2);
    }
    if (memcmp(again, data, front)) {
        abort();
    }
    if (p.hdr.kind == VRB_UD_SEGMENT && (uint64_t)p.hdr.offset + p.len > (uint64_t)p.hdr.msg_len) {
        abort();
    }
    return 0;
}
