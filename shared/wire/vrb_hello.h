/* The handshake message (HELLO / REJECT) that travels over UD: layout, encode, decode, validate.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Little-endian, VRB_HELLO_SIZE bytes (fits the smallest IB MTU of 256), and zeros up to the length
 * that the datagram is to test (wireup/vrb_pmtu.h):
 *   0 u32 magic "VRBH"   4 u8 version   5 u8 type   6 u8 flags   7 u8 reason
 *   8 u64 source name   16 u64 destination name
 *  24 u32 source id     28 u32 destination id (0: not known yet)
 *  32 u32 QPN           36 u32 first PSN
 *  40 u32 receive size  44 u16 grant   46 u8 MTU, bits 3-7: round
 *  47 u8 RDMA reads accepted at once
 *  48 u8 source rail    49 u8 destination rail     50 u16 generation
 *  52 u32 packets received                         56 u32 source life   60 u32 destination life
 *  64 u32 token         68 u16 LID (0: RoCE)
 *  70 u8 1: the GIDs count           71 u8 longest MTU heard
 *  72 16 bytes GID      88 16 bytes the GID that was published in its place
 *
 * LID and GID are where the sender is reached at this time. The token, made of what both ends
 * published, tells that this comes from the job, wherever it comes from.
 *
 * Generation: how often the two ends have connected before. Life: the id of the sender's first
 * connection to this peer; packets are counted from there on, over all generations. */
#ifndef VRB_HELLO_H
#define VRB_HELLO_H

#include <stddef.h>
#include <stdint.h>

#define VRB_HELLO_SIZE 104
#define VRB_HELLO_VERSION 3
#define VRB_HELLO_FIRST_BYTE 'V' /* no datagram of wire/vrb_ud_wire.h starts so */

#define VRB_ROUND_MAX 31
#define VRB_HELLO_GID_LEN 16

enum vrb_hello_type {
    VRB_HELLO = 1,
    VRB_REJECT = 2,
    VRB_INTRO = 3, /* names the sender of datagrams that the receiver cannot place yet: the source
                    * and destination fields count, the rest is as in a REJECT. With NEED it is
                    * answered by another one, which says how long a datagram was `heard` */
};

enum vrb_hello_flags {
    VRB_HELLO_HAVE = 1, /* I have your QP's data: my QP is ready to receive from yours */
    VRB_HELLO_NEED = 2, /* I do not know yet that you have mine: please answer */
    VRB_HELLO_MUST = 4, /* only a connection will do: do not decline to save QPs */
    VRB_HELLO_LAST = 8, /* the shortest of several lengths, and the last */
};

/* Why a peer declined (REJECT). Values travel: never renumber. */
enum vrb_reject_reason {
    VRB_REJECT_NONE = 0,
    VRB_REJECT_NO_QP = 1,   /* the QP could not be created (device or memory limit) */
    VRB_REJECT_NO_PATH = 2, /* no pair of addresses fits, seen from the other side */
    VRB_REJECT_UNKNOWN = 3, /* the named process or rail is not here */
    VRB_REJECT_FAILED = 4,  /* this connection was already given up */
    VRB_REJECT_VERSION = 5, /* another version of the protocol */
};

struct vrb_hello {
    uint8_t type;   /* enum vrb_hello_type */
    uint8_t flags;  /* enum vrb_hello_flags */
    uint8_t reason; /* enum vrb_reject_reason */
    uint8_t mtu;    /* enum ibv_mtu that the sender's end of the path allows */
    uint8_t round;  /* which pair of addresses the sender uses (peer/vrb_peer_addr.h) */
    uint8_t rd_in;  /* RDMA reads (and atomics) the sender's QP accepts at once (responder) */
    uint8_t src_rail, dst_rail;
    uint16_t grant;              /* first absolute credit count (see rc/vrb_credit.h) */
    uint16_t gen;                /* connections that these two ends had before; 0 = the first */
    uint32_t rx_seq;             /* packets received in all of them: the next number expected */
    uint32_t src_life;           /* src_id of the sender's first connection to this peer */
    uint32_t dst_life;           /* the receiver's, as the sender knows it; 0 = not known */
    uint32_t src_id;             /* names this incarnation of the sender's connection; never 0 */
    uint32_t dst_id;             /* the receiver's, as the sender knows it; 0 = not known */
    uint32_t qpn, psn;           /* 24 bits each; qpn 0 only in a REJECT */
    uint32_t recv_size;          /* payload bytes one receive buffer takes */
    uint64_t src_name, dst_name; /* opaque process names, as published */
    uint32_t token;              /* vrb_ud_token() of the sender's and the receiver's nonce */
    uint16_t lid;                /* the sender's; 0 on RoCE */
    uint8_t has_gid;             /* 0: the sender is reached by LID alone */
    uint8_t heard;               /* INTRO: the MTU of the longest that arrived; 0 = none did */
    uint8_t gid[VRB_HELLO_GID_LEN], gid_was[VRB_HELLO_GID_LEN];
};

void vrb_hello_put(const struct vrb_hello *h, uint8_t buf[VRB_HELLO_SIZE]);

/* Returns VRB_OK, VRB_ERR_MALFORMED, or VRB_ERR_NOTSUP (right magic, other version; *h then holds
 * type, names and ids only, so that the peer can be told). */
int vrb_hello_get(const uint8_t *buf, size_t len, struct vrb_hello *h);

/* "the QP could not be created", ... never NULL. */
const char *vrb_reject_text(uint8_t reason);

#endif
