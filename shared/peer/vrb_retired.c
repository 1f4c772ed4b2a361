/* Peers that were dropped, and may come back (see vrb_retired.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_retired.h"

#include <stdlib.h>

#include "dgram/vrb_dgram.h"

int vrb_retired_keep(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;

    if (peer->dgram == NULL || peer->dgram->broken || rail->closing || rail->failed) {
        return 0;
    }
    vrb_dgram_retire(peer);
    peer->retired = 1;
    peer->user = NULL;
    vrb_list_append(&rail->retired, &peer->link);
    return 1;
}

/* Completions that still name the peer keep its memory. */
static void forget(struct vrb_peer *peer)
{
    vrb_list_remove(&peer->link);
    if (peer->ah != NULL) {
        ibv_destroy_ah(peer->ah);
        peer->ah = NULL;
    }
    if (peer->owned > 0) {
        vrb_list_append(&peer->rail->zombies, &peer->link);
    } else {
        free(peer);
    }
}

static struct vrb_peer *find(const struct vrb_rail *rail, uint64_t name, int remote_rail)
{
    for (struct vrb_list *l = rail->retired.next; l != &rail->retired; l = l->next) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, link);

        if (peer->name == name && peer->remote_rail == remote_rail) {
            return peer;
        }
    }
    return NULL;
}

int vrb_retired_return(struct vrb_peer *peer, uint64_t name, int remote_rail)
{
    struct vrb_peer *old = find(peer->rail, name, remote_rail);
    int rc;

    if (old != NULL && old->remote.nonce == peer->remote.nonce &&
        old->remote.ud_qpn == peer->remote.ud_qpn) {
        rc = vrb_dgram_inherit(peer, old);
        if (rc == VRB_OK) {
            peer->ah = old->ah; /* sends that are under way use it */
            old->ah = NULL;
            forget(old);
        }
        return rc;
    }
    if (old != NULL) { /* that process has ended: this is another one */
        vrb_dgram_detach(old);
        forget(old);
    }
    return vrb_dgram_attach(peer);
}

void vrb_retired_clear(struct vrb_rail *rail)
{
    while (!vrb_list_empty(&rail->retired)) {
        struct vrb_peer *peer = vrb_container_of(rail->retired.next, struct vrb_peer, link);

        vrb_dgram_detach(peer);
        forget(peer);
    }
}
