/* The bytes on the wire of UD packets: header, acknowledgement block; encode, decode, validate.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Little-endian. One packet is
 *
 *   header (24) | SEGMENT, PUT: extension (8) | flag HAS_ACK: ack block (16 + 8 * words) | payload
 *
 * so the payload is 8-byte aligned whenever the packet is. A sender that keeps a payload for
 * retransmission writes the front backwards from it: the ack block differs from one transmission to
 * the next, and with it the front's size (vrb_ud_front_size).
 *
 * Header:
 *    0 u8  version (high nibble), enum vrb_ud_kind (low nibble)
 *    1 u8  enum vrb_ud_flags; others are malformed
 *    2 u8  tag of the upper layer (ACK: 0)
 *    3 u8  the sender's rail
 *    4 u32 src: the sender, as it published itself (an index into the receiver's table of peers)
 *    8 u32 token: proves that both ends mean each other's present incarnation (vrb_ud_token); a
 *          packet with another token is of an earlier job or life and is dropped unread
 *   12 u32 packet number: a new one for each transmission             } ACK: both 0, an ACK packet
 *   16 u32 data sequence: the same one for each transmission          } uses no numbers up
 *   20 u32 message number: the peer-wide sequence number of the message, whatever path it takes;
 *          COALESCED: of the first one; PUT: the key of the memory that the payload goes to; VOID
 *          with tag 1: segmented messages numbered below it that are not whole will never be
 * SEGMENT extension:
 *    0 u32 length of the whole message   4 u32 where this payload belongs in it
 * PUT extension:
 *    0 u64 the address that the payload goes to
 *
 * Ack block (what the fields mean: reliable/vrb_rel.h):
 *    0 u32 every data sequence number below this one has arrived; this one has not
 *    4 u32 the largest packet number that has arrived
 *    8 u16 time between that packet's arrival and this block, in units of 128 ns;
 *          VRB_UD_DELAY_UNKNOWN: longer or not known, take no RTT from it
 *   10 u16 packets that the receiver of this block may have in flight
 *   12 u8  words in the bitmap (0 .. 16)
 *   13 u8  packets that needlessly came again, modulo 256
 *   14 u16 0, ignored
 *   16     bitmap: bit i of the u64 words tells whether the (i + 1)st number after the first field
 *          has arrived
 *
 * Both handshake messages (wire/vrb_hello.h) and these packets arrive on the same QP. The first
 * byte tells them apart: a HELLO starts with 'V' (0x56), so version 5 must be skipped here. */
#ifndef VRB_UD_WIRE_H
#define VRB_UD_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "util/vrb_status.h"

#define VRB_UD_VERSION 1
#define VRB_UD_HDR_SIZE 24
#define VRB_UD_SEGMENT_SIZE 8
#define VRB_UD_ACK_SIZE 16
#define VRB_UD_ACK_WORDS                                                     \
    16 /* with these an ACK packet has 168 bytes: fits the smallest MTU, 256 \
        */
#define VRB_UD_DELAY_UNIT 128 /* ns */
#define VRB_UD_DELAY_UNKNOWN UINT16_MAX

/* Values travel: never renumber. */
enum vrb_ud_kind {
    VRB_UD_DATA = 1,      /* one whole message */
    VRB_UD_COALESCED = 2, /* several whole messages: records of wire/vrb_wire.h */
    VRB_UD_SEGMENT = 3,   /* a part of a message */
    VRB_UD_ACK = 4,       /* an acknowledgement alone */
    VRB_UD_PUT = 5,       /* memory contents: the receiver places them */
    VRB_UD_VOID = 6,      /* nothing: it only has a number. In the place of what its sender gave up,
                           * or to see whether the receiver still answers */
};

enum vrb_ud_flags {
    VRB_UD_HAS_ACK = 1, /* an ack block is there */
    VRB_UD_ASK = 2,     /* please acknowledge without delay */
    VRB_UD_AGAIN = 4,   /* a retransmission: for whoever reads a trace, the protocol ignores it */
};

struct vrb_ud_hdr {
    uint8_t kind;  /* enum vrb_ud_kind */
    uint8_t flags; /* enum vrb_ud_flags */
    uint8_t tag;
    uint8_t rail;
    uint32_t src, token;
    uint32_t pn, dseq; /* packet number, data sequence number */
    uint32_t msg;
    uint32_t msg_len, offset; /* SEGMENT */
    uint64_t address;         /* PUT */
};

struct vrb_ud_ack {
    uint32_t cum;     /* data sequence: all below have arrived */
    uint32_t echo;    /* packet number: the largest that has arrived */
    uint16_t delay;   /* units of VRB_UD_DELAY_UNIT */
    uint16_t buffers; /* packets that may be in flight */
    uint8_t words;    /* valid ones in bits[] */
    uint8_t repeats;  /* needless retransmissions seen, modulo 256 */
    uint64_t bits[VRB_UD_ACK_WORDS];
};

/* A packet taken apart. */
struct vrb_ud_packet {
    struct vrb_ud_hdr hdr;
    struct vrb_ud_ack ack;  /* valid with VRB_UD_HAS_ACK in hdr.flags */
    const uint8_t *payload; /* inside the packet */
    uint32_t len;           /* its bytes */
};

/* Bytes before the payload. ack may be NULL. */
static inline size_t vrb_ud_front_size(enum vrb_ud_kind kind, const struct vrb_ud_ack *ack)
{
    return VRB_UD_HDR_SIZE +
           (kind == VRB_UD_SEGMENT || kind == VRB_UD_PUT ? VRB_UD_SEGMENT_SIZE : 0) +
           (ack ? VRB_UD_ACK_SIZE + 8u * ack->words : 0);
}

/* Writes the front of a packet, vrb_ud_front_size() bytes from p on; sets VRB_UD_HAS_ACK itself. */
void vrb_ud_put(uint8_t *p, const struct vrb_ud_hdr *hdr, const struct vrb_ud_ack *ack);

/* Takes a packet of len bytes (the GRH already removed) apart. Returns VRB_OK, or VRB_ERR_MALFORMED
 * for what no correct peer of this version sends; then *out must not be used. Whether the numbers
 * make sense is for reliable/ to say, whether the message's length is acceptable for the caller. */
int vrb_ud_get(const uint8_t *p, size_t len, struct vrb_ud_packet *out);

/* Source and token only, to find the peer before anything else is looked at. The packet must have
 * at least VRB_UD_HDR_SIZE bytes. */
uint32_t vrb_ud_src(const uint8_t *p);
uint32_t vrb_ud_peek_token(const uint8_t *p);

/* The token of packets from one incarnation to another, from the random 64-bit values that both
 * published (job and process mixed in). Not the same in both directions. */
uint32_t vrb_ud_token(uint64_t from, uint64_t to);

#endif
