/* Messages out: descriptors, packing, sending.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A descriptor lives in the user area of a vrb_buf, so that taking one costs nothing beyond taking
 * the buffer. Its object header stays unconstructed: Open MPI passes descriptors around by their
 * fields and gives them back through btl_free. */
#include <string.h>

#include "btl_verbs.h"

struct mca_btl_verbs_frag {
    mca_btl_base_descriptor_t base; /* first: this is what Open MPI holds */
    mca_btl_base_segment_t segment;
    mca_btl_verbs_module_t *module;
    mca_btl_verbs_endpoint_t *endpoint; /* set by send */
};

const size_t mca_btl_verbs_buf_user = sizeof(struct mca_btl_verbs_frag);

static inline struct vrb_buf *frag_buf(mca_btl_base_descriptor_t *des)
{
    return (struct vrb_buf *)des - 1;
}

/* Takes a buffer whose descriptor has one segment of `size` bytes. */
static inline struct mca_btl_verbs_frag *frag_get(mca_btl_verbs_module_t *module, size_t size,
                                                  uint8_t order, uint32_t flags)
{
    struct mca_btl_verbs_frag *frag;
    struct vrb_buf *buf;

    if (OPAL_UNLIKELY(size > module->super.btl_max_send_size)) {
        return NULL;
    }
    buf = vrb_buf_get(module->rail, (uint32_t)size);
    if (OPAL_UNLIKELY(buf == NULL)) {
        return NULL;
    }
    frag = vrb_buf_user(buf);
    frag->segment.seg_addr.pval = buf->payload;
    frag->segment.seg_len = size;
    frag->module = module;
    frag->base.des_segments = &frag->segment;
    frag->base.des_segment_count = 1;
    frag->base.des_cbfunc = NULL;
    frag->base.des_flags = flags;
    frag->base.order = order;
    return frag;
}

mca_btl_base_descriptor_t *mca_btl_verbs_alloc(mca_btl_base_module_t *btl,
                                               mca_btl_verbs_endpoint_t *endpoint, uint8_t order,
                                               size_t size, uint32_t flags)
{
    struct mca_btl_verbs_frag *frag = frag_get(mca_btl_verbs_module(btl), size, order, flags);

    (void)endpoint;
    return frag != NULL ? &frag->base : NULL;
}

int mca_btl_verbs_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
    (void)btl;
    vrb_buf_free(frag_buf(des));
    return OPAL_SUCCESS;
}

/* Packs up to *size bytes to `to`; *size tells how many there were. */
static inline void pack(opal_convertor_t *convertor, void *to, size_t *size)
{
    struct iovec iov = {.iov_base = to, .iov_len = *size};
    uint32_t count = 1;

    (void)opal_convertor_pack(convertor, &iov, &count, size);
}

mca_btl_base_descriptor_t *mca_btl_verbs_prepare_src(mca_btl_base_module_t *btl,
                                                     mca_btl_verbs_endpoint_t *endpoint,
                                                     opal_convertor_t *convertor, uint8_t order,
                                                     size_t reserve, size_t *size, uint32_t flags)
{
    size_t most = btl->btl_max_send_size;
    struct mca_btl_verbs_frag *frag;

    (void)endpoint;
    if (OPAL_UNLIKELY(reserve > most)) {
        return NULL;
    }
    if (*size > most - reserve) {
        *size = most - reserve;
    }
    frag = frag_get(mca_btl_verbs_module(btl), reserve + *size, order, flags);
    if (OPAL_UNLIKELY(frag == NULL)) {
        return NULL;
    }
    if (OPAL_LIKELY(*size > 0)) {
        pack(convertor, (unsigned char *)frag->segment.seg_addr.pval + reserve, size);
    }
    frag->segment.seg_len = reserve + *size;
    return &frag->base;
}

void mca_btl_verbs_send_complete(struct vrb_buf *buf, int status)
{
    struct mca_btl_verbs_frag *frag = vrb_buf_user(buf);
    uint32_t flags = frag->base.des_flags; /* the callback may free the descriptor */

    if (OPAL_UNLIKELY(frag->module->closing)) {
        vrb_buf_free(buf);
        return;
    }
    if (OPAL_LIKELY(frag->base.des_cbfunc != NULL)) {
        frag->base.des_cbfunc(&frag->module->super, frag->endpoint, &frag->base, status);
    }
    if (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) {
        vrb_buf_free(buf);
    }
}

