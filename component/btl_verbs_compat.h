/* Every difference between the Open MPI series that this component is built for (4.1, 5.0, later).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Nothing outside this file tests a version of Open MPI. */
#ifndef BTL_VERBS_COMPAT_H
#define BTL_VERBS_COMPAT_H

#include "opal_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "opal/class/opal_bitmap.h"
#include "opal/class/opal_hash_table.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

#if OPAL_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"
#include "opal/mca/threads/thread_usage.h"
#else
#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"
#include "opal/threads/thread_usage.h"
#endif

/* Who may see what the modex publishes: everybody. */
#if OPAL_MAJOR_VERSION >= 5
#define MCA_BTL_VERBS_MODEX_SCOPE PMIX_GLOBAL
#else
#define MCA_BTL_VERBS_MODEX_SCOPE OPAL_PMIX_GLOBAL
#endif

/* From BTL 3.3 on, a BTL says that a completed put is in the remote memory. */
#if BTL_VERSION >= 330
#define MCA_BTL_VERBS_FLAG_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#else
#define MCA_BTL_VERBS_FLAG_REMOTE_COMPLETION 0
#endif

/* What to say about a lost peer. ob1 of 4.1 ends the job whatever the flags say; later ones let the
 * fault tolerance layer decide when the error is not fatal and names the process. */
#if BTL_VERSION >= 330
#define MCA_BTL_VERBS_PEER_LOST_FLAGS MCA_BTL_ERROR_FLAGS_NONFATAL
#define MCA_BTL_VERBS_ERROR_BEFORE_COMPLETIONS 0
#else
#define MCA_BTL_VERBS_PEER_LOST_FLAGS MCA_BTL_ERROR_FLAGS_FATAL
/* ob1 of 4.1 aborts inside a send completion that carries an error, without a word of ours. */
#define MCA_BTL_VERBS_ERROR_BEFORE_COMPLETIONS 1
#endif

/* True if the data cannot simply be copied from the user's buffer: it must be packed by the
 * convertor, which also knows how to read device memory. From 5.0 on need_buffers() no longer looks
 * at the device. */
static inline int mca_btl_verbs_must_pack(const opal_convertor_t *convertor)
{
#if OPAL_MAJOR_VERSION >= 5
    return opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
#else
    return opal_convertor_need_buffers(convertor);
#endif
}

/* The number of processes of our own job. 0: the runtime does not say. */
static inline uint32_t mca_btl_verbs_job_size(void)
{
    opal_process_name_t name = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    uint32_t size = 0, *to = &size;
    int rc;

#if OPAL_MAJOR_VERSION >= 5
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, PMIX_JOB_SIZE, &name, &to, PMIX_UINT32);
#else
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_JOB_SIZE, &name, &to, OPAL_UINT32);
#endif
    return rc == OPAL_SUCCESS ? size : 0;
}

/* Copies the host name of a process to buf ("unknown host" if nobody knows). May wait for the
 * runtime: no lock may be held. */
static inline void mca_btl_verbs_hostname(const opal_proc_t *proc, char *buf, size_t len)
{
    char *name = opal_get_proc_hostname(proc);

    snprintf(buf, len, "%s", name != NULL ? name : "unknown host");
#if OPAL_MAJOR_VERSION >= 5
    free(name);
#endif
}

/* Delivers one received message to whoever registered for the tag. */
static inline void mca_btl_verbs_deliver(mca_btl_base_module_t *btl,
                                         struct mca_btl_base_endpoint_t *endpoint,
                                         mca_btl_base_tag_t tag, void *data, size_t len)
{
    const mca_btl_active_message_callback_t *reg = &mca_btl_base_active_message_trigger[tag];
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = data}, .seg_len = len};

    /* A message may arrive before its reader has registered (one-sided components do so late). */
    if (OPAL_UNLIKELY(reg->cbfunc == NULL)) {
        return;
    }
#if BTL_VERSION >= 330
    const mca_btl_base_receive_descriptor_t descriptor = {
        .endpoint = endpoint,
        .des_segments = &segment,
        .des_segment_count = 1,
        .tag = tag,
        .cbdata = reg->cbdata,
    };

    reg->cbfunc(btl, &descriptor);
#else
    /* Readers look at the segments. The rest is not set for each message: it is an object's header
     * and a sender's callback, and there is neither here. */
    mca_btl_base_descriptor_t descriptor;

    (void)endpoint;
    descriptor.des_segments = &segment;
    descriptor.des_segment_count = 1;
    descriptor.des_flags = 0;
    reg->cbfunc(btl, tag, &descriptor, reg->cbdata);
#endif
}

#endif
