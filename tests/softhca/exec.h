/* What the files that execute work requests share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOFTHCA_EXEC_H
#define SOFTHCA_EXEC_H

#include "softhca.h"

#include <sys/uio.h>

enum {
    SHCA_MAX_IOV = SM_MAX_SGE + 2,
    SHCA_DEFER_NS = 300000, /* a deferred request waits for polls at most this long */
};

/* A scatter or gather list as addresses of the process that owns the memory. */
struct shca_iov {
    struct iovec v[SHCA_MAX_IOV];
    uint32_t n;
    uint64_t len;
};

/* Outcome of one attempt to execute a request. */
enum shca_outcome {
    SHCA_DONE,    /* completed with the status in shca_result */
    SHCA_NO_RECV, /* RNR NAK */
    SHCA_SILENCE, /* no answer from the other side */
    SHCA_LATER,   /* the fault rules delay it; `us` says how long */
};

struct shca_result {
    enum ibv_wc_status status;
    uint32_t byte_len;
    uint64_t us;
    uint8_t rnr_timer; /* what the responder's NAK asks for */
    bool breaks;       /* the QP goes into error behind this request, though it succeeded */
};

enum shca_outcome shca_exec_rc(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res);
enum shca_outcome shca_exec_ud(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res);
/* Delivers what the fault rules held back and is due; returns the next deadline (UINT64_MAX). */
uint64_t shca_ud_late(uint64_t now);
void shca_ud_forget(uint32_t qp_idx); /* of a QP about to go */

/* Puts a QP on the list of those with queued requests, to be run at `deadline` (ns). */
void shca_pend(struct shca_qp *qp, uint64_t deadline);
void shca_unpend(struct shca_qp *qp);
void shca_check_source(const struct shca_qp *qp, const struct shca_wqe *w); /* aborts */

static inline struct shca_wqe *shca_sq_slot(const struct shca_qp *qp, uint64_t i)
{
    return (struct shca_wqe *)(qp->sq + (i & (qp->sq_size - 1)) * qp->sq_stride);
}

/* The QP that a packet to {device, port, QPN} reaches, or NULL; checks nothing but existence. */
struct sm_qp *shca_target(const struct shca_route *r, uint32_t qpn);
/* Same P_Key, at least one of them a full member. Both resp locks may be held. */
bool shca_pkey_match(const struct sm_qp *a, const struct sm_qp *b);
/* Scatters into a taken receive request, through a bounce slot if it fits, and completes it.
 * `skip`: bytes left free at the start (UD without GRH); `grh`: what goes there. Returns the status
 * that the responder saw; *err is an errno when the copy failed (EFAULT, ESRCH). resp lock held. */
enum ibv_wc_status shca_deliver(struct sm_dev *from, struct sm_qp *to, const struct shca_rwqe *rw,
                                const struct shca_iov *src, uint32_t skip, const void *grh,
                                struct sm_cqe *e, int *err);

/* ---- fault_hooks.c ---- */

/* rc.ack_lost: the status of a request that was executed becomes RETRY_EXC. */
void shca_fault_rc_ack(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res);

/* rc.read_short: how many bytes of an RDMA read arrive; all of them unless a rule hits. */
uint64_t shca_fault_read(struct shca_qp *qp, struct shca_wqe *w);

/* Fault rules of one RC request; true: *out is its outcome. */
bool shca_fault_rc(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res,
                   enum shca_outcome *out);
void shca_fault_passing(struct shca_qp *qp, const struct shca_fault_site *site);
int shca_fault_post_send(const struct shca_qp *qp, const struct ibv_send_wr *wr);
/* Site of a request of this QP, with the destination's host as peer. */
struct shca_fault_site shca_fault_site(const struct shca_qp *qp, const struct shca_wqe *w,
                                       const struct shca_route *r);
/* Ports going down and the like, by the clock. Returns when the next one is due (UINT64_MAX). */
uint64_t shca_fault_actions(uint64_t now);

/* ---- exec_mem.c ---- */

/* The region that `key` names, or NULL. */
struct sm_mr *shca_mr_by_lkey(uint32_t key);
struct sm_mr *shca_mr_by_rkey(uint32_t key);
/* Translates SGEs of process `proc` (pd 0: whatever the PD); false: a key, a bound or a right is
 * wrong. */
bool shca_gather(const struct sm_sge *sge, uint32_t n, uint32_t pd, uint32_t proc, uint32_t access,
                 struct shca_iov *out);
/* The gather list of a work request (inline payload included). */
bool shca_wqe_gather(struct shca_qp *qp, struct shca_wqe *w, uint32_t access, struct shca_iov *out);
/* Cuts a list to `len` bytes after skipping `skip`. */
void shca_iov_cut(struct shca_iov *v, uint64_t skip, uint64_t len);

/* Moves bytes between this process and another (or itself). 0 or an errno: EFAULT (memory is gone),
 * ESRCH (the process is). `ordered`: the last 8 bytes are written last. */
int shca_copy_to(uint32_t proc, const struct shca_iov *src, const struct shca_iov *dst,
                 bool ordered);
int shca_copy_from(uint32_t proc, const struct shca_iov *dst, const struct shca_iov *src);

/* Announces that this thread reaches into a region, so that its deregistration waits. */
int shca_hazard_set(uint32_t mr_idx);
void shca_hazard_clear(int slot);
void shca_hazard_wait(uint32_t mr_idx);

#endif
