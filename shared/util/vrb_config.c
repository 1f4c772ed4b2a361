/* Default settings, and the ranges that absurd values are brought into.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "rc/vrb_credit.h"
#include "vrb.h"

#define DEFAULT_CREDITS 64

void vrb_config_defaults(struct vrb_config *cfg)
{
    memset(cfg, 0, sizeof(*cfg));
    cfg->recv_size = 16384;
    cfg->recv_buffers = 512;
    cfg->credits = DEFAULT_CREDITS;
    cfg->sq_depth = 128;
    cfg->max_inline = 256;
    cfg->send_buffers = 1024;
    cfg->rd_atomic = 16;
    cfg->use_srq = 1;
    cfg->ib_timeout = 17;
    cfg->ib_retry_count = 7;
    cfg->connect_timeout = 60;
    cfg->recover_timeout = 30;
    cfg->mode = VRB_MODE_RC;
    cfg->ud_buffers = 512;
    cfg->peer_timeout = 0;
    cfg->port_timeout = 60;
    cfg->promote_after = 32;
    cfg->max_rc = 256;
    cfg->keepalive = 5;
    cfg->rank = UINT64_MAX;
}

/* Returns the value to use. */
static uint32_t clamp(const char *prefix, const char *name, uint32_t value, uint32_t least,
                      uint32_t most)
{
    uint32_t used = value < least ? least : value > most ? most : value;

    if (used != value) {
        vrb_log(VRB_LOG_WARN, "%s%s = %u is out of range (%u .. %u); using %u", prefix, name, value,
                least, most, used);
    }
    return used;
}

void vrb_config_clamp(struct vrb_config *cfg, const char *prefix)
{
    const char *p = prefix ? prefix : "";
    uint32_t most;

    /* A packet holds at least the upper layer's longest control message (ob1: below 256 bytes). */
    cfg->recv_size = clamp(p, "recv_size", cfg->recv_size, 512, 1 << 20);
    cfg->recv_buffers = clamp(p, "recv_buffers", cfg->recv_buffers, 8, 65536);
    /* Beyond the shared queue credits would be empty promises. A default follows in silence. */
    most = cfg->recv_buffers < VRB_CREDIT_MAX_WINDOW ? cfg->recv_buffers : VRB_CREDIT_MAX_WINDOW;
    if (cfg->credits == DEFAULT_CREDITS && cfg->credits > most) {
        cfg->credits = most;
    }
    cfg->credits = clamp(p, "credits", cfg->credits, 2, most);
    cfg->sq_depth = clamp(p, "sq_depth", cfg->sq_depth, 4, 32768);
    cfg->burst = clamp(p, "burst", cfg->burst, 0, VRB_CREDIT_MAX_WINDOW);
    cfg->max_inline = clamp(p, "max_inline", cfg->max_inline, 0, 4096);
    cfg->send_buffers = clamp(p, "send_buffers", cfg->send_buffers, 8, 1 << 20);
    cfg->rd_atomic = clamp(p, "rd_atomic", cfg->rd_atomic, 1, 128);
    cfg->use_srq = (uint8_t)clamp(p, "use_srq", cfg->use_srq, 0, 1);
    /* 0 would wait for ever (IBTA 9.7.6.1.3); 24 is 69 s, and up to 8 times that with retries. */
    cfg->ib_timeout = (uint8_t)clamp(p, "ib_timeout", cfg->ib_timeout, 1, 24);
    cfg->ib_retry_count = (uint8_t)clamp(p, "ib_retry_count", cfg->ib_retry_count, 0, 7);
    cfg->sl = (uint8_t)clamp(p, "sl", cfg->sl, 0, 15);
    cfg->threads = (uint8_t)clamp(p, "threads", cfg->threads, 0, 1);
    cfg->mode = (uint8_t)clamp(p, "mode", cfg->mode, VRB_MODE_RC, VRB_MODE_AUTO);
    cfg->carrier = (uint8_t)clamp(p, "wireup", cfg->carrier, VRB_CARRIER_AUTO, VRB_CARRIER_TCP);
    cfg->ud_buffers = clamp(p, "ud_buffers", cfg->ud_buffers, 64, 16384);
    cfg->peer_timeout = clamp(p, "peer_timeout", cfg->peer_timeout, 0, 86400 * 365);
    cfg->port_timeout = clamp(p, "port_timeout", cfg->port_timeout, 0, 86400);
    cfg->promote_after = clamp(p, "promote_after", cfg->promote_after, 1, 1u << 30);
    cfg->max_rc = clamp(p, "max_rc", cfg->max_rc, 0, 1u << 20);
    cfg->connect_timeout = clamp(p, "connect_timeout", cfg->connect_timeout, 1, 86400);
    cfg->recover_timeout = clamp(p, "recover_timeout", cfg->recover_timeout, 0, 86400);
    cfg->keepalive = clamp(p, "keepalive", cfg->keepalive, 0, 86400);
}
