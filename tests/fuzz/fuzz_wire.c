/* Fuzzes RC packets: header, then records.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "rc/vrb_credit.h"
#include "wire/vrb_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vrb_credit credit;
    struct vrb_record rec;
    struct vrb_hdr h;
    size_t off = 0, sum = 0;
    int rc;

    if (vrb_hdr_get(data, size, &h) != VRB_OK) {
        return 0;
    }
    vrb_credit_init(&credit, 64);
    vrb_credit_granted(&credit, h.grant);
    if (vrb_credit_room(&credit) > VRB_CREDIT_MAX_WINDOW) {
        abort();
    }
    if (h.kind != VRB_KIND_COALESCED) {
        return 0;
    }
    while ((rc = vrb_record_next(data + VRB_HDR_SIZE, size - VRB_HDR_SIZE, &off, &rec)) == 1) {
        for (int i = 0; i < rec.len; i++) {
            sum += rec.data[i]; /* the sanitizer sees whether each byte is in the packet */
        }
    }
    if (rc != 0 && rc != VRB_ERR_MALFORMED) {
        abort();
    }
    return sum == SIZE_MAX ? -1 : 0;
}
