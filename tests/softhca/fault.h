/*
 * Fault rules of the software HCA: which operation fails, when, and how, decided by one list of
 * rules with a seeded generator.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rule:  POINT [match...] [when...] [args...]        rules are separated by ';' or newline,
 *                                                    '#' starts a comment up to the end of line
 *   match  host=NAME dev=NAME port=N qp=N type=rc|ud op=NAME peer=NAME min=BYTES max=BYTES
 *   when   nth=N | every=N | prob=P (0..1), each counted over the passes that match in one process;
 *          at=TIME (since the rule was given) for=TIME (window; for port.down: time until up again)
 *          count=N (at most N hits; per process, or of all processes with scope=fabric)
 *   args   us=N errno=NAME|N status=NAME|N bytes=N window=N index=N lid=N gid=ADDRESS
 * Times take ns, us, ms or s; byte counts take k, m or g (powers of 1024).
 *
 * Points that act on a port, a device or a process (port.down, port.up, gid.set, gid.clear,
 * lid.set, dev.fatal, srq.limit, peer.kill) hit once unless count= or every= says otherwise, and
 * once for the whole fabric. With at= and none of nth=, every=, prob= they are due by the clock
 * (shca_fault_due) and without host= mean every host; otherwise they are passed at each work
 * request that is executed and mean the host, device and port that passes.
 */
#ifndef SHCA_FAULT_H
#define SHCA_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shca_fault_point {
    /* one UD datagram on its way to one receiver */
    SHCA_FAULT_UD_DROP,
    SHCA_FAULT_UD_DUP,
    SHCA_FAULT_UD_REORDER, /* window: datagrams that may overtake it */
    SHCA_FAULT_UD_DELAY,   /* us */
    SHCA_FAULT_UD_CORRUPT, /* flips one bit of the payload at byte `index` */
    /* one UD datagram, or one RC work request by its largest packet */
    SHCA_FAULT_PATH_MTU, /* bytes: packets with a longer payload get lost between the hosts */
    /* one RC work request being executed */
    SHCA_FAULT_RC_RNR,       /* the responder pretends its receive queue is empty */
    SHCA_FAULT_RC_RETRY_EXC, /* no acknowledgement ever comes */
    SHCA_FAULT_RC_ACK_LOST,
    SHCA_FAULT_RC_DELAY,      /* us */
    SHCA_FAULT_RC_READ_SHORT, /* bytes: that arrive of an RDMA read which says that it succeeded */
    SHCA_FAULT_WC_ERROR,      /* status */
    /* control calls: err */
    SHCA_FAULT_REG_MR_FAIL,
    SHCA_FAULT_REG_MR_LIMIT, /* bytes: registered bytes of one process may not exceed this */
    SHCA_FAULT_CREATE_CQ_FAIL,
    SHCA_FAULT_CREATE_QP_FAIL,
    SHCA_FAULT_CREATE_SRQ_FAIL,
    SHCA_FAULT_CREATE_AH_FAIL,
    SHCA_FAULT_MODIFY_QP_FAIL,
    SHCA_FAULT_OPEN_DEVICE_FAIL,
    SHCA_FAULT_POST_SEND_FAIL, /* err, ENOMEM by default */
    SHCA_FAULT_POST_RECV_FAIL,
    /* one completion being pushed */
    SHCA_FAULT_CQ_OVERRUN,
    /* actions */
    SHCA_FAULT_PORT_DOWN, /* for_ns: time until it is up again, 0 = stays down */
    SHCA_FAULT_PORT_UP,
    SHCA_FAULT_GID_SET,   /* index, gid */
    SHCA_FAULT_GID_CLEAR, /* index */
    SHCA_FAULT_LID_SET,   /* lid */
    SHCA_FAULT_DEV_FATAL,
    SHCA_FAULT_SRQ_LIMIT, /* raises SRQ_LIMIT_REACHED on the SRQ of the QP that passes */
    SHCA_FAULT_PEER_KILL, /* SIGKILL to the process that owns the destination QP */
    SHCA_FAULT_POINTS
};

#define SHCA_FAULT_RULES 32 /* rules a fabric can hold */
#define SHCA_FAULT_TEXT 192 /* longest rule, with the final NUL */

/* What is passing the hook. Fields left 0 are unknown: a rule that matches on them does not match.
 */
struct shca_fault_site {
    const char *host;
    const char *dev;
    const char *peer; /* host of the destination */
    uint64_t bytes;
    uint32_t qpn;
    int port;
    int op;      /* SHCA_FAULT_OP(enum ibv_wr_opcode) or SHCA_FAULT_OP_RECV */
    int qp_type; /* enum ibv_qp_type */
};

