/* The transport core's interface: all that the Open MPI component, tools and tests use.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Objects: a device context opens one or more RAILS (a rail is one usable port with its CQ, UD QP,
 * receive queue and buffers); a PEER is one remote process on one rail (its RC QP, credits and
 * queue of what could not leave yet). Messages leave in BUFFERS of registered memory or, small
 * ones, inline.
 *
 * Progress: nothing happens behind the caller's back; vrb_rail_progress() polls the CQ, delivers
 * messages, runs completions, drives handshakes and their timers.
 *
 * Threads: with vrb_config.threads set every function below may be called from any thread and
 * re-entered from a callback; without it (the default) no lock is taken and one thread at a time
 * may call. Callbacks run on a thread that called into the rail, without its lock.
 *
 * Nothing below ever says "try later" to a message that was accepted: what cannot leave now is
 * queued and leaves from progress. */
#ifndef VRB_H
#define VRB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "address/vrb_address.h"
#include "util/vrb_log.h"
#include "util/vrb_status.h"

struct ibv_mr;
struct vrb_rail;
struct vrb_peer;

/* ---- settings -------------------------------------------------------------------------------- */

/* Which way messages take (peer/vrb_path.h). */
enum vrb_mode {
    VRB_MODE_RC = 0,   /* reliable connections only */
    VRB_MODE_UD = 1,   /* reliable datagrams only: no connection, flat memory, puts but no gets */
    VRB_MODE_AUTO = 2, /* datagrams first, RC for busy peers */
};

/* What carries the handshake. */
enum vrb_carrier {
    VRB_CARRIER_AUTO = 0, /* a UD QP where the device has them, else TCP */
    VRB_CARRIER_TCP = 1,  /* TCP: then there is mode rc only */
};

struct vrb_config {
    uint32_t recv_size;     /* payload bytes of one receive buffer: the longest packet */
    uint32_t recv_buffers;  /* receive buffers of the shared queue (SRQ) */
    uint32_t credits;       /* packets one peer may have in flight towards us */
    uint32_t sq_depth;      /* work requests one peer's send queue holds */
    uint32_t burst;         /* small messages sent in one go that do not share packets; 0 = all */
    uint32_t max_inline;    /* bytes sent inline at the most; the device may grant less */
    uint32_t send_buffers;  /* full-size send buffers at the most (they are made on demand) */
    uint32_t rd_atomic;     /* RDMA reads in flight per connection */
    uint8_t use_srq;        /* 0: a receive queue per peer even if the device has SRQs */
    uint8_t ib_timeout;     /* QP timeout: 4.096 us * 2^n (IBTA 9.7.6.1.3) */
    uint8_t ib_retry_count; /* 0 .. 7 */
    uint8_t sl;             /* service level */
    uint8_t tclass;         /* GRH traffic class; 0: the port's own default, if it has one */
    uint16_t pkey;          /* partition by its key; 0 = choose (address/vrb_choose.h) */
    uint8_t threads;        /* take locks */
    uint8_t mode;           /* enum vrb_mode */
    uint8_t carrier;        /* enum vrb_carrier */
    uint32_t ud_buffers;    /* receive buffers of the UD QP (one MTU each) */
    uint32_t peer_timeout;  /* seconds without any acknowledgement of datagrams until the peer is
                             * given up; 0 = never */
    uint32_t port_timeout;  /* seconds that our port may be down while datagrams wait for it, until
                             * their peers are given up; 0 = for ever */
    uint32_t promote_after; /* auto: messages to a peer before it is connected over RC */
    uint32_t max_rc;        /* auto: RC connections at the most */
    uint32_t connect_timeout; /* seconds until an unanswered handshake is given up */
    uint32_t recover_timeout; /* seconds from the break of a connection to giving its repair up;
                               * 0: it is not tried */
    uint32_t keepalive;       /* seconds of silence after which a peer is probed; 0: never */
    uint64_t name;            /* this process, as peers know it */
    uint64_t rank;            /* for messages; UINT64_MAX = unknown */
    char host[64];            /* for messages */
};

/* Fills the defaults (all but name, rank and host). */
void vrb_config_defaults(struct vrb_config *cfg);

