/* A sender with its environment, as the unit tests of the reliable datagram engine use it.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef RELIABLE_FIXTURE_H
#define RELIABLE_FIXTURE_H

#include "unit.h"

#include "reliable/vrb_rel.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SEC (1000 * MS)
#define START 5000u

/* A sender whose packets are numbered from START, data and packet numbers alike. */
struct fixture {
    struct vrb_rel_env env;
    struct vrb_rel rel;
    uint64_t now;
    void *done[VRB_REL_WINDOW];
};

static inline void begin(struct fixture *f, const struct vrb_rel_config *cfg)
{
    struct vrb_rel_config usual;

    vrb_rel_config_defaults(&usual);
    assert_int_equal(vrb_rel_env_init(&f->env, cfg ? cfg : &usual, 256), VRB_OK);
    f->now = SEC;
    vrb_rel_init(&f->rel, &f->env, f->now, START, START);
}

static inline void end(struct fixture *f)
{
    while (vrb_rel_reclaim(&f->rel)) {
    }
    assert_int_equal(vrb_rel_outstanding(&f->rel), 0);
    assert_int_equal(f->env.pool.in_use, 0);
    vrb_rel_env_fini(&f->env);
}

static inline void *cookie(uint32_t i)
{
    return (void *)(uintptr_t)(i + 1);
}

static inline void send_some(struct fixture *f, uint32_t n)
{
    struct vrb_rel_numbers num;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = (uint32_t)f->rel.tx.next_dseq - START;

        assert_int_equal(vrb_rel_send(&f->rel, cookie(index), f->now, &num), VRB_OK);
    }
}

/* An acknowledgement: all below cum, and bits. */
static inline int acked(struct fixture *f, uint32_t cum, uint32_t echo, uint64_t bits)
{
    struct vrb_ud_ack ack = {.cum = START + cum,
                             .echo = START + echo,
                             .buffers = 512,
                             .words = bits ? 1 : 0,
                             .bits = {bits}};

    return vrb_rel_on_ack(&f->rel, &ack, f->now, f->done);
}

#endif
