/* Fuzzes what peers publish: unpacks any bytes, and uses what comes out.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "address/vrb_choose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A working port, as the process that reads the bytes has one. */
static struct vrb_address own_port(uint8_t link)
{
    struct vrb_address a = {
        .link = link, .mtu = 3, .lid = 5, .pkey = 0xffff, .ud_qpn = 9, .recv_size = 4096};

    a.num_gids = 1;
    a.gids[0].type = link == VRB_LINK_IB ? VRB_GID_IB : VRB_GID_ROCE_V2;
    memcpy(a.gids[0].raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", VRB_GID_LEN);
    return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vrb_address addr[VRB_MAX_RAILS];
    struct vrb_address own[2] = {own_port(VRB_LINK_IB), own_port(VRB_LINK_ROCE)};
    const char *why = NULL;
    int map[VRB_MAX_RAILS];
    int n = vrb_address_unpack(data, size, addr, &why);

    if (n <= 0) {
        if (!why) {
            abort();
        }
        return 0;
    }
    for (int i = 0; i < n; i++) {
        char text[96];
        struct vrb_path path;

        vrb_address_text(&addr[i], NULL, text, sizeof(text));
        for (int k = 0; k < 2; k++) {
            if (vrb_choose(&own[k], &addr[i], &path, &why) == 0 &&
                (path.mtu < 1 || path.mtu > 5 || path.link != own[k].link)) {
                abort();
            }
        }
    }
    int ab = vrb_choose_pairs(own, 2, addr, n, 1, map, &why);
    int ba = vrb_choose_pairs(addr, n, own, 2, 0, map, &why);

    uint8_t extra;

    (void)vrb_address_extra_get(data, size, VRB_EXTRA_TCP, &extra);
    /* What was understood can be said again, and means the same. The first time it may join entries
     * that a peer could have joined. */
    uint8_t again[4096];
    struct vrb_address same[VRB_MAX_RAILS];

    for (int round = 0; round < 2; round++) {
        int len = vrb_address_pack(addr, n, again, sizeof(again));

        if (ab != ba || len < 0 || vrb_address_unpack(again, (size_t)len, same, &why) != n ||
            (round > 0 && memcmp(addr, same, (size_t)n * sizeof(*addr)) != 0)) {
            abort();
        }
        for (int i = 0; i < n; i++) {
            if (same[i].num_gids != addr[i].num_gids) {
                abort();
            }
        }
        memcpy(addr, same, sizeof(addr));
    }
    return 0;
}
