/* Encodes, decodes and validates the handshake messages.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "wire/vrb_hello.h"

#include <string.h>

#include "address/vrb_address.h"
#include "rc/vrb_credit.h"
#include "wire/vrb_wire.h"

#define HELLO_MAGIC 0x48425256u /* "VRBH", little-endian */
#define HELLO_MTU_MASK 7
#define HELLO_ROUND_SHIFT 3
#define MAX_24 0xffffffu /* QP and packet sequence numbers have 24 bits (IBTA 9.2) */
#define MTU_MIN 1        /* enum ibv_mtu: 256 bytes */
#define MTU_MAX 5        /* 4096 bytes */
#define UNICAST_LID_MAX 0xbfff

void vrb_hello_put(const struct vrb_hello *h, uint8_t buf[VRB_HELLO_SIZE])
{
    memset(buf, 0, VRB_HELLO_SIZE);
    vrb_put32(buf, HELLO_MAGIC);
    buf[4] = VRB_HELLO_VERSION;
    buf[5] = h->type;
    buf[6] = h->flags;
    buf[7] = h->reason;
    vrb_put64(buf + 8, h->src_name);
    vrb_put64(buf + 16, h->dst_name);
    vrb_put32(buf + 24, h->src_id);
    vrb_put32(buf + 28, h->dst_id);
    vrb_put32(buf + 32, h->qpn);
    vrb_put32(buf + 36, h->psn);
    vrb_put32(buf + 40, h->recv_size);
    vrb_put16(buf + 44, h->grant);
    buf[46] = (uint8_t)((h->mtu & HELLO_MTU_MASK) | h->round << HELLO_ROUND_SHIFT);
    buf[47] = h->rd_in;
    buf[48] = h->src_rail;
    buf[49] = h->dst_rail;
    vrb_put16(buf + 50, h->gen);
    vrb_put32(buf + 52, h->rx_seq);
    vrb_put32(buf + 56, h->src_life);
    vrb_put32(buf + 60, h->dst_life);
    vrb_put32(buf + 64, h->token);
    vrb_put16(buf + 68, h->lid);
    buf[70] = h->has_gid;
    buf[71] = h->heard;
    memcpy(buf + 72, h->gid, VRB_HELLO_GID_LEN);
    memcpy(buf + 88, h->gid_was, VRB_HELLO_GID_LEN);
}

/* What a connection is built from: a value that verbs or the credits would trip over is refused. */
static int hello_is_sane(const struct vrb_hello *h)
{
    uint16_t window = (uint16_t)(h->grant - h->rx_seq);

    return h->src_id != 0 && h->qpn != 0 && h->qpn <= MAX_24 && h->psn <= MAX_24 &&
           h->mtu >= MTU_MIN && h->mtu <= MTU_MAX && h->recv_size != 0 && window != 0 &&
           window <= VRB_CREDIT_MAX_WINDOW && h->src_life != 0 &&
           (h->gen == 0 ? h->rx_seq == 0 : h->dst_life != 0);
}

int vrb_hello_get(const uint8_t *buf, size_t len, struct vrb_hello *h)
{
    memset(h, 0, sizeof(*h));
    if (len < VRB_HELLO_SIZE || vrb_get32(buf) != HELLO_MAGIC) {
        return VRB_ERR_MALFORMED;
    }
    h->src_name = vrb_get64(buf + 8);
    h->dst_name = vrb_get64(buf + 16);
    h->src_id = vrb_get32(buf + 24);
    h->dst_id = vrb_get32(buf + 28);
    h->type = buf[5];
    if (buf[4] != VRB_HELLO_VERSION) {
        return VRB_ERR_NOTSUP;
    }
    h->flags = buf[6] & (VRB_HELLO_HAVE | VRB_HELLO_NEED | VRB_HELLO_MUST | VRB_HELLO_LAST);
    h->reason = buf[7];
    h->qpn = vrb_get32(buf + 32);
    h->psn = vrb_get32(buf + 36);
    h->recv_size = vrb_get32(buf + 40);
    h->grant = vrb_get16(buf + 44);
    h->mtu = buf[46] & HELLO_MTU_MASK;
    h->round = buf[46] >> HELLO_ROUND_SHIFT;
    h->rd_in = buf[47];
    h->src_rail = buf[48];
    h->dst_rail = buf[49];
    h->gen = vrb_get16(buf + 50);
    h->rx_seq = vrb_get32(buf + 52);
    h->src_life = vrb_get32(buf + 56);
    h->dst_life = vrb_get32(buf + 60);
    h->token = vrb_get32(buf + 64);
    h->lid = vrb_get16(buf + 68);
    h->has_gid = buf[70];
    h->heard = buf[71];
    memcpy(h->gid, buf + 72, VRB_HELLO_GID_LEN);
    memcpy(h->gid_was, buf + 88, VRB_HELLO_GID_LEN);
    if (h->src_rail >= VRB_MAX_RAILS || h->dst_rail >= VRB_MAX_RAILS || h->heard > MTU_MAX ||
        h->has_gid > 1 || h->lid > UNICAST_LID_MAX) {
        return VRB_ERR_MALFORMED;
    }
    if (h->type == VRB_REJECT || h->type == VRB_INTRO) {
        return VRB_OK;
    }
    return h->type == VRB_HELLO && hello_is_sane(h) ? VRB_OK : VRB_ERR_MALFORMED;
}

const char *vrb_reject_text(uint8_t reason)
{
    switch (reason) {
    case VRB_REJECT_NONE:
        return "no reason given";
    case VRB_REJECT_NO_QP:
        return "the queue pair could not be created (device or memory limit)";
    case VRB_REJECT_NO_PATH:
        return "no pair of addresses fits, seen from the other side";
    case VRB_REJECT_UNKNOWN:
        return "the named process or port is not there";
    case VRB_REJECT_FAILED:
        return "this connection was already given up";
    case VRB_REJECT_VERSION:
        return "it speaks another version of the protocol";
    default:
        return "a reason that this version does not know";
    }
}
