/* What one port publishes about itself to its peers, and its packed form for the modex.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure: no verbs calls. Everything that arrives packed is hostile input and is checked here. */
#ifndef VRB_ADDRESS_H
#define VRB_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

/* How packets are addressed on a link. Never guessed: taken from ibv_port_attr.link_layer. */
enum vrb_link {
    VRB_LINK_IB = 1,   /* InfiniBand: LID, with a GRH only across subnets or where required */
    VRB_LINK_ROCE = 2, /* Ethernet: always GID and GRH */
};

/* Values travel in the modex: never renumber. */
enum vrb_gid_type {
    VRB_GID_IB = 0,
    VRB_GID_ROCE_V1 = 1, /* Ethertype 0x8915, not routable */
    VRB_GID_ROCE_V2 = 2, /* UDP port 4791, routable */
};

#define VRB_GID_LEN 16

/* GIDs a port publishes at the most; a host with more useful ones publishes the best. */
#define VRB_MAX_GIDS 16

/* IBTA 4.1.1: the last unicast LID, and the most low bits that a port may own of its LIDs. */
#define VRB_LID_MAX 0xbfff
#define VRB_LMC_MAX 7

/* Partition keys a port publishes at the most, to explain why two ends do not meet. */
#define VRB_MAX_PKEYS 8

/* Ports (rails) a process publishes at the most. */
#define VRB_MAX_RAILS 8

/* What an address's network device is known to be able to do. Values travel. */
enum vrb_gid_flags {
    VRB_GID_ROUTED = 1,    /* it has a route through a gateway */
    VRB_GID_GONE = 1 << 7, /* no longer in the owner's table: not packed */
};

/* vrb_gid.vlan: 1 .. 4094 is a tag, 0 = unknown. */
#define VRB_VLAN_UNTAGGED 0xfff

/* An address, and what its owner knows of the network behind it. 0 = unknown throughout. */
struct vrb_gid {
    uint8_t raw[VRB_GID_LEN]; /* network byte order, as ibv_gid.raw */
    uint8_t type;             /* enum vrb_gid_type */
    uint8_t plen;             /* bits of raw that name the subnet: IPv4 /24 is 120 */
    uint8_t mtu;              /* enum ibv_mtu that the network device leaves room for */
    uint8_t flags;            /* enum vrb_gid_flags */
    uint16_t vlan;
    uint16_t index; /* in the owner's GID table: meaningful to its owner only, not packed */
};

struct vrb_address {
    uint8_t link;         /* enum vrb_link */
    uint8_t mtu;          /* enum ibv_mtu: 1 = 256 ... 5 = 4096 bytes */
    uint8_t lmc;          /* IB: the port answers to 2^lmc LIDs */
    uint8_t grh_required; /* IB: the port wants a GRH on every packet */
    uint8_t num_gids;     /* 0 .. VRB_MAX_GIDS; RoCE needs at least one */
    uint8_t num_pkeys;    /* 0 .. VRB_MAX_PKEYS */
    uint16_t lid;         /* IB: base LID, host byte order; 0 on RoCE */
    uint16_t pkey;        /* partition key in use; bit 15 = full member */
    uint32_t ud_qpn;      /* 24 bits: the UD QP that takes the handshake; 0 = TCP does */
    uint64_t nonce;       /* random: this incarnation of the rail (wire/vrb_ud_wire.h) */
    uint32_t qkey;        /* Q_Key of that QP: random, so that only peers told of it reach it */
    uint32_t recv_size;   /* payload bytes that fit one receive buffer (RC eager) */
    uint32_t speed_mbps;  /* link speed times width, 0 = unknown */
    uint16_t pkeys[VRB_MAX_PKEYS]; /* all that the port is a member of */
    struct vrb_gid gids[VRB_MAX_GIDS];
};

/* The largest packed size of n addresses: buffers for vrb_address_pack() are this long. */
size_t vrb_address_packed_max(int n);

/* Packs n (1 .. VRB_MAX_RAILS) addresses into buf. Returns the bytes used, or VRB_ERR_ARG.
 * The blob starts with a magic, a format version and a byte that tells the sender's byte order
 * (one job may not mix byte orders over RDMA; the receiver says so in words). */
int vrb_address_pack(const struct vrb_address *addr, int n, uint8_t *buf, size_t len);

/* Unpacks a blob from a peer. addr has room for VRB_MAX_RAILS. Returns how many there are
 * (1 .. VRB_MAX_RAILS), VRB_ERR_MALFORMED, or VRB_ERR_NOTSUP (another version or byte order); then
 * *why points to a constant sentence. Bytes after what this version knows are ignored per address
 * (each address carries its own packed length), so that later versions can add fields. */
int vrb_address_unpack(const uint8_t *buf, size_t len, struct vrb_address *addr, const char **why);

/* Process-level entries behind the ports: {u8 tag, u8 length, bytes}, repeated. Unknown tags are
 * skipped, so that they can be added without a new version.
 *
 * Appends one to the `used` bytes of a blob in buf. Returns the bytes then used, or VRB_ERR_ARG. */
enum vrb_address_extra {
    VRB_EXTRA_TCP = 1, /* where the handshake is answered over TCP */
};
int vrb_address_extra_put(uint8_t *buf, size_t used, size_t len, uint8_t tag, const void *data,
                          uint8_t data_len);

/* The entry of that tag in a blob that vrb_address_unpack() took; its length goes to *data_len.
 * NULL when it is not there. */
const uint8_t *vrb_address_extra_get(const uint8_t *buf, size_t len, uint8_t tag,
                                     uint8_t *data_len);

/* "LID 17 (0x11)" or "GID ::ffff:10.77.1.2 (RoCE v2)": the form used in every message.
 * Returns buf. gid may be NULL. */
const char *vrb_address_text(const struct vrb_address *addr, const struct vrb_gid *gid, char *buf,
                             size_t len);

/* The same for one GID alone: "fe80::1 (RoCE v2)". Returns buf. */
const char *vrb_gid_text(const struct vrb_gid *gid, char *buf, size_t len);

/* True for fe80::/10; for ::ffff:a.b.c.d; for an all-zero (empty) slot. */
int vrb_gid_is_link_local(const uint8_t raw[VRB_GID_LEN]);
int vrb_gid_is_ipv4(const uint8_t raw[VRB_GID_LEN]);
int vrb_gid_is_empty(const uint8_t raw[VRB_GID_LEN]);

/* Why no host is reached by a GID ("it is a multicast address"); NULL if one may be. */
const char *vrb_gid_fault(const uint8_t raw[VRB_GID_LEN]);

/* True for ::1 and 127.0.0.0/8, which a device on top of the loopback interface has: only the host
 * itself is reached by them. */
int vrb_gid_is_loopback(const uint8_t raw[VRB_GID_LEN]);

/* True for what never leaves its link: fe80::/10, and 169.254.0.0/16 (RFC 3927). */
int vrb_gid_is_link_scope(const uint8_t raw[VRB_GID_LEN]);

#endif