/* Brings absurd values into range; each change is logged as one warning that names the parameter,
 * the value asked for and the value used. prefix goes before parameter names ("btl_verbs_"). */
void vrb_config_clamp(struct vrb_config *cfg, const char *prefix);

/* ---- callbacks ------------------------------------------------------------------------------- */

struct vrb_callbacks {
    void *ctx; /* first argument of each */

    /* One message. data is 8-byte aligned, writable, and valid during the call only. */
    void (*recv)(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len);

    /* A process that this rail has no peer for wants to connect: make it known
     * (vrb_peer_create() on this rail) and return it, or NULL to decline. Called from progress with
     * no message being processed; may progress recursively. */
    struct vrb_peer *(*unknown)(void *ctx, struct vrb_rail *rail, uint64_t name);

    /* The handshake with the peer is complete (may be NULL: not wanted). Called from progress. */
    void (*connected)(void *ctx, struct vrb_peer *peer);

    /* The connection is lost for good. text is the whole message for the user, NULL when it must
     * not be shown (the far end closed in an orderly way). All that was queued has been completed
     * with an error. Called at most once per peer. */
    void (*failed)(void *ctx, struct vrb_peer *peer, int status, const char *text);

    /* The rail itself is lost (device fatal, port gone). Called at most once. */
    void (*rail_failed)(void *ctx, struct vrb_rail *rail, const char *text);

    /* Called from progress twice a second, as long as progress is called (may be NULL: not
     * wanted). */
    void (*tick)(void *ctx, struct vrb_rail *rail);
};

/* Before any other call, once per process: memory that is registered stays the parent's when it
 * forks (ibv_fork_init(3)). Kernels from 5.12 on see to that by themselves, and then it does
 * nothing; on older ones a child must not touch what the parent had registered. Returns VRB_OK or
 * VRB_ERR_NOTSUP: then a program that forks must not touch such memory until its child has ended
 * or executed another program. */
int vrb_fork_safe(void);

/* ---- ports ----------------------------------------------------------------------------------- */

#define VRB_DEV_NAME_MAX 64

/* A port found on this host: read once, describes itself in words. */
struct vrb_port {
    char dev[VRB_DEV_NAME_MAX];
    uint8_t port;        /* 0: the whole device, which cannot be opened */
    uint8_t link;        /* enum vrb_link; 0 = other */
    uint8_t active;      /* the port is up */
    uint8_t usable;      /* active, and nothing in `why` */
    uint8_t coming;      /* not active, but its link is up: the subnet manager is at work */
    uint32_t speed_mbps; /* 0 = unknown */
    uint64_t max_msg_sz; /* longest RDMA operation */
    int atomics;         /* the device does 64-bit atomics */
    char why[192];       /* why it is not usable, in words; "" if it is */
};

/* Lists the ports of all devices that the filter lets through (include, exclude: see
 * device/vrb_filter.h; NULL = all). *ports is malloc'ed, free() it; NULL when there are none.
 * Returns how many (0 when there is no device or no library support), or VRB_ERR_ARG for a bad list
 * (err says why). Names in the lists that match no port are logged as one warning that lists what
 * exists. */
int vrb_ports_find(const char *include, const char *exclude, struct vrb_port **ports, char *err,
                   size_t len);

/* ---- rails ----------------------------------------------------------------------------------- */

/* Opens a usable port. index: the rail's position in what this process publishes. buf_user and
 * rdma_user: bytes that the caller wants behind each vrb_buf and vrb_rdma. Returns VRB_OK and
 * *rail, or an error that was logged at level WARN with its cause (memory lock limit and its size,
 * device limit, ...). */
int vrb_rail_open(const struct vrb_port *port, int index, const struct vrb_config *cfg,
                  const struct vrb_callbacks *cb, size_t buf_user, size_t rdma_user,
                  struct vrb_rail **rail);

/* Closes it: lets what was accepted leave (at most `ms` milliseconds), then destroys all peers and
 * verbs objects. Memory regions made by vrb_mr_register must be gone. */
void vrb_rail_close(struct vrb_rail *rail, unsigned ms);

