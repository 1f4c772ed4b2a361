/* The layout of the shared segment: every object of the software HCA that more than one process
 * touches.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules of the format: tables of fixed size addressed by index, rings addressed by offsets from the
 * start of the segment, never pointers. What one side writes for each message lies on cache lines
 * of its own, apart from what the other side only reads. An entry is named by {index, generation};
 * the generation grows at each destruction, so that late packets and stale keys miss.
 */
#ifndef SOFTHCA_SHM_FORMAT_H
#define SOFTHCA_SHM_FORMAT_H

#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SM_MAGIC 0x53484341u /* "SHCA" */
#define SM_VERSION 2u        /* grows with any change of meaning that sizes do not show */

enum {
    SM_MAX_HOSTS = 16,
    SM_MAX_DEVS_PER_HOST = 8,
    SM_MAX_DEVS = SM_MAX_HOSTS * SM_MAX_DEVS_PER_HOST,
    SM_MAX_PORTS = 2, /* per device; verbs numbers them from 1 */
    SM_MAX_GIDS = 32,
    SM_MAX_PKEYS = 16,
    SM_MAX_PROCS = 256,
    SM_MAX_CTX = 1024,
    SM_MAX_CHAN = 2048,
    SM_MAX_CQ = 8192,
    SM_MAX_QP = 16384, /* also bounds the index part of a QPN: 14 of 24 bits */
    SM_MAX_SRQ = 2048,
    SM_MAX_MR = 65536,
    SM_MAX_SGE = 32,     /* hard ceiling of max_sge */
    SM_NAME_LEN = 64,    /* host and device names, with the zero */
    SM_CONF_LEN = 32768, /* configuration text kept in the segment */
    SM_HAZARDS = 16,     /* memory regions one process may be reaching into at a time */
    SM_COUNTERS = 32,
};

typedef struct {
    pthread_mutex_t m; /* robust and process-shared: a killed holder never wedges the others */
} sm_lock;

enum sm_link { SM_LINK_IB = 1, SM_LINK_ETH = 2 };

enum sm_gid_type { SM_GID_IB = 0, SM_GID_ROCE1 = 1, SM_GID_ROCE2 = 2 };

struct sm_gid {
    uint8_t raw[16];   /* all zero: an empty slot */
    uint8_t type;      /* enum sm_gid_type */
    uint8_t plen;      /* bits that name the IP subnet (IPv4-mapped: of the last four bytes) */
    uint16_t vlan;     /* its packets carry this tag: one wire per tag; 0 = none */
    char ndev[16 + 4]; /* name that gid_attrs/ndevs shows: a real network device ("lo") */
};

struct sm_port {
    _Atomic uint32_t state; /* enum ibv_port_state */
    uint8_t link;           /* enum sm_link */
    uint8_t lmc;
    uint8_t max_mtu, active_mtu; /* enum ibv_mtu */
    uint8_t width, speed;        /* verbs encodings: width 1,2,4,8; speed 1..64 */
    uint8_t grh_required;        /* InfiniBand: packets without a GRH are dropped */
    uint16_t lid, sm_lid;
    uint16_t npkeys;
    uint16_t ngids; /* length of the GID table, empty slots included */
    uint32_t max_msg_sz;
    char net[SM_NAME_LEN]; /* wire: ports reach each other only within one net */
    uint16_t pkeys[SM_MAX_PKEYS];
    struct sm_gid gids[SM_MAX_GIDS];
    _Atomic uint32_t qkey_viol, bad_pkey;
};

struct sm_limits {
    uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_inline;
    uint32_t max_cq, max_cqe;
    uint32_t max_srq, max_srq_wr, max_srq_sge; /* max_srq 0: no SRQ at all */
    uint32_t max_mr, max_pd, max_ah;
    uint32_t max_rd_atom, max_init_rd_atom; /* per QP, as responder and as initiator */
    uint32_t atomic_cap;                    /* enum ibv_atomic_cap */
    uint32_t comp_vectors;
    uint32_t no_ud;    /* 1: creating a UD QP fails with EOPNOTSUPP */
    uint32_t in_order; /* 1: ibv_query_qp_data_in_order says yes */
    uint64_t max_mr_size;
    uint64_t memlock; /* bytes one process may register; 0: only RLIMIT_MEMLOCK counts */
};

