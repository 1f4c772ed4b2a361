/* Packs, unpacks, validates and prints what ports publish about themselves.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Blob: 8 bytes {u32 magic, u8 version, u8 byte order, u8 ports, u8 0}; per port a u16 with the
 * bytes that follow, then
 *
 *    0 u8 link    1 u8 MTU    2 u8 LMC | 0x80 GRH required    3 u8 GIDs    4 u8 P_Keys
 *    5 u24 UD QPN    8 u16 LID    10 u16 P_Key in use    12 u32 Q_Key    16 u32 receive size
 *   20 u32 speed    24 u64 nonce    32 u16 per P_Key, then the GIDs
 *
 * and behind the ports the entries of vrb_address_extra_put(). A GID, 4 to 20 bytes:
 *
 *   u8: bits 0-1 form, 2 RoCE v1, 3 RoCE v2 (neither: InfiniBand), 4-6 MTU, 7 two more bytes follow
 *   u8 subnet bits    [u16: bits 0-11 VLAN, 12-15 flags]    the address, by form
 *
 * so that the usual table of a RoCE port (one IPv4 and one link-local address, both as v1 and as
 * v2) takes 20 bytes. All little-endian, addresses in network order. */
#include "address/vrb_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "util/vrb_status.h"
#include "wire/vrb_wire.h"

#define BLOB_MAGIC 0x41425256u /* "VRBA", little-endian */
#define BLOB_VERSION 3
#define BLOB_HDR_SIZE 8
#define LENGTH_SIZE 2
#define FIXED_SIZE 32
#define PKEY_SIZE 2
#define GID_SIZE_MAX (2 + 2 + VRB_GID_LEN)

#define LMC_MASK 0x07
#define FLAG_GRH_REQUIRED 0x80

enum gid_form { FORM_WHOLE = 0, FORM_IPV4 = 1, FORM_LINK_LOCAL = 2 };
#define GID_FORM 0x03
#define GID_V1 0x04
#define GID_V2 0x08
#define GID_MTU_SHIFT 4
#define GID_MTU_MASK 7
#define GID_MORE 0x80
#define VLAN_MASK 0xfff
#define GID_FLAGS_SHIFT 12

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
    return BLOB_HDR_SIZE + (size_t)n * (LENGTH_SIZE + FIXED_SIZE + VRB_MAX_PKEYS * PKEY_SIZE +
                                        VRB_MAX_GIDS * GID_SIZE_MAX);
}