static void sent(struct vrb_buf *buf, int status)
{
    if (OPAL_LIKELY(status == VRB_OK)) {
        mca_btl_verbs_send_complete(buf, OPAL_SUCCESS);
    } else {
        struct mca_btl_verbs_frag *frag = vrb_buf_user(buf);

        mca_btl_verbs_send_failed(frag->endpoint, buf);
    }
}

/* The rare errands on the way of a message; returns true if it cannot be sent. */
static bool lost(mca_btl_verbs_endpoint_t *endpoint)
{
    if (endpoint->attention & MCA_BTL_VERBS_UNMAPPED) {
        mca_btl_verbs_map(endpoint);
    }
    return endpoint->attention & MCA_BTL_VERBS_LOST;
}

/* Always completes by callback, from progress: ob1 relies on that (its pending lists are drained
 * there), and completing inside this call would let it recurse without bound. */
int mca_btl_verbs_send(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                       mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    struct mca_btl_verbs_frag *frag = (struct mca_btl_verbs_frag *)des;
    struct vrb_buf *buf = frag_buf(des);

    (void)btl;
    if (OPAL_UNLIKELY(endpoint->attention != 0) && lost(endpoint)) {
        return OPAL_ERR_UNREACH;
    }
    frag->endpoint = endpoint;
    des->des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    buf->done = sent;
    vrb_send(endpoint->peer, buf, tag, (uint32_t)frag->segment.seg_len);
    return OPAL_SUCCESS;
}

/* Data that lies scattered or elsewhere: packed into a buffer that the core frees by itself. */
static __attribute__((noinline)) int sendi_packed(mca_btl_verbs_endpoint_t *endpoint,
                                                  opal_convertor_t *convertor, const void *header,
                                                  size_t header_size, size_t payload_size,
                                                  mca_btl_base_tag_t tag)
{
    mca_btl_verbs_module_t *module = endpoint->module;
    size_t size = header_size + payload_size;
    size_t packed = payload_size;
    struct vrb_buf *buf;

    if (OPAL_UNLIKELY(size > module->super.btl_max_send_size || !vrb_may_copy(endpoint->peer))) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    buf = vrb_buf_get(module->rail, (uint32_t)size);
    if (OPAL_UNLIKELY(buf == NULL)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    memcpy(buf->payload, header, header_size);
    pack(convertor, buf->payload + header_size, &packed);
    buf->done = NULL;
    vrb_send(endpoint->peer, buf, tag, (uint32_t)(header_size + packed));
    return OPAL_SUCCESS;
}

/* What could not be sent. Either too much is queued, or the peer is lost. With a descriptor the
 * caller comes back through send, which queues it or says so; without one it would wait for memory
 * for ever. */
static __attribute__((noinline)) int sendi_failed(mca_btl_base_module_t *btl,
                                                  mca_btl_verbs_endpoint_t *endpoint, size_t size,
                                                  uint8_t order, uint32_t flags,
                                                  mca_btl_base_descriptor_t **des)
{
    if (des != NULL) {
        *des = mca_btl_verbs_alloc(btl, endpoint, order, size, flags);
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

/* The convertor is uninitialised when there is no payload, and des is NULL when the caller does not
 * want a descriptor. The convertor must not have moved when this fails. */
int mca_btl_verbs_sendi(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                        opal_convertor_t *convertor, void *header, size_t header_size,
                        size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                        mca_btl_base_descriptor_t **des)
{
    void *data = NULL;
    int rc;

    if (OPAL_UNLIKELY(endpoint->attention != 0) && lost(endpoint)) {
        rc = OPAL_ERR_RESOURCE_BUSY;
    } else if (payload_size > 0 && mca_btl_verbs_must_pack(convertor)) {
        rc = sendi_packed(endpoint, convertor, header, header_size, payload_size, tag);
    } else {
        if (payload_size > 0) {
            opal_convertor_get_current_pointer(convertor, &data);
        }
        rc = vrb_send_copy(endpoint->peer, tag, header, (uint32_t)header_size, data,
                           (uint32_t)payload_size);
    }
    if (OPAL_LIKELY(rc == OPAL_SUCCESS)) {
        return OPAL_SUCCESS;
    }
    return sendi_failed(btl, endpoint, header_size + payload_size, order, flags, des);
}
