/* Joining and leaving a fabric: environment, process slot, fork.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "shm_dir.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool attaching;
static _Atomic int attach_done; /* 0 not tried, 1 attached, 2 failed */

static int take_slot(void)
{
    struct sm_proc *p = NULL;
    uint32_t i;

    for (i = 0; i < SM_MAX_PROCS; i++) {
        p = &shca.seg->procs[i];
        if (atomic_load(&p->state) == SM_PROC_FREE) {
            break;
        }
    }
    if (i == SM_MAX_PROCS) {
        shca_log("fabric %s: more than %d processes", shca.fabric, SM_MAX_PROCS);
        return EUSERS;
    }
    shca_lock_init(&p->life);
    p->pid = getpid();
    p->starttime = shca_proc_starttime(p->pid);
    p->host = shca.host_idx;
    atomic_store(&p->attn, 0);
    atomic_store(&p->locked_bytes, 0);
    for (int h = 0; h < SM_HAZARDS; h++) {
        atomic_store(&p->hazard[h], 0);
    }
    shca.proc_idx = i;
    shca.proc = p;
    shca.pid = p->pid;
    atomic_store(&p->state, SM_PROC_LIVE);
    return 0;
}

static void read_env(void)
{
    const char *s = getenv("SOFTHCA_STRICT");
    struct rlimit rl;

    shca.strict = s && *s ? atoi(s) : 1;
    s = getenv("SOFTHCA_EXEC");
    shca.deferred = s && !strcmp(s, "deferred");
    if (s && *s && strcmp(s, "deferred") && strcmp(s, "sync")) {
        shca_log("SOFTHCA_EXEC=%s: neither sync nor deferred; taken as sync", s);
    }
    s = getenv("SOFTHCA_ARM");
    shca.arm_pending = s && !strcmp(s, "pending");
    if (s && *s && strcmp(s, "pending") && strcmp(s, "new")) {
        shca_log("SOFTHCA_ARM=%s: neither new nor pending; taken as new", s);
    }
    s = getenv("SOFTHCA_DOWN");
    shca.down_breaks = s && !strcmp(s, "error");
    if (s && *s && strcmp(s, "error") && strcmp(s, "drop")) {
        shca_log("SOFTHCA_DOWN=%s: neither drop nor error; taken as drop", s);
    }
    s = getenv("SOFTHCA_CHECK");
    shca.check = s && *s && *s != '0';
    s = getenv("SOFTHCA_BOUNCE");
    if (s && *s) {
        long v = atol(s);

        shca.bounce = v < 0 ? 0 : v > 8192 ? 8192 : (uint32_t)v;
    }
    /* Root on real hardware has CAP_IPC_LOCK, so RLIMIT_MEMLOCK does not bind it. */
    shca.memlock = UINT64_MAX;
    if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY) {
        shca.memlock = rl.rlim_cur;
    }
    s = getenv("SOFTHCA_MEMLOCK");
    if (s && *s) {
        char *end;
        unsigned long long v = strtoull(s, &end, 0);

        shca.memlock = !strcmp(s, "unlimited") ? UINT64_MAX : v;
        if (strcmp(s, "unlimited") && (end == s || *end)) {
            shca_log("SOFTHCA_MEMLOCK=%s: not a number of bytes", s);
            shca.memlock = UINT64_MAX;
        }
    }
}

/* Ranks are repeatable from run to run, pids are not. */
static uint64_t fault_salt(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (!rank) {
        rank = getenv("PMI_RANK");
    }
    return ((uint64_t)shca.host_idx << 32) | (rank ? strtoull(rank, NULL, 10) + 1 : 0);
}

/* Before anything is held: a bad rule ends the program, since a test with half its faults would
 * prove nothing. */
static void check_faults(void)
{
    const char *rules = getenv("SOFTHCA_FAULTS");
    char err[256];

    if (rules && shca_fault_check(rules, err, sizeof(err)) != 0) {
        shca_log("SOFTHCA_FAULTS: %s", err);
        exit(2);
    }
}