enum sm_counter {
    SM_CNT_SEND,
    SM_CNT_WRITE,
    SM_CNT_READ,
    SM_CNT_ATOMIC,
    SM_CNT_UD_SEND,
    SM_CNT_UD_DROP, /* no receive buffer, wrong Q_Key, unreachable: everything lost */
    SM_CNT_RNR,     /* RNR NAKs received */
    SM_CNT_TIMEOUT, /* response timeouts */
    SM_CNT_ERR_WC,  /* completions in error, flushes excluded */
    SM_CNT_BOUNCE,  /* payloads that went through a bounce slot */
    SM_CNT_BYTES,   /* payload bytes moved for requests of this device */
    SM_CNT_FAULTS,  /* injected faults that fired */
    SM_CNT_REG_MR,
    SM_CNT_N
};

struct sm_dev {
    _Atomic uint32_t used;
    _Atomic uint32_t fatal; /* set: every later call fails with EIO */
    uint32_t host;          /* index of the host */
    uint32_t ordinal;       /* index among the host's devices: the N of uverbsN */
    uint32_t nports;
    uint64_t node_guid; /* host byte order */
    uint32_t vendor_id, part_id, hw_ver;
    uint32_t transport; /* enum ibv_transport_type: what the device says of itself */
    char name[SM_NAME_LEN];
    char fw[SM_NAME_LEN];
    struct sm_limits lim;
    struct sm_port ports[SM_MAX_PORTS];
    _Atomic uint32_t nqp, ncq, nsrq, nmr;           /* live objects, for the limits */
    _Alignas(64) _Atomic uint64_t cnt[SM_COUNTERS]; /* enum sm_counter */
};

struct sm_host {
    _Atomic uint32_t used;
    uint32_t ndevs;
    char name[SM_NAME_LEN];
    uint32_t devs[SM_MAX_DEVS_PER_HOST]; /* indexes into the device table */
};

enum sm_proc_state { SM_PROC_FREE = 0, SM_PROC_LIVE = 1 };

struct sm_proc {
    _Atomic uint32_t state; /* enum sm_proc_state */
    _Atomic uint32_t gen;
    int32_t pid;
    uint32_t host;
    uint64_t starttime; /* field 22 of /proc/PID/stat: tells a recycled pid from the owner */
    sm_lock life;       /* held by the helper thread for as long as the process lives */
    /* Sleep word of the helper thread, and "look at your QPs" for poll_cq. */
    _Atomic uint32_t attn;
    _Atomic uint64_t locked_bytes; /* page-rounded registered memory */
    _Alignas(64) _Atomic uint32_t
        hazard[SM_HAZARDS]; /* MR index + 1 that this process is reaching into */
};

/* Every object starts with this. */
struct sm_obj {
    _Atomic uint32_t state; /* 0: free; else in use (QPs: enum ibv_qp_state + 1) */
    _Atomic uint32_t gen;
    uint32_t proc; /* owner: index into the process table */
    uint32_t dev;  /* index into the device table */
    uint32_t ctx;  /* index into the context table */
};

struct sm_ctx {
    struct sm_obj o;
    uint32_t chan, chan_gen; /* asynchronous event FIFO */
};

enum sm_chan_kind { SM_CHAN_COMP = 1, SM_CHAN_ASYNC = 2 };

struct sm_chan {
    struct sm_obj o;
    uint32_t kind; /* enum sm_chan_kind */
};

/* Record in a channel's FIFO (smaller than PIPE_BUF: writes are atomic). */
struct sm_event {
    uint32_t type; /* enum ibv_event_type, or ~0u for a completion event */
    uint32_t index, gen;
    uint32_t port;
};

