/* The ibv_wr_* way of posting: work requests are collected between start and complete, then posted
 * together through shca_post_send, all or none.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_WRS = 16, FIRST_BYTES = 1024 };

struct wr_batch {
    pthread_mutex_t lock; /* from start to complete or abort, as a send queue's */
    struct ibv_send_wr *wrs;
    size_t nwrs, room;
    /* Scatter lists and inline payload, 8-byte aligned; until complete, wrs hold offsets into it,
     * because it moves when it grows. */
    char *arena;
    size_t used, size;
    int err;   /* first thing that was wrong since start */
    bool open; /* between start and complete */
    uint64_t ops;
};

enum {
    OPS_RC = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
             IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
             IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    OPS_UD = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
};

static struct shca_qp *owner(struct ibv_qp_ex *ex)
{
    return shca_qp(&ex->qp_base);
}

static struct wr_batch *batch(struct ibv_qp_ex *ex)
{
    return owner(ex)->ex;
}

static void set_error(struct ibv_qp_ex *ex, int err, const char *what)
{
    struct wr_batch *b = batch(ex);

    if (!b->err) {
        b->err = shca_strict(err, "QP 0x%x: %s", ex->qp_base.qp_num, what);
    }
}

/* Returns the offset of `bytes` in the arena, or SIZE_MAX. */
static size_t arena_take(struct ibv_qp_ex *ex, size_t bytes)
{
    struct wr_batch *b = batch(ex);
    size_t at = b->used, need = (bytes + 7) & ~(size_t)7;

    if (need > b->size - b->used) {
        size_t size = b->size * 2 + need;
        char *more = realloc(b->arena, size);

        if (!more) {
            b->err = b->err ? b->err : ENOMEM;
            return SIZE_MAX;
        }
        b->arena = more;
        b->size = size;
    }
    b->used += need;
    return at;
}

/* A new work request with the caller's wr_id and flags. Always returns one to write into. */
static struct ibv_send_wr *add(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op)
{
    static _Thread_local struct ibv_send_wr scratch;
    struct wr_batch *b = batch(ex);
    struct ibv_send_wr *wr = &scratch;

    if (!b->open) {
        set_error(ex, EINVAL, "ibv_wr_* without ibv_wr_start");
    } else if (!(b->ops & op)) {
        set_error(ex, EINVAL, "ibv_wr_* of an operation that send_ops_flags did not ask for");
    } else if (b->nwrs == b->room) {
        size_t room = b->room * 2;
        struct ibv_send_wr *more = realloc(b->wrs, room * sizeof(*more));

        if (more) {
            b->wrs = more;
            b->room = room;
        } else {
            b->err = b->err ? b->err : ENOMEM;
        }
    }
    if (!b->err) {
        wr = &b->wrs[b->nwrs++];
    }
    memset(wr, 0, sizeof(*wr));
    wr->wr_id = ex->wr_id;
    wr->send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
    wr->opcode = opcode;
    return wr;
}

/* The work request that the setters complete; NULL after an error. */
static struct ibv_send_wr *last(struct ibv_qp_ex *ex)
{
    struct wr_batch *b = batch(ex);

    if (!b->err && b->nwrs == 0) {
        set_error(ex, EINVAL, "ibv_wr_set_* before any work request");
    }
    return b->err ? NULL : &b->wrs[b->nwrs - 1];
}

/* ---- work requests ---- */

static void wr_send(struct ibv_qp_ex *ex)
{
    add(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
    add(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM)->imm_data = imm_data;
}

static void add_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op, uint32_t rkey,
                     uint64_t remote_addr, __be32 imm_data)
{
    struct ibv_send_wr *wr = add(ex, opcode, op);

    wr->wr.rdma.remote_addr = remote_addr;
    wr->wr.rdma.rkey = rkey;
    wr->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    add_rdma(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    add_rdma(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    add_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote_addr,
             imm_data);
}

static void add_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op, uint32_t rkey,
                       uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
    struct ibv_send_wr *wr = add(ex, opcode, op);

    wr->wr.atomic.remote_addr = remote_addr;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    add_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, remote_addr,
               compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                uint64_t value)
{
    add_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey,
               remote_addr, value, 0);
}

