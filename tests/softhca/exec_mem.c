/* Memory of work requests: key checks, translation, and the moving of bytes between processes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"

#include <sched.h>
#include <string.h>
#include <sys/uio.h>

/* Keys are (index << 8 | generation); remote ones have the top bit set. */
static struct sm_mr *by_index(uint32_t key)
{
    uint32_t i = (key >> 8) & 0x7fffff;

    return i < SM_MAX_MR ? &shca.seg->mrs[i] : NULL;
}

struct sm_mr *shca_mr_by_lkey(uint32_t key)
{
    struct sm_mr *m = by_index(key);

    return m && atomic_load_explicit(&m->o.state, memory_order_acquire) == 2 && m->lkey == key
               ? m
               : NULL;
}

struct sm_mr *shca_mr_by_rkey(uint32_t key)
{
    struct sm_mr *m = by_index(key);

    return m && atomic_load_explicit(&m->o.state, memory_order_acquire) == 2 && m->rkey == key
               ? m
               : NULL;
}

bool shca_gather(const struct sm_sge *sge, uint32_t n, uint32_t pd, uint32_t proc, uint32_t access,
                 struct shca_iov *out)
{
    out->n = 0;
    out->len = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct sm_mr *m;

        if (!sge[i].len) {
            continue;
        }
        m = shca_mr_by_lkey(sge[i].lkey);
        if (!m || m->o.proc != proc || (pd && m->pd != pd) || (access & ~m->access) ||
            sge[i].addr < m->iova || sge[i].len > m->length ||
            sge[i].addr - m->iova > m->length - sge[i].len) {
            return false;
        }
        out->v[out->n].iov_base = (void *)(uintptr_t)(sge[i].addr - m->iova + m->addr);
        out->v[out->n++].iov_len = sge[i].len;
        out->len += sge[i].len;
    }
    return true;
}

bool shca_wqe_gather(struct shca_qp *qp, struct shca_wqe *w, uint32_t access, struct shca_iov *out)
{
    /* Same layout, other field names. */
    _Static_assert(sizeof(struct sm_sge) == sizeof(struct ibv_sge) &&
                       offsetof(struct sm_sge, len) == offsetof(struct ibv_sge, length) &&
                       offsetof(struct sm_sge, lkey) == offsetof(struct ibv_sge, lkey),
                   "sm_sge mirrors ibv_sge");
    if (w->flags & IBV_SEND_INLINE) {
        out->n = w->len ? 1 : 0;
        out->v[0].iov_base = w->sge;
        out->v[0].iov_len = w->len;
        out->len = w->len;
        return true;
    }
    return shca_gather((const struct sm_sge *)w->sge, w->nsge, qp->sm->pd, shca.proc_idx, access,
                       out);
}

void shca_iov_cut(struct shca_iov *v, uint64_t skip, uint64_t len)
{
    uint32_t n = 0;

    v->len = 0;
    for (uint32_t i = 0; i < v->n && len; i++) {
        struct iovec e = v->v[i];

        if (skip >= e.iov_len) {
            skip -= e.iov_len;
            continue;
        }
        e.iov_base = (char *)e.iov_base + skip;
        e.iov_len -= skip;
        skip = 0;
        if (e.iov_len > len) {
            e.iov_len = len;
        }
        len -= e.iov_len;
        v->len += e.iov_len;
        v->v[n++] = e;
    }
    v->n = n;
}

/* Moves the last 8 bytes of a list into an entry of their own: copies give no order inside one. */
static void split_tail(struct shca_iov *v)
{
    struct iovec *last;

    if (!v->n || v->n == SHCA_MAX_IOV) {
        return;
    }
    last = &v->v[v->n - 1];
    if (last->iov_len <= 8) {
        return;
    }
    v->v[v->n].iov_base = (char *)last->iov_base + last->iov_len - 8;
    v->v[v->n].iov_len = 8;
    last->iov_len -= 8;
    v->n++;
}

static void copy_here(const struct shca_iov *src, const struct shca_iov *dst)
{
    uint32_t s = 0, d = 0;
    size_t so = 0, doff = 0;

    while (s < src->n && d < dst->n) {
        size_t a = src->v[s].iov_len - so, b = dst->v[d].iov_len - doff;
        size_t n = a < b ? a : b;

        atomic_thread_fence(memory_order_release);
        memmove((char *)dst->v[d].iov_base + doff, (const char *)src->v[s].iov_base + so, n);
        so += n;
        doff += n;
        if (so == src->v[s].iov_len) {
            s++;
            so = 0;
        }
        if (doff == dst->v[d].iov_len) {
            d++;
            doff = 0;
        }
    }
}

static int lost_memory(int err)
{
    if (err == EFAULT) {
        /* Hardware would use the pages it pinned; the program would see stale or lost data. */
        shca_log("registered memory was unmapped while in use");
    } else if (err == EPERM) {
        shca_log("no permission to reach into the peer's memory (ptrace scope, uid or dumpable)");
    }
    return err;
}

int shca_copy_to(uint32_t proc, const struct shca_iov *src, const struct shca_iov *dst,
                 bool ordered)
{
    struct shca_iov to = *dst;
    ssize_t r;

    if (!src->len) {
        return 0;
    }
    if (to.len != src->len) {
        shca_iov_cut(&to, 0, src->len);
    }
    if (ordered) {
        split_tail(&to);
    }
    if (proc == shca.proc_idx) {
        copy_here(src, &to);
        return 0;
    }
    r = process_vm_writev(shca.seg->procs[proc].pid, src->v, src->n, to.v, to.n, 0);
    if (SHCA_LIKELY(r >= 0 && (uint64_t)r == src->len)) {
        return 0;
    }
    return lost_memory(r < 0 ? errno : EFAULT);
}

int shca_copy_from(uint32_t proc, const struct shca_iov *dst, const struct shca_iov *src)
{
    ssize_t r;

    if (!src->len) {
        return 0;
    }
    if (proc == shca.proc_idx) {
        copy_here(src, dst);
        return 0;
    }
    r = process_vm_readv(shca.seg->procs[proc].pid, dst->v, dst->n, src->v, src->n, 0);
    if (SHCA_LIKELY(r >= 0 && (uint64_t)r == src->len)) {
        return 0;
    }
    return lost_memory(r < 0 ? errno : EFAULT);
}

int shca_hazard_set(uint32_t mr_idx)
{
    static _Thread_local int mine;

    for (;;) {
        for (int i = 0; i < SM_HAZARDS; i++) {
            int s = (mine + i) % SM_HAZARDS;
            uint32_t none = 0;

            /* Sequentially consistent: who invalidates the region afterwards sees us. */
            if (atomic_compare_exchange_strong(&shca.proc->hazard[s], &none, mr_idx + 1)) {
                mine = s;
                return s;
            }
        }
        sched_yield();
    }
}

void shca_hazard_clear(int slot)
{
    atomic_store_explicit(&shca.proc->hazard[slot], 0, memory_order_release);
}

void shca_hazard_wait(uint32_t mr_idx)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < SM_MAX_PROCS; i++) {
        const struct sm_proc *p = &shca.seg->procs[i];

        if (atomic_load(&p->state) != SM_PROC_LIVE) {
            continue;
        }
        for (int s = 0; s < SM_HAZARDS; s++) {
            while (atomic_load(&p->hazard[s]) == mr_idx + 1 && shca_proc_alive(p)) {
                sched_yield();
            }
        }
    }
}
