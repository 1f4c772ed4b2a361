/* Remote processes and endpoints: who can be reached over which rail.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An entry of the process table lives as long as one of its endpoints, or a user at this moment,
 * holds it. Asking the runtime or the core happens without the lock, so two threads may both find
 * something missing and make it; the later one gives up its own. */
#include <time.h>

#include "address/vrb_choose.h"
#include "address/vrb_reach.h"
#include "btl_verbs.h"

/* Time that all ending connections together may wait for what is still queued on them. Nobody needs
 * it any more: before Open MPI ends connections it has synchronised with the other side, when all
 * that the application waits for has arrived. The other side may have gone meanwhile, so that no
 * acknowledgement comes. */
#define DRAIN_MS 50

/* Unreachable peers that a process mentions to a user who asked for verbs. */
#define MAX_UNREACHABLE_SHOWN 1

static struct mca_btl_verbs_component *const self = &mca_btl_verbs_component;

/* With the lock held. */
static struct mca_btl_verbs_proc *table_find(uint64_t name)
{
    void *found = NULL;

    if (opal_hash_table_get_value_uint64(&self->procs, name, &found) != OPAL_SUCCESS) {
        return NULL;
    }
    return found;
}

/* Chooses the remote rail for each of ours, or says why there is none. */
static void pair_rails(struct mca_btl_verbs_proc *p)
{
    int i;

    for (i = 0; i < VRB_MAX_RAILS; i++) {
        p->map[i] = -1;
    }
    if (p->opal->proc_arch != opal_proc_local_get()->proc_arch) {
        p->why = "it runs on another processor architecture";
        return;
    }
    if (p->name == self->name) {
        /* One-sided operations on a window of our own: over the same device as everybody else's,
         * or they would not be atomic with those. */
        for (i = 0; i < self->num_modules; i++) {
            p->addresses[i] = self->addresses[i];
            p->map[i] = i;
        }
        p->num_addresses = self->num_modules;
        return;
    }
    p->num_addresses = mca_btl_verbs_modex_recv(p, &p->why);
    if (p->num_addresses > 0) {
        (void)vrb_choose_pairs(self->addresses, self->num_modules, p->addresses, p->num_addresses,
                               self->name < p->name, p->map, &p->why);
    }
}

/* Finds or makes the entry of a process, held for the caller. NULL: out of memory. */
static struct mca_btl_verbs_proc *proc_get(opal_proc_t *opal)
{
    uint64_t name = mca_btl_verbs_name(opal->proc_name);
    struct mca_btl_verbs_proc *p, *mine;

    OPAL_THREAD_LOCK(&self->lock);
    p = table_find(name);
    if (p != NULL) {
        p->refs++;
    }
    OPAL_THREAD_UNLOCK(&self->lock);
    if (p != NULL) {
        return p;
    }
    mine = calloc(1, sizeof(*mine));
    if (mine == NULL) {
        return NULL;
    }
    mine->name = name;
    mine->opal = opal;
    mine->refs = 1;
    mca_btl_verbs_hostname(opal, mine->host, sizeof(mine->host));
    pair_rails(mine);

    OPAL_THREAD_LOCK(&self->lock);
    p = table_find(name);
    if (p != NULL) {
        p->refs++;
    } else if (opal_hash_table_set_value_uint64(&self->procs, name, mine) == OPAL_SUCCESS) {
        p = mine;
        mine = NULL;
    }
    OPAL_THREAD_UNLOCK(&self->lock);
    free(mine);
    return p;
}

