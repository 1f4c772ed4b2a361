/* The bytes on the wire of RC data packets: header, coalesced records; encode, decode, validate.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every packet on an RC QP starts with 8 bytes, little-endian:
 *
 *   0      1      2           4                    8
 *   +------+------+-----------+--------------------+----------------
 *   | v|kd | tag  |   grant   |        seq         | payload ...
 *   +------+------+-----------+--------------------+----------------
 *
 * v (high nibble): VRB_WIRE_VERSION. kd (low nibble): enum vrb_kind.
 * tag: upper layer's tag (DATA); VRB_TAG_LEAVING in the last CREDIT packet of an end that drops its
 *   peer in good order, so that its silence is not taken for a failure; else 0.
 * grant: absolute credit count modulo 2^16: the receiver of this packet may send packets numbered
 *   below it (see rc/vrb_credit.h).
 * seq: the sender's per-peer packet number modulo 2^32; CREDIT packets carry the number that the
 *   next DATA packet will have, and do not use one up.
 *
 * COALESCED payload: one or more records, each an 8-byte header {u16 length, u8 tag, 5 x 0}
 * followed by `length` bytes and zero padding to a multiple of 8. */
#ifndef VRB_WIRE_H
#define VRB_WIRE_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/vrb_status.h"

#define VRB_WIRE_VERSION 1
#define VRB_HDR_SIZE 8
#define VRB_RECORD_HDR_SIZE 8
#define VRB_RECORD_MAX_LEN 65535
#define VRB_TAG_LEAVING 1 /* of a CREDIT packet */

enum vrb_kind {
    VRB_KIND_DATA = 1,
    VRB_KIND_COALESCED = 2,
    VRB_KIND_CREDIT = 3,
};

struct vrb_hdr {
    uint8_t kind; /* enum vrb_kind */
    uint8_t tag;
    uint16_t grant;
    uint32_t seq;
};

/* By memcpy, which becomes one move: compilers do not join four byte accesses reliably. */
static inline uint16_t vrb_get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

static inline uint32_t vrb_get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static inline uint64_t vrb_get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static inline void vrb_put16(uint8_t *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void vrb_put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void vrb_put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}

static inline void vrb_hdr_put(uint8_t *p, enum vrb_kind kind, uint8_t tag, uint16_t grant,
                               uint32_t seq)
{
    p[0] = (uint8_t)(VRB_WIRE_VERSION << 4 | kind);
    p[1] = tag;
    vrb_put16(p + 2, grant);
    vrb_put32(p + 4, seq);
}

/* Reads the header of a packet of len bytes. Returns VRB_OK, or VRB_ERR_MALFORMED for a packet too
 * short, of another version or kind, or (DATA, COALESCED) without payload where one is needed:
 * DATA may be empty, COALESCED may not. */
static inline int vrb_hdr_get(const uint8_t *p, size_t len, struct vrb_hdr *h)
{
    if (len < VRB_HDR_SIZE || p[0] >> 4 != VRB_WIRE_VERSION) {
        return VRB_ERR_MALFORMED;
    }
    h->kind = p[0] & 15;
    h->tag = p[1];
    h->grant = vrb_get16(p + 2);
    h->seq = vrb_get32(p + 4);
    if (h->kind < VRB_KIND_DATA || h->kind > VRB_KIND_CREDIT ||
        (h->kind == VRB_KIND_COALESCED && len < VRB_HDR_SIZE + VRB_RECORD_HDR_SIZE)) {
        return VRB_ERR_MALFORMED;
    }
    return VRB_OK;
}

/* True if a packet of len bytes is a well-formed DATA packet with this sequence number: what nearly
 * all are, so it is asked first. */
static inline int vrb_hdr_is_data(const uint8_t *p, size_t len, uint32_t seq)
{
    return len >= VRB_HDR_SIZE && p[0] == (VRB_WIRE_VERSION << 4 | VRB_KIND_DATA) &&
           vrb_get32(p + 4) == seq;
}

/* Bytes that a record of len payload bytes takes in a packet. */
static inline size_t vrb_record_size(size_t len)
{
    return VRB_RECORD_HDR_SIZE + ((len + 7) & ~(size_t)7);
}

struct vrb_record {
    const uint8_t *data; /* inside the packet, 8-byte aligned if the packet's payload is */
    uint16_t len;
    uint8_t tag;
};

/* Starts a record of len (<= VRB_RECORD_MAX_LEN) bytes at p, which has room for
 * vrb_record_size(len); zeroes the padding. Returns where the payload goes. */
uint8_t *vrb_record_begin(uint8_t *p, uint8_t tag, size_t len);

/* Walks the records of a COALESCED payload. *off starts at 0. Returns 1 with *rec filled, 0 at the
 * end, VRB_ERR_MALFORMED when a record does not fit: then nothing further may be read. */
int vrb_record_next(const uint8_t *payload, size_t len, size_t *off, struct vrb_record *rec);

#endif