/* What no QP of ours offers: callable, so that a mistake is an error and not a jump to 0. */
static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    (void)mw;
    (void)rkey;
    (void)info;
    add(ex, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    (void)rkey;
    add(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    (void)rkey;
    add(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
    (void)hdr;
    (void)hdr_sz;
    (void)mss;
    add(ex, IBV_WR_TSO, IBV_QP_EX_WITH_TSO);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    (void)srqn;
    set_error(ex, EINVAL, "ibv_wr_set_xrc_srqn: no XRC here");
}

/* ---- their parts ---- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct ibv_send_wr *wr = last(ex);

    if (!wr) {
        return;
    }
    if (ex->qp_base.qp_type != IBV_QPT_UD) {
        set_error(ex, EINVAL, "ibv_wr_set_ud_addr on a QP that is not UD");
        return;
    }
    wr->wr.ud.ah = ah;
    wr->wr.ud.remote_qpn = qpn;
    wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t nsge, const struct ibv_sge *list)
{
    struct ibv_send_wr *wr = last(ex);
    size_t at;

    if (!wr) {
        return;
    }
    if (nsge > owner(ex)->cap.max_send_sge) {
        set_error(ex, EINVAL, "more scatter elements than the QP was granted");
        return;
    }
    at = arena_take(ex, nsge * sizeof(*list));
    if (at != SIZE_MAX) {
        memcpy(batch(ex)->arena + at, list, nsge * sizeof(*list));
        wr->sg_list = (struct ibv_sge *)at;
        wr->num_sge = (int)nsge;
        wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
    }
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

    wr_set_sge_list(ex, 1, &sge);
}

/* Inline data is copied now: the caller may change it before complete. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t nbuf,
                                    const struct ibv_data_buf *list)
{
    struct ibv_send_wr *wr = last(ex);
    size_t total = 0, sge_at, data_at;
    struct ibv_sge *sge;
    char *to;

    if (!wr) {
        return;
    }
    for (size_t i = 0; i < nbuf; i++) {
        total += list[i].length;
        if (list[i].length > owner(ex)->cap.max_inline_data ||
            total > owner(ex)->cap.max_inline_data) {
            set_error(ex, EINVAL, "more inline data than the QP was granted");
            return;
        }
    }
    sge_at = arena_take(ex, sizeof(*sge));
    data_at = arena_take(ex, total);
    if (sge_at == SIZE_MAX || data_at == SIZE_MAX) {
        return;
    }
    to = batch(ex)->arena + data_at;
    for (size_t i = 0; i < nbuf; i++) {
        memcpy(to, list[i].addr, list[i].length);
        to += list[i].length;
    }
    sge = (struct ibv_sge *)(batch(ex)->arena + sge_at);
    *sge = (struct ibv_sge){.addr = data_at, .length = (uint32_t)total};
    wr->sg_list = (struct ibv_sge *)sge_at;
    wr->num_sge = 1;
    wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct ibv_data_buf buf = {.addr = addr, .length = length};

    wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- start, complete, abort ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
    struct wr_batch *b = batch(ex);

    pthread_mutex_lock(&b->lock);
    b->nwrs = b->used = 0;
    b->err = 0;
    b->open = true;
}

static void finish(struct wr_batch *b)
{
    b->open = false;
    pthread_mutex_unlock(&b->lock);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    finish(batch(ex));
}

/* Turns the arena's offsets into addresses and chains the requests. */
static void link_batch(struct wr_batch *b)
{
    for (size_t i = 0; i < b->nwrs; i++) {
        struct ibv_send_wr *wr = &b->wrs[i];

        wr->next = i + 1 < b->nwrs ? wr + 1 : NULL;
        if (wr->num_sge) {
            wr->sg_list = (struct ibv_sge *)(b->arena + (size_t)wr->sg_list);
        }
        if (wr->send_flags & IBV_SEND_INLINE) {
            wr->sg_list->addr += (uint64_t)(uintptr_t)b->arena;
        }
    }
}

static bool batch_fits(struct shca_qp *qp, size_t n)
{
    uint64_t used;

    pthread_mutex_lock(&qp->sq_lock);
    used = qp->sq_prod - atomic_load(&qp->sq_released);
    pthread_mutex_unlock(&qp->sq_lock);
    return used + n <= qp->cap.max_send_wr;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct wr_batch *b = batch(ex);
    struct ibv_send_wr *bad;
    int rc = b->err;

    if (!rc && b->nwrs && !batch_fits(owner(ex), b->nwrs)) {
        rc = ENOMEM;
    }
    if (!rc && b->nwrs) {
        link_batch(b);
        rc = shca_post_send(&ex->qp_base, b->wrs, &bad);
    }
    finish(b);
    return rc;
}

/* ---- creation ---- */

int shca_qp_ex_init(struct shca_qp *qp, uint64_t send_ops_flags)
{
    struct ibv_qp_ex *ex = &qp->v.qp_ex;
    struct wr_batch *b;

    if (send_ops_flags & ~(uint64_t)(ex->qp_base.qp_type == IBV_QPT_UD ? OPS_UD : OPS_RC)) {
        return EOPNOTSUPP;
    }
    b = calloc(1, sizeof(*b));
    if (!b) {
        return ENOMEM;
    }
    b->ops = send_ops_flags;
    b->room = FIRST_WRS;
    b->size = FIRST_BYTES;
    b->wrs = malloc(b->room * sizeof(*b->wrs));
    b->arena = malloc(b->size);
    if (!b->wrs || !b->arena) {
        free(b->wrs);
        free(b->arena);
        free(b);
        return ENOMEM;
    }
    pthread_mutex_init(&b->lock, NULL);
    qp->ex = b;
    ex->comp_mask = 0;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_send_tso = wr_send_tso;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    return 0;
}

void shca_qp_ex_fini(struct shca_qp *qp)
{
    struct wr_batch *b = qp->ex;

    if (b) {
        pthread_mutex_destroy(&b->lock);
        free(b->wrs);
        free(b->arena);
        free(b);
        qp->ex = NULL;
    }
}

SHCA_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return shca_qp(qp)->ex ? &shca_qp(qp)->v.qp_ex : NULL;
}
