/* Event channels as FIFOs in the fabric's directory: made by their owner, written by anyone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Write ends this process has opened, by channel index; generation 0: none. */
static struct {
    uint32_t gen;
    int fd;
} ends[SM_MAX_CHAN];
static pthread_mutex_t ends_lock = PTHREAD_MUTEX_INITIALIZER;

static void fifo_name(char name[32], uint32_t idx, uint32_t gen)
{
    snprintf(name, 32, "ev-%u.%u", idx, gen);
}

int shca_chan_create(struct shca_context *ctx, uint32_t kind, uint32_t *idx, uint32_t *gen, int *fd)
{
    char name[32];
    int i = shca_obj_alloc(SM_T_CHAN, ctx->dev_idx, ctx->idx);
    struct sm_chan *c;
    int rc = 0;

    if (i < 0) {
        return ENOMEM;
    }
    c = &shca.seg->chans[i];
    c->kind = kind;
    fifo_name(name, (uint32_t)i, atomic_load(&c->o.gen));
    if (mkfifoat(shca.dir_fd, name, 0600) < 0) {
        rc = errno;
    } else {
        /* Read-write, so that the reader never sees end of file or POLLHUP. */
        *fd = openat(shca.dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (*fd < 0) {
            rc = errno;
            unlinkat(shca.dir_fd, name, 0);
        } else {
            fcntl(*fd, F_SETPIPE_SZ, 1 << 20); /* best effort: room for more unread events */
        }
    }
    if (rc) {
        shca_obj_free(SM_T_CHAN, (uint32_t)i);
        return rc;
    }
    *idx = (uint32_t)i;
    *gen = atomic_load(&c->o.gen);
    return 0;
}

/* Also for the channels of a dead process: fd -1. */
void shca_chan_destroy(uint32_t idx, int fd)
{
    char name[32];

    fifo_name(name, idx, atomic_load(&shca.seg->chans[idx].o.gen));
    unlinkat(shca.dir_fd, name, 0);
    if (fd >= 0) {
        close(fd);
    }
    shca_obj_free(SM_T_CHAN, idx);
}

void shca_chan_send(uint32_t idx, uint32_t gen, const struct sm_event *ev)
{
    char name[32];

    if (idx >= SM_MAX_CHAN) {
        return;
    }
    pthread_mutex_lock(&ends_lock);
    if (ends[idx].gen != gen) {
        if (ends[idx].gen) {
            close(ends[idx].fd);
        }
        ends[idx].gen = 0;
        fifo_name(name, idx, gen);
        ends[idx].fd = openat(shca.dir_fd, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
        if (ends[idx].fd < 0) {
            pthread_mutex_unlock(&ends_lock);
            return; /* the channel, or its owner, is gone */
        }
        ends[idx].gen = gen;
    }
    if (write(ends[idx].fd, ev, sizeof(*ev)) < 0 && errno != EPIPE) {
        shca_log("event lost: channel %u: %s", idx, strerror(errno));
    }
    pthread_mutex_unlock(&ends_lock);
}

void shca_event_ctx(uint32_t ctx, uint32_t type, uint32_t index, uint32_t gen, uint32_t port)
{
    struct sm_event ev = {.type = type, .index = index, .gen = gen, .port = port};
    const struct sm_ctx *c = &shca.seg->ctxs[ctx];

    if (atomic_load(&c->o.state)) {
        shca_chan_send(c->chan, c->chan_gen, &ev);
    }
}

void shca_event_dev(uint32_t dev_idx, uint32_t type, uint32_t port)
{
    for (uint32_t i = 0; i < shca.seg->hiwater[SM_T_CTX]; i++) {
        const struct sm_ctx *c = &shca.seg->ctxs[i];

        if (atomic_load(&c->o.state) && c->o.dev == dev_idx) {
            shca_event_ctx(i, type, 0, 0, port);
        }
    }
}

void shca_proc_poke(uint32_t proc_idx)
{
    struct sm_proc *p = &shca.seg->procs[proc_idx];

    atomic_fetch_add(&p->attn, 1);
    syscall(SYS_futex, (uint32_t *)&p->attn, FUTEX_WAKE, 1, NULL, NULL, 0);
}
