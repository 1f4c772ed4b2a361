/* Private structures of one process and the functions its files share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lock order: shca_qp.sq_lock -> sm_qp.resp -> sm_srq.lock -> sm_cq.lock; shca_cq.poll_lock is
 * never held while one of these is taken, except sm_cq.lock. sm_seg.table_lock and shca.lock are
 * taken last and hold nothing.
 */
#ifndef SOFTHCA_H
#define SOFTHCA_H

#include "shm_format.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>

#define SHCA_EXPORT __attribute__((visibility("default")))
#define SHCA_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SHCA_LIKELY(x) __builtin_expect(!!(x), 1)
#define SHCA_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { SHCA_TAIL = 1024 }; /* zeroes behind what we hand out: libmlx5 and libefa read beyond */

struct shca_qp;
struct shca_cq;

/* Everything of this process; one per address space. */
struct shca {
    struct sm_seg *seg; /* NULL until shca_attach() */
    int dir_fd;         /* the fabric's directory */
    char dir[128];      /* its path */
    char fabric[SM_NAME_LEN];
    int pid;
    uint32_t proc_idx;
    struct sm_proc *proc; /* own slot in the process table; NULL when attached as an observer */
    uint32_t host_idx;
    int strict;       /* 0: lenient, 1: report, 2: abort */
    bool deferred;    /* work requests run later than they are posted */
    bool arm_pending; /* arming a CQ tells of entries that wait already, as mlx5 adapters do */
    bool down_breaks; /* sending while the port is down is a local error that breaks the QP */
    bool check;       /* compare source buffers between post and execution */
    uint32_t bounce;
    uint64_t memlock;        /* bytes; UINT64_MAX: not accounted */
    pthread_mutex_t lock;    /* lists and maps below */
    struct shca_qp *pending; /* QPs with queued work requests */
    _Atomic uint32_t npending;
    _Atomic uint32_t attn_seen;             /* value of sm_proc.attn that was served */
    _Atomic uint64_t helper_next;           /* when the helper thread wakes by itself */
    pthread_mutex_t progress_lock;          /* before sq_lock: QPs stay while somebody walks them */
    struct shca_qp *_Atomic qps[SM_MAX_QP]; /* own objects by index; NULL: not ours */
    struct shca_cq *cqs[SM_MAX_CQ];         /* under lock, like the rest */
    struct shca_srq *srqs[SM_MAX_SRQ];
    struct shca_context *ctxs[SM_MAX_CTX];
};
extern struct shca shca;

/* True in a child of fork() that did not attach itself (the parent's objects are not its own), and
 * after this library's destructor. */
static inline bool shca_foreign(void)
{
    return !shca.proc;
}

struct shca_device {
    struct ibv_device dev;
    char tail[SHCA_TAIL];
    uint32_t idx; /* into sm_seg.devs */
    _Atomic uint32_t refs;
};

struct shca_context {
    struct shca_device *dev;
    struct sm_dev *sm;
    uint32_t dev_idx;
    uint32_t idx; /* into sm_seg.ctxs */
    uint32_t async_chan;
    _Atomic uint32_t npd, ncq, nqp, nsrq, nmr, nah, nchan; /* live children */
    struct verbs_context v;
    char tail[SHCA_TAIL]; /* follows v.context: its zeroed tail */
};

struct shca_pd {
    struct ibv_pd pd;
    uint32_t id; /* unique in the fabric */
    _Atomic uint32_t refs;
};

struct shca_mr {
    struct ibv_mr mr;
    uint32_t idx;
    uint64_t bytes; /* accounted against memlock */
};

/* Where a datagram or connection leads, resolved against the fabric at `epoch`. */
struct shca_route {
    uint64_t epoch; /* 0: not resolved yet */
    int port;       /* port of dev that receives; 0: unreachable */
    uint32_t dev;   /* device that receives */
    uint16_t slid, dlid;
};

struct shca_ah {
    struct ibv_ah ah;
    struct sm_path path;
    struct shca_route route;
    _Atomic uint64_t epoch; /* of the route; 0: none yet */
};

struct shca_channel {
    struct ibv_comp_channel ch;
    uint32_t idx, gen;
};

