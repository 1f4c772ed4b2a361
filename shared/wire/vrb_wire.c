/* Coalesced records: several small messages in one RC packet.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "wire/vrb_wire.h"

#include <string.h>

uint8_t *vrb_record_begin(uint8_t *p, uint8_t tag, size_t len)
{
    uint8_t *data = p + VRB_RECORD_HDR_SIZE;
    size_t end = vrb_record_size(len) - VRB_RECORD_HDR_SIZE;

    memset(p, 0, VRB_RECORD_HDR_SIZE);
    vrb_put16(p, (uint16_t)len);
    p[2] = tag;
    memset(data + len, 0, end - len);
    return data;
}

int vrb_record_next(const uint8_t *payload, size_t len, size_t *off, struct vrb_record *rec)
{
    size_t left = len - *off;

    if (*off >= len) {
        return 0;
    }
    if (left < VRB_RECORD_HDR_SIZE) {
        return VRB_ERR_MALFORMED;
    }
    const uint8_t *p = payload + *off;
    size_t size = vrb_record_size(vrb_get16(p));

    if (size > left) {
        return VRB_ERR_MALFORMED;
    }
    rec->len = vrb_get16(p);
    rec->tag = p[2];
    rec->data = p + VRB_RECORD_HDR_SIZE;
    *off += size;
    return 1;
}
