/* Memory registration: Open MPI's registration cache (grdma) above, the core's memory regions
 * below. SPDX-License-Identifier: BSD-3-Clause
 *
 * The cache calls register_region and deregister_region. They must not call the cache, and a
 * failure means no more than that ob1 copies the message. */
#include <stddef.h>

#include "btl_verbs.h"

struct mca_btl_verbs_reg {
    mca_rcache_base_registration_t base; /* first: this is what the cache holds */
    struct ibv_mr *mr;
    mca_btl_base_registration_handle_t handle;
    struct mca_btl_verbs_reg *next, **prev; /* the module's live registrations */
};

/* One cache name for all rails: when one of them runs out of memory to lock, the oldest unused
 * registration of any may go, because they share the process's limit. */
static char cache_name[] = "verbs";

/* The handle of memory that could not be registered, where ob1 does not bear a refusal. */
static mca_btl_base_registration_handle_t unusable;

static unsigned access_of(int32_t access_flags)
{
    unsigned access = 0;

    access |= access_flags & MCA_RCACHE_ACCESS_LOCAL_WRITE ? VRB_ACCESS_LOCAL_WRITE : 0;
    access |= access_flags & MCA_RCACHE_ACCESS_REMOTE_READ ? VRB_ACCESS_REMOTE_READ : 0;
    access |= access_flags & MCA_RCACHE_ACCESS_REMOTE_WRITE ? VRB_ACCESS_REMOTE_WRITE : 0;
    access |= access_flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC ? VRB_ACCESS_REMOTE_ATOMIC : 0;
    return access;
}

/* The user's limit. Read without the rails' locks: it is a limit on the cache, not a promise to the
 * byte. */
static bool above_limit(size_t size)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    uint64_t most = (uint64_t)c->params.registered_max << 20;
    uint64_t sum = size;
    int i;

    if (most == 0) {
        return false;
    }
    for (i = 0; i < c->num_modules; i++) {
        if (c->modules[i] != NULL) {
            sum += vrb_rail_stats(c->modules[i]->rail)->mr_bytes;
        }
    }
    return sum > most;
}