/* Returns the number of events handled (0 = idle). Re-entrant from callbacks. */
int vrb_rail_progress(struct vrb_rail *rail);

/* Packs where n rails of this process answer handshakes over TCP, for all peers to know
 * (vrb_peer_set_tcp()). Returns the bytes used, at most VRB_TCP_PACKED_MAX; 0 when no rail does;
 * VRB_ERR_ARG if buf is too short. */
#define VRB_TCP_PACKED_MAX 255
int vrb_rail_tcp_pack(struct vrb_rail *const *rails, int n, uint8_t *buf, size_t len);
/* The port that this rail listens on; 0 when its handshakes go over a UD QP. */
uint16_t vrb_rail_tcp_port(const struct vrb_rail *rail);

const struct vrb_address *vrb_rail_address(const struct vrb_rail *rail);
const struct vrb_port *vrb_rail_port(const struct vrb_rail *rail);
/* The settings in force after asking the device (inline, depths). */
const struct vrb_config *vrb_rail_config(const struct vrb_rail *rail);

/* From now on errors are expected and not reported (the job is ending). */
void vrb_rail_set_closing(struct vrb_rail *rail);

/* Counters, all since the rail was opened. */
struct vrb_stats {
    uint64_t tx_packets, tx_bytes, tx_inline, tx_coalesced; /* coalesced: messages, not packets */
    uint64_t rx_packets, rx_bytes, rx_malformed;
    uint64_t puts, put_bytes, gets, get_bytes, atomics;
    uint64_t credit_packets, credit_stalls, sq_stalls; /* stalls: messages that had to queue */
    uint64_t hellos_tx, hellos_rx, hellos_stale;
    uint64_t ud_packets, ud_resent, ud_acks; /* datagrams sent: all with data, again, bare ACKs */
    uint64_t ud_broken;                      /* times that the UD QP had to be set up again */
    uint64_t ud_dup, ud_stale;               /* received: duplicates, of no known peer or life */
    uint64_t connected, failed;              /* peers */
    uint64_t recovered, replayed;      /* QPs replaced after a break; packets sent again on them */
    uint64_t reg_bytes, reg_bytes_max; /* registered by the core's own pools now / at the most */
    uint64_t mr_count, mr_bytes, mr_failed; /* vrb_mr_register: live regions, bytes, refusals */
    uint64_t mr_made;                       /* and all that were ever made */
    /* Of what precedes, the part of datagrams. Not all of it is counted for RC as well: there,
     * each instruction of the way out counts, and the rest is the difference. */
    uint64_t ud_messages, ud_bytes, ud_puts, ud_put_bytes;
    /* Counted by who keeps a cache of registrations: requests that ended with one. */
    uint64_t mr_served;

    /* All below: as vrb_rail_count_peers() found it. */
    uint64_t peers, peer_bytes; /* peers, and their memory */
    uint64_t peers_idle, peers_connecting, peers_connected, peers_recovering, peers_lost;
    uint64_t peers_datagrams;                       /* those with a datagram half */
    uint64_t rc_packets, rc_bytes, rc_copied;       /* copied: not inline */
    uint64_t mr_hits;                               /* served without a registration */
    uint64_t ud_lost, ud_timeouts, ud_needless;     /* what reliable/ counts */
    uint64_t rtt_peers;                             /* peers with a known round trip, of which: */
    uint64_t rtt_least, rtt_most, rtt_sum;          /* smoothed, ns */
    uint64_t window_least, window_most, window_sum; /* packets that may be in flight */
};
struct vrb_stats *vrb_rail_stats(struct vrb_rail *rail);

/* Counts the peers that exist now by their state, the memory that is there because of them, and
 * what else nobody counts as it happens. Looks at each peer. */
void vrb_rail_count_peers(struct vrb_rail *rail);

/* ---- peers ----------------------------------------------------------------------------------- */

/* Makes a peer of the process `name` whose rail `remote_rail` published `remote`. Nothing is sent;
 * the QP is made at the first message. host and rank are for messages. user is the caller's. If the
 * peer exists (two threads made it at the same time), *peer is that one, with its own user. Returns
 * VRB_OK, or an error with the reason in *why (a constant sentence). */
