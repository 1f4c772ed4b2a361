/* Modules: one per usable port. What they offer Open MPI, how they start and end.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "btl_verbs.h"

/* Time the rail has for what is still queued when its module ends; its peers had theirs before. */
#define CLOSE_MS 20

_Static_assert(sizeof(mca_btl_base_registration_handle_t) % 8 == 0,
               "osc/rdma needs this for its alignment");

#define ATOMICS (MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS)

mca_btl_base_module_t mca_btl_verbs_template;

/* The defaults that users see as Open MPI's standard parameters. Functions are set before those are
 * registered, because Open MPI offers only parameters of what is there. */
void mca_btl_verbs_template_init(void)
{
    struct vrb_config cfg;

    vrb_config_defaults(&cfg);
    mca_btl_verbs_template = (mca_btl_base_module_t){
        .btl_component = &mca_btl_verbs_component.super,
        /* Sizes of whole packets, ob1's header included. */
        .btl_eager_limit = MCA_BTL_VERBS_EAGER,
        .btl_rndv_eager_limit = MCA_BTL_VERBS_EAGER,
        .btl_max_send_size = cfg.recv_size,
        /* The pipeline serves when memory is not kept registered: its first part is copied while
         * the rest is being registered. */
        .btl_rdma_pipeline_send_length = 64 << 10,
        .btl_rdma_pipeline_frag_size = 1 << 20,
        .btl_min_rdma_pipeline_size = 128 << 10,
        /* Below shared memory, above TCP. */
        .btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT,
        .btl_latency = 4,   /* us; all rails alike, or ob1 would use only the best */
        .btl_bandwidth = 0, /* Mbit/s; 0: what the port says */
        .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET |
                     MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS,
        .btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
        .btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t),
        .btl_get_limit = 0, /* 0: what the port allows */
        .btl_put_limit = 0,
        .btl_add_procs = mca_btl_verbs_add_procs,
        .btl_del_procs = mca_btl_verbs_del_procs,
        .btl_finalize = mca_btl_verbs_module_finalize,
        .btl_alloc = mca_btl_verbs_alloc,
        .btl_free = mca_btl_verbs_free,
        .btl_prepare_src = mca_btl_verbs_prepare_src,
        .btl_send = mca_btl_verbs_send,
        .btl_sendi = mca_btl_verbs_sendi,
        .btl_put = mca_btl_verbs_put,
        .btl_get = mca_btl_verbs_get,
        .btl_atomic_op = mca_btl_verbs_atomic_op,
        .btl_atomic_fop = mca_btl_verbs_atomic_fop,
        .btl_atomic_cswap = mca_btl_verbs_atomic_cswap,
        /* No btl_flush: osc/rdma counts its operations, which all complete by callback, and polls
         * until none is left. A flush would post a request of its own to learn the same. */
        .btl_dump = mca_btl_base_dump,
        .btl_register_mem = mca_btl_verbs_register_mem,
        .btl_deregister_mem = mca_btl_verbs_deregister_mem,
        .btl_register_error = mca_btl_verbs_register_error,
    };
}

mca_btl_verbs_module_t *mca_btl_verbs_module_new(int index)
{
    mca_btl_verbs_module_t *module = calloc(1, sizeof(*module));

    if (module != NULL) {
        module->super = mca_btl_verbs_template;
        module->index = index;
        OBJ_CONSTRUCT(&module->regs_lock, opal_mutex_t);
    }
    return module;
}

static void at_most(size_t *value, uint64_t most)
{
    if (*value == 0 || *value > most) {
        *value = (size_t)most;
    }
}

void mca_btl_verbs_module_attach(mca_btl_verbs_module_t *module, struct vrb_rail *rail)
{
    const struct vrb_port *port = vrb_rail_port(rail);
    const struct vrb_config *cfg = vrb_rail_config(rail);
    mca_btl_base_module_t *btl = &module->super;

    module->rail = rail;
    /* Not in the template: the parameter has no word for it and would be refused. */
    btl->btl_flags |= MCA_BTL_VERBS_FLAG_REMOTE_COMPLETION;
    if (cfg->mode == VRB_MODE_UD) {
        btl->btl_flags &= ~(uint32_t)MCA_BTL_FLAGS_GET; /* reads need a connection */
    }
    if (cfg->mode == VRB_MODE_UD || !port->atomics) {
        btl->btl_flags &= ~(uint32_t)ATOMICS;
        btl->btl_atomic_flags = 0;
    }
    if (cfg->mode == VRB_MODE_RC) {
        btl->btl_put_local_registration_threshold = cfg->max_inline;
    }
    /* IBTA 9.3.3.2: a message is at most 2^31 bytes. */
    module->max_rdma = port->max_msg_sz > 0 ? port->max_msg_sz : (uint64_t)1 << 31;
    at_most(&btl->btl_get_limit, module->max_rdma);
    at_most(&btl->btl_put_limit, module->max_rdma);
    /* ob1 splits puts by this size only. */
    at_most(&btl->btl_rdma_pipeline_frag_size, btl->btl_put_limit);
    at_most(&btl->btl_max_send_size, cfg->recv_size);
    at_most(&btl->btl_eager_limit, btl->btl_max_send_size);
    at_most(&btl->btl_rndv_eager_limit, btl->btl_eager_limit);
    if (btl->btl_bandwidth == 0) {
        /* 10 Gbit/s where the port does not say: 0 would upset the shares of other networks. */
        btl->btl_bandwidth = port->speed_mbps > 0 ? port->speed_mbps : 10000;
    }
    (void)mca_btl_base_param_verify(btl);
}

int mca_btl_verbs_module_finalize(mca_btl_base_module_t *btl)
{
    struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    mca_btl_verbs_module_t *module = mca_btl_verbs_module(btl);
    int i;

    if (module->rail != NULL) { /* the first module that ends does it for all */
        mca_btl_verbs_watch_stop();
        mca_btl_verbs_summary_stop();
    }
    module->closing = true;
    for (i = 0; i < c->num_modules; i++) {
        if (c->modules[i] == module) {
            c->modules[i] = NULL;
        }
    }
    mca_btl_verbs_list_rails();
    if (module->rail != NULL) {
        vrb_rail_set_closing(module->rail);
        mca_btl_verbs_drop_endpoints(module);
        mca_btl_verbs_report_memory(module);
        mca_btl_verbs_rcache_stop(module);
        vrb_rail_close(module->rail, CLOSE_MS);
    }
    while (module->gone != NULL) {
        mca_btl_verbs_endpoint_t *endpoint = module->gone;

        module->gone = endpoint->next_gone;
        free(endpoint);
    }
    OBJ_DESTRUCT(&module->regs_lock);
    free(module);
    return OPAL_SUCCESS;
}
