/* The component: what Open MPI loads. Registers, opens, finds ports, makes modules, makes progress.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <time.h>

#include "btl_verbs.h"
#include "config.h"

/* Between two looks at ports that are about to come up. */
#define PORT_LOOK_MS 50

static int verbs_register(void);
static int verbs_open(void);
static int verbs_close(void);
static mca_btl_base_module_t **verbs_init(int *num, bool progress_threads, bool mpi_threads);
static int verbs_progress(void);

/* The one symbol that this object exports. */
OPAL_DECLSPEC struct mca_btl_verbs_component mca_btl_verbs_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("verbs"),
                    .mca_open_component = verbs_open,
                    .mca_close_component = verbs_close,
                    .mca_register_component_params = verbs_register,
                },
            .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .btl_init = verbs_init,
            .btl_progress = verbs_progress,
        },
};

static struct mca_btl_verbs_component *const self = &mca_btl_verbs_component;

/* Open MPI's loader compares no version beyond the component interface's own, which is the same in
 * all series, although structures differ between them. */
static bool right_open_mpi(void)
{
    int major = 0, minor = 0;

    return sscanf(opal_version_string, "%d.%d", &major, &minor) == 2 &&
           major == VRB_OMPI_VERSION_MAJOR && minor == VRB_OMPI_VERSION_MINOR;
}

static int verbs_register(void)
{
    if (!right_open_mpi()) {
        mca_btl_verbs_text_start();
        if (self->asked && self->first_here) {
            mca_btl_verbs_say(
                "built for Open MPI %d.%d, but this is %s: not used. Build it again with "
                "this Open MPI's ompi_info in PATH.",
                VRB_OMPI_VERSION_MAJOR, VRB_OMPI_VERSION_MINOR, opal_version_string);
        }
        mca_btl_verbs_text_stop();
        return OPAL_ERR_NOT_AVAILABLE;
    }
    mca_btl_verbs_template_init();
    mca_btl_verbs_params_register(&self->params);
    mca_btl_verbs_pvars_register();
    return mca_btl_base_param_register(&self->super.btl_version, &mca_btl_verbs_template);
}

/* Sessions may open and close a component several times in one process. */
static int verbs_open(void)
{
    self->modules = NULL;
    self->num_modules = 0;
    self->rails[0] = NULL;
    self->lost_shown = 0;
    self->unreachable_shown = 0;
    self->drain_ms = 0;
    OBJ_CONSTRUCT(&self->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&self->procs, opal_hash_table_t);
    mca_btl_verbs_text_start();
    return opal_hash_table_init(&self->procs, 64);
}

static int verbs_close(void)
{
    free(self->modules);
    self->modules = NULL;
    self->num_modules = 0;
    OBJ_DESTRUCT(&self->procs);
    OBJ_DESTRUCT(&self->lock);
    mca_btl_verbs_text_stop();
    return OPAL_SUCCESS;
}

/* Opens one port. False: the core has said why. */
static bool add_module(const struct vrb_port *port, const struct vrb_config *cfg)
{
    mca_btl_verbs_module_t *module = mca_btl_verbs_module_new(self->num_modules);
    struct vrb_callbacks callbacks = {
        .ctx = module,
        .recv = mca_btl_verbs_recv,
        .unknown = mca_btl_verbs_unknown,
        .connected = mca_btl_verbs_connected,
        .failed = mca_btl_verbs_peer_lost,
        .rail_failed = mca_btl_verbs_rail_lost,
        .tick = mca_btl_verbs_watched() ? mca_btl_verbs_tick : NULL,
    };
    struct vrb_rail *rail = NULL;

    if (module == NULL) {
        return false;
    }
    if (vrb_rail_open(port, self->num_modules, cfg, &callbacks, mca_btl_verbs_buf_user,
                      mca_btl_verbs_rdma_user, &rail) != VRB_OK) {
        (void)mca_btl_verbs_module_finalize(&module->super);
        return false;
    }
    mca_btl_verbs_module_attach(module, rail);
    self->addresses[self->num_modules] = *vrb_rail_address(rail);
    self->modules[self->num_modules++] = module;
    mca_btl_verbs_list_rails();
    return true;
}

/* Opens every usable port among those found. */
static void add_modules(const struct vrb_port *ports, int n, const struct vrb_config *cfg)
{
    int i;

    self->modules = calloc(VRB_MAX_RAILS, sizeof(self->modules[0]));
    if (self->modules == NULL) {
        return;
    }
    for (i = 0; i < n; i++) {
        if (!ports[i].usable) {
            mca_btl_verbs_note("%s port %d is not used: %s", ports[i].dev, ports[i].port,
                               ports[i].why[0] != '\0' ? ports[i].why : "not active");
        } else if (self->num_modules == VRB_MAX_RAILS) {
            mca_btl_verbs_note("%s port %d is not used: a process uses %d ports at the most",
                               ports[i].dev, ports[i].port, VRB_MAX_RAILS);
        } else {
            (void)add_module(&ports[i], cfg);
        }
    }
}

