/* Encodes, decodes and validates the packets of the UD transport.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "wire/vrb_ud_wire.h"

#include "wire/vrb_wire.h"

#define FLAGS_KNOWN (VRB_UD_HAS_ACK | VRB_UD_ASK | VRB_UD_AGAIN)

static void put_ack(uint8_t *p, const struct vrb_ud_ack *ack)
{
    vrb_put32(p, ack->cum);
    vrb_put32(p + 4, ack->echo);
    vrb_put16(p + 8, ack->delay);
    vrb_put16(p + 10, ack->buffers);
    p[12] = ack->words;
    p[13] = ack->repeats;
    vrb_put16(p + 14, 0);
    for (unsigned i = 0; i < ack->words; i++) {
        vrb_put64(p + VRB_UD_ACK_SIZE + 8 * i, ack->bits[i]);
    }
}

void vrb_ud_put(uint8_t *p, const struct vrb_ud_hdr *hdr, const struct vrb_ud_ack *ack)
{
    p[0] = (uint8_t)(VRB_UD_VERSION << 4 | hdr->kind);
    p[1] = (uint8_t)((hdr->flags & ~VRB_UD_HAS_ACK) | (ack ? VRB_UD_HAS_ACK : 0));
    p[2] = hdr->tag;
    p[3] = hdr->rail;
    vrb_put32(p + 4, hdr->src);
    vrb_put32(p + 8, hdr->token);
    vrb_put32(p + 12, hdr->pn);
    vrb_put32(p + 16, hdr->dseq);
    vrb_put32(p + 20, hdr->msg);
    p += VRB_UD_HDR_SIZE;
    if (hdr->kind == VRB_UD_SEGMENT) {
        vrb_put32(p, hdr->msg_len);
        vrb_put32(p + 4, hdr->offset);
        p += VRB_UD_SEGMENT_SIZE;
    } else if (hdr->kind == VRB_UD_PUT) {
        vrb_put64(p, hdr->address);
        p += VRB_UD_SEGMENT_SIZE;
    }
    if (ack) {
        put_ack(p, ack);
    }
}

/* Returns the bytes it took, 0 if the block does not fit. */
static size_t get_ack(const uint8_t *p, size_t len, struct vrb_ud_ack *ack)
{
    if (len < VRB_UD_ACK_SIZE || p[12] > VRB_UD_ACK_WORDS || len < VRB_UD_ACK_SIZE + 8u * p[12]) {
        return 0;
    }
    ack->cum = vrb_get32(p);
    ack->echo = vrb_get32(p + 4);
    ack->delay = vrb_get16(p + 8);
    ack->buffers = vrb_get16(p + 10);
    ack->words = p[12];
    ack->repeats = p[13];
    for (unsigned i = 0; i < ack->words; i++) {
        ack->bits[i] = vrb_get64(p + VRB_UD_ACK_SIZE + 8 * i);
    }
    return VRB_UD_ACK_SIZE + 8u * ack->words;
}

/* Each kind has what it needs and nothing that it must not have. */
static int is_sane(const struct vrb_ud_packet *pkt)
{
    const struct vrb_ud_hdr *h = &pkt->hdr;

    switch (h->kind) {
    case VRB_UD_DATA:
        return 1;
    case VRB_UD_COALESCED:
        return pkt->len >= VRB_RECORD_HDR_SIZE;
    case VRB_UD_SEGMENT:
        return pkt->len > 0 && h->offset < h->msg_len && pkt->len <= h->msg_len - h->offset;
    case VRB_UD_PUT:
        return pkt->len > 0;
    case VRB_UD_VOID:
        return pkt->len == 0 && h->tag <= 1;
    case VRB_UD_ACK:
        return (h->flags & VRB_UD_HAS_ACK) && pkt->len == 0;
    default:
        return 0;
    }
}

int vrb_ud_get(const uint8_t *p, size_t len, struct vrb_ud_packet *out)
{
    struct vrb_ud_hdr *h = &out->hdr;
    const uint8_t *end = p + len;

    if (len < VRB_UD_HDR_SIZE || len > UINT32_MAX || p[0] >> 4 != VRB_UD_VERSION ||
        (p[1] & ~FLAGS_KNOWN)) {
        return VRB_ERR_MALFORMED;
    }
    h->kind = p[0] & 15;
    h->flags = p[1];
    h->tag = p[2];
    h->rail = p[3];
    h->src = vrb_get32(p + 4);
    h->token = vrb_get32(p + 8);
    h->pn = vrb_get32(p + 12);
    h->dseq = vrb_get32(p + 16);
    h->msg = vrb_get32(p + 20);
    h->msg_len = h->offset = 0;
    h->address = 0;
    p += VRB_UD_HDR_SIZE;
    if (h->kind == VRB_UD_SEGMENT || h->kind == VRB_UD_PUT) {
        if (end - p < VRB_UD_SEGMENT_SIZE) {
            return VRB_ERR_MALFORMED;
        }
        if (h->kind == VRB_UD_SEGMENT) {
            h->msg_len = vrb_get32(p);
            h->offset = vrb_get32(p + 4);
        } else {
            h->address = vrb_get64(p);
        }
        p += VRB_UD_SEGMENT_SIZE;
    }
    if (h->flags & VRB_UD_HAS_ACK) {
        size_t took = get_ack(p, (size_t)(end - p), &out->ack);

        if (took == 0) {
            return VRB_ERR_MALFORMED;
        }
        p += took;
    }
    out->payload = p;
    out->len = (uint32_t)(end - p);
    return is_sane(out) ? VRB_OK : VRB_ERR_MALFORMED;
}

uint32_t vrb_ud_src(const uint8_t *p)
{
    return vrb_get32(p + 4);
}

uint32_t vrb_ud_peek_token(const uint8_t *p)
{
    return vrb_get32(p + 8);
}

uint32_t vrb_ud_token(uint64_t from, uint64_t to)
{
    /* Any mixing that does not commute will do: this is identification, not secrecy. */
    uint64_t z = from * 0x9e3779b97f4a7c15u + (to ^ to >> 31) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 30) * 0x94d049bb133111ebu;
    return (uint32_t)(z ^ z >> 32);
}