static int is_sane(const struct vrb_address *a)
{
    if (a->mtu < MTU_MIN || a->mtu > MTU_MAX || a->lmc > VRB_LMC_MAX ||
        a->num_gids > VRB_MAX_GIDS || a->num_pkeys > VRB_MAX_PKEYS ||
        (a->ud_qpn != 0 && a->ud_qpn < QPN_UD_MIN) || a->ud_qpn > QPN_MAX || a->recv_size == 0) {
        return 0;
    }
    switch (a->link) {
    case VRB_LINK_IB:
        return a->lid != 0 && a->lid + (1 << a->lmc) - 1 <= VRB_LID_MAX;
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

    return fits && vrb_gid_fault(gid->raw) == NULL;
}

static size_t form_size(int form)
{
    return form == FORM_IPV4 ? 4 : form == FORM_LINK_LOCAL ? 8 : VRB_GID_LEN;
}

static int form_of(const uint8_t raw[VRB_GID_LEN])
{
    static const uint8_t fe80[8] = {0xfe, 0x80};

    return vrb_gid_is_ipv4(raw)        ? FORM_IPV4
           : memcmp(raw, fe80, 8) == 0 ? FORM_LINK_LOCAL
                                       : FORM_WHOLE;
}

static uint8_t type_bit(uint8_t type)
{
    return type == VRB_GID_ROCE_V1 ? GID_V1 : type == VRB_GID_ROCE_V2 ? GID_V2 : 0;
}

/* The same address twice, as RoCE v1 and as v2, is one entry. */
static int joins(const struct vrb_gid *a, const struct vrb_gid *b)
{
    return a->type != b->type && type_bit(a->type) != 0 && type_bit(b->type) != 0 &&
           memcmp(a->raw, b->raw, VRB_GID_LEN) == 0 && a->plen == b->plen && a->mtu == b->mtu &&
           a->vlan == b->vlan && a->flags == b->flags;
}

static uint8_t *pack_gid(uint8_t *p, const struct vrb_gid *g, uint8_t types)
{
    int form = form_of(g->raw);
    size_t size = form_size(form);

    p[0] = (uint8_t)(form | types | (g->mtu & GID_MTU_MASK) << GID_MTU_SHIFT);
    p[1] = g->plen;
    if (g->vlan != 0 || (g->flags & VRB_GID_ROUTED)) {
        p[0] |= GID_MORE;
        vrb_put16(p + 2, (uint16_t)((g->vlan & VLAN_MASK) | (g->flags & VRB_GID_ROUTED)
                                                                << GID_FLAGS_SHIFT));
        p += 2;
    }
    memcpy(p + 2, g->raw + VRB_GID_LEN - size, size);
    return p + 2 + size;
}

/* Returns behind the last; *n counts the entries. */
static uint8_t *pack_gids(uint8_t *p, const struct vrb_address *a, uint8_t *n)
{
    uint8_t joined[VRB_MAX_GIDS] = {0};

    *n = 0;
    for (int i = 0; i < a->num_gids; i++) {
        uint8_t types = type_bit(a->gids[i].type);

        if (joined[i]) {
            continue;
        }
        for (int j = i + 1; j < a->num_gids; j++) {
            if (!joined[j] && joins(&a->gids[i], &a->gids[j])) {
                types |= type_bit(a->gids[j].type);
                joined[j] = 1;
                break;
            }
        }
        p = pack_gid(p, &a->gids[i], types);
        (*n)++;
    }
    return p;
}

static uint8_t *pack_one(uint8_t *start, const struct vrb_address *a)
{
    uint8_t *p = start + LENGTH_SIZE;
    uint8_t *end;

    memset(p, 0, FIXED_SIZE);
    p[0] = a->link;
    p[1] = a->mtu;
    p[2] = (uint8_t)(a->lmc | (a->grh_required ? FLAG_GRH_REQUIRED : 0));
    p[4] = a->num_pkeys;
    p[5] = (uint8_t)a->ud_qpn;
    vrb_put16(p + 6, (uint16_t)(a->ud_qpn >> 8));
    vrb_put16(p + 8, a->lid);
    vrb_put16(p + 10, a->pkey);
    vrb_put32(p + 12, a->qkey);
    vrb_put32(p + 16, a->recv_size);
    vrb_put32(p + 20, a->speed_mbps);
    vrb_put64(p + 24, a->nonce);
    end = p + FIXED_SIZE;
    for (int i = 0; i < a->num_pkeys; i++) {
        vrb_put16(end, a->pkeys[i]);
        end += PKEY_SIZE;
    }
    end = pack_gids(end, a, &p[3]);
    vrb_put16(start, (uint16_t)(end - p));
    return end;
}

int vrb_address_pack(const struct vrb_address *addr, int n, uint8_t *buf, size_t len)
{
    /* The largest blob has some 3 KiB: packed aside, so that a short buffer is told beforehand. */
    uint8_t one[LENGTH_SIZE + FIXED_SIZE + VRB_MAX_PKEYS * PKEY_SIZE + VRB_MAX_GIDS * GID_SIZE_MAX];
    size_t used = BLOB_HDR_SIZE;

    if (n < 1 || n > VRB_MAX_RAILS || len < BLOB_HDR_SIZE) {
        return VRB_ERR_ARG;
    }
    vrb_put32(buf, BLOB_MAGIC);
    buf[4] = BLOB_VERSION;
    buf[5] = byte_order();
    buf[6] = (uint8_t)n;
    buf[7] = 0;
    for (int i = 0; i < n; i++) {
        if (!is_sane(&addr[i])) {
            return VRB_ERR_ARG;
        }
        size_t size = (size_t)(pack_one(one, &addr[i]) - one);

        if (size > len - used) {
            return VRB_ERR_ARG;
        }
        memcpy(buf + used, one, size);
        used += size;
    }
    return (int)used;
}

static int has_gid(const struct vrb_address *a, const struct vrb_gid *gid)
{
    for (int i = 0; i < a->num_gids; i++) {
        if (a->gids[i].type == gid->type && memcmp(a->gids[i].raw, gid->raw, VRB_GID_LEN) == 0) {
            return 1;
        }
    }
    return 0;
}

/* GIDs that cannot be used are left out (a later version may know more kinds), and so are those
 * beyond the room. */
static void take_gid(struct vrb_address *a, struct vrb_gid g, int type)
{
    g.type = (uint8_t)type;
    if (a->num_gids < VRB_MAX_GIDS && is_usable_gid(a->link, &g) && !has_gid(a, &g)) {
        a->gids[a->num_gids++] = g;
    }
}

/* One GID entry of the len bytes at p. Returns its size, or 0 if it is cut short. */
static size_t unpack_gid(const uint8_t *p, size_t len, struct vrb_address *a)
{
    static const uint8_t v4[VRB_GID_LEN] = {[10] = 0xff, [11] = 0xff},
                         ll[VRB_GID_LEN] = {0xfe, 0x80};
    struct vrb_gid g = {.type = 0};
    size_t head, size;

    if (len < 2) {
        return 0;
    }
    head = p[0] & GID_MORE ? 4 : 2;
    size = form_size(p[0] & GID_FORM);
    if (len < head + size) {
        return 0;
    }
    g.mtu = p[0] >> GID_MTU_SHIFT & GID_MTU_MASK;
    g.plen = p[1];
    if (g.mtu > MTU_MAX || g.plen > VRB_GID_LEN * 8) {
        g.mtu = g.plen = 0;
    }
    if (p[0] & GID_MORE) {
        g.vlan = vrb_get16(p + 2) & VLAN_MASK;
        g.flags = vrb_get16(p + 2) >> GID_FLAGS_SHIFT & VRB_GID_ROUTED;
    }
    if (size < VRB_GID_LEN) {
        memcpy(g.raw, size == 4 ? v4 : ll, VRB_GID_LEN);
    }
    memcpy(g.raw + VRB_GID_LEN - size, p + head, size);
    if ((p[0] & GID_FORM) <= FORM_LINK_LOCAL) {
        if (p[0] & GID_V2) {
            take_gid(a, g, VRB_GID_ROCE_V2);
        }
        if (p[0] & GID_V1) {
            take_gid(a, g, VRB_GID_ROCE_V1);
        }
        if (!(p[0] & (GID_V1 | GID_V2))) {
            take_gid(a, g, VRB_GID_IB);
        }
    }
    return head + size;
}

/* p holds the len bytes that this address says it has. */
static int unpack_one(const uint8_t *p, size_t len, struct vrb_address *a)
{
    size_t off = FIXED_SIZE;

    memset(a, 0, sizeof(*a));
    if (len < FIXED_SIZE || p[4] > VRB_MAX_PKEYS || len - FIXED_SIZE < (size_t)p[4] * PKEY_SIZE) {
        return VRB_ERR_MALFORMED;
    }
    a->link = p[0];
    a->mtu = p[1];
    a->lmc = p[2] & LMC_MASK;
    a->grh_required = (p[2] & FLAG_GRH_REQUIRED) != 0;
    a->num_pkeys = p[4];
    a->ud_qpn = p[5] | (uint32_t)vrb_get16(p + 6) << 8;
    a->lid = vrb_get16(p + 8);
    a->pkey = vrb_get16(p + 10);
    a->qkey = vrb_get32(p + 12);
    a->recv_size = vrb_get32(p + 16);
    a->speed_mbps = vrb_get32(p + 20);
    a->nonce = vrb_get64(p + 24);
    for (int i = 0; i < a->num_pkeys; i++) {
        a->pkeys[i] = vrb_get16(p + off);
        off += PKEY_SIZE;
    }
    for (int i = 0; i < p[3]; i++) {
        size_t size = unpack_gid(p + off, len - off, a);

        if (size == 0) {
            return VRB_ERR_MALFORMED;
        }
        off += size;
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

/* Where the entries behind the ports start; 0 if the ports are cut short. */
static size_t extras_start(const uint8_t *buf, size_t len)
{
    size_t off = BLOB_HDR_SIZE;

    for (int i = 0; len >= BLOB_HDR_SIZE && i < buf[6]; i++) {
        size_t size = len - off < LENGTH_SIZE ? len : vrb_get16(buf + off);

        if (len - off < LENGTH_SIZE || size > len - off - LENGTH_SIZE) {
            return 0;
        }
        off += LENGTH_SIZE + size;
    }
    return len >= BLOB_HDR_SIZE ? off : 0;
}

int vrb_address_extra_put(uint8_t *buf, size_t used, size_t len, uint8_t tag, const void *data,
                          uint8_t data_len)
{
    if (used > len || len - used < 2u + data_len) {
        return VRB_ERR_ARG;
    }
    buf[used] = tag;
    buf[used + 1] = data_len;
    memcpy(buf + used + 2, data, data_len);
    return (int)(used + 2 + data_len);
}

const uint8_t *vrb_address_extra_get(const uint8_t *buf, size_t len, uint8_t tag, uint8_t *data_len)
{
    size_t off = extras_start(buf, len);

    while (off != 0 && len - off >= 2 && buf[off + 1] <= len - off - 2) {
        if (buf[off] == tag) {
            *data_len = buf[off + 1];
            return buf + off + 2;
        }
        off += 2u + buf[off + 1];
    }
    return NULL;
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

const char *vrb_gid_fault(const uint8_t raw[VRB_GID_LEN])
{
    static const uint8_t none[4], all[4] = {255, 255, 255, 255};
    int v4 = vrb_gid_is_ipv4(raw);

    if (vrb_gid_is_empty(raw) || (v4 && memcmp(raw + 12, none, 4) == 0)) {
        return "it is the unspecified address";
    }
    if (raw[0] == 0xff || (v4 && raw[12] >> 4 == 14)) { /* ff00::/8, 224.0.0.0/4 */
        return "it is a multicast address";
    }
    return v4 && memcmp(raw + 12, all, 4) == 0 ? "it is the broadcast address" : NULL;
}

int vrb_gid_is_loopback(const uint8_t raw[VRB_GID_LEN])
{
    static const uint8_t one[VRB_GID_LEN] = {[15] = 1};

    return memcmp(raw, one, sizeof(one)) == 0 || (vrb_gid_is_ipv4(raw) && raw[12] == 127);
}

int vrb_gid_is_link_scope(const uint8_t raw[VRB_GID_LEN])
{
    return vrb_gid_is_link_local(raw) || (vrb_gid_is_ipv4(raw) && raw[12] == 169 && raw[13] == 254);
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
