/* The length of packets to a peer (see vrb_peer_mtu.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "peer/vrb_peer_mtu.h"

#include "dgram/vrb_dgram.h"
#include "peer/vrb_path.h"

static uint64_t mix(uint64_t hash, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    }
    return hash;
}

static uint64_t pair_key(const struct vrb_path *path)
{
    uint8_t lid[2] = {(uint8_t)path->dlid, (uint8_t)(path->dlid >> 8)};
    uint64_t key = mix(UINT64_C(0xcbf29ce484222325), lid, sizeof(lid));

    if (path->use_grh) {
        key = mix(key, path->sgid.raw, VRB_GID_LEN);
        key = mix(key, path->dgid.raw, VRB_GID_LEN);
    }
    return key == 0 ? 1 : key;
}

static struct vrb_narrow *find_narrow(struct vrb_rail *rail, uint64_t key)
{
    for (unsigned i = 0; i < VRB_NARROW_MAX && rail->narrow[i].key != 0; i++) {
        if (rail->narrow[i].key == key) {
            return &rail->narrow[i];
        }
    }
    return NULL;
}

void vrb_peer_mtu_init(struct vrb_peer *peer)
{
    const struct vrb_narrow *known = find_narrow(peer->rail, pair_key(&peer->path));
    uint8_t mtu = peer->path.mtu;

    if (known != NULL && known->mtu < mtu) {
        mtu = known->mtu;
    }
    vrb_pmtu_init(&peer->pmtu, mtu);
    if (peer->dgram == NULL) { /* else packets have been cut to it */
        peer->sure_mtu = mtu < VRB_SURE_MTU ? mtu : VRB_SURE_MTU;
    }
}

/* Returns 0 if that was known. */
static int remember(struct vrb_peer *peer, uint8_t mtu)
{
    struct vrb_rail *rail = peer->rail;
    uint64_t key = pair_key(&peer->path);
    struct vrb_narrow *known = find_narrow(rail, key);

    if (known != NULL) {
        known->mtu = mtu < known->mtu ? mtu : known->mtu;
        return 0;
    }
    rail->narrow[rail->narrow_n++ % VRB_NARROW_MAX] = (struct vrb_narrow){key, mtu};
    return 1;
}

void vrb_peer_mtu_narrow(struct vrb_peer *peer, uint8_t mtu)
{
    struct vrb_rail *rail = peer->rail;
    char here[96], there[96];

    if (!remember(peer, mtu)) {
        return;
    }
    vrb_log(VRB_LOG_WARN,
            "%s port %d on host %s, %s, to host %s, %s: small packets arrive, those with %d bytes "
            "do not: the MTU differs along the path. Packets of %d bytes are used. Set one MTU on "
            "both ports and on all switches between them (%s)",
            rail->port.dev, rail->port.port, rail->cfg.host,
            vrb_address_text(&rail->address, peer->path.use_grh ? &peer->path.sgid : NULL, here,
                             sizeof(here)),
            peer->host,
            vrb_address_text(&peer->remote, peer->path.use_grh ? &peer->path.dgid : NULL, there,
                             sizeof(there)),
            128 << peer->path.mtu, 128 << mtu,
            rail->address.link == VRB_LINK_IB
                ? "on InfiniBand the subnet manager's configuration of the partition names it, too"
                : "RoCE packets with 4096 bytes need 4200 in the network devices, and more in "
                  "switches");
}

void vrb_peer_mtu_proven(struct vrb_peer *peer, uint8_t mtu)
{
    if (mtu > peer->path.mtu) {
        mtu = peer->path.mtu;
    }
    if (mtu > peer->sure_mtu) {
        peer->sure_mtu = mtu;
        if (peer->dgram != NULL) {
            peer->dgram->payload = vrb_dgram_payload(mtu);
        }
    }
}

/* The other end goes on with less than ours is bound to, and has not sent any data yet. */
static void rebind(struct vrb_peer *peer)
{
    struct vrb_failure f;

    vrb_failure_init(&f, "connecting");
    f.detail = "the peer does not receive packets of this length: the MTU differs along the path";
    if (!vrb_recover_break(peer, &f) && !peer->failed) {
        vrb_path_fail_in_words(
            peer, VRB_ERR_PEER, "connecting",
            "the MTU differs along the path, and with btl_verbs_recover_timeout 0 no other queue "
            "pair is made for a smaller one: set one MTU on all ports and switches between the "
            "two");
    }
}

int vrb_peer_mtu_takes(struct vrb_peer *peer, struct vrb_hello *h, uint8_t length)
{
    uint8_t lowered = peer->pmtu.lowered;

    switch (vrb_pmtu_hear(&peer->pmtu, &peer->wireup, h, length)) {
    case VRB_PMTU_HOLD:
        peer->wireup.heard = 1; /* the path works, for small ones */
        return 0;
    case VRB_PMTU_REBIND:
        vrb_peer_mtu_narrow(peer, peer->pmtu.limit);
        rebind(peer);
        return 0;
    case VRB_PMTU_TAKE:
    default:
        break;
    }
    if (!lowered && peer->pmtu.lowered) {
        vrb_peer_mtu_narrow(peer, peer->pmtu.limit);
    } else if (peer->pmtu.limit < peer->pmtu.first) {
        (void)remember(peer, peer->pmtu.limit); /* the other end has said it */
    }
    return 1;
}
