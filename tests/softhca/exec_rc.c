/* Execution of one work request of an RC QP: the initiator does the responder's part as well.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <string.h>

/* Both halves of one request in flight. */
struct rc_op {
    struct shca_qp *qp;
    struct shca_wqe *w;
    struct sm_qp *to; /* resp lock held */
    struct shca_iov local;
    struct shca_result *res;
};

static enum shca_outcome done(struct rc_op *op, enum ibv_wc_status status)
{
    op->res->status = status;
    return SHCA_DONE;
}

/* Responder refuses: it breaks its own QP with an event and answers with a NAK. */
static enum shca_outcome nak(struct rc_op *op, enum ibv_wc_status status, uint32_t event)
{
    shca_qp_error(op->to, event);
    return done(op, status);
}

/* An RC QP takes packets only from the address that it sends to (IBTA 9.6.1.5). */
static bool comes_from_peer(const struct rc_op *op)
{
    const struct sm_qp *to = op->to, *me = op->qp->sm;
    const struct sm_port *from = &shca.seg->devs[me->o.dev].ports[me->port_num - 1];

    if (from->link == SM_LINK_IB) {
        return op->qp->route.slid == to->path.dlid;
    }
    return memcmp(from->gids[me->path.sgid_index].raw, to->path.dgid, 16) == 0;
}

/* Is there somebody who would answer? */
static bool answers(const struct rc_op *op)
{
    const struct sm_qp *to = op->to, *me = op->qp->sm;
    uint32_t state = atomic_load_explicit(&to->o.state, memory_order_acquire);

    if (state != IBV_QPS_RTR + 1 && state != IBV_QPS_RTS + 1 && state != IBV_QPS_SQD + 1) {
        return false;
    }
    if (to->type != IBV_QPT_RC || to->dest_qpn != me->qpn || !shca_pkey_match(me, to) ||
        !comes_from_peer(op)) {
        return false;
    }
    if (SHCA_UNLIKELY(to->rq_psn != me->sq_psn)) {
        shca_strict(0, "QP 0x%x sends from PSN 0x%x, QP 0x%x expects 0x%x: every packet is dropped",
                    me->qpn, me->sq_psn, to->qpn, to->rq_psn);
        return false;
    }
    return true;
}

/* Both ends must cut messages into packets of one size (IBTA 9.7.2.1): the responder takes any
 * other for an invalid request. */
static bool cut_alike(const struct rc_op *op)
{
    const struct sm_qp *to = op->to, *me = op->qp->sm;
    uint8_t least = to->path_mtu < me->path_mtu ? to->path_mtu : me->path_mtu;

    if (to->path_mtu == me->path_mtu || op->w->len <= (128u << least)) {
        return true;
    }
    shca_strict(0, "QP 0x%x has a path MTU of %u, its peer 0x%x one of %u", me->qpn,
                128u << me->path_mtu, to->qpn, 128u << to->path_mtu);
    return false;
}

static void comm_est(struct sm_qp *to)
{
    if (SHCA_UNLIKELY(!to->comm_est)) {
        to->comm_est = 1;
        if (atomic_load(&to->o.state) == IBV_QPS_RTR + 1) {
            shca_event_ctx(to->o.ctx, IBV_EVENT_COMM_EST, (uint32_t)(to - shca.seg->qps),
                           atomic_load(&to->o.gen), 0);
        }
    }
}

static void recv_cqe(const struct rc_op *op, struct sm_cqe *e)
{
    const struct shca_wqe *w = op->w;

    memset(e, 0, sizeof(*e));
    e->opcode = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    e->byte_len = (uint32_t)w->len;
    e->src_qp = op->qp->sm->qpn;
    e->slid = op->qp->route.slid;
    e->sl = op->qp->sm->path.sl;
    e->pkey_index = op->to->pkey_index;
    if (w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        e->imm_data = w->imm_data;
        e->wc_flags = IBV_WC_WITH_IMM;
    }
    if (w->flags & IBV_SEND_SOLICITED) {
        e->flags = SM_CQE_SOLICITED;
    }
}

static enum shca_outcome do_send(struct rc_op *op)
{
    struct shca_rwqe rw;
    struct sm_cqe e;
    enum ibv_wc_status st;
    int err;

    if (!shca_rq_take(op->to, &rw)) {
        op->res->rnr_timer = op->to->min_rnr_timer;
        return SHCA_NO_RECV;
    }
    recv_cqe(op, &e);
    st = shca_deliver(op->qp->ctx->sm, op->to, &rw, &op->local, 0, NULL, &e, &err);
    if (err && err != EFAULT) {
        return SHCA_SILENCE; /* it died under our hands */
    }
    if (SHCA_LIKELY(st == IBV_WC_SUCCESS)) {
        return done(op, IBV_WC_SUCCESS);
    }
    return nak(op, st == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR,
               UINT32_MAX);
}