struct sm_sge {
    uint64_t addr;
    uint32_t len, lkey;
};

/* Receive WQE; slots of a ring have the stride of the ring's max_sge. */
struct sm_rwqe {
    uint64_t wr_id;
    uint32_t nsge;
    uint32_t pad;
    struct sm_sge sge[];
};

/* Receive ring: the owner alone stores prod; cons is stored under the consumer's lock. */
struct sm_rq {
    uint64_t off;    /* ring in the heap */
    uint64_t bytes;  /* size of the allocation */
    uint32_t size;   /* slots: a power of two */
    uint32_t max_wr; /* granted */
    uint32_t max_sge, stride;
    _Alignas(64) _Atomic uint64_t prod;
    _Alignas(64) _Atomic uint64_t cons;
};

struct sm_srq {
    struct sm_obj o;
    uint32_t pd;
    _Atomic uint32_t limit;    /* 0: disarmed */
    _Atomic uint32_t nqp;      /* QPs that use it */
    _Alignas(64) sm_lock lock; /* consumers' side of the ring */
    struct sm_rq rq;
};

/* Where a QP or an address handle sends. */
struct sm_path {
    uint8_t port_num; /* own port */
    uint8_t is_grh;
    uint8_t sgid_index;
    uint8_t sl;
    uint8_t src_path_bits;
    uint8_t hop_limit, tclass;
    uint8_t pad;
    uint16_t dlid;
    uint8_t dgid[16];
    uint32_t flow;
};

/* A receive request is taken and its completion not pushed yet: what to do if the taker dies. */
enum sm_inflight {
    SM_TAKEN_NONE,
    SM_TAKEN_RQ,  /* the ring gets it back */
    SM_TAKEN_SRQ, /* others may have taken later ones: it stays with the QP ... */
    SM_ORPHAN,    /* ... and is flushed with it, like the receive of a message cut short */
};

struct sm_qp {
    struct sm_obj o; /* state: enum ibv_qp_state + 1 */
    uint32_t qpn;
    uint32_t pd;
    uint32_t type; /* enum ibv_qp_type */
    uint32_t rcq, rcq_gen;
    uint32_t scq, scq_gen;
    uint32_t srq, srq_gen; /* srq ~0u: own ring */
    uint32_t access;       /* remote operations this QP serves: enum ibv_access_flags */
    uint32_t qkey;
    uint16_t pkey_index;
    uint8_t port_num;
    uint8_t min_rnr_timer;
    uint8_t path_mtu;
    uint8_t max_dest_rd_atomic;
    uint8_t max_rd_atomic;
    uint8_t timeout, retry_cnt, rnr_retry;
    uint32_t dest_qpn;
    struct sm_path path;
    uint32_t rq_psn, sq_psn;
    _Atomic uint32_t sq_flush; /* a peer broke this QP: its owner has to flush the send queue */
    /* Responder half: initiators at work on this QP, and state changes. */
    _Alignas(64) sm_lock resp;
    uint32_t comm_est;    /* COMM_EST was reported */
    uint32_t inflight;    /* enum sm_inflight */
    uint64_t inflight_wr; /* wr_id of the SRQ request taken */
    struct sm_rq rq;
};

struct sm_mr {
    struct sm_obj o; /* state 1: being made, 2: valid */
    uint32_t lkey, rkey;
    uint32_t access;
    uint32_t pd;
    uint64_t addr; /* start in the owner's address space */
    uint64_t length;
    uint64_t iova; /* what remote and local addresses are relative to */
};

enum { SM_QP_DYING = 100 }; /* state of a QP that is being destroyed */

enum sm_cqe_flags {
    SM_CQE_RECV = 1, /* releases a receive slot */
    SM_CQE_SEND = 2, /* releases send slots up to sq_idx */
    SM_CQE_DEAD = 4, /* of a destroyed QP: skip */
    SM_CQE_SRQ = 8,
    SM_CQE_SOLICITED = 16,
};

