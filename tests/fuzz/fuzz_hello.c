/* Fuzzes the handshake: a machine is fed with arbitrary messages, timers and packets.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Input: steps, each a byte that tells what happens and, for a message, the bytes that arrive. */
#include <stdlib.h>
#include <string.h>

#include "util/vrb_status.h"
#include "wireup/vrb_wireup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN_ID 0x01010101u

static void check(const struct vrb_wireup *w, unsigned acts, unsigned seen)
{
    /* QP transitions and outcomes happen once; up needs the remote data. */
    unsigned once = VRB_WU_DO_REMOTE | VRB_WU_DO_UP | VRB_WU_DO_FAIL;

    if ((acts & seen & once) || ((acts & VRB_WU_DO_UP) && !w->have_remote) ||
        ((acts & VRB_WU_DO_FAIL) && w->state != VRB_WU_FAILED) ||
        ((seen & VRB_WU_DO_FAIL) && (acts & once))) {
        abort();
    }
}

static unsigned step(struct vrb_wireup *w, uint64_t *now, const uint8_t **data, size_t *size)
{
    uint8_t what = **data;
    struct vrb_hello m;

    ++*data;
    --*size;
    *now += (uint64_t)(what >> 3) * 10000000;
    switch (what & 7) {
    case 0:
        return vrb_wireup_start(w, *now);
    case 1:
        return vrb_wireup_on_timer(w, *now);
    case 2:
        return vrb_wireup_on_data(w, *now);
    case 3:
        return what >> 3 == 31 ? vrb_wireup_give_up(w, what) : 0;
    default:
        break;
    }
    size_t len = *size < VRB_HELLO_SIZE ? *size : VRB_HELLO_SIZE;
    int rc = vrb_hello_get(*data, len, &m);

    *data += len;
    *size -= len;
    return rc == VRB_OK ? vrb_wireup_on_message(w, *now, &m) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vrb_wireup_config cfg = {
        .first_ns = 10000000, .max_ns = 1000000000, .timeout_ns = 10000000000};
    struct vrb_hello local = {
        .src_id = OWN_ID, .qpn = 17, .psn = 3, .mtu = 3, .grant = 64, .recv_size = 4096};
    struct vrb_wireup w;
    unsigned seen = 0;
    uint64_t now = 1;

    vrb_wireup_init(&w, &cfg, &local, 1);
    while (size > 0) {
        unsigned acts = step(&w, &now, &data, &size);

        check(&w, acts, seen);
        seen |= acts;
        if (acts & VRB_WU_DO_SEND) {
            uint8_t buf[VRB_HELLO_SIZE];
            struct vrb_hello out, back;

            vrb_wireup_message(&w, &out);
            vrb_hello_put(&out, buf);
            if (vrb_hello_get(buf, sizeof(buf), &back) != VRB_OK) {
                abort();
            }
        }
        if (vrb_wireup_deadline(&w) != UINT64_MAX && w.state != VRB_WU_CONNECTING) {
            abort();
        }
    }
    return 0;
}