#define SHCA_FAULT_SITE(...) ((struct shca_fault_site){__VA_ARGS__})
#define SHCA_FAULT_OP(opcode) ((int)(opcode) + 1) /* opcode 0 is an RDMA write */
#define SHCA_FAULT_OP_RECV 32

/* What the rule that hit asks for. */
struct shca_fault_args {
    enum shca_fault_point point;
    int rule;    /* slot in the shared table */
    int err;     /* errno to return; a suitable default if the rule names none */
    int status;  /* enum ibv_wc_status */
    uint64_t us; /* delay */
    uint64_t for_ns;
    uint64_t bytes;
    uint32_t window;
    uint32_t index;
    uint16_t lid;
    bool has_gid;
    uint8_t gid[16];
    /* the rule's own host=, dev= and port=, the target of an action; empty or 0 if not named */
    char host[48];
    char dev[24];
    int port;
};

/* One rule, as all processes and softhca-ctl see it. */
struct shca_fault_slot {
    _Atomic uint32_t state;  /* 0 free, 1 being written, 2 in use */
    _Atomic uint32_t origin; /* 0: only processes that were given this text; 1: every process */
    _Atomic uint64_t passes; /* times a matching operation came by, all processes */
    _Atomic uint64_t hits;
    uint64_t given_ns; /* CLOCK_MONOTONIC when the rule was given */
    char text[SHCA_FAULT_TEXT];
};

/* Lives in the fabric's segment, zero when the segment is new. */
struct shca_fault_shared {
    _Atomic uint32_t epoch; /* changes when a rule is added or removed */
    _Atomic uint32_t lock;  /* 0 or the pid of the process that edits the table */
    _Atomic uint64_t point_hits[SHCA_FAULT_POINTS];
    struct shca_fault_slot slot[SHCA_FAULT_RULES];
};

/* Call once after the segment is mapped (again after a reset); `salt` tells processes of one fabric
 * apart in a repeatable way (host index and rank, not the pid). Reads no environment. */
void shca_fault_attach(struct shca_fault_shared *shared, uint64_t seed, uint64_t salt);
void shca_fault_detach(void);

/* Adds rules for this process (everyone = false) or for all processes of the fabric. All or none:
 * returns 0, or -1 with a message in err that names the bad word. */
int shca_fault_add(const char *rules, bool everyone, char *err, size_t err_len);

/* Parses only. Same result as shca_fault_add. */
int shca_fault_check(const char *rules, char *err, size_t err_len);

/* Removes the rule in `slot` for everyone (-1: all rules). Counters of points stay. */
void shca_fault_remove(int slot);

const char *shca_fault_point_name(enum shca_fault_point point);
/* One line of help per point, for softhca-ctl. */
const char *shca_fault_point_help(enum shca_fault_point point);

/* Deadline (CLOCK_MONOTONIC, ns) of the next action by the clock; UINT64_MAX if none. */
uint64_t shca_fault_next(void);
/* Claims an action that is due at `now`; false when there is none left. Call in a loop. */
bool shca_fault_due(uint64_t now_ns, struct shca_fault_args *args);

/* Internal to shca_fault_hit. */
extern struct shca_fault_shared *shca_fault_table;
extern _Atomic uint32_t shca_fault_epoch;
extern _Atomic uint64_t shca_fault_mask;
bool shca_fault_decide(enum shca_fault_point point, const struct shca_fault_site *site,
                       struct shca_fault_args *args);

/* The hook. Costs two loads when no rule names this point. `args` may be NULL. */
static inline bool shca_fault_hit(enum shca_fault_point point, const struct shca_fault_site *site,
                                  struct shca_fault_args *args)
{
    uint32_t epoch = atomic_load_explicit(&shca_fault_table->epoch, memory_order_relaxed);

    if (epoch == atomic_load_explicit(&shca_fault_epoch, memory_order_relaxed) &&
        !(atomic_load_explicit(&shca_fault_mask, memory_order_relaxed) & (UINT64_C(1) << point))) {
        return false;
    }
    return shca_fault_decide(point, site, args);
}

/* True if any action point has a rule: lets the data path skip building a site. */
static inline bool shca_fault_any(void)
{
    return atomic_load_explicit(&shca_fault_table->epoch, memory_order_relaxed) !=
               atomic_load_explicit(&shca_fault_epoch, memory_order_relaxed) ||
           atomic_load_explicit(&shca_fault_mask, memory_order_relaxed) != 0;
}

#endif