static int register_region(void *ctx, void *base, size_t size, mca_rcache_base_registration_t *r)
{
    mca_btl_verbs_module_t *module = ctx;
    struct mca_btl_verbs_reg *reg = (struct mca_btl_verbs_reg *)r;
    unsigned access = access_of(r->access_flags);
    int rc;

    if (OPAL_UNLIKELY(above_limit(size))) {
        reg->mr = NULL;
        reg->handle.usable = 0;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = vrb_mr_register(module->rail, base, size, access, &reg->mr, &reg->handle.lkey,
                         &reg->handle.rkey);
    if (rc == VRB_ERR_PERM && r->access_flags == MCA_RCACHE_ACCESS_ANY) {
        /* "Any access" asked of read-only memory: what can still be meant is reading. Whoever asked
         * for writing in particular is told that it cannot be had. */
        rc = vrb_mr_register(module->rail, base, size, VRB_ACCESS_REMOTE_READ, &reg->mr,
                             &reg->handle.lkey, &reg->handle.rkey);
    }
    if (rc != VRB_OK) {
        reg->mr = NULL;
        reg->handle.usable = 0;
        /* The cache drops something unused and tries again if told that resources ran out. */
        return rc == VRB_ERR_NOMEM ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_NOT_AVAILABLE;
    }
    reg->handle.usable = r->access_flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC ? MCA_BTL_VERBS_WINDOW
                                                                           : MCA_BTL_VERBS_USABLE;
    OPAL_THREAD_LOCK(&module->regs_lock);
    reg->next = module->regs;
    reg->prev = &module->regs;
    if (reg->next != NULL) {
        reg->next->prev = &reg->next;
    }
    module->regs = reg;
    OPAL_THREAD_UNLOCK(&module->regs_lock);
    return OPAL_SUCCESS;
}

/* False if rcache_stop was here before. */
static bool unlist(mca_btl_verbs_module_t *module, struct mca_btl_verbs_reg *reg)
{
    bool listed;

    OPAL_THREAD_LOCK(&module->regs_lock);
    listed = reg->mr != NULL;
    if (listed) {
        *reg->prev = reg->next;
        if (reg->next != NULL) {
            reg->next->prev = reg->prev;
        }
    }
    OPAL_THREAD_UNLOCK(&module->regs_lock);
    return listed;
}

static int deregister_region(void *ctx, mca_rcache_base_registration_t *r)
{
    mca_btl_verbs_module_t *module = ctx;
    struct mca_btl_verbs_reg *reg = (struct mca_btl_verbs_reg *)r;

    if (!unlist(module, reg)) {
        return OPAL_SUCCESS;
    }
    if (vrb_mr_deregister(module->rail, reg->mr) != VRB_OK) {
        mca_btl_verbs_note("a memory region could not be deregistered");
    }
    reg->mr = NULL;
    return OPAL_SUCCESS;
}

void mca_btl_verbs_rcache_start(mca_btl_verbs_module_t *module)
{
    mca_rcache_base_resources_t resources = {
        .cache_name = cache_name,
        .reg_data = module,
        .sizeof_reg = sizeof(struct mca_btl_verbs_reg),
        .register_mem = register_region,
        .deregister_mem = deregister_region,
    };
    mca_rcache_base_module_t *rcache;

    if (module->rcache != NULL) {
        return;
    }
    mca_btl_verbs_guard_heap();
    rcache = mca_rcache_base_module_create("grdma", module, &resources);
    if (rcache == NULL) {
        mca_btl_verbs_note("no registration cache (rcache/grdma): messages are copied");
        return;
    }
    OPAL_THREAD_LOCK(&module->regs_lock);
    if (module->rcache == NULL) {
        module->rcache = rcache;
        rcache = NULL;
    }
    OPAL_THREAD_UNLOCK(&module->regs_lock);
    if (rcache != NULL) {
        mca_rcache_base_module_destroy(rcache);
    }
}

void mca_btl_verbs_rcache_stop(mca_btl_verbs_module_t *module)
{
    while (module->regs != NULL) {
        (void)deregister_region(module, &module->regs->base);
    }
    if (module->rcache != NULL) {
        mca_rcache_base_module_destroy(module->rcache);
        module->rcache = NULL;
    }
}

/* Without a lock: that two threads count as one now and then does less harm than that they wait for
 * each other. */
static void count_served(mca_btl_verbs_module_t *module)
{
    uint64_t *served = &vrb_rail_stats(module->rail)->mr_served;

    __atomic_store_n(served, __atomic_load_n(served, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

mca_btl_base_registration_handle_t *mca_btl_verbs_register_mem(mca_btl_base_module_t *btl,
                                                               mca_btl_verbs_endpoint_t *endpoint,
                                                               void *base, size_t size,
                                                               uint32_t flags)
{
    mca_btl_verbs_module_t *module = mca_btl_verbs_module(btl);
    mca_rcache_base_registration_t *reg = NULL;
    int rc;

    (void)endpoint;
    flags &= MCA_BTL_REG_FLAG_ACCESS_ANY;
    if (OPAL_UNLIKELY(module->rcache == NULL)) {
        mca_btl_verbs_rcache_start(module);
        if (module->rcache == NULL) {
            return flags == MCA_BTL_REG_FLAG_REMOTE_WRITE ? &unusable : NULL;
        }
    }
    rc = module->rcache->rcache_register(module->rcache, base, size, 0, (int32_t)flags, &reg);
    if (OPAL_UNLIKELY(rc != OPAL_SUCCESS || reg == NULL)) {
        /* "Remote write" and nothing else is the receiver of ob1's put protocol. Refused, it tries
         * again for ever, but only when something else completes. With a handle it asks the sender
         * to put, the sender's put declines, and then the data is sent as packets. */
        return flags == MCA_BTL_REG_FLAG_REMOTE_WRITE ? &unusable : NULL;
    }
    count_served(module);
    return &((struct mca_btl_verbs_reg *)reg)->handle;
}

int mca_btl_verbs_deregister_mem(mca_btl_base_module_t *btl,
                                 mca_btl_base_registration_handle_t *handle)
{
    mca_btl_verbs_module_t *module = mca_btl_verbs_module(btl);
    struct mca_btl_verbs_reg *reg =
        (struct mca_btl_verbs_reg *)((char *)handle - offsetof(struct mca_btl_verbs_reg, handle));

    if (!handle->usable) {
        return OPAL_SUCCESS;
    }
    (void)module->rcache->rcache_deregister(module->rcache, &reg->base);
    return OPAL_SUCCESS;
}
