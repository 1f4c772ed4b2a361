/* Where the memory of a job goes, for users who ask (btl_verbs_show_memory).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"

#define KIB(bytes) ((double)(bytes) / 1024)

void mca_btl_verbs_report_peer(const mca_btl_verbs_endpoint_t *endpoint)
{
    uint32_t rank = (uint32_t)(mca_btl_verbs_component.name & UINT32_MAX);
    struct vrb_peer_memory m;

    if (!mca_btl_verbs_component.params.show_memory || endpoint->proc == NULL) {
        return;
    }
    vrb_peer_memory(endpoint->peer, &m);
    mca_btl_verbs_say(
        "memory: host %s rank %u, for host %s rank %u, %s: %.1f KiB (state %.1f, "
        "its own receive queue %.1f, waiting messages %.1f)",
        opal_process_info.nodename, rank, endpoint->proc->host,
        (unsigned)(endpoint->proc->name & UINT32_MAX), m.connected ? "connected" : "not connected",
        KIB(m.own + m.receive + m.waiting), KIB(m.own), KIB(m.receive), KIB(m.waiting));
}

void mca_btl_verbs_report_memory(const mca_btl_verbs_module_t *module)
{
    uint32_t rank = (uint32_t)(mca_btl_verbs_component.name & UINT32_MAX);
    const struct vrb_stats *s = vrb_rail_stats(module->rail);
    const struct vrb_port *port = vrb_rail_port(module->rail);

    if (!mca_btl_verbs_component.params.show_memory) {
        return;
    }
    mca_btl_verbs_say("memory: host %s rank %u, %s port %d: registered %.1f KiB of buffers (at the "
                      "most %.1f), %.1f KiB of the program in %llu pieces; %llu registrations "
                      "refused",
                      opal_process_info.nodename, rank, port->dev, port->port, KIB(s->reg_bytes),
                      KIB(s->reg_bytes_max), KIB(s->mr_bytes), (unsigned long long)s->mr_count,
                      (unsigned long long)s->mr_failed);
}