struct shca_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex cq_ex;
    } v;
    struct sm_cq *sm;
    uint32_t idx, gen;
    pthread_mutex_t poll_lock;
    uint32_t comp_events; /* delivered to the program, to be acknowledged */
    uint32_t async_events;
    _Atomic uint32_t refs;  /* QPs */
    _Atomic uint32_t users; /* threads that look at it from elsewhere */
    struct sm_cqe cur;      /* cq_ex: entry between start_poll and end_poll */
};

struct shca_srq {
    struct ibv_srq srq;
    struct sm_srq *sm;
    uint32_t idx, gen;
    pthread_mutex_t lock;      /* posting */
    _Atomic uint64_t released; /* receive slots whose completion was polled */
    uint32_t async_events;
    _Atomic uint32_t refs; /* QPs */
};

/* A queued work request. */
struct shca_wqe {
    uint64_t wr_id;
    uint32_t opcode; /* enum ibv_wr_opcode */
    uint32_t flags;  /* enum ibv_send_flags */
    uint32_t imm_data;
    uint32_t nsge;
    uint64_t len;
    uint64_t csum; /* of the source buffers when posted, with SOFTHCA_CHECK */
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t qpn, qkey; /* UD: destination */
    uint64_t compare_add, swap;
    struct sm_path path; /* UD: copied, the address handle may be destroyed after the post */
    struct shca_route route;
    struct ibv_sge sge[]; /* or inline payload */
};

enum shca_stall { SHCA_RUN, SHCA_STALL_RNR, SHCA_STALL_TIMEOUT, SHCA_STALL_DELAY };

struct shca_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex qp_ex;
    } v;
    struct sm_qp *sm;
    struct shca_context *ctx;
    uint32_t idx, gen;
    struct ibv_qp_cap cap; /* granted */
    bool sq_sig_all;
    struct shca_cq *scq, *rcq;
    struct shca_srq *srq;
    /* send queue: slots [sq_released, sq_done) wait for a polled completion, [sq_done, sq_prod) for
     * execution */
    pthread_mutex_t sq_lock;
    char *sq;                    /* shca_wqe slots */
    uint32_t sq_stride, sq_size; /* slots: a power of two */
    uint64_t sq_prod, sq_done;
    _Atomic uint64_t sq_released;
    pthread_mutex_t rq_lock; /* posting receives */
    _Atomic uint64_t rq_released;
    struct shca_route route; /* RC */
    enum shca_stall stall;
    _Atomic uint64_t deadline; /* CLOCK_MONOTONIC ns at which the stalled request is tried again */
    uint32_t retries, rnr_retries;
    _Atomic bool on_pending;
    struct shca_qp *next_pending;
    uint32_t async_events;
    uint32_t old_state; /* for cur_qp_state checks */
    void *ex;           /* ibv_wr_* builder (qp_ex.c) */
};

static inline struct shca_context *shca_ctx(struct ibv_context *c)
{
    return (struct shca_context *)((char *)c - offsetof(struct shca_context, v.context));
}

static inline struct shca_qp *shca_qp(struct ibv_qp *qp)
{
    return (struct shca_qp *)qp;
}

static inline struct shca_cq *shca_cq(struct ibv_cq *cq)
{
    return (struct shca_cq *)cq;
}

/* ---- shm.c: the segment ---- */

/* Attaches this process to the fabric SOFTHCA_FABRIC, once; makes and resets the segment as needed.
 * Returns 0 or an errno. Reentrant calls (from the path redirection) return EBUSY. */
int shca_attach(void);
/* For softhca-ctl: maps an existing segment without taking a process slot. `fabric` NULL: from the
 * environment. ENOENT: no such fabric. */
int shca_attach_observer(const char *fabric);
void shca_detach(void);
/* Frees what dead processes left. Returns how many were reaped. Takes the file lock. */
int shca_reap(void);
/* Removes the fabric's directory; unless `force`, only when no live process uses it (else EBUSY).
 */
int shca_remove_fabric(const char *fabric, bool force);
/* Cheap: one load. The other asks /proc, and so tells a recycled pid. */
bool shca_proc_alive(const struct sm_proc *p);
bool shca_proc_exists(const struct sm_proc *p);
uint64_t shca_proc_starttime(int pid); /* 0: no such process */

void shca_lock(sm_lock *l);
bool shca_lock_recovered(sm_lock *l); /* true: the former holder died */
void shca_unlock(sm_lock *l);

