/* Joining the segments of messages that arrive as datagrams, in any order.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. The reliable layer hands each segment over once. Several messages are under way at a time
 * (nothing waits for order); each holds a buffer of its length. What a peer can make us hold is
 * bounded by VRB_REASM_MAX messages of max_len bytes each. */
#ifndef VRB_REASM_H
#define VRB_REASM_H

#include <stdint.h>

#include "util/vrb_map.h"

/* A correct sender has no more than its window of packets under way, and at least two per message.
 */
#define VRB_REASM_MAX 512

struct vrb_reasm_msg {
    struct vrb_reasm_msg *next; /* in the list of spare ones */
    uint32_t len, got;
    uint32_t room; /* bytes of data[] */
    uint8_t tag;
    /* 8-byte aligned, as messages are delivered. */
    _Alignas(16) uint8_t data[];
};

struct vrb_reasm {
    struct vrb_map by_number; /* message number -> struct vrb_reasm_msg */
    struct vrb_reasm_msg *spare;
    uint32_t max_len;
    uint64_t bytes;   /* held by messages, spare ones too */
    uint8_t has_void; /* segments of messages just below void_below are given up ones' */
    uint32_t void_below;
};

void vrb_reasm_init(struct vrb_reasm *r, uint32_t max_len);
void vrb_reasm_fini(struct vrb_reasm *r);

/* Adds a segment. Returns VRB_OK; with *whole set when the message is complete: deliver it, then
 * vrb_reasm_free(). VRB_ERR_MALFORMED: a segment that no correct peer sends (too long a message,
 * other length or tag than its siblings', too many messages). VRB_ERR_NOMEM. */
int vrb_reasm_add(struct vrb_reasm *r, uint32_t number, uint8_t tag, uint32_t msg_len,
                  uint32_t offset, const uint8_t *p, uint32_t len, struct vrb_reasm_msg **whole);

/* The sender gave up all messages numbered below this one that are not whole. */
void vrb_reasm_void(struct vrb_reasm *r, uint32_t number);

void vrb_reasm_free(struct vrb_reasm *r, struct vrb_reasm_msg *m);

#endif
