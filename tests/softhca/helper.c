/* The helper thread: holds the process's life lock and runs what is due while the program computes
 * or sleeps (stalled requests, retry timers, deferred work, scripted faults).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It sleeps on the attn word of its process slot; plain traffic never wakes it.
 */
#include "softhca.h"

#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_t thread;
static sem_t started;
static _Atomic bool stopping;

static void sleep_until(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    struct timespec ts, *tp = NULL;

    if (deadline != UINT64_MAX) {
        ts.tv_sec = (time_t)(deadline / 1000000000u);
        ts.tv_nsec = (long)(deadline % 1000000000u);
        tp = &ts;
    }
    /* FUTEX_WAIT_BITSET takes an absolute time. */
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_BITSET, seen, tp, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void *helper_main(void *arg)
{
    struct sm_proc *p = arg;

    prctl(PR_SET_NAME, "softhca", 0, 0, 0);
    shca_lock(&p->life);
    sem_post(&started);
    while (!atomic_load(&stopping)) {
        uint32_t seen = atomic_load(&p->attn);
        uint64_t next = shca_progress(true);

        if (atomic_load(&stopping)) {
            break;
        }
        sleep_until(&p->attn, seen, next);
    }
    shca_unlock(&p->life);
    return NULL;
}

int shca_helper_start(void)
{
    sigset_t all, old;
    int rc;

    atomic_store(&stopping, false);
    sem_init(&started, 0, 0);
    sigfillset(&all); /* the program's signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, helper_main, shca.proc);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        return rc;
    }
    while (sem_wait(&started) < 0 && errno == EINTR) {
    }
    return 0;
}

void shca_helper_stop(void)
{
    atomic_store(&stopping, true);
    shca_helper_wake();
    pthread_join(thread, NULL);
}

void shca_helper_wake(void)
{
    shca_proc_poke(shca.proc_idx);
}
