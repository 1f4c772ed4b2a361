/* RDMA out: put and get. Atomics are in btl_verbs_atomic.c.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Both are always accepted and completed by callback: ob1 takes an immediate completion for a
 * failure, and a refusal makes it copy the whole message instead. */
#include "btl_verbs.h"

const size_t mca_btl_verbs_rdma_user = sizeof(struct mca_btl_verbs_op);

void mca_btl_verbs_rdma_complete(struct vrb_rdma *rdma, int status)
{
    struct mca_btl_verbs_op op = *(struct mca_btl_verbs_op *)vrb_rdma_user(rdma);
    mca_btl_verbs_module_t *module = op.endpoint->module;

    /* Freed first: the callback may well start the next operation. */
    vrb_rdma_free(module->rail, rdma);
    if (OPAL_UNLIKELY(module->closing)) {
        return;
    }
    if (op.own_handle) {
        mca_btl_verbs_deregister_mem(&module->super, op.local_handle);
        op.local_handle = NULL;
    }
    if (op.cbfunc != NULL) { /* osc/rdma may not want to know of an atomic's end */
        op.cbfunc(&module->super, op.endpoint, op.local_address, op.local_handle, op.context,
                  op.data, status);
    }
}

static void done(struct vrb_rdma *rdma, int status)
{
    struct mca_btl_verbs_op *op = vrb_rdma_user(rdma);

    if (OPAL_LIKELY(status == VRB_OK)) {
        mca_btl_verbs_rdma_complete(rdma, OPAL_SUCCESS);
    } else if (status == VRB_ERR_NOTSUP && rdma->must) {
        mca_btl_verbs_onesided_refused(op->endpoint, rdma);
    } else if (status == VRB_ERR_NOTSUP) {
        /* A read from a peer that cannot be connected over RC: ob1 asks for a put instead. */
        mca_btl_verbs_rdma_complete(rdma, OPAL_ERR_NOT_AVAILABLE);
    } else {
        mca_btl_verbs_rdma_failed(op->endpoint, rdma);
    }
}

static int start(mca_btl_verbs_endpoint_t *endpoint, uint8_t what, struct mca_btl_verbs_op *op,
                 uint64_t remote_address, const mca_btl_base_registration_handle_t *remote,
                 size_t size)
{
    mca_btl_verbs_module_t *module = endpoint->module;
    bool inline_put = false;
    struct vrb_rdma *rdma;

    if (OPAL_UNLIKELY(size > module->max_rdma || remote == NULL)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    if (OPAL_UNLIKELY(!remote->usable || (op->local_handle != NULL && !op->local_handle->usable))) {
        return OPAL_ERR_OUT_OF_RESOURCE; /* ob1 then sends packets */
    }
    if (op->local_handle == NULL && what == VRB_RDMA_PUT &&
        size <= module->super.btl_put_local_registration_threshold) {
        inline_put = true; /* osc/rdma, short puts */
    } else if (OPAL_UNLIKELY(op->local_handle == NULL && size > 0)) {
        uint32_t access = what == VRB_RDMA_GET ? MCA_BTL_REG_FLAG_LOCAL_WRITE : 0;

        op->local_handle =
            mca_btl_verbs_register_mem(&module->super, endpoint, op->local_address, size, access);
        if (op->local_handle == NULL) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
        op->own_handle = true;
    }
    rdma = vrb_rdma_get(module->rail);
    if (OPAL_UNLIKELY(rdma == NULL)) {
        if (op->own_handle) {
            mca_btl_verbs_deregister_mem(&module->super, op->local_handle);
        }
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *(struct mca_btl_verbs_op *)vrb_rdma_user(rdma) = *op;
    rdma->op = what;
    rdma->local_addr = (uint64_t)(uintptr_t)op->local_address;
    rdma->lkey = op->local_handle != NULL ? op->local_handle->lkey : 0;
    rdma->remote_addr = remote_address;
    rdma->rkey = remote->rkey;
    rdma->size = size;
    rdma->from_anywhere = inline_put;
    rdma->must = remote->usable == MCA_BTL_VERBS_WINDOW;
    rdma->done = done;
    vrb_rdma_post(endpoint->peer, rdma);
    return OPAL_SUCCESS;
}

int mca_btl_verbs_put(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *local_handle,
                      mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                      int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                      void *cbdata)
{
    struct mca_btl_verbs_op op =
        mca_btl_verbs_op(endpoint, local_address, local_handle, cbfunc, cbcontext, cbdata);

    (void)btl;
    (void)flags;
    (void)order;
    return start(endpoint, VRB_RDMA_PUT, &op, remote_address, remote_handle, size);
}

int mca_btl_verbs_get(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *local_handle,
                      mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                      int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                      void *cbdata)
{
    struct mca_btl_verbs_op op =
        mca_btl_verbs_op(endpoint, local_address, local_handle, cbfunc, cbcontext, cbdata);

    (void)btl;
    (void)flags;
    (void)order;
    return start(endpoint, VRB_RDMA_GET, &op, remote_address, remote_handle, size);
}
