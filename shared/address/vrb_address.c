/* Packs, unpacks, validates and prints what ports publish about themselves.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Blob: 8 bytes {u32 magic, u8 version, u8 byte order, u8 count, u8 0}, then per address a u16 with
 * the bytes that follow and FIXED_SIZE bytes of fields plus GID_SIZE per GID; all little-endian. */
#include "address/vrb_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "util/vrb_status.h"
#include "wire/vrb_wire.h"

#define BLOB_MAGIC 0x41425256u /* "VRBA", little-endian */
#define BLOB_VERSION 1
#define BLOB_HDR_SIZE 8
#define LENGTH_SIZE 2
#define FIXED_SIZE 36
#define GID_SIZE (1 + VRB_GID_LEN)

#define FLAG_GRH_REQUIRED 1

#define LID_UNICAST_MAX 0xbfff /* IBTA 4.1.1 */
#define LMC_MAX 7
#define QPN_UD_MIN 2 /* 0 and 1 are the management queue pairs */
#define QPN_MAX 0xffffff
#define MTU_MIN 1 /* enum ibv_mtu */
#define MTU_MAX 5

static uint8_t byte_order(void)
{
    const uint16_t one = 1;

    return *(const uint8_t *)&one ? 'l' : 'b';
}

size_t vrb_address_packed_max(int n)
{
    return BLOB_HDR_SIZE + (size_t)n * (LENGTH_SIZE + FIXED_SIZE + VRB_MAX_GIDS * GID_SIZE);
}

static int is_sane(const struct vrb_address *a)
{
    if (a->mtu < MTU_MIN || a->mtu > MTU_MAX || a->lmc > LMC_MAX || a->num_gids > VRB_MAX_GIDS ||
        a->ud_qpn < QPN_UD_MIN || a->ud_qpn > QPN_MAX || a->recv_size == 0) {
        return 0;
    }
    switch (a->link) {
    case VRB_LINK_IB:
        return a->lid != 0 && a->lid <= LID_UNICAST_MAX;
    case VRB_LINK_ROCE:
        return a->num_gids > 0;
    default:
        return 0;
    }
}

/* A GID that packets can be sent to over this kind of link. */
static int is_usable_gid(uint8_t link, const struct vrb_gid *gid)
{
    int fits = link == VRB_LINK_ROCE ? gid->type == VRB_GID_ROCE_V1 || gid->type == VRB_GID_ROCE_V2
                                     : gid->type == VRB_GID_IB;

    return fits && !vrb_gid_is_empty(gid->raw) && gid->raw[0] != 0xff; /* ff00::/8: multicast */
}

static uint8_t *pack_one(uint8_t *p, const struct vrb_address *a)
{
    vrb_put16(p, (uint16_t)(FIXED_SIZE + a->num_gids * GID_SIZE));
    p += LENGTH_SIZE;
    memset(p, 0, FIXED_SIZE);
    p[0] = a->link;
    p[1] = a->mtu;
    p[2] = a->lmc;
    p[3] = a->grh_required ? FLAG_GRH_REQUIRED : 0;
    p[4] = a->num_gids;
    vrb_put16(p + 6, a->lid);
    vrb_put16(p + 8, a->pkey);
    vrb_put32(p + 12, a->ud_qpn);
    vrb_put32(p + 16, a->qkey);
    vrb_put32(p + 20, a->recv_size);
    vrb_put32(p + 24, a->speed_mbps);
    vrb_put64(p + 28, a->nonce);
    p += FIXED_SIZE;
    for (int i = 0; i < a->num_gids; i++) {
        p[0] = a->gids[i].type;
        memcpy(p + 1, a->gids[i].raw, VRB_GID_LEN);
        p += GID_SIZE;
    }
    return p;
}

int vrb_address_pack(const struct vrb_address *addr, int n, uint8_t *buf, size_t len)
{
    if (n < 1 || n > VRB_MAX_RAILS) {
        return VRB_ERR_ARG;
    }
    size_t need = BLOB_HDR_SIZE;

    for (int i = 0; i < n; i++) {
        if (!is_sane(&addr[i])) {
            return VRB_ERR_ARG;
        }
        need += LENGTH_SIZE + FIXED_SIZE + (size_t)addr[i].num_gids * GID_SIZE;
    }
    if (len < need) {
        return VRB_ERR_ARG;
    }
    vrb_put32(buf, BLOB_MAGIC);
    buf[4] = BLOB_VERSION;
    buf[5] = byte_order();
    buf[6] = (uint8_t)n;
    buf[7] = 0;
    uint8_t *p = buf + BLOB_HDR_SIZE;

    for (int i = 0; i < n; i++) {
        p = pack_one(p, &addr[i]);
    }
    return (int)(p - buf);
}

/* p holds the len bytes that this address says it has. GIDs that cannot be used are left out: a
 * later version may know more kinds. */
