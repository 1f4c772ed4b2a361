/* Messages in: hands what the core received to Open MPI.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"

void mca_btl_verbs_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    mca_btl_verbs_module_t *module = ctx;
    mca_btl_verbs_endpoint_t *endpoint = vrb_peer_user(peer);

    /* The table of readers has no entry for the highest tag that a byte can hold. */
    if (OPAL_UNLIKELY(module->closing || tag >= MCA_BTL_TAG_MAX)) {
        return;
    }
    if (OPAL_UNLIKELY(endpoint->attention & MCA_BTL_VERBS_UNMAPPED)) {
        mca_btl_verbs_map(endpoint);
    }
    mca_btl_verbs_deliver(&module->super, endpoint, tag, data, len);
}
