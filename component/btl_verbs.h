/* The verbs BTL: types shared by the files of the component, and what each file offers the others.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A thin adapter: Open MPI's BTL interface above, the transport core (shared/vrb.h) below. One BTL
 * module is one rail (a usable port); one endpoint is one remote process on one rail, that is one
 * vrb_peer.
 *
 * Who does what:
 *   btl_verbs_component.c  register, open, close, init, progress
 *   btl_verbs_params.c     parameters            btl_verbs_pvars.c    performance variables
 *   btl_verbs_module.c     makes and ends modules
 *   btl_verbs_modex.c      what processes publish about themselves
 *   btl_verbs_proc.c       remote processes and endpoints
 *   btl_verbs_send.c       messages out          btl_verbs_recv.c     messages in
 *   btl_verbs_heap.c       memory that the heap gives back, and the cache
 *   btl_verbs_rdma.c       put and get           btl_verbs_atomic.c   atomic operations
 *   btl_verbs_memory.c     registration and its cache
 *   btl_verbs_memory_report.c  what memory a peer, and a process, holds
 *   btl_verbs_error.c      lost peers            btl_verbs_text.c     what is said to the user
 *   btl_verbs_map.c        which way each connection goes
 *   btl_verbs_watch.c      counters that others may see while the job runs
 *   btl_verbs_summary.c    what a node's ranks did, in one table at the end
 *
 * Locks: component.lock covers the table of processes and is never held while the core, the runtime
 * or a callback is called, because those may take the rail's lock or progress recursively. */
#ifndef BTL_VERBS_H
#define BTL_VERBS_H

#include <stdbool.h>

#include "btl_verbs_compat.h"
#include "vrb.h"

struct mca_btl_verbs_module;
struct mca_btl_verbs_proc;

/* What the user sets besides Open MPI's standard parameters and the core's numbers. */
struct mca_btl_verbs_params {
    char *if_include, *if_exclude;
    char *stats_dir; /* where the counters of a running process are shown; empty: nowhere */
    bool show_map, show_memory, summary;
    int mode;                /* enum vrb_mode */
    int carrier;             /* enum vrb_carrier */
    unsigned registered_max; /* MiB of the application's memory kept registered; 0: no limit */
    unsigned port_wait;      /* seconds */
};

struct mca_btl_verbs_component {
    mca_btl_base_component_t super; /* first: Open MPI looks at nothing else */
    struct mca_btl_verbs_params params;
    bool asked;      /* the user asked for this BTL: say why it cannot serve */
    bool first_here; /* speaks for the processes of this host when all would say the same */
    bool setting_up; /* inside init: the core's warnings are about the environment */
    bool host_wide;  /* what is being done now gives the same result in every process here */
    struct mca_btl_verbs_module **modules;
    int num_modules;
    struct vrb_rail *rails[VRB_MAX_RAILS + 1];   /* of the modules that live, then NULL */
    struct vrb_address addresses[VRB_MAX_RAILS]; /* as published; [i] belongs to modules[i] */
    uint64_t name;                               /* this process */
    opal_mutex_t lock;
    opal_hash_table_t procs; /* process name -> struct mca_btl_verbs_proc */
    uint32_t job_size;       /* processes of our own job; 0: not known */
    int lost_shown;          /* reports of lost peers printed so far */
    int unreachable_shown;   /* unreachable peers mentioned so far */
    unsigned drain_ms;       /* how long ending connections may still wait for what is queued */
};

extern struct mca_btl_verbs_component mca_btl_verbs_component;

struct mca_btl_verbs_module {
    mca_btl_base_module_t super; /* first: this is what Open MPI holds */
    struct vrb_rail *rail;
    int index;             /* position among what this process publishes */
    bool closing;          /* finalizing: whom the callbacks would call may be unloaded already */
    bool thresholds_shown; /* by show_map */
    uint64_t max_rdma;     /* bytes of one RDMA operation at the most */
    mca_btl_base_module_error_cb_fn_t error_cb;
    mca_rcache_base_module_t *rcache; /* made with the first endpoint */
    struct mca_btl_verbs_reg *regs;   /* live registrations */
    opal_mutex_t regs_lock;
    struct mca_btl_base_endpoint_t *gone; /* ended endpoints, freed with the module */
};
typedef struct mca_btl_verbs_module mca_btl_verbs_module_t;

