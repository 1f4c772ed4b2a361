/* Robust locks and the question whether a process lives.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void shca_lock_init(sm_lock *l)
{
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&l->m, &a);
    pthread_mutexattr_destroy(&a);
}

bool shca_lock_recovered(sm_lock *l)
{
    int rc = EBUSY;

    for (int i = 0; rc == EBUSY && i < 64; i++) {
        rc = pthread_mutex_trylock(&l->m);
    }
    if (rc == EBUSY) {
        rc = pthread_mutex_lock(&l->m);
    }
    if (SHCA_UNLIKELY(rc == EOWNERDEAD)) {
        pthread_mutex_consistent(&l->m);
        return true;
    }
    if (SHCA_UNLIKELY(rc != 0)) {
        shca_log("lock in the segment is damaged: %s", strerror(rc));
        abort();
    }
    return false;
}

void shca_lock(sm_lock *l)
{
    shca_lock_recovered(l);
}

void shca_unlock(sm_lock *l)
{
    pthread_mutex_unlock(&l->m);
}

uint64_t shca_proc_starttime(int pid)
{
    char path[64], buf[1024], *p;
    unsigned long long t = 0;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = read(fd, buf, sizeof(buf) - 1);
    close(fd);
    if (n <= 0) {
        return 0;
    }
    buf[n] = '\0';
    p = strrchr(buf, ')'); /* the command name may hold anything */
    if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X') {
        return 0; /* a zombie is dead: it has no memory any more */
    }
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    if (p && sscanf(p, " %llu", &t) == 1) {
        return t;
    }
    return 0;
}

/* glibc keeps the futex word of a mutex in __data.__lock; the kernel sets bit 30 in it when the
 * holder of a robust mutex dies. Reading it costs no system call and disturbs no cache line. */
bool shca_proc_alive(const struct sm_proc *p)
{
    int word = *(const volatile int *)&p->life.m.__data.__lock;

    return atomic_load_explicit(&p->state, memory_order_acquire) == SM_PROC_LIVE &&
           !(word & 0x40000000);
}

bool shca_proc_exists(const struct sm_proc *p)
{
    return shca_proc_alive(p) && shca_proc_starttime(p->pid) == p->starttime;
}