int vrb_peer_create(struct vrb_rail *rail, uint64_t name, const char *host, uint64_t rank,
                    int remote_rail, const struct vrb_address *remote, void *user,
                    struct vrb_peer **peer, const char **why);

/* Tells where the peer's process answers over TCP: what it packed (NULL: nothing). To be called
 * before the first message when vrb_rail_tcp_port() is not 0. VRB_OK; VRB_ERR_UNREACH: it does not
 * answer there; VRB_ERR_MALFORMED, VRB_ERR_NOMEM. */
int vrb_peer_set_tcp(struct vrb_peer *peer, const uint8_t *packed, size_t len);

/* Lets queued messages leave for at most `ms` milliseconds (progressing), then drops the peer. */
void vrb_peer_destroy(struct vrb_peer *peer, unsigned ms);

/* What the caller gave: kept at the start of the peer, for it is asked for every message. */
static inline void *vrb_peer_user(const struct vrb_peer *peer)
{
    return *(void *const *)(const void *)peer;
}
void vrb_peer_set_user(struct vrb_peer *peer, void *user);
struct vrb_rail *vrb_peer_rail(const struct vrb_peer *peer);

/* Starts the handshake now instead of at the first message. */
void vrb_peer_connect(struct vrb_peer *peer);

/* One line: "shca1 port 1 RoCE, GID ::ffff:10.77.1.1 (RoCE v2) -> host node2 rank 1 GID ..., RC,
 * MTU 1024 (same subnet (/24), the best of 4 pairs)". */
const char *vrb_peer_describe(const struct vrb_peer *peer, char *buf, size_t len);

/* Bytes that are there because of one peer. Not in it: what all peers share (the shared receive
 * queue, free send buffers), and what the device's library keeps for a queue pair. */
struct vrb_peer_memory {
    uint64_t own; /* its state, inline packets kept until they have arrived, parts of messages */
    uint64_t receive; /* its own receive queue, where there is no shared one: registered */
    uint64_t waiting; /* messages that cannot leave yet, datagrams without acknowledgement */
    int connected;    /* it has a queue pair */
};
void vrb_peer_memory(const struct vrb_peer *peer, struct vrb_peer_memory *memory);

/* ---- messages -------------------------------------------------------------------------------- */

/* A send buffer: registered memory with room for the core's header before `payload`.
 * `user` bytes (as asked at rail_open) follow the struct: vrb_buf_user(). */
struct vrb_buf {
    struct vrb_buf *next;
    uint8_t *payload; /* 16-byte aligned; capacity bytes */
    uint32_t capacity;
    uint32_t refs; /* core: datagrams that still read it */
    uint32_t len;  /* payload bytes, set by vrb_send */
    uint32_t lkey;
    uint16_t retire;        /* core: send queue slots that its completion frees */
    uint8_t tag, kind, cls; /* core */
    struct vrb_peer *peer;  /* core: set while it is being sent */
    struct vrb_pool *pool;  /* core */
    /* Called from progress when the memory may be reused; status is VRB_OK or an error. The buffer
     * belongs to the caller again, who frees or reuses it. NULL: the core frees it itself. */
    void (*done)(struct vrb_buf *buf, int status);
};

static inline void *vrb_buf_user(struct vrb_buf *buf)
{
    return buf + 1;
}

/* Takes a buffer for `size` payload bytes (<= recv_size of the config). Small ones (<= 256, control
 * messages) are always there unless the process is out of memory. For larger ones NULL means that
 * the limit is reached *and* that completions of buffers with `done` are still to come. */
struct vrb_buf *vrb_buf_get(struct vrb_rail *rail, uint32_t size);
void vrb_buf_free(struct vrb_buf *buf);

/* Sends the first `len` payload bytes of buf as one message. Always accepted; buf->done is called
 * later (from progress), with an error if the connection is or gets lost. */
void vrb_send(struct vrb_peer *peer, struct vrb_buf *buf, uint8_t tag, uint32_t len);

