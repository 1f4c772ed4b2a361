/* Lost peers: one report to the user, one call of Open MPI's error handler, and what was under way
 * is completed. SPDX-License-Identifier: BSD-3-Clause
 *
 * The core completes a lost peer's operations with an error and then reports the loss. Open MPI 4.1
 * aborts the job at the first such completion, so they are held until the report is out. */
#include "btl_verbs.h"

/* Reports printed in full per process; a lost switch makes one for each peer. */
#define MCA_BTL_VERBS_MAX_REPORTS 4

int mca_btl_verbs_register_error(mca_btl_base_module_t *btl,
                                 mca_btl_base_module_error_cb_fn_t cbfunc)
{
    mca_btl_verbs_module(btl)->error_cb = cbfunc;
    return OPAL_SUCCESS;
}

static void report(const char *text)
{
    int n = ++mca_btl_verbs_component.lost_shown;

    if (n <= MCA_BTL_VERBS_MAX_REPORTS) {
        mca_btl_verbs_say_framed(text);
    }
    if (n == MCA_BTL_VERBS_MAX_REPORTS) {
        mca_btl_verbs_say("more lost connections of this process are not reported");
    }
}

void mca_btl_verbs_send_failed(mca_btl_verbs_endpoint_t *endpoint, struct vrb_buf *buf)
{
    if (endpoint->leaving || endpoint->module->closing) {
        vrb_buf_free(buf);
    } else if (endpoint->attention & MCA_BTL_VERBS_LOST) {
        /* A far end that closed in an orderly way has no use for the message, and for us its buffer
         * is free: that is all that completion means. */
        mca_btl_verbs_send_complete(buf, endpoint->orderly ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    } else {
        buf->next = NULL;
        *endpoint->held_bufs_tail = buf;
        endpoint->held_bufs_tail = &buf->next;
    }
}

void mca_btl_verbs_rdma_failed(mca_btl_verbs_endpoint_t *endpoint, struct vrb_rdma *rdma)
{
    if (endpoint->leaving || endpoint->module->closing) {
        vrb_rdma_free(endpoint->module->rail, rdma);
    } else if (endpoint->attention & MCA_BTL_VERBS_LOST) {
        mca_btl_verbs_rdma_complete(rdma, OPAL_ERR_UNREACH);
    } else {
        rdma->next = NULL;
        *endpoint->held_rdma_tail = rdma;
        endpoint->held_rdma_tail = &rdma->next;
    }
}

void mca_btl_verbs_onesided_refused(mca_btl_verbs_endpoint_t *endpoint, struct vrb_rdma *rdma)
{
    mca_btl_verbs_module_t *module = endpoint->module;
    char text[512];

    if (!endpoint->leaving && !module->closing && module->error_cb != NULL) {
        snprintf(
            text, sizeof(text),
            "A one-sided operation (MPI_Put, MPI_Get, MPI_Accumulate, a lock of a window, ...)\n"
            "needs a reliable connection, and none can be made to\n"
            "  remote: host %s rank %u\n"
            "What to do: --mca btl_base_verbose 20 tells why not. Without connections, Open MPI\n"
            "5.0 has one-sided operations with btl_verbs_mode ud, and 4.1 with --mca osc pt2pt.",
            endpoint->proc->host, (unsigned)(endpoint->proc->name & UINT32_MAX));
        report(text);
        module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, NULL, text);
    }
    mca_btl_verbs_rdma_failed(endpoint, rdma);
}

static void complete_held(mca_btl_verbs_endpoint_t *endpoint)
{
    struct vrb_buf *buf = endpoint->held_bufs;
    struct vrb_rdma *rdma = endpoint->held_rdma;

    endpoint->held_bufs = NULL;
    endpoint->held_bufs_tail = &endpoint->held_bufs;
    endpoint->held_rdma = NULL;
    endpoint->held_rdma_tail = &endpoint->held_rdma;
    while (buf != NULL) {
        struct vrb_buf *next = buf->next;

        mca_btl_verbs_send_failed(endpoint, buf);
        buf = next;
    }
    while (rdma != NULL) {
        struct vrb_rdma *next = rdma->next;

        mca_btl_verbs_rdma_failed(endpoint, rdma);
        rdma = next;
    }
}

static void tell_open_mpi(mca_btl_verbs_endpoint_t *endpoint)
{
    mca_btl_verbs_module_t *module = endpoint->module;
    char text[160];

    if (module->error_cb == NULL) {
        return;
    }
    snprintf(text, sizeof(text), "verbs: the connection to rank %u on host %s is lost",
             (unsigned)(endpoint->proc->name & UINT32_MAX), endpoint->proc->host);
    module->error_cb(&module->super, MCA_BTL_VERBS_PEER_LOST_FLAGS, endpoint->proc->opal, text);
}

/* Nothing can be sent there any more: tells Open MPI and completes what was under way. */
static void lose(mca_btl_verbs_endpoint_t *endpoint)
{
    endpoint->attention |= MCA_BTL_VERBS_LOST;
    if (MCA_BTL_VERBS_ERROR_BEFORE_COMPLETIONS) {
        tell_open_mpi(endpoint);
        complete_held(endpoint);
    } else {
        complete_held(endpoint);
        tell_open_mpi(endpoint);
    }
}

void mca_btl_verbs_peer_lost(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    mca_btl_verbs_module_t *module = ctx;
    mca_btl_verbs_endpoint_t *endpoint = vrb_peer_user(peer);

    (void)status;
    if (endpoint == NULL || endpoint->attention & MCA_BTL_VERBS_LOST) {
        return;
    }
    if (text == NULL || endpoint->leaving || module->closing) {
        endpoint->attention |= MCA_BTL_VERBS_LOST;
        endpoint->orderly = text == NULL;
        complete_held(endpoint);
        return;
    }
    report(text);
    lose(endpoint);
}

/* A process that only waits would not find out by itself that nothing can come any more. */
void mca_btl_verbs_rail_lost(void *ctx, struct vrb_rail *rail, const char *text)
{
    mca_btl_verbs_module_t *module = ctx;
    mca_btl_verbs_endpoint_t *endpoint;

    (void)rail;
    if (module->closing || text == NULL) {
        return;
    }
    report(text);
    while ((endpoint = mca_btl_verbs_some_endpoint(module, MCA_BTL_VERBS_LOST)) != NULL) {
        lose(endpoint);
    }
}
