/* Which way each connection goes, for users who ask (btl_verbs_show_map) or debug.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"

void mca_btl_verbs_connected(void *ctx, struct vrb_peer *peer)
{
    mca_btl_verbs_module_t *module = ctx;
    const mca_btl_base_module_t *btl = &module->super;
    const struct vrb_config *cfg = vrb_rail_config(module->rail);
    uint32_t rank = (uint32_t)(mca_btl_verbs_component.name & UINT32_MAX);
    char line[512];

    if (!mca_btl_verbs_component.params.show_map) {
        if (opal_btl_base_framework.framework_verbose > 0) {
            mca_btl_verbs_note("%s", vrb_peer_describe(peer, line, sizeof(line)));
        }
        return;
    }
    mca_btl_verbs_say("map: host %s rank %u %s", opal_process_info.nodename, rank,
                      vrb_peer_describe(peer, line, sizeof(line)));
    if (!module->thresholds_shown) {
        module->thresholds_shown = true;
        mca_btl_verbs_say("map: host %s rank %u: inline to %u bytes, eager to %zu, then %s; "
                          "packets of %zu bytes",
                          opal_process_info.nodename, rank, cfg->max_inline, btl->btl_eager_limit,
                          btl->btl_flags & MCA_BTL_FLAGS_GET   ? "RDMA read"
                          : btl->btl_flags & MCA_BTL_FLAGS_PUT ? "RDMA write"
                                                               : "copied packets",
                          btl->btl_max_send_size);
    }
}