struct sm_cqe {
    uint64_t wr_id;
    uint32_t status; /* enum ibv_wc_status */
    uint32_t opcode; /* enum ibv_wc_opcode */
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm_data;
    uint32_t qp_num;
    uint32_t src_qp;
    uint32_t wc_flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t sl;
    uint8_t dlid_path_bits;
    uint8_t flags; /* enum sm_cqe_flags */
    uint8_t pad;
    uint32_t qp;     /* index of the QP */
    uint32_t bounce; /* slot + 1 that holds the payload; 0: the payload is in place */
    uint64_t sq_idx; /* last send slot this completion releases */
};

enum { SM_BOUNCE_SEGS = 4 };

/* A small payload waiting beside its CQE, to be copied out by poll_cq. */
struct sm_bounce {
    uint32_t len, nsegs;
    struct sm_sge seg[SM_BOUNCE_SEGS];
    uint8_t data[];
};

enum sm_arm { SM_ARM_NONE = 0, SM_ARM_SOLICITED = 1, SM_ARM_ANY = 2 };

struct sm_cq {
    struct sm_obj o;
    uint32_t cqe;  /* granted entries */
    uint32_t size; /* slots: a power of two */
    uint64_t off, bytes;
    uint64_t boff, bbytes; /* bounce slots */
    uint32_t nbounce, bstride;
    uint32_t bmax;           /* bytes one bounce slot holds */
    uint32_t chan, chan_gen; /* chan ~0u: none */
    _Atomic uint32_t overrun;
    _Alignas(64) sm_lock lock; /* producers */
    _Atomic uint64_t prod;
    _Atomic uint64_t bprod;         /* bounce slots handed out */
    uint64_t cons_seen, bcons_seen; /* the consumer was at least this far */
    _Alignas(64) _Atomic uint64_t cons;
    _Atomic uint64_t bcons;
    _Alignas(64) _Atomic uint32_t armed; /* enum sm_arm */
};

enum { SM_SIZE_CLASSES = 40 };

enum sm_table { SM_T_CTX, SM_T_CHAN, SM_T_CQ, SM_T_SRQ, SM_T_QP, SM_T_MR, SM_TABLES };

/* Segment header; the tables follow in this order, then the heap. */
struct sm_seg {
    uint32_t magic, version;
    uint64_t abi; /* hash of the sizes of all structures above */
    uint64_t size;
    _Atomic uint64_t epoch;   /* grows at any change of addresses, ports or reachability */
    _Atomic uint32_t keep;    /* softhca-ctl: survive the last process */
    _Atomic uint32_t next_pd; /* protection domains are numbered for the whole fabric */
    sm_lock table_lock;       /* creation and destruction of objects, the heap */
    _Atomic uint32_t hiwater[SM_TABLES]; /* entries ever used: bounds every scan */
    uint32_t first_free[SM_TABLES];      /* no free entry lies below */
    uint64_t heap_end, heap_top;
    uint64_t free_list[SM_SIZE_CLASSES]; /* offsets, by power of two */
    sm_lock atomic_lock;                 /* serialises atomics on one fabric */
    struct shca_fault_shared faults;
    _Atomic uint32_t conf_bad; /* the configuration has mistakes that nobody may have seen */
    char conf_path[256];
    char conf[SM_CONF_LEN];
    struct sm_host hosts[SM_MAX_HOSTS];
    struct sm_dev devs[SM_MAX_DEVS];
    struct sm_proc procs[SM_MAX_PROCS];
    struct sm_ctx ctxs[SM_MAX_CTX];
    struct sm_chan chans[SM_MAX_CHAN];
    struct sm_cq cqs[SM_MAX_CQ];
    struct sm_srq srqs[SM_MAX_SRQ];
    struct sm_qp qps[SM_MAX_QP];
    struct sm_mr mrs[SM_MAX_MR];
};

#endif