/* Table entries. The entry is zero but for its owner and generation; its state is 1. Returns the
 * index, or -1 when the table is full. shca_obj_free makes the generation grow. */
int shca_obj_alloc(enum sm_table t, uint32_t dev, uint32_t ctx);
void shca_obj_free(enum sm_table t, uint32_t idx);
struct sm_obj *shca_obj(enum sm_table t, uint32_t idx);
void shca_lock_init(sm_lock *l);
/* Frees every object that belongs to a process slot (exit, reaping). */
void shca_free_objects(uint32_t proc_idx);

/* Heap of the segment; 0 when it is full. The memory is not cleared. */
void shca_no_room(uint64_t bytes);
int shca_reserve(uint64_t off, uint64_t len);
uint64_t shca_heap_alloc(uint64_t bytes);
void shca_heap_free(uint64_t off, uint64_t bytes);

static inline void *shca_at(uint64_t off)
{
    return (char *)shca.seg + off;
}

/* ---- fabric.c: hosts, devices, addresses ---- */

/* Finds or makes the host named by SOFTHCA_HOST. Returns its index or -1. */
int shca_host_get(const char *name);
/* Devices of this process's host, restricted by SOFTHCA_DEVS; NULL at the end. Attached only. */
struct sm_dev *shca_host_dev(unsigned int i, uint32_t *idx);
/* A device of any host by name, or NULL. host NULL: this process's. */
struct sm_dev *shca_find_dev(const char *host, const char *dev, uint32_t *idx);
void shca_port_gid(const struct sm_dev *d, int port, unsigned int index, union ibv_gid *gid);
/* 0, or the errno that ibv_create_ah would give (EINVAL, EHOSTUNREACH, ETIMEDOUT). */
int shca_path_check(const struct sm_dev *d, const struct ibv_ah_attr *attr, struct sm_path *path);
void shca_path_to_attr(const struct sm_path *path, struct ibv_ah_attr *attr);
/* Resolves path (from device dev_idx) into route; cheap when nothing changed since the last time.
 */
void shca_route_resolve(uint32_t dev_idx, const struct sm_path *path, struct shca_route *route);

/* For conf.c: a new device of a host with one port, and a port as built in. */
struct sm_dev *shca_new_dev(uint32_t host, const char *name, enum sm_link link);
void shca_default_port(struct sm_dev *d, unsigned int port, enum sm_link link);

/* Changes, each with the asynchronous events that real hardware raises. 0 or an errno. */
int shca_set_port_state(uint32_t dev_idx, int port, uint32_t state);
int shca_set_gid(uint32_t dev_idx, int port, unsigned int index, const uint8_t gid[16], int type);
int shca_set_lid(uint32_t dev_idx, int port, uint16_t lid);
int shca_set_fatal(uint32_t dev_idx);

/* ---- conf.c ---- */

/* Applies the configuration text in the segment to a freshly made host. */
void shca_conf_host(uint32_t host_idx);
/* Checks a text; prints `file:line: message` for what it does not understand. 0 or EINVAL. */
int shca_conf_check(const char *text, const char *name);
/* The same for a file; without a fabric. 0 or an errno, and then it is said what is wrong. */
int shca_conf_check_file(const char *path);
/* Repeats what is wrong with the fabric's configuration, once. */
void shca_conf_remind(void);
/* Index that the configuration gives a host name, or -1. */
int shca_conf_host_index(const char *name);

/* ---- event.c, evsend.c ---- */

int shca_chan_create(struct shca_context *ctx, uint32_t kind, uint32_t *idx, uint32_t *gen,
                     int *fd);
void shca_chan_destroy(uint32_t idx, int fd);
/* Writes a record into a channel of any process. */
void shca_chan_send(uint32_t idx, uint32_t gen, const struct sm_event *ev);
void shca_event_ctx(uint32_t ctx, uint32_t type, uint32_t index, uint32_t gen, uint32_t port);
/* To all contexts of a device. */
void shca_event_dev(uint32_t dev_idx, uint32_t type, uint32_t port);

/* ---- cq.c ---- */

int shca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int shca_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Pushes into any CQ of the fabric. With data, the payload travels in a bounce slot; returns false
 * when there is none free (nothing was pushed). */
