/* Joins the segments of messages (see vrb_reasm.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "dgram/vrb_reasm.h"

#include <stdlib.h>
#include <string.h>

#include "util/vrb_status.h"

void vrb_reasm_init(struct vrb_reasm *r, uint32_t max_len)
{
    memset(r, 0, sizeof(*r));
    r->max_len = max_len;
}

void vrb_reasm_fini(struct vrb_reasm *r)
{
    if (r->by_number.slots != NULL) {
        for (size_t i = 0; i < (size_t)1 << r->by_number.bits; i++) {
            free(r->by_number.slots[i].value);
        }
    }
    vrb_map_clear(&r->by_number);
    while (r->spare != NULL) {
        struct vrb_reasm_msg *m = r->spare;

        r->spare = m->next;
        free(m);
    }
}

/* All messages get buffers of the longest length, so that any spare one fits. */
static struct vrb_reasm_msg *begin(struct vrb_reasm *r, uint32_t number, uint8_t tag, uint32_t len)
{
    struct vrb_reasm_msg *m = r->spare;

    if (m != NULL) {
        r->spare = m->next;
    } else {
        m = calloc(1, sizeof(*m) + r->max_len);
        if (m == NULL) {
            return NULL;
        }
        m->room = r->max_len;
        r->bytes += sizeof(*m) + r->max_len;
    }
    m->len = len;
    m->got = 0;
    m->tag = tag;
    if (vrb_map_put(&r->by_number, number, m) != VRB_OK) {
        vrb_reasm_free(r, m);
        return NULL;
    }
    return m;
}

/* A sender has no more than its window of packets under way, so this is enough to tell a segment
 * that was delayed, and small enough to forget in time for the numbers to come round again. */
#define VOID_SPAN 4096

void vrb_reasm_void(struct vrb_reasm *r, uint32_t number)
{
    r->has_void = 1;
    r->void_below = number;
    for (size_t i = 0; r->by_number.used > 0 && i < (size_t)1 << r->by_number.bits; i++) {
        struct vrb_reasm_msg *m = r->by_number.slots[i].value;
        uint64_t key = r->by_number.slots[i].key;

        if (m != NULL && (int32_t)((uint32_t)key - number) < 0) {
            vrb_map_del(&r->by_number, key);
            vrb_reasm_free(r, m);
            i = SIZE_MAX; /* deleting may move entries: start again */
        }
    }
}

/* True for a segment of a message that was given up. */
static int is_void(struct vrb_reasm *r, uint32_t number)
{
    int32_t ahead = (int32_t)(number - r->void_below);

    if (r->has_void && ahead > VOID_SPAN) {
        r->has_void = 0;
    }
    return r->has_void && ahead < 0 && ahead >= -VOID_SPAN;
}

int vrb_reasm_add(struct vrb_reasm *r, uint32_t number, uint8_t tag, uint32_t msg_len,
                  uint32_t offset, const uint8_t *p, uint32_t len, struct vrb_reasm_msg **whole)
{
    struct vrb_reasm_msg *m = vrb_map_get(&r->by_number, number);

    *whole = NULL;
    if (msg_len > r->max_len || offset >= msg_len || len > msg_len - offset) {
        return VRB_ERR_MALFORMED;
    }
    if (m == NULL) {
        if (is_void(r, number)) {
            return VRB_OK;
        }
        if (r->by_number.used >= VRB_REASM_MAX) {
            return VRB_ERR_MALFORMED;
        }
        m = begin(r, number, tag, msg_len);
        if (m == NULL) {
            return VRB_ERR_NOMEM;
        }
    } else if (m->len != msg_len || m->tag != tag || len > msg_len - m->got) {
        return VRB_ERR_MALFORMED;
    }
    memcpy(m->data + offset, p, len);
    m->got += len;
    if (m->got == m->len) {
        vrb_map_del(&r->by_number, number);
        *whole = m;
    }
    return VRB_OK;
}

void vrb_reasm_free(struct vrb_reasm *r, struct vrb_reasm_msg *m)
{
    m->next = r->spare;
    r->spare = m;
}