/* Finds the remote memory; the outcome is final when this returns false. */
static bool remote(struct rc_op *op, uint32_t access, uint64_t len, struct shca_iov *out,
                   int *hazard, enum shca_outcome *oc)
{
    const struct shca_wqe *w = op->w;
    const struct sm_mr *m;

    *hazard = -1;
    if (!(op->to->access & access)) {
        *oc = nak(op, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
        return false;
    }
    out->n = 0;
    out->len = 0;
    if (!len) {
        return true; /* IBTA: the key of an empty request is not checked */
    }
    *hazard = shca_hazard_set((w->rkey >> 8) & 0x7fffff);
    m = shca_mr_by_rkey(w->rkey);
    if (!m || m->o.proc != op->to->o.proc || m->pd != op->to->pd || (access & ~m->access) ||
        w->remote_addr < m->iova || len > m->length || w->remote_addr - m->iova > m->length - len) {
        shca_hazard_clear(*hazard);
        *hazard = -1;
        *oc = nak(op, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        return false;
    }
    out->n = 1;
    out->len = len;
    out->v[0].iov_base = (void *)(uintptr_t)(w->remote_addr - m->iova + m->addr);
    out->v[0].iov_len = len;
    return true;
}

static enum shca_outcome copied(struct rc_op *op, int err)
{
    if (!err) {
        return done(op, IBV_WC_SUCCESS);
    }
    if (err == EFAULT) {
        return nak(op, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
    }
    return SHCA_SILENCE;
}

static enum shca_outcome do_write(struct rc_op *op)
{
    struct shca_rwqe rw = {0};
    struct shca_iov dst, none = {0};
    enum shca_outcome oc;
    struct sm_cqe e;
    bool imm = op->w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    int hazard, err;

    if (!remote(op, IBV_ACCESS_REMOTE_WRITE, op->w->len, &dst, &hazard, &oc)) {
        return oc;
    }
    if (imm && !shca_rq_take(op->to, &rw)) {
        if (hazard >= 0) {
            shca_hazard_clear(hazard);
        }
        op->res->rnr_timer = op->to->min_rnr_timer;
        return SHCA_NO_RECV;
    }
    err = shca_copy_to(op->to->o.proc, &op->local, &dst, true);
    if (hazard >= 0) {
        shca_hazard_clear(hazard);
    }
    oc = copied(op, err);
    if (imm && !err) {
        recv_cqe(op, &e);
        rw.nsge = 0; /* the immediate takes the request, not its buffers */
        shca_deliver(op->qp->ctx->sm, op->to, &rw, &none, 0, NULL, &e, &err);
    }
    op->to->inflight = SM_TAKEN_NONE;
    return oc;
}

/* Leaves the first bytes of what a list names. */
static void shorten(struct shca_iov *iov, uint64_t bytes)
{
    uint64_t left = bytes;

    for (uint32_t i = 0; i < iov->n; i++) {
        if (iov->v[i].iov_len > left) {
            iov->v[i].iov_len = left;
        }
        left -= iov->v[i].iov_len;
    }
    iov->len = bytes;
}

static enum shca_outcome do_read(struct rc_op *op)
{
    struct shca_iov src;
    enum shca_outcome oc;
    int hazard, err;

    if (!op->to->max_dest_rd_atomic) {
        return nak(op, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    if (!remote(op, IBV_ACCESS_REMOTE_READ, op->w->len, &src, &hazard, &oc)) {
        return oc;
    }
    if (SHCA_UNLIKELY(shca_fault_any())) {
        uint64_t bytes = shca_fault_read(op->qp, op->w);

        if (bytes < op->w->len) {
            shorten(&src, bytes);
            shorten(&op->local, bytes);
            op->res->breaks = true;
        }
    }
    err = shca_copy_from(op->to->o.proc, &op->local, &src);
    if (hazard >= 0) {
        shca_hazard_clear(hazard);
    }
    op->res->byte_len = (uint32_t)op->w->len;
    return copied(op, err);
}

static enum shca_outcome do_atomic(struct rc_op *op)
{
    struct shca_iov src, mem;
    struct shca_wqe *w = op->w;
    enum shca_outcome oc;
    uint64_t old = 0, val;
    int hazard, err;

    mem.n = 1;
    mem.len = 8;
    mem.v[0].iov_len = 8;
    if (!op->to->max_dest_rd_atomic || (w->remote_addr & 7)) {
        return nak(op, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    if (!remote(op, IBV_ACCESS_REMOTE_ATOMIC, 8, &src, &hazard, &oc)) {
        return oc;
    }
    shca_lock(&shca.seg->atomic_lock);
    mem.v[0].iov_base = &old;
    err = shca_copy_from(op->to->o.proc, &mem, &src);
    if (!err) {
        val = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + w->compare_add
              : old == w->compare_add                  ? w->swap
                                                       : old;
        mem.v[0].iov_base = &val;
        if (val != old) {
            err = shca_copy_to(op->to->o.proc, &mem, &src, false);
        }
    }
    shca_unlock(&shca.seg->atomic_lock);
    shca_hazard_clear(hazard);
    if (!err) {
        mem.v[0].iov_base = &old;
        err = shca_copy_to(shca.proc_idx, &mem, &op->local, false);
    }
    op->res->byte_len = 8;
    return copied(op, err);
}

/* What the initiator itself refuses; false: the outcome is in res->status. */
static bool local_ok(struct rc_op *op)
{
    struct shca_qp *qp = op->qp;
    struct shca_wqe *w = op->w;
    const struct sm_dev *d = qp->ctx->sm;
    uint32_t access = 0;
    bool fetch = false;

    switch (w->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        if (d->lim.atomic_cap == IBV_ATOMIC_NONE) {
            shca_strict(0, "atomic operation on %s, which has none", d->name);
            done(op, IBV_WC_LOC_QP_OP_ERR);
            return false;
        }
        if (w->len != 8) {
            shca_strict(0, "atomic operation with a result buffer of %llu bytes",
                        (unsigned long long)w->len);
            done(op, IBV_WC_LOC_LEN_ERR);
            return false;
        }
        /* fallthrough */
    case IBV_WR_RDMA_READ:
        fetch = true;
        break;
    default:
        shca_strict(0, "opcode %u is not supported", w->opcode);
        done(op, IBV_WC_LOC_QP_OP_ERR);
        return false;
    }
    if (fetch) {
        access = IBV_ACCESS_LOCAL_WRITE;
        if (!qp->sm->max_rd_atomic) {
            shca_strict(0, "RDMA read or atomic on QP 0x%x, whose max_rd_atomic is 0", qp->sm->qpn);
            done(op, IBV_WC_LOC_QP_OP_ERR);
            return false;
        }
    }
    if (w->len > d->ports[qp->sm->port_num - 1].max_msg_sz) {
        done(op, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    if (!shca_wqe_gather(qp, w, access, &op->local)) {
        shca_strict(0, "QP 0x%x wr_id 0x%llx: local key, bounds or rights are wrong", qp->sm->qpn,
                    (unsigned long long)w->wr_id);
        done(op, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    return true;
}

static enum sm_counter counter_of(uint32_t opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return SM_CNT_WRITE;
    case IBV_WR_RDMA_READ:
        return SM_CNT_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return SM_CNT_ATOMIC;
    default:
        return SM_CNT_SEND;
    }
}

static enum shca_outcome responder(struct rc_op *op)
{
    switch (op->w->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return do_send(op);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return do_write(op);
    case IBV_WR_RDMA_READ:
        return do_read(op);
    default:
        return do_atomic(op);
    }
}

enum shca_outcome shca_exec_rc(struct shca_qp *qp, struct shca_wqe *w, struct shca_result *res)
{
    struct rc_op op = {.qp = qp, .w = w, .res = res};
    enum shca_outcome oc;

    if (!local_ok(&op)) {
        return SHCA_DONE;
    }
    shca_route_resolve(qp->ctx->dev_idx, &qp->sm->path, &qp->route);
    if (SHCA_UNLIKELY(shca_fault_any()) && shca_fault_rc(qp, w, res, &oc)) {
        return oc;
    }
    if (!qp->route.port) {
        return SHCA_SILENCE;
    }
    op.to = shca_target(&qp->route, qp->sm->dest_qpn);
    if (!op.to) {
        return SHCA_SILENCE;
    }
    shca_qp_lock(op.to);
    if (SHCA_LIKELY(op.to->qpn == qp->sm->dest_qpn && answers(&op) &&
                    op.to->port_num == qp->route.port)) {
        comm_est(op.to);
        oc = SHCA_LIKELY(cut_alike(&op)) ? responder(&op)
                                         : nak(&op, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    } else {
        oc = SHCA_SILENCE;
    }
    shca_unlock(&op.to->resp);
    if (oc == SHCA_DONE && res->status == IBV_WC_SUCCESS) {
        shca_count(qp->ctx->sm, counter_of(w->opcode), 1);
        shca_count(qp->ctx->sm, SM_CNT_BYTES, w->len);
        if (SHCA_UNLIKELY(shca_fault_any())) {
            shca_fault_rc_ack(qp, w, res);
        }
    }
    return oc;
}
