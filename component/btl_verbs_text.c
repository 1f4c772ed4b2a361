/* What is said to the user, and when: nothing unless it was asked for or something in use broke.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The texts are in the program and not in a help file, because later series of Open MPI no longer
 * read help files of components that they do not know. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "btl_verbs.h"

/* btl_base_verbose from which the core's two quieter levels are shown. */
#define VERBOSE_INFO 20
#define VERBOSE_DEBUG 60

static const char rule[] =
    "--------------------------------------------------------------------------";

/* True if the framework's list of components names this one. "^a,b" is a list of what is excluded,
 * so it asks for nobody. */
static bool named_in(const char *list)
{
    static const char me[] = "verbs";

    if (list == NULL || list[0] == '^') {
        return false;
    }
    while (*list != '\0') {
        size_t n = strcspn(list, ",");

        if (n == sizeof(me) - 1 && strncmp(list, me, n) == 0) {
            return true;
        }
        list += n;
        list += *list == ',';
    }
    return false;
}

/* True for the first process of the job on this host that says this. A device that fails fails all
 * of them mostly, and a port that changes its LID changes it for all, but not always, so the first
 * process cannot speak for the others: an empty file in the job's folder, which Open MPI's daemon
 * removes with the job, tells that it has been said. Without such a folder (a process that nobody
 * launched) everybody speaks for itself. */
static bool first_to_say(const char *text)
{
    const char *folder = opal_process_info.job_session_dir;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    char path[4096];
    int fd;

    if (folder == NULL) {
        return true;
    }
    for (const char *p = text; *p != '\0'; p++) {
        hash = (hash ^ (uint8_t)*p) * UINT64_C(1099511628211);
    }
    snprintf(path, sizeof(path), "%s/btl-verbs-%016" PRIx64, folder, hash);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno != EEXIST;
    }
    close(fd);
    return true;
}

static void sink(enum vrb_log_level level, const char *text)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    int verbose = opal_btl_base_framework.framework_verbose;

    bool mine = c->first_here || !c->host_wide;

    if (level <= VRB_LOG_WARN && mine && (c->asked || !c->setting_up)) {
        if (c->host_wide || first_to_say(text)) {
            mca_btl_verbs_say("%s", text);
        }
    } else if (verbose >= (level == VRB_LOG_DEBUG ? VERBOSE_DEBUG : VERBOSE_INFO)) {
        opal_output(opal_btl_base_framework.framework_output, "btl:verbs: %s", text);
    }
}

static bool given(const char *list)
{
    return list != NULL && list[0] != '\0';
}

void mca_btl_verbs_text_start(void)
{
    struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    int verbose = opal_btl_base_framework.framework_verbose;

    c->asked = verbose > 0 || named_in(opal_btl_base_framework.framework_selection) ||
               c->params.show_map || c->params.show_memory || c->params.summary ||
               given(c->params.if_include) || given(c->params.if_exclude) ||
               given(c->params.stats_dir);
    c->first_here = opal_process_info.my_local_rank == 0;
    vrb_log_set(sink, verbose >= VERBOSE_DEBUG  ? VRB_LOG_DEBUG
                      : verbose >= VERBOSE_INFO ? VRB_LOG_INFO
                                                : VRB_LOG_WARN);
}

void mca_btl_verbs_text_stop(void)
{
    vrb_log_set(NULL, VRB_LOG_ERROR);
}

static void vsay(const char *fmt, va_list args)
{
    char line[3072];

    vsnprintf(line, sizeof(line), fmt, args);
    opal_output(0, "btl:verbs: %s", line);
}

void mca_btl_verbs_say(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsay(fmt, args);
    va_end(args);
}

void mca_btl_verbs_say_here(const char *fmt, ...)
{
    va_list args;

    if (mca_btl_verbs_component.first_here) {
        va_start(args, fmt);
        vsay(fmt, args);
        va_end(args);
    }
}

void mca_btl_verbs_say_framed(const char *text)
{
    opal_output(0, "btl:verbs\n%s\n%s\n%s", rule, text, rule);
}

void mca_btl_verbs_note(const char *fmt, ...)
{
    char line[512];
    va_list args;

    if (opal_btl_base_framework.framework_verbose < VERBOSE_INFO) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    opal_output(opal_btl_base_framework.framework_output, "btl:verbs: %s", line);
}

/* Appends to a text of at most `size` bytes. */
static void add(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + used, size - used, fmt, args);
    va_end(args);
}

void mca_btl_verbs_say_no_ports(const struct vrb_port *ports, int n)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    int opened = 0, inactive = 0,
        lists = given(c->params.if_include) || given(c->params.if_exclude);
    char text[2048];
    int i;

    if (!c->asked || !c->first_here) {
        return;
    }
    snprintf(text, sizeof(text), "The verbs BTL was asked for, but host %s has no port for it.\n",
             opal_process_info.nodename);
    if (n == 0 && lists) {
        add(text, sizeof(text),
            "\n  %s leaves none of its ports.\n\n"
            "What to do: `verbs_info`, installed with the component, lists the ports of a host. "
            "The\n"
            "parameter takes DEVICE or DEVICE:PORT, separated by commas; without it, all are used.",
            given(c->params.if_include) ? "btl_verbs_if_include" : "btl_verbs_if_exclude");
        mca_btl_verbs_say_framed(text);
        return;
    }
    if (n == 0) {
        add(text, sizeof(text),
            "\n  No RDMA device was found.\n\n"
            "What to do: `ibv_devinfo` lists the devices that libibverbs sees. If it lists none,\n"
            "the kernel driver or its libibverbs provider is not installed, or the job runs in a\n"
            "container without /dev/infiniband.");
        mca_btl_verbs_say_framed(text);
        return;
    }
    add(text, sizeof(text), "\n");
    for (i = 0; i < n; i++) {
        add(text, sizeof(text), "  %s", ports[i].dev);
        if (ports[i].port > 0) {
            add(text, sizeof(text), " port %d", ports[i].port);
        }
        add(text, sizeof(text), ": %s\n",
            ports[i].usable   ? "usable, but it could not be opened (see above)"
            : ports[i].why[0] ? ports[i].why
                              : "not active");
        opened += ports[i].usable;
        inactive += ports[i].port > 0 && !ports[i].active;
    }
    add(text, sizeof(text), "\nWhat to do: %s",
        opened > 0
            ? "mend what the message above says; without it, the job can use another network."
        : inactive == 0
            ? "`verbs_info`, installed with the component, lists each port with its addresses. "
              "Mend\n"
              "what is said above; without it, the job can use another network."
            : "`ibv_devinfo` shows the state of each port. A port must be PORT_ACTIVE: check\n"
              "its cable and, on InfiniBand, that a subnet manager runs.");
    mca_btl_verbs_say_framed(text);
}