/* One remote process, on whatever rails reach it. */
struct mca_btl_verbs_proc {
    uint64_t name;
    opal_proc_t *opal;
    unsigned refs; /* endpoints and users at this moment; under component.lock */
    int num_addresses;
    struct vrb_address addresses[VRB_MAX_RAILS];
    uint8_t tcp[VRB_TCP_PACKED_MAX]; /* where it answers handshakes over TCP */
    uint8_t tcp_len;
    int map[VRB_MAX_RAILS]; /* remote rail for each of ours, or -1 */
    const char *why;        /* why map has no entry at all */
    char host[64];
    struct mca_btl_base_endpoint_t *endpoints[VRB_MAX_RAILS];
};

/* The loss of the connection was reported: nothing more can be sent. */
#define MCA_BTL_VERBS_LOST 1
/* show_map has not shown this peer. */
#define MCA_BTL_VERBS_UNMAPPED 2

struct mca_btl_base_endpoint_t {
    struct vrb_peer *peer; /* first: the hot path needs nothing else */
    mca_btl_verbs_module_t *module;
    struct mca_btl_verbs_proc *proc;
    uint8_t attention; /* bits above: 0 on the way of nearly all messages */
    bool orderly;      /* lost because the far end closed it: not an error */
    bool leaving;      /* being dropped: nobody waits for failed operations any more */
    /* Operations that failed before the loss was reported, to be completed after it. */
    struct vrb_buf *held_bufs, **held_bufs_tail;
    struct vrb_rdma *held_rdma, **held_rdma_tail;
    struct mca_btl_base_endpoint_t *next_gone; /* among the module's ended endpoints */
};
typedef struct mca_btl_base_endpoint_t mca_btl_verbs_endpoint_t;

static inline mca_btl_verbs_module_t *mca_btl_verbs_module(mca_btl_base_module_t *btl)
{
    return (mca_btl_verbs_module_t *)btl;
}

static inline uint64_t mca_btl_verbs_name(opal_process_name_t name)
{
    return (uint64_t)name.jobid << 32 | name.vpid;
}

/* Default of the two eager limits: bytes of a packet, ob1's header included. */
#define MCA_BTL_VERBS_EAGER 8192

/* ---- btl_verbs_component.c ---- */

/* Lists the rails for progress anew: the modules have changed. */
void mca_btl_verbs_list_rails(void);

/* ---- btl_verbs_params.c ---- */

/* Registers the component's own parameters. */
void mca_btl_verbs_params_register(struct mca_btl_verbs_params *params);
/* The settings for the rails: as asked for, sizes taken from the module, all brought into range. */
void mca_btl_verbs_params_config(mca_btl_base_module_t *module, struct vrb_config *cfg);

/* ---- btl_verbs_pvars.c ---- */

void mca_btl_verbs_pvars_register(void);
/* The rails of the modules that live. Returns how many. */
int mca_btl_verbs_rails(struct vrb_rail *rails[VRB_MAX_RAILS]);

/* ---- btl_verbs_module.c ---- */

/* What every module starts as; Open MPI's standard parameters are stored in it. */
extern mca_btl_base_module_t mca_btl_verbs_template;
void mca_btl_verbs_template_init(void);

/* Makes a module of an open rail. NULL: out of memory. */
mca_btl_verbs_module_t *mca_btl_verbs_module_new(int index);
/* Takes over the rail and what the port allows. */
void mca_btl_verbs_module_attach(mca_btl_verbs_module_t *module, struct vrb_rail *rail);
int mca_btl_verbs_module_finalize(mca_btl_base_module_t *btl);

/* ---- btl_verbs_modex.c ---- */

/* Publishes component.addresses. */
int mca_btl_verbs_modex_send(void);
/* Fetches what a process published into its entry. Returns the number of addresses, or 0 with the
 * reason. */
int mca_btl_verbs_modex_recv(struct mca_btl_verbs_proc *proc, const char **why);

/* ---- btl_verbs_proc.c ---- */

int mca_btl_verbs_add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                            mca_btl_verbs_endpoint_t **endpoints, opal_bitmap_t *reachable);
int mca_btl_verbs_del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                            mca_btl_verbs_endpoint_t **endpoints);
/* A process that we have no endpoint for wants to connect (vrb_callbacks.unknown). */
struct vrb_peer *mca_btl_verbs_unknown(void *ctx, struct vrb_rail *rail, uint64_t name);
/* Any endpoint of the module that has none of the bits in its `attention`; NULL if there is none.
 */