static int unpack_one(const uint8_t *p, size_t len, struct vrb_address *a)
{
    memset(a, 0, sizeof(*a));
    if (len < FIXED_SIZE || p[4] > VRB_MAX_GIDS || len < FIXED_SIZE + (size_t)p[4] * GID_SIZE) {
        return VRB_ERR_MALFORMED;
    }
    a->link = p[0];
    a->mtu = p[1];
    a->lmc = p[2];
    a->grh_required = p[3] & FLAG_GRH_REQUIRED;
    a->lid = vrb_get16(p + 6);
    a->pkey = vrb_get16(p + 8);
    a->ud_qpn = vrb_get32(p + 12);
    a->qkey = vrb_get32(p + 16);
    a->recv_size = vrb_get32(p + 20);
    a->speed_mbps = vrb_get32(p + 24);
    a->nonce = vrb_get64(p + 28);
    for (int i = 0; i < p[4]; i++) {
        const uint8_t *from = p + FIXED_SIZE + i * GID_SIZE;
        struct vrb_gid *gid = &a->gids[a->num_gids];

        gid->type = from[0];
        memcpy(gid->raw, from + 1, VRB_GID_LEN);
        if (is_usable_gid(a->link, gid)) {
            a->num_gids++;
        } else {
            memset(gid, 0, sizeof(*gid));
        }
    }
    return is_sane(a) ? VRB_OK : VRB_ERR_MALFORMED;
}

static int check_head(const uint8_t *buf, size_t len, const char **why)
{
    if (len < BLOB_HDR_SIZE || vrb_get32(buf) != BLOB_MAGIC) {
        *why = "the peer's address is not one of this transport";
        return VRB_ERR_MALFORMED;
    }
    if (buf[4] != BLOB_VERSION) {
        *why = "the peer runs another version of this transport (address format)";
        return VRB_ERR_NOTSUP;
    }
    if (buf[5] != byte_order()) {
        *why = "the peer has the other byte order, which RDMA cannot convert";
        return VRB_ERR_NOTSUP;
    }
    return VRB_OK;
}

int vrb_address_unpack(const uint8_t *buf, size_t len, struct vrb_address *addr, const char **why)
{
    int rc = check_head(buf, len, why);

    if (rc < 0) {
        return rc;
    }
    int n = buf[6];
    size_t off = BLOB_HDR_SIZE;

    if (n < 1 || n > VRB_MAX_RAILS) {
        *why = "the peer's address names an impossible number of ports";
        return VRB_ERR_MALFORMED;
    }
    for (int i = 0; i < n; i++) {
        size_t left = len - off;
        size_t size = left < LENGTH_SIZE ? 0 : vrb_get16(buf + off);

        if (left < LENGTH_SIZE || size > left - LENGTH_SIZE) {
            *why = "the peer's address is cut short";
            return VRB_ERR_MALFORMED;
        }
        off += LENGTH_SIZE;
        if (unpack_one(buf + off, size, &addr[i]) < 0) {
            *why = "the peer's address holds values that no port has";
            return VRB_ERR_MALFORMED;
        }
        off += size;
    }
    return n;
}

int vrb_gid_is_link_local(const uint8_t raw[VRB_GID_LEN])
{
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
}

int vrb_gid_is_ipv4(const uint8_t raw[VRB_GID_LEN])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

int vrb_gid_is_empty(const uint8_t raw[VRB_GID_LEN])
{
    static const uint8_t zero[VRB_GID_LEN];

    return memcmp(raw, zero, sizeof(zero)) == 0;
}

const char *vrb_gid_text(const struct vrb_gid *gid, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN];
    const char *type = "";

    if (gid->type == VRB_GID_ROCE_V1) {
        type = " (RoCE v1)";
    } else if (gid->type == VRB_GID_ROCE_V2) {
        type = " (RoCE v2)";
    }
    if (vrb_gid_is_empty(gid->raw) || !inet_ntop(AF_INET6, gid->raw, ip, sizeof(ip))) {
        snprintf(buf, len, "none");
    } else {
        snprintf(buf, len, "%s%s", ip, type);
    }
    return buf;
}

const char *vrb_address_text(const struct vrb_address *addr, const struct vrb_gid *gid, char *buf,
                             size_t len)
{
    char text[INET6_ADDRSTRLEN + 16] = "none";

    if (!gid && addr->link == VRB_LINK_ROCE && addr->num_gids > 0) {
        gid = &addr->gids[0];
    }
    if (gid) {
        vrb_gid_text(gid, text, sizeof(text));
    }
    if (addr->link != VRB_LINK_IB) {
        snprintf(buf, len, "GID %s", text);
    } else if (gid) {
        snprintf(buf, len, "LID %u (0x%x), GID %s", addr->lid, addr->lid, text);
    } else {
        snprintf(buf, len, "LID %u (0x%x)", addr->lid, addr->lid);
    }
    return buf;
}