struct shca_payload {
    const struct ibv_sge *src;
    const void *grh; /* 40 bytes before the payload, or NULL */
    uint32_t nsrc, len;
    struct sm_sge dst[SM_BOUNCE_SEGS];
    uint32_t ndst;
};
bool shca_cq_push(uint32_t cq, uint32_t gen, const struct sm_cqe *cqe,
                  const struct shca_payload *data);
void shca_cq_purge(struct shca_cq *cq, uint32_t qp_idx); /* entries of a QP about to go */
void shca_cq_drain_bounces(void);                        /* before registered memory may go away */
bool shca_cq_next(struct shca_cq *cq, struct sm_cqe **out);
void shca_cq_advance(struct shca_cq *cq);
int shca_cq_ring_init(struct sm_cq *c, uint32_t cqe); /* 0 or ENOMEM */
int shca_cq_resize(struct shca_cq *cq, uint32_t cqe);

/* ---- rq.c ---- */

int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shca_rq_init(struct sm_rq *rq, uint32_t max_wr, uint32_t max_sge); /* 0 or ENOMEM */
void shca_rq_fini(struct sm_rq *rq);

/* A receive request taken from its ring. */
struct shca_rwqe {
    uint64_t wr_id;
    uint32_t nsge;
    bool srq;
    struct sm_sge sge[SM_MAX_SGE];
};
/* Takes the next request of a QP or its SRQ; resp lock held. Clear sm_qp.inflight after the
 * completion is pushed. */
bool shca_rq_take(struct sm_qp *sm, struct shca_rwqe *out);
void shca_rq_flush(struct sm_qp *sm); /* resp lock held */
void shca_qp_lock(struct sm_qp *sm);  /* takes the resp lock, repairs what a dead holder left */

/* ---- exec_*.c ---- */

int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Runs queued requests of a QP; sq_lock held. */
void shca_sq_run(struct shca_qp *qp);
/* All queued requests of this process that are due. Returns the next deadline (ns, UINT64_MAX:
 * none). */
uint64_t shca_progress(bool helper);
/* Moves a QP to the error state and flushes: its receive queue at once, its send queue now if it is
 * ours, by its owner's next call otherwise. resp lock held. */
void shca_qp_error(struct sm_qp *sm, uint32_t event);
void shca_sq_flush(struct shca_qp *qp); /* sq_lock held */

/* ---- qp_ex.c: ibv_wr_* (the builders end in shca_post_send) ---- */

int shca_qp_ex_init(struct shca_qp *qp, uint64_t send_ops_flags); /* 0 or an errno */
void shca_qp_ex_fini(struct shca_qp *qp);

/* ---- helper.c ---- */

int shca_helper_start(void); /* 0 or an errno; returns once the life lock is held */
void shca_helper_stop(void);
void shca_helper_wake(void);            /* own helper: look at the deadlines again */
void shca_proc_poke(uint32_t proc_idx); /* any process: look at your QPs */

/* What poll_cq does first: nothing, unless a peer or a timer wants it. */
static inline void shca_poll_progress(void)
{
    if (SHCA_UNLIKELY(
            atomic_load_explicit(&shca.npending, memory_order_relaxed) ||
            (shca.proc && atomic_load_explicit(&shca.proc->attn, memory_order_relaxed) !=
                              atomic_load_explicit(&shca.attn_seen, memory_order_relaxed)))) {
        shca_progress(false);
    }
}

/* ---- misc.c ---- */

uint64_t shca_now(void); /* CLOCK_MONOTONIC, ns */
void shca_log(const char *fmt, ...) SHCA_PRINTF(1, 2);
/* Reports API misuse as SOFTHCA_STRICT says and returns err (also sets errno). */
int shca_strict(int err, const char *fmt, ...) SHCA_PRINTF(2, 3);
int shca_fault_post_recv(const struct shca_context *ctx, uint32_t qpn); /* 0 or an errno */
/* A control call passes its fault rule: 0 or the errno to return. */
int shca_fault_ctl(const struct shca_context *ctx, enum shca_fault_point point);
/* The same, with what else is known of the site (host and device are filled in). */
int shca_fault_ctl_on(const struct shca_context *ctx, enum shca_fault_point point,
                      struct shca_fault_site site);

static inline void shca_count(struct sm_dev *d, enum sm_counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&d->cnt[c], n, memory_order_relaxed);
}

#endif