mca_btl_verbs_endpoint_t *mca_btl_verbs_some_endpoint(const mca_btl_verbs_module_t *module,
                                                      uint8_t without);
/* Drops every endpoint of a module. */
void mca_btl_verbs_drop_endpoints(mca_btl_verbs_module_t *module);

/* ---- btl_verbs_send.c ---- */

/* Bytes that each vrb_buf carries for the component. */
extern const size_t mca_btl_verbs_buf_user;

mca_btl_base_descriptor_t *mca_btl_verbs_alloc(mca_btl_base_module_t *btl,
                                               mca_btl_verbs_endpoint_t *endpoint, uint8_t order,
                                               size_t size, uint32_t flags);
int mca_btl_verbs_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *mca_btl_verbs_prepare_src(mca_btl_base_module_t *btl,
                                                     mca_btl_verbs_endpoint_t *endpoint,
                                                     opal_convertor_t *convertor, uint8_t order,
                                                     size_t reserve, size_t *size, uint32_t flags);
int mca_btl_verbs_send(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                       mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int mca_btl_verbs_sendi(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                        opal_convertor_t *convertor, void *header, size_t header_size,
                        size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                        mca_btl_base_descriptor_t **des);
/* Gives a sent buffer back to its owner with an Open MPI status. */
void mca_btl_verbs_send_complete(struct vrb_buf *buf, int status);

/* ---- btl_verbs_recv.c ---- */

void mca_btl_verbs_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len);

/* ---- btl_verbs_rdma.c ---- */

/* What the component keeps with an operation of the core. */
struct mca_btl_verbs_op {
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *context, *data;
    void *local_address;
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_verbs_endpoint_t *endpoint;
    bool own_handle; /* registered here, because the caller did not */
};

/* One as Open MPI's put, get and atomic calls describe it. */
static inline struct mca_btl_verbs_op mca_btl_verbs_op(
    mca_btl_verbs_endpoint_t *endpoint, void *local_address,
    mca_btl_base_registration_handle_t *local_handle, mca_btl_base_rdma_completion_fn_t cbfunc,
    void *context, void *data)
{
    const struct mca_btl_verbs_op op = {.cbfunc = cbfunc,
                                        .context = context,
                                        .data = data,
                                        .local_address = local_address,
                                        .local_handle = local_handle,
                                        .endpoint = endpoint};

    return op;
}

extern const size_t mca_btl_verbs_rdma_user;

int mca_btl_verbs_put(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *local_handle,
                      mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                      int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                      void *cbdata);
int mca_btl_verbs_get(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *local_handle,
                      mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                      int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                      void *cbdata);
void mca_btl_verbs_rdma_complete(struct vrb_rdma *rdma, int status);

/* ---- btl_verbs_atomic.c ---- */

int mca_btl_verbs_atomic_op(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                            uint64_t remote_address,
                            mca_btl_base_registration_handle_t *remote_handle,
                            mca_btl_base_atomic_op_t what, uint64_t operand, int flags, int order,
                            mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                            void *cbdata);
int mca_btl_verbs_atomic_fop(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                             void *local_address, uint64_t remote_address,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t what, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                             void *cbdata);
int mca_btl_verbs_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_verbs_endpoint_t *endpoint,
                               void *local_address, uint64_t remote_address,
                               mca_btl_base_registration_handle_t *local_handle,
                               mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                               uint64_t value, int flags, int order,
                               mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                               void *cbdata);

/* ---- btl_verbs_memory.c ---- */

/* What Open MPI carries to the other side byte by byte, possibly unaligned: 4-byte fields only. */
struct mca_btl_base_registration_handle_t {
    uint32_t lkey, rkey;
    uint32_t usable; /* one of the values below */
    /* osc/rdma lays its counters out behind handles, and they must lie on multiples of 8 bytes for
     * the device's atomics: so the size of a handle has to be one. */
    uint32_t reserved;
};
#define MCA_BTL_VERBS_UNUSABLE 0 /* the memory could not be registered; put and get decline */
#define MCA_BTL_VERBS_USABLE 1
/* Registered for atomics, too: a window, whose user cannot do without RDMA as ob1 can. */
#define MCA_BTL_VERBS_WINDOW 2