static void drop_modules(void)
{
    int i;

    for (i = 0; i < self->num_modules; i++) {
        if (self->modules[i] != NULL) {
            (void)mca_btl_verbs_module_finalize(&self->modules[i]->super);
        }
    }
    self->num_modules = 0;
}

/* The settings of this process's rails. Threads: as far as is known now, which is all there is,
 * since MPI_Init_thread has decided before any BTL is asked. */
static void settings(struct vrb_config *cfg, bool mpi_threads)
{
    self->host_wide = true;
    mca_btl_verbs_params_config(&mca_btl_verbs_template, cfg);
    self->host_wide = false;
    self->name = mca_btl_verbs_name(opal_proc_local_get()->proc_name);
    self->job_size = mca_btl_verbs_job_size();
    cfg->threads = mpi_threads || opal_using_threads();
    cfg->name = self->name;
    cfg->rank = self->name & UINT32_MAX;
    snprintf(cfg->host, sizeof(cfg->host), "%s", opal_process_info.nodename);
}

static mca_btl_base_module_t **modules_for_open_mpi(int *num)
{
    mca_btl_base_module_t **list = calloc((size_t)self->num_modules, sizeof(list[0]));
    int i;

    if (list != NULL) {
        for (i = 0; i < self->num_modules; i++) {
            list[i] = &self->modules[i]->super;
        }
        *num = self->num_modules;
    }
    return list;
}

/* A port that is about to come up: its link is, and only the subnet manager's word is missing. */
static bool is_coming(const struct vrb_port *ports, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        if (ports[i].coming) {
            return true;
        }
    }
    return false;
}

static bool is_one_usable(const struct vrb_port *ports, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        if (ports[i].usable) {
            return true;
        }
    }
    return false;
}

/* Finds the ports. When none is usable but one is about to be (a job that starts with its host),
 * the user who asked for verbs gets a bounded wait. */
static int find_ports(struct vrb_port **ports, char *err, size_t len)
{
    struct timespec pause = {.tv_nsec = PORT_LOOK_MS * 1000000L};
    unsigned waited = 0;
    int n;

    for (;;) {
        n = vrb_ports_find(self->params.if_include, self->params.if_exclude, ports, err, len);
        if (!self->asked || is_one_usable(*ports, n) || !is_coming(*ports, n) ||
            waited >= self->params.port_wait * 1000) {
            return n;
        }
        if (waited == 0) {
            mca_btl_verbs_note("no port is up, but one is about to be: waiting %u s at the most",
                               self->params.port_wait);
        }
        free(*ports);
        nanosleep(&pause, NULL);
        waited += PORT_LOOK_MS;
    }
}

/* Open MPI asks even when another PML will carry the messages: stay silent unless the user asked.
 */
static mca_btl_base_module_t **verbs_init(int *num, bool progress_threads, bool mpi_threads)
{
    mca_btl_base_module_t **list = NULL;
    struct vrb_port *ports = NULL;
    struct vrb_config cfg;
    char err[256] = "";
    int n;

    (void)progress_threads;
    *num = 0;
    settings(&cfg, mpi_threads);
    self->setting_up = true;
    self->host_wide = true;
    if (vrb_fork_safe() != VRB_OK) {
        mca_btl_verbs_note("no fork support: a child may take registered memory from its parent");
    }
    n = find_ports(&ports, err, sizeof(err));
    self->host_wide = false;
    if (n < 0) {
        mca_btl_verbs_say_here("btl_verbs_if_include or btl_verbs_if_exclude: %s: the verbs BTL is "
                               "not used",
                               err);
    } else {
        add_modules(ports, n, &cfg);
        if (self->num_modules == 0) {
            mca_btl_verbs_say_no_ports(ports, n);
        }
    }
    free(ports);
    self->setting_up = false;
    if (self->num_modules > 0) {
        if (mca_btl_verbs_modex_send() == OPAL_SUCCESS) {
            list = modules_for_open_mpi(num);
        } else {
            mca_btl_verbs_say_here("host %s: the addresses of a process cannot be told to the "
                                   "others: the verbs BTL is not used",
                                   opal_process_info.nodename);
        }
        if (list == NULL) {
            drop_modules();
        } else {
            mca_btl_verbs_watch_start();
            mca_btl_verbs_summary_start();
        }
    }
    return list;
}

void mca_btl_verbs_list_rails(void)
{
    struct vrb_rail **next = self->rails;

    for (int i = 0; i < self->num_modules; i++) {
        if (self->modules[i] != NULL) {
            *next++ = self->modules[i]->rail;
        }
    }
    *next = NULL;
}

static int verbs_progress(void)
{
    struct vrb_rail **rails = self->rails;
    int events = 0;

    if (OPAL_LIKELY(rails[0] != NULL && rails[1] == NULL)) {
        return vrb_rail_progress(rails[0]);
    }
    for (; *rails != NULL; rails++) {
        events += vrb_rail_progress(*rails);
    }
    return events;
}

#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, btl, verbs)
#endif
