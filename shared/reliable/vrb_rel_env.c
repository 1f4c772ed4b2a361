/* What the peers of a rail share: settings and their ranges, the pool, the counters.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel.h"

#include <string.h>

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SEC (1000 * MS)

void vrb_rel_config_defaults(struct vrb_rel_config *cfg)
{
    memset(cfg, 0, sizeof(*cfg));
    cfg->ack_delay_ns = 30 * US;
    cfg->probe_max_ns = 100 * MS;
    cfg->dead_ns = 300 * SEC;
    cfg->absence_ns = 100 * US;
    cfg->least_period_ns = 10 * SEC;
    cfg->rtt_ns = 200 * US;
    cfg->ack_every = 16;
    cfg->buffers = 64;
    cfg->cc.initial = 32;
    cfg->cc.floor = 16;
    cfg->cc.max = 512;
    cfg->cc.target_ns = 50 * US;
}

static uint64_t between(uint64_t x, uint64_t least, uint64_t most)
{
    return x < least ? least : x > most ? most : x;
}

void vrb_rel_config_clamp(struct vrb_rel_config *cfg)
{
    const uint64_t year = 365 * 86400 * SEC;

    cfg->ack_delay_ns = between(cfg->ack_delay_ns, 0, SEC);
    cfg->probe_max_ns = between(cfg->probe_max_ns, 100 * US, 60 * SEC);
    cfg->dead_ns = cfg->dead_ns ? between(cfg->dead_ns, MS, year) : 0;
    cfg->absence_ns = between(cfg->absence_ns, US, year);
    cfg->least_period_ns = between(cfg->least_period_ns, MS, year);
    cfg->rtt_ns = (uint32_t)between(cfg->rtt_ns, 1000, SEC);
    cfg->ack_every = (uint16_t)between(cfg->ack_every, 1, VRB_REL_WINDOW / 4);
    cfg->buffers = (uint16_t)between(cfg->buffers, 1, VRB_REL_SPAN);
    cfg->cc.max = (uint32_t)between(cfg->cc.max, 1, VRB_REL_SPAN);
    cfg->cc.initial = (uint32_t)between(cfg->cc.initial, 1, cfg->cc.max);
    cfg->cc.floor = (uint32_t)between(cfg->cc.floor, 1, cfg->cc.max);
    cfg->cc.target_ns = (uint32_t)between(cfg->cc.target_ns, 1000, SEC);
}

int vrb_rel_env_init(struct vrb_rel_env *env, const struct vrb_rel_config *cfg, uint32_t chunks)
{
    memset(env, 0, sizeof(*env));
    env->cfg = *cfg;
    vrb_rel_config_clamp(&env->cfg);
    return vrb_rel_pool_init(&env->pool, chunks);
}

void vrb_rel_env_fini(struct vrb_rel_env *env)
{
    vrb_rel_pool_fini(&env->pool);
}