mca_btl_base_registration_handle_t *mca_btl_verbs_register_mem(mca_btl_base_module_t *btl,
                                                               mca_btl_verbs_endpoint_t *endpoint,
                                                               void *base, size_t size,
                                                               uint32_t flags);
int mca_btl_verbs_deregister_mem(mca_btl_base_module_t *btl,
                                 mca_btl_base_registration_handle_t *handle);
/* Makes the registration cache if it is not there yet. */
void mca_btl_verbs_rcache_start(mca_btl_verbs_module_t *module);
/* Ends it, together with registrations that nobody gave back. */
void mca_btl_verbs_rcache_stop(mca_btl_verbs_module_t *module);

/* ---- btl_verbs_heap.c ---- */

/* Before the first registration that is kept: once per process. */
void mca_btl_verbs_guard_heap(void);

/* ---- btl_verbs_map.c ---- */

/* A connection is up (vrb_callbacks.connected): shown if the user asked for the map. */
void mca_btl_verbs_connected(void *ctx, struct vrb_peer *peer);
/* The first message to or from a peer that needs no connection. */
void mca_btl_verbs_map(mca_btl_verbs_endpoint_t *endpoint);

/* ---- btl_verbs_memory_report.c ---- */

/* What a peer that is about to go holds, and what the process had registered: if the user asked. */
void mca_btl_verbs_report_peer(const mca_btl_verbs_endpoint_t *endpoint);
void mca_btl_verbs_report_memory(const mca_btl_verbs_module_t *module);

/* ---- btl_verbs_watch.c ---- */

/* True if the user asked for the counters to be shown. */
bool mca_btl_verbs_watched(void);
/* Begins to show this process's counters, if the user asked: when all rails are there. */
void mca_btl_verbs_watch_start(void);
/* Shows them as they are now (vrb_callbacks.tick). */
void mca_btl_verbs_tick(void *ctx, struct vrb_rail *rail);
/* Before the first rail goes. */
void mca_btl_verbs_watch_stop(void);

/* ---- btl_verbs_summary.c ---- */

/* If the user asked: takes a place among the node's ranks, when all rails are there; and fills it
 * in, before the first rail goes. The last rank to do so prints. */
void mca_btl_verbs_summary_start(void);
void mca_btl_verbs_summary_stop(void);

/* ---- btl_verbs_error.c ---- */

int mca_btl_verbs_register_error(mca_btl_base_module_t *btl,
                                 mca_btl_base_module_error_cb_fn_t cbfunc);
/* The core lost a peer (vrb_callbacks.failed) or the whole rail (rail_failed). */
void mca_btl_verbs_peer_lost(void *ctx, struct vrb_peer *peer, int status, const char *text);
void mca_btl_verbs_rail_lost(void *ctx, struct vrb_rail *rail, const char *text);
/* A send or an RDMA operation failed: completes it, now or after the loss was reported. */
void mca_btl_verbs_send_failed(mca_btl_verbs_endpoint_t *endpoint, struct vrb_buf *buf);
void mca_btl_verbs_rdma_failed(mca_btl_verbs_endpoint_t *endpoint, struct vrb_rdma *rdma);
/* A one-sided operation needs a connection and the peer can have none: ends the job, for osc/rdma
 * does not look at errors and would go on with wrong data. */
void mca_btl_verbs_onesided_refused(mca_btl_verbs_endpoint_t *endpoint, struct vrb_rdma *rdma);

/* ---- btl_verbs_text.c ---- */

/* Finds out whether the user asked for this BTL, and sets where the core's words go. */
void mca_btl_verbs_text_start(void);
void mca_btl_verbs_text_stop(void);
/* Prints a line, or several, to the user. */
void mca_btl_verbs_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what is true of the whole host: one of its processes speaks. */
void mca_btl_verbs_say_here(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same as say, with a frame, for what stops the user from getting what was asked for. */
void mca_btl_verbs_say_framed(const char *text);
/* Shown with btl_base_verbose 20 or more. */
void mca_btl_verbs_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Says why no port can be used, with what to do next: only if asked and once per host. */
void mca_btl_verbs_say_no_ports(const struct vrb_port *ports, int n);

#endif