/* Sends header and data (data may be NULL with 0 bytes) by copy, without callback: on VRB_OK both
 * may be reused at once. VRB_ERR_AGAIN: not taken (too much is queued for this peer, too long, or
 * the peer is not connected yet); use vrb_buf_get + vrb_send. VRB_ERR_PEER: the connection is lost.
 *
 * Not connected: only progress makes the connection, and whoever is told that a message is on its
 * way may well stop progressing. Open MPI does so when processes spawn others: it sends, and then
 * waits in PMIx for those who wait for the message. */
int vrb_send_copy(struct vrb_peer *peer, uint8_t tag, const void *hdr, uint32_t hdr_len,
                  const void *data, uint32_t data_len);

/* 0 while vrb_send_copy would decline because the peer is not connected yet: a buffer without
 * `done` should not be sent then either. */
int vrb_may_copy(const struct vrb_peer *peer);

/* ---- RDMA ------------------------------------------------------------------------------------ */

enum vrb_rdma_op {
    VRB_RDMA_PUT = 1,
    VRB_RDMA_GET = 2,
    VRB_RDMA_ADD = 3,   /* fetch and add, and */
    VRB_RDMA_CSWAP = 4, /* compare and swap: 64 bits, aligned at the remote end */
};

/* Atomic operations are not idempotent: unlike the others they must never be posted twice. */
static inline int vrb_rdma_is_atomic(uint8_t op)
{
    return op >= VRB_RDMA_ADD;
}

/* One RDMA operation; `user` bytes follow: vrb_rdma_user(). */
struct vrb_rdma {
    struct vrb_rdma *next;
    uint64_t local_addr, remote_addr;
    uint64_t size; /* <= port's max_msg_sz; 0 is completed without the device; 8 for atomics */
    uint32_t lkey, rkey;
    uint32_t refs; /* core */
    uint8_t op;    /* enum vrb_rdma_op */
    /* A put of at most vrb_config.max_inline bytes from memory that need not be registered (lkey
     * is not looked at). In mode rc only. */
    uint8_t from_anywhere;
    /* The caller has no other way to do it: the peer is connected even beyond the cap of max_rc. If
     * it cannot be, `done` gets VRB_ERR_NOTSUP. Atomics imply it. */
    uint8_t must;
    uint16_t retire; /* core */
    /* Atomics, in the byte order of the host: what to add, or what to put in the place of
     * `compare`; and, when done, what was there before. local_addr and lkey do not count. */
    uint64_t operand, compare, result;
    struct vrb_buf *fetched; /* core: registered memory that the old value arrives in */
    struct vrb_peer *peer;   /* core */
    /* From progress. PUT: VRB_OK means that the remote memory holds the data. The caller frees or
     * reuses it. */
    void (*done)(struct vrb_rdma *rdma, int status);
};

static inline void *vrb_rdma_user(struct vrb_rdma *rdma)
{
    return rdma + 1;
}

struct vrb_rdma *vrb_rdma_get(struct vrb_rail *rail); /* NULL: out of memory */
void vrb_rdma_free(struct vrb_rail *rail, struct vrb_rdma *rdma);

/* Always accepted; connects first if need be. */
void vrb_rdma_post(struct vrb_peer *peer, struct vrb_rdma *rdma);

/* ---- memory ---------------------------------------------------------------------------------- */

enum vrb_access {
    VRB_ACCESS_LOCAL_WRITE = 1,
    VRB_ACCESS_REMOTE_READ = 2,
    VRB_ACCESS_REMOTE_WRITE = 4,
    VRB_ACCESS_REMOTE_ATOMIC = 8,
};

/* Registers memory on the rail's device. LOCAL_WRITE is added where verbs wants it. Returns
 * VRB_OK; VRB_ERR_NOMEM (evict something and try again); VRB_ERR_PERM (read-only or unmapped memory
 * for that access); VRB_ERR_DEVICE. Nothing is printed: the caller has a fallback (VRB_LOG_DEBUG at
 * the most, once a limit is hit a single VRB_LOG_WARN that says which one). */
int vrb_mr_register(struct vrb_rail *rail, void *base, size_t size, unsigned access,
                    struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey);
int vrb_mr_deregister(struct vrb_rail *rail, struct ibv_mr *mr);

#endif
