/* Address handle attributes, and the source address of a received datagram (see vrb_ah.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "address/vrb_ah.h"

#include <string.h>

void vrb_ah_fill(struct ibv_ah_attr *attr, const struct vrb_path *path, uint8_t port)
{
    memset(attr, 0, sizeof(*attr));
    attr->port_num = port;
    attr->sl = path->sl;
    if (path->link == VRB_LINK_IB) {
        attr->dlid = path->dlid;
        attr->src_path_bits = path->src_path_bits;
    }
    if (path->use_grh) {
        attr->is_global = 1;
        attr->grh.sgid_index = (uint8_t)path->sgid_index;
        attr->grh.hop_limit = path->hop_limit;
        attr->grh.traffic_class = path->tclass;
        attr->grh.flow_label = path->flow_label;
        memcpy(attr->grh.dgid.raw, path->dgid.raw, VRB_GID_LEN);
    }
}

int vrb_grh_source(const uint8_t grh[40], uint8_t raw[VRB_GID_LEN])
{
    const uint8_t *ip4 = grh + 20;

    if (grh[0] >> 4 == 6) { /* IPv6 or native GRH: both have version 6 and the same layout */
        memcpy(raw, grh + 8, VRB_GID_LEN);
        return 1;
    }
    if (ip4[0] == 0x45) { /* version 4, header of 5 words */
        memset(raw, 0, 10);
        raw[10] = raw[11] = 0xff;
        memcpy(raw + 12, ip4 + 12, 4);
        return 1;
    }
    return 0;
}