static void proc_put(struct mca_btl_verbs_proc *p)
{
    bool last;

    OPAL_THREAD_LOCK(&self->lock);
    last = --p->refs == 0;
    if (last) {
        (void)opal_hash_table_remove_value_uint64(&self->procs, p->name);
    }
    OPAL_THREAD_UNLOCK(&self->lock);
    if (last) {
        free(p);
    }
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Ends an endpoint that is in no table any more. What it still has to say gets some time, but all
 * endpoints together no more than DRAIN_MS, or a job of many dead peers would end late. */
static void endpoint_free(mca_btl_verbs_endpoint_t *endpoint)
{
    uint64_t start = now_ms();
    uint64_t took;

    endpoint->leaving = true;
    endpoint->proc = NULL;
    vrb_peer_destroy(endpoint->peer, self->drain_ms);
    took = now_ms() - start;
    self->drain_ms -= took < self->drain_ms ? (unsigned)took : self->drain_ms;
    /* Operations that the device has not given back yet still point here. */
    OPAL_THREAD_LOCK(&self->lock);
    endpoint->next_gone = endpoint->module->gone;
    endpoint->module->gone = endpoint;
    OPAL_THREAD_UNLOCK(&self->lock);
}

/* Finds or makes the endpoint of a process on a rail. NULL with the reason: unreachable that way.
 */
static mca_btl_verbs_endpoint_t *endpoint_get(mca_btl_verbs_module_t *module,
                                              struct mca_btl_verbs_proc *p, const char **why)
{
    mca_btl_verbs_endpoint_t *endpoint, *mine;
    int remote = p->map[module->index];
    int rc;

    OPAL_THREAD_LOCK(&self->lock);
    endpoint = p->endpoints[module->index];
    OPAL_THREAD_UNLOCK(&self->lock);
    if (endpoint != NULL) {
        return endpoint;
    }
    if (remote < 0) {
        *why = p->why != NULL ? p->why : "its ports are paired with other ports of this host";
        return NULL;
    }
    mine = calloc(1, sizeof(*mine));
    if (mine == NULL) {
        *why = "out of memory";
        return NULL;
    }
    mine->module = module;
    mine->proc = p;
    if (self->params.show_map && self->params.mode != VRB_MODE_RC) {
        mine->attention = MCA_BTL_VERBS_UNMAPPED;
    }
    mine->held_bufs_tail = &mine->held_bufs;
    mine->held_rdma_tail = &mine->held_rdma;
    rc = vrb_peer_create(module->rail, p->name, p->host, p->name & UINT32_MAX, remote,
                         &p->addresses[remote], mine, &mine->peer, why);
    if (rc != VRB_OK) {
        free(mine);
        return NULL;
    }
    if (vrb_rail_tcp_port(module->rail) != 0 &&
        vrb_peer_set_tcp(mine->peer, p->tcp_len > 0 ? p->tcp : NULL, p->tcp_len) != VRB_OK) {
        *why = "it did not publish where it answers handshakes over TCP";
        vrb_peer_destroy(mine->peer, 0);
        free(mine);
        return NULL;
    }
    endpoint = vrb_peer_user(mine->peer);
    if (endpoint != mine) {
        free(mine); /* another thread was faster: the core has one peer, with its endpoint */
        return endpoint;
    }
    mca_btl_verbs_rcache_start(module);
    OPAL_THREAD_LOCK(&self->lock);
    p->endpoints[module->index] = mine;
    p->refs++;
    self->drain_ms = DRAIN_MS;
    OPAL_THREAD_UNLOCK(&self->lock);
    return mine;
}

static void endpoint_drop(mca_btl_verbs_endpoint_t *endpoint)
{
    struct mca_btl_verbs_proc *p = endpoint->proc;

    mca_btl_verbs_report_peer(endpoint);
    OPAL_THREAD_LOCK(&self->lock);
    p->endpoints[endpoint->module->index] = NULL;
    OPAL_THREAD_UNLOCK(&self->lock);
    endpoint_free(endpoint);
    proc_put(p);
}

/* The reason with both ends' addresses and what to do, if addresses are the reason. */
static const char *reason_at_length(const struct mca_btl_verbs_proc *p, const char *why, char *text,
                                    size_t len)
{
    struct vrb_path path;
    const char *ignored;

    if (p->num_addresses <= 0 || p->why != why) {
        return why;
    }
    for (int i = 0; i < self->num_modules; i++) {
        for (int j = 0; j < p->num_addresses; j++) {
            if (vrb_choose(&self->addresses[i], &p->addresses[j], &path, &ignored) == VRB_OK) {
                return why;
            }
        }
    }
    return vrb_reach_none_of(self->addresses, self->num_modules, p->addresses, p->num_addresses,
                             why, text, len);
}

/* Tells why a process cannot be reached: to whoever debugs, and once to whoever asked for verbs,
 * when no rail reaches it at all. */
static void explain_unreachable(const mca_btl_verbs_module_t *module,
                                const struct mca_btl_verbs_proc *p, const char *why)
{
    unsigned rank = (unsigned)(p->name & UINT32_MAX);
    const struct vrb_port *port = vrb_rail_port(module->rail);
    char text[2048];
    int i;

    mca_btl_verbs_note("rank %u on host %s cannot be reached from %s port %d: %s", rank, p->host,
                       port->dev, port->port, why);
    for (i = 0; i < self->num_modules; i++) {
        if (p->map[i] >= 0) {
            return;
        }
    }
    if (self->asked && module->index == 0 && self->unreachable_shown < MAX_UNREACHABLE_SHOWN) {
        self->unreachable_shown++;
        mca_btl_verbs_say("rank %u on host %s cannot be reached over verbs: %s", rank, p->host,
                          reason_at_length(p, why, text, sizeof(text)));
    }
}

static mca_btl_verbs_endpoint_t *add_proc(mca_btl_verbs_module_t *module, opal_proc_t *opal)
{
    mca_btl_verbs_endpoint_t *endpoint;
    struct mca_btl_verbs_proc *p;
    const char *why = "no reason known";

    /* Messages to oneself are the self BTL's. One-sided operations are not. */
    if (opal == opal_proc_local_get() && !(module->super.btl_flags & MCA_BTL_FLAGS_ATOMIC_FOPS)) {
        return NULL;
    }
    p = proc_get(opal);
    if (p == NULL) {
        return NULL;
    }
    endpoint = endpoint_get(module, p, &why);
    if (endpoint == NULL) {
        explain_unreachable(module, p, why);
    }
    proc_put(p);
    return endpoint;
}

/* reachable is NULL when one process is added late. Unreachable is not an error: another BTL may
 * serve. */
int mca_btl_verbs_add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                            mca_btl_verbs_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    mca_btl_verbs_module_t *module = mca_btl_verbs_module(btl);
    size_t i;

    for (i = 0; i < nprocs; i++) {
        endpoints[i] = add_proc(module, procs[i]);
        if (endpoints[i] != NULL && reachable != NULL) {
            int rc = opal_bitmap_set_bit(reachable, (int)i);

            if (rc != OPAL_SUCCESS) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
}

int mca_btl_verbs_del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                            mca_btl_verbs_endpoint_t **endpoints)
{
    size_t i;

    (void)btl;
    (void)procs;
    for (i = 0; i < nprocs; i++) {
        if (endpoints[i] != NULL) {
            endpoint_drop(endpoints[i]);
        }
    }
    return OPAL_SUCCESS;
}

struct vrb_peer *mca_btl_verbs_unknown(void *ctx, struct vrb_rail *rail, uint64_t name)
{
    mca_btl_verbs_module_t *module = ctx;
    opal_process_name_t opal_name = {.jobid = (opal_jobid_t)(name >> 32),
                                     .vpid = (opal_vpid_t)(name & UINT32_MAX)};
    mca_btl_verbs_endpoint_t *endpoint;
    opal_proc_t *opal;

    (void)rail;
    /* The name is what a datagram claims. Asking Open MPI for one that does not exist makes a
     * process for good, and asks a runtime that may wait for it for ever. Processes of other jobs
     * are made known by whoever joins the jobs; their handshake repeats until then. */
    if (module->closing || opal_name.jobid != (opal_jobid_t)(self->name >> 32) ||
        opal_name.vpid >= self->job_size) {
        return NULL;
    }
    opal = opal_proc_for_name(opal_name);
    if (opal == NULL) {
        return NULL;
    }
    endpoint = add_proc(module, opal);
    return endpoint != NULL ? endpoint->peer : NULL;
}

mca_btl_verbs_endpoint_t *mca_btl_verbs_some_endpoint(const mca_btl_verbs_module_t *module,
                                                      uint8_t without)
{
    mca_btl_verbs_endpoint_t *found = NULL;
    void *value, *node, *next;
    uint64_t key;
    int rc;

    OPAL_THREAD_LOCK(&self->lock);
    rc = opal_hash_table_get_first_key_uint64(&self->procs, &key, &value, &node);
    while (rc == OPAL_SUCCESS && found == NULL) {
        found = ((struct mca_btl_verbs_proc *)value)->endpoints[module->index];
        if (found != NULL && found->attention & without) {
            found = NULL;
        }
        rc = opal_hash_table_get_next_key_uint64(&self->procs, &key, &value, node, &next);
        node = next;
    }
    OPAL_THREAD_UNLOCK(&self->lock);
    return found;
}

void mca_btl_verbs_drop_endpoints(mca_btl_verbs_module_t *module)
{
    mca_btl_verbs_endpoint_t *endpoint;

    while ((endpoint = mca_btl_verbs_some_endpoint(module, 0)) != NULL) {
        endpoint_drop(endpoint);
    }
}
