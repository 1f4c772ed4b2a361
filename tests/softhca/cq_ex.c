/* The extended completion queue: start_poll, next_poll and the readers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs_impl.h"

static bool load(struct shca_cq *cq)
{
    struct sm_cqe *e;

    if (!shca_cq_next(cq, &e)) {
        return false;
    }
    cq->cur = *e;
    shca_cq_advance(cq);
    cq->v.cq_ex.status = (enum ibv_wc_status)cq->cur.status;
    cq->v.cq_ex.wr_id = cq->cur.wr_id;
    return true;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct shca_cq *cq = (struct shca_cq *)ex;

    if (attr->comp_mask) {
        return EINVAL;
    }
    shca_poll_progress();
    pthread_mutex_lock(&cq->poll_lock);
    if (load(cq)) {
        return 0;
    }
    pthread_mutex_unlock(&cq->poll_lock);
    return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    return load((struct shca_cq *)ex) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    pthread_mutex_unlock(&((struct shca_cq *)ex)->poll_lock);
}

#define CUR(ex) (((struct shca_cq *)(ex))->cur)

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return (enum ibv_wc_opcode)CUR(ex).opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return CUR(ex).vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return CUR(ex).byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return CUR(ex).imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return CUR(ex).qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return CUR(ex).src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
    return CUR(ex).wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
    return CUR(ex).slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
    return CUR(ex).sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
    return CUR(ex).dlid_path_bits;
}

struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
    struct ibv_cq *cq;
    struct ibv_cq_ex *ex;

    if ((attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) ||
        (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
         (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = shca_new_cq(ctx, (int)attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector);
    if (!cq) {
        return NULL;
    }
    ex = &((struct shca_cq *)cq)->v.cq_ex;
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_byte_len = read_byte_len;
    ex->read_imm_data = read_imm_data;
    ex->read_qp_num = read_qp_num;
    ex->read_src_qp = read_src_qp;
    ex->read_wc_flags = read_wc_flags;
    ex->read_slid = read_slid;
    ex->read_sl = read_sl;
    ex->read_dlid_path_bits = read_dlid_path_bits;
    return ex;
}
