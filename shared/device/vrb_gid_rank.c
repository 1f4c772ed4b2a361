/* Which entries of a GID table are worth publishing, and why the others are not.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "device/vrb_query.h"

/* Smaller is better. */
static int rank_gid(const struct vrb_gid *g)
{
    int scope = vrb_gid_is_loopback(g->raw)     ? 3
                : vrb_gid_is_link_scope(g->raw) ? 2
                : vrb_gid_is_ipv4(g->raw)       ? 0
                                                : 1;

    return g->type == VRB_GID_IB ? 0 : (g->type == VRB_GID_ROCE_V2 ? 0 : 4) + scope;
}

static const char *why_not(const struct vrb_gid_entry *entries, int i, uint8_t link)
{
    const struct vrb_gid *g = &entries[i].gid;

    if (entries[i].unused != NULL) {
        return entries[i].unused;
    }
    if (vrb_gid_fault(g->raw) != NULL) {
        return vrb_gid_fault(g->raw);
    }
    if (g->index > VRB_GID_INDEX_MAX) {
        return "no address handle can name its index, which is above 255";
    }
    if (link == VRB_LINK_ROCE && g->type == VRB_GID_IB) {
        return "its RoCE version is unknown";
    }
    for (int j = 0; j < i; j++) {
        if (entries[j].gid.type == g->type && entries[j].unused == NULL &&
            memcmp(entries[j].gid.raw, g->raw, VRB_GID_LEN) == 0) {
            return "the same address stands before it in the table";
        }
    }
    return NULL;
}

int vrb_query_best_gids(struct vrb_gid_entry *entries, int n, uint8_t link,
                        struct vrb_gid gids[VRB_MAX_GIDS])
{
    int used = 0;

    for (int i = 0; i < n; i++) {
        entries[i].unused = why_not(entries, i, link);
    }
    for (int rank = 0; rank < 8; rank++) {
        for (int i = 0; i < n; i++) {
            if (entries[i].unused != NULL || rank_gid(&entries[i].gid) != rank) {
                continue;
            }
            if (used == VRB_MAX_GIDS) {
                entries[i].unused = "better ones fill the list";
            } else {
                gids[used++] = entries[i].gid;
            }
        }
    }
    return used;
}
