/* Atomic operations: what Open MPI's one-sided component (osc/rdma) builds locks and accumulates
 * of. SPDX-License-Identifier: BSD-3-Clause
 *
 * InfiniBand has two, on 64 bits: fetch and add, compare and swap (IBTA 9.4.5). Everything else is
 * declined with "not supported" and nothing else: osc/rdma of Open MPI 4.1 tries again for ever
 * after any other refusal, and builds the operation itself after this one. */
#include <string.h>

#include "btl_verbs.h"

static void done(struct vrb_rdma *rdma, int status)
{
    struct mca_btl_verbs_op *op = vrb_rdma_user(rdma);

    if (OPAL_LIKELY(status == VRB_OK)) {
        if (op->local_address != NULL) {
            memcpy(op->local_address, &rdma->result, sizeof(rdma->result));
        }
        mca_btl_verbs_rdma_complete(rdma, OPAL_SUCCESS);
    } else if (status == VRB_ERR_NOTSUP) {
        mca_btl_verbs_onesided_refused(op->endpoint, rdma);
    } else {
        mca_btl_verbs_rdma_failed(op->endpoint, rdma);
    }
}

static int start(mca_btl_verbs_endpoint_t *endpoint, uint8_t what, uint64_t operand,
                 uint64_t compare, uint64_t remote_address,
                 const mca_btl_base_registration_handle_t *remote, int flags,
                 const struct mca_btl_verbs_op *op)
{
    struct vrb_rdma *rdma;

    if (OPAL_UNLIKELY(flags & (MCA_BTL_ATOMIC_FLAG_32BIT | MCA_BTL_ATOMIC_FLAG_FLOAT) ||
                      remote_address % sizeof(uint64_t) != 0 || remote == NULL ||
                      !remote->usable)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    rdma = vrb_rdma_get(endpoint->module->rail);
    if (OPAL_UNLIKELY(rdma == NULL)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *(struct mca_btl_verbs_op *)vrb_rdma_user(rdma) = *op;
    rdma->op = what;
    rdma->operand = operand;
    rdma->compare = compare;
    rdma->remote_addr = remote_address;
    rdma->rkey = remote->rkey;
    rdma->size = sizeof(uint64_t);
    rdma->must = 1;
    rdma->done = done;
    vrb_rdma_post(endpoint->peer, rdma);
    return OPAL_SUCCESS;
}

int mca_btl_verbs_atomic_op(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                            uint64_t remote_address,
                            mca_btl_base_registration_handle_t *remote_handle,
                            mca_btl_base_atomic_op_t what, uint64_t operand, int flags, int order,
                            mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    return mca_btl_verbs_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, what,
                                    operand, flags, order, cbfunc, cbcontext, cbdata);
}

int mca_btl_verbs_atomic_fop(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                             void *local_address, uint64_t remote_address,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t what, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                             void *cbdata)
{
    const struct mca_btl_verbs_op op =
        mca_btl_verbs_op(endpoint, local_address, local_handle, cbfunc, cbcontext, cbdata);

    (void)btl;
    (void)order;
    if (what != MCA_BTL_ATOMIC_ADD) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    return start(endpoint, VRB_RDMA_ADD, operand, 0, remote_address, remote_handle, flags, &op);
}

int mca_btl_verbs_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                               void *local_address, uint64_t remote_address,
                               mca_btl_base_registration_handle_t *local_handle,
                               mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                               uint64_t value, int flags, int order,
                               mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                               void *cbdata)
{
    const struct mca_btl_verbs_op op =
        mca_btl_verbs_op(endpoint, local_address, local_handle, cbfunc, cbcontext, cbdata);

    (void)btl;
    (void)order;
    return start(endpoint, VRB_RDMA_CSWAP, value, compare, remote_address, remote_handle, flags,
                 &op);
}