static int attach_faults(void)
{
    const char *rules = getenv("SOFTHCA_FAULTS");
    char err[256];

    shca_fault_attach(&shca.seg->faults, shca_seed_from_env(), fault_salt());
    if (rules && *rules && shca_fault_add(rules, false, err, sizeof(err)) != 0) {
        shca_log("SOFTHCA_FAULTS: %s", err);
        return ENOSPC;
    }
    return 0;
}

/* The child owns nothing: the parent's objects must survive its exit. What it inherits stays mapped
 * and inert; if it opens a device itself it attaches as a process of its own. */
static void child_after_fork(void)
{
    shca.proc = NULL;
    memset(shca.qps, 0, sizeof(shca.qps));
    memset(shca.cqs, 0, sizeof(shca.cqs));
    memset(shca.srqs, 0, sizeof(shca.srqs));
    memset(shca.ctxs, 0, sizeof(shca.ctxs));
    shca.pending = NULL;
    atomic_store(&shca.npending, 0);
    pthread_mutex_init(&shca.lock, NULL);
    pthread_mutex_init(&shca.progress_lock, NULL);
    pthread_mutex_init(&attach_lock, NULL);
    close(shca_seg_fd);
    shca_seg_fd = -1;
    atomic_store(&attach_done, 0);
}

static int do_attach(void)
{
    static bool fork_handled;
    int rc, lfd, host;

    rc = shca_set_names(NULL);
    if (rc) {
        return rc;
    }
    read_env();
    check_faults();
    lfd = shca_lock_dir(true);
    if (lfd < 0) {
        rc = errno;
        shca_log("%s: %s", shca.dir, strerror(rc));
        return rc;
    }
    rc = shca_open_or_make();
    if (rc) {
        if (rc != ENOSPC) { /* said with how much is missing */
            shca_log("%s/seg: %s%s", shca.dir, strerror(rc),
                     rc == ENOMEM ? " (it takes 8 GiB of address space: ulimit -v)" : "");
        }
        close(lfd);
        return rc;
    }
    flock(shca_seg_fd, LOCK_SH | LOCK_NB);
    host = shca_host_get(getenv("SOFTHCA_HOST"));
    if (host >= 0) {
        shca.host_idx = (uint32_t)host;
        rc = take_slot();
    } else {
        rc = ENOSPC;
    }
    if (!rc) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama: let peers write here */
        rc = attach_faults();
        rc = rc ? rc : shca_helper_start();
    }
    if (rc) {
        shca_log("attaching to fabric %s: %s", shca.fabric, strerror(rc));
        if (shca.proc) {
            atomic_store(&shca.proc->state, SM_PROC_FREE);
            shca.proc = NULL;
        }
        shca_fault_detach();
        shca_unmap_seg();
    } else if (!fork_handled) {
        fork_handled = true;
        pthread_atfork(NULL, NULL, child_after_fork);
    }
    close(lfd);
    return rc;
}

int shca_attach(void)
{
    static int result;
    int rc;

    if (atomic_load_explicit(&attach_done, memory_order_acquire)) {
        return result;
    }
    if (attaching) {
        return EBUSY;
    }
    attaching = true;
    pthread_mutex_lock(&attach_lock);
    if (!atomic_load(&attach_done)) {
        result = do_attach();
        atomic_store_explicit(&attach_done, result ? 2 : 1, memory_order_release);
    }
    rc = result;
    pthread_mutex_unlock(&attach_lock);
    attaching = false;
    return rc;
}

void shca_detach(void)
{
    unsigned int live;
    struct sm_proc *p = shca.proc;
    int lfd;

    if (!p || shca.pid != getpid()) {
        return;
    }
    shca_helper_stop();
    lfd = shca_lock_dir(false);
    shca_free_objects(shca.proc_idx);
    atomic_fetch_add(&p->gen, 1);
    atomic_store(&p->state, SM_PROC_FREE);
    shca.proc = NULL;
    if (lfd < 0) {
        return; /* removed by force: nothing is left to clean */
    }
    shca_reap_locked(&live);
    if (live == 0 && !atomic_load(&shca.seg->keep)) {
        shca_wipe(shca.dir_fd, shca.dir);
    }
    close(lfd);
    /* The mapping stays: another thread may still be polling. */
}
