/* Registration of user memory: access rules, errors told apart, one warning when a limit is hit.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "mem/vrb_memlock.h"
#include "rail/vrb_rail.h"
#include "util/vrb_probe.h"

static int verbs_access(const struct vrb_rail *rail, unsigned access)
{
    int a = 0;

    if (access & VRB_ACCESS_LOCAL_WRITE) {
        a |= IBV_ACCESS_LOCAL_WRITE;
    }
    if (access & VRB_ACCESS_REMOTE_READ) {
        a |= IBV_ACCESS_REMOTE_READ;
    }
    /* ibv_reg_mr(3): remote write and atomic need local write. */
    if (access & VRB_ACCESS_REMOTE_WRITE) {
        a |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    }
    /* A device without atomics may refuse the right to them. */
    if ((access & VRB_ACCESS_REMOTE_ATOMIC) && rail->port.atomics) {
        a |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    }
    return a;
}

static int refused(struct vrb_rail *rail, size_t size, int err)
{
    char limit[128];

    rail->stats.mr_failed++;
    VRB_PROBE2(registration_refused, size, err);
    if (err == EFAULT || err == EACCES || err == EPERM) {
        return VRB_ERR_PERM;
    }
    if (err != ENOMEM && err != ENOSPC && err != EAGAIN) {
        return VRB_ERR_DEVICE;
    }
    if (!rail->mr_warned) {
        rail->mr_warned = 1;
        vrb_log(VRB_LOG_INFO,
                "%s: registering %zu bytes failed (%s; %s): such transfers are copied instead",
                rail->port.dev, size, strerror(err), vrb_memlock_text(limit, sizeof(limit)));
    }
    return VRB_ERR_NOMEM;
}

int vrb_mr_register(struct vrb_rail *rail, void *base, size_t size, unsigned access,
                    struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    struct ibv_mr *m = ibv_reg_mr(rail->pd, base, size, verbs_access(rail, access));

    if (m == NULL) {
        return refused(rail, size, errno);
    }
    *mr = m;
    *lkey = m->lkey;
    *rkey = m->rkey;
    vrb_lock(rail);
    if (rail->cfg.mode != VRB_MODE_RC && (access & VRB_ACCESS_REMOTE_WRITE) &&
        vrb_region_add(&rail->regions, m->rkey, base, size) != VRB_OK) {
        vrb_unlock(rail);
        ibv_dereg_mr(m);
        return VRB_ERR_NOMEM;
    }
    rail->stats.mr_count++;
    rail->stats.mr_made++;
    rail->stats.mr_bytes += size;
    VRB_PROBE3(registration_made, base, size, access);
    vrb_unlock(rail);
    return VRB_OK;
}

int vrb_mr_deregister(struct vrb_rail *rail, struct ibv_mr *mr)
{
    size_t size = mr->length;

    if (rail->cfg.mode != VRB_MODE_RC) {
        vrb_lock(rail);
        vrb_region_del(&rail->regions, mr->rkey);
        vrb_unlock(rail);
    }
    if (ibv_dereg_mr(mr) != 0) {
        return VRB_ERR_DEVICE;
    }
    vrb_lock(rail);
    rail->stats.mr_count--;
    rail->stats.mr_bytes -= size;
    vrb_unlock(rail);
    return VRB_OK;
}
