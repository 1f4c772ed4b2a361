/* Round-trip time estimation.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_rtt.h"

void vrb_rel_rtt_init(struct vrb_rel_rtt *rtt, uint64_t now)
{
    rtt->srtt = VRB_REL_NO_RTT;
    rtt->var = rtt->latest = 0;
    rtt->least[0] = rtt->least[1] = VRB_REL_NO_RTT;
    rtt->least_since = now;
}

void vrb_rel_rtt_sample(struct vrb_rel_rtt *rtt, uint32_t sample, int clean, uint64_t now,
                        uint64_t period_ns)
{
    if (sample == VRB_REL_NO_RTT) {
        sample--;
    }
    rtt->latest = sample;
    if (rtt->srtt == VRB_REL_NO_RTT) {
        rtt->srtt = sample;
        rtt->var = sample / 2;
    } else {
        uint32_t off = sample > rtt->srtt ? sample - rtt->srtt : rtt->srtt - sample;

        rtt->var = (uint32_t)((3 * (uint64_t)rtt->var + off) / 4);
        rtt->srtt = (uint32_t)((7 * (uint64_t)rtt->srtt + sample) / 8);
    }
    if (!clean) {
        return;
    }
    if (now - rtt->least_since >= period_ns) {
        rtt->least[1] = rtt->least[0];
        rtt->least[0] = VRB_REL_NO_RTT;
        rtt->least_since = now;
    }
    if (sample < rtt->least[0]) {
        rtt->least[0] = sample;
    }
}
