/* GIDs from text, for the tests of addresses.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef GIDS_H
#define GIDS_H

#include <arpa/inet.h>

#include "address/vrb_address.h"

static inline struct vrb_gid gid(int type, int index, const char *ip)
{
    struct vrb_gid g = {.type = (uint8_t)type, .index = (uint16_t)index};

    assert_int_equal(inet_pton(AF_INET6, ip, g.raw), 1);
    return g;
}

#endif
