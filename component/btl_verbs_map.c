/* Which way messages go to each peer, for users who ask (btl_verbs_show_map) or debug.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"

static const char *long_messages(const mca_btl_base_module_t *btl, int mode)
{
    if (btl->btl_flags & MCA_BTL_FLAGS_GET) {
        return "RDMA read";
    }
    if (btl->btl_flags & MCA_BTL_FLAGS_PUT) {
        return mode == VRB_MODE_UD ? "datagrams placed where they belong" : "RDMA write";
    }
    return "copied packets";
}

static void show(mca_btl_verbs_module_t *module, const struct vrb_peer *peer)
{
    const mca_btl_base_module_t *btl = &module->super;
    const struct vrb_config *cfg = vrb_rail_config(module->rail);
    uint32_t rank = (uint32_t)(mca_btl_verbs_component.name & UINT32_MAX);
    char line[768];

    mca_btl_verbs_say("map: host %s rank %u %s", opal_process_info.nodename, rank,
                      vrb_peer_describe(peer, line, sizeof(line)));
    if (!module->thresholds_shown) {
        module->thresholds_shown = true;
        mca_btl_verbs_say("map: host %s rank %u: inline to %u bytes, eager to %zu, then %s; "
                          "packets of %zu bytes",
                          opal_process_info.nodename, rank, cfg->max_inline, btl->btl_eager_limit,
                          long_messages(btl, cfg->mode), btl->btl_max_send_size);
    }
}

void mca_btl_verbs_connected(void *ctx, struct vrb_peer *peer)
{
    char line[768];

    if (mca_btl_verbs_component.params.show_map) {
        show(ctx, peer);
    } else if (opal_btl_base_framework.framework_verbose > 0) {
        mca_btl_verbs_note("%s", vrb_peer_describe(peer, line, sizeof(line)));
    }
}

void mca_btl_verbs_map(mca_btl_verbs_endpoint_t *endpoint)
{
    endpoint->attention &= (uint8_t)~MCA_BTL_VERBS_UNMAPPED;
    show(endpoint->module, endpoint->peer);
}
