/* Protection domains, memory regions and address handles.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exec.h"
#include "verbs_impl.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

SHCA_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibctx)
{
    struct shca_context *ctx = shca_ctx(ibctx);
    struct shca_pd *pd;

    if (atomic_load(&ctx->sm->fatal) || atomic_load(&ctx->npd) >= ctx->sm->lim.max_pd) {
        errno = atomic_load(&ctx->sm->fatal) ? EIO : ENOMEM;
        return NULL;
    }
    pd = calloc(1, sizeof(*pd) + SHCA_TAIL);
    if (!pd) {
        return NULL;
    }
    pd->pd.context = ibctx;
    pd->id = atomic_fetch_add(&shca.seg->next_pd, 1);
    pd->pd.handle = pd->id;
    atomic_fetch_add(&ctx->npd, 1);
    return &pd->pd;
}

SHCA_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
    struct shca_pd *pd = (struct shca_pd *)ibpd;

    if (shca_foreign()) {
        return 0;
    }
    if (atomic_load(&pd->refs)) {
        return shca_strict(EBUSY, "ibv_dealloc_pd: %u objects use it", atomic_load(&pd->refs));
    }
    atomic_fetch_sub(&shca_ctx(ibpd->context)->npd, 1);
    free(pd);
    return 0;
}

/* ---- memory regions ---- */

static uint64_t page_rounded(uint64_t addr, uint64_t len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = addr & ~(page - 1), last = (addr + len + page - 1) & ~(page - 1);

    return last - first;
}

/* The advice is unknown to kernels before 5.14, and then as invalid as a lacking permission. */
static bool can_populate(void)
{
    static _Atomic int known; /* 0 not asked, 1 yes, 2 no */

    if (!atomic_load(&known)) {
        char probe[1];
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t first = (uint64_t)(uintptr_t)probe & ~(page - 1);

        atomic_store(&known,
                     madvise((void *)(uintptr_t)first, page, MADV_POPULATE_READ) == 0 ? 1 : 2);
    }
    return atomic_load(&known) == 1;
}

/* What pinning does: fault the pages in, for writing if the region may be written. 0 or EFAULT. */
static int pin(uint64_t addr, uint64_t len, bool write)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = addr & ~(page - 1);
    uint64_t bytes = page_rounded(addr, len);
    unsigned char vec[1];

    if (can_populate()) {
        int rc;

        do {
            rc = madvise((void *)(uintptr_t)first, bytes,
                         write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
        } while (rc < 0 && (errno == EAGAIN || errno == EINTR));
        return rc < 0 ? EFAULT : 0;
    }
    /* At least see that something is mapped at both ends. */
    return mincore((void *)(uintptr_t)first, 1, vec) < 0 ||
                   mincore((void *)(uintptr_t)(first + bytes - page), 1, vec) < 0
               ? EFAULT
               : 0;
}

static int account(const struct shca_context *ctx, uint64_t bytes)
{
    uint64_t limit = shca.memlock;
    struct shca_fault_args a;
    uint64_t now;

    if (ctx->sm->lim.memlock && ctx->sm->lim.memlock < limit) {
        limit = ctx->sm->lim.memlock;
    }
    if (shca_fault_any() &&
        shca_fault_hit(SHCA_FAULT_REG_MR_LIMIT,
                       &SHCA_FAULT_SITE(.host = shca.seg->hosts[ctx->sm->host].name,
                                        .dev = ctx->sm->name, .bytes = bytes),
                       &a) &&
        a.bytes < limit) {
        limit = a.bytes;
    }
    now = atomic_fetch_add(&shca.proc->locked_bytes, bytes) + bytes;
    if (now > limit) {
        atomic_fetch_sub(&shca.proc->locked_bytes, bytes);
        return ENOMEM;
    }
    return 0;
}

static int check_access(unsigned int access)
{
    const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                               IBV_ACCESS_ZERO_BASED;

    access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE; /* hints such as relaxed ordering */
    if (access & ~known) {
        return EOPNOTSUPP;
    }
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE)) {
        return shca_strict(EINVAL, "ibv_reg_mr: remote write or atomic without local write");
    }
    return 0;
}

static void publish(struct shca_mr *mr, uint64_t iova, unsigned int access)
{
    struct sm_mr *m = &shca.seg->mrs[mr->idx];
    uint32_t gen = atomic_load(&m->o.gen);

    /* Local and remote keys differ, so that mixing them up is found out. */
    m->lkey = mr->idx << 8 | (gen & 0xff);
    m->rkey = 0x80000000u | mr->idx << 8 | ((gen * 7 + 0x5a) & 0xff);
    m->access = access;
    m->pd = ((struct shca_pd *)mr->mr.pd)->id;
    m->addr = (uint64_t)(uintptr_t)mr->mr.addr;
    m->length = mr->mr.length;
    m->iova = iova;
    mr->mr.lkey = m->lkey;
    mr->mr.rkey = m->rkey;
    atomic_store_explicit(&m->o.state, 2, memory_order_release);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                          unsigned int access)
{
    struct shca_context *ctx = shca_ctx(pd->context);
    uint64_t start = (uint64_t)(uintptr_t)addr, bytes = page_rounded(start, len);
    bool write =
        access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    struct shca_mr *mr = NULL;
    int i = -1, rc = 0;

    if (shca_foreign() || atomic_load(&ctx->sm->fatal)) {
        rc = EIO;
    } else if (!len || len > ctx->sm->lim.max_mr_size || start + len < start) {
        rc = EINVAL;
    } else if (atomic_load(&ctx->sm->nmr) >= ctx->sm->lim.max_mr) {
        rc = ENOMEM;
    }
    rc = rc ? rc : check_access(access);
    rc = rc ? rc : shca_fault_ctl_on(ctx, SHCA_FAULT_REG_MR_FAIL, SHCA_FAULT_SITE(.bytes = len));
    rc = rc ? rc : account(ctx, bytes);
    if (rc) {
        errno = rc;
        return NULL;
    }
    rc = pin(start, len, write);
    if (!rc) {
        mr = calloc(1, sizeof(*mr) + SHCA_TAIL);
        i = mr ? shca_obj_alloc(SM_T_MR, ctx->dev_idx, ctx->idx) : -1;
        rc = i < 0 ? ENOMEM : 0;
    }
    if (rc) {
        free(mr);
        atomic_fetch_sub(&shca.proc->locked_bytes, bytes);
        errno = rc;
        return NULL;
    }
    mr->idx = (uint32_t)i;
    mr->bytes = bytes;
    mr->mr.context = pd->context;
    mr->mr.pd = pd;
    mr->mr.addr = addr;
    mr->mr.length = len;
    mr->mr.handle = mr->idx;
    publish(mr, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
    atomic_fetch_add(&((struct shca_pd *)pd)->refs, 1);
    atomic_fetch_add(&ctx->sm->nmr, 1);
    atomic_fetch_add(&ctx->nmr, 1);
    shca_count(ctx->sm, SM_CNT_REG_MR, 1);
    return &mr->mr;
}

#undef ibv_reg_mr
SHCA_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return reg(pd, addr, len, (uint64_t)(uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
SHCA_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                           int access)
{
    return reg(pd, addr, len, iova, (unsigned int)access);
}

SHCA_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
                                            uint64_t iova, unsigned int access)
{
    return reg(pd, addr, len, iova, access);
}

SHCA_EXPORT int ibv_dereg_mr(struct ibv_mr *ibmr)
{
    struct shca_mr *mr = (struct shca_mr *)ibmr;
    struct sm_mr *m = &shca.seg->mrs[mr->idx];
    struct shca_context *ctx = shca_ctx(ibmr->context);

    if (shca_foreign()) {
        return 0;
    }
    atomic_store(&m->o.state, 1);
    shca_hazard_wait(mr->idx); /* transfers under way end first */
    shca_cq_drain_bounces();   /* and what they left beside completions is put in place */
    shca_obj_free(SM_T_MR, mr->idx);
    atomic_fetch_sub(&shca.proc->locked_bytes, mr->bytes);
    atomic_fetch_sub(&((struct shca_pd *)ibmr->pd)->refs, 1);
    atomic_fetch_sub(&ctx->sm->nmr, 1);
    atomic_fetch_sub(&ctx->nmr, 1);
    free(mr);
    return 0;
}

/* ---- address handles ---- */

SHCA_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct shca_context *ctx = shca_ctx(pd->context);
    struct shca_ah *ah = NULL;
    int rc = atomic_load(&ctx->sm->fatal) ? EIO : 0;

    rc = rc ? rc : shca_fault_ctl(ctx, SHCA_FAULT_CREATE_AH_FAIL);
    if (!rc && atomic_load(&ctx->nah) >= ctx->sm->lim.max_ah) {
        rc = ENOMEM;
    }
    if (!rc) {
        ah = calloc(1, sizeof(*ah) + SHCA_TAIL);
        rc = ah ? shca_path_check(ctx->sm, attr, &ah->path) : ENOMEM;
    }
    if (rc) {
        free(ah);
        errno = rc;
        return NULL;
    }
    ah->ah.context = pd->context;
    ah->ah.pd = pd;
    atomic_fetch_add(&((struct shca_pd *)pd)->refs, 1);
    atomic_fetch_add(&ctx->nah, 1);
    return &ah->ah;
}

SHCA_EXPORT int ibv_destroy_ah(struct ibv_ah *ibah)
{
    if (shca_foreign()) {
        return 0;
    }
    atomic_fetch_sub(&((struct shca_pd *)ibah->pd)->refs, 1);
    atomic_fetch_sub(&shca_ctx(ibah->context)->nah, 1);
    free(ibah);
    return 0;
}

/* The two GIDs that a received GRH names; RoCE v2 over IPv4 leaves an IPv4 header instead. */
static void grh_gids(const struct ibv_grh *grh, bool v4, union ibv_gid *sgid, union ibv_gid *dgid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *ip = (const uint8_t *)grh + 20;

    if (!v4) {
        *sgid = grh->sgid;
        *dgid = grh->dgid;
        return;
    }
    memcpy(sgid->raw, mapped, 12);
    memcpy(sgid->raw + 12, ip + 12, 4);
    memcpy(dgid->raw, mapped, 12);
    memcpy(dgid->raw + 12, ip + 16, 4);
}

/* A GRH starts with version 6; an IPv4 header with 4, and the 20 bytes before it are free. */
static bool grh_is_v4(const struct ibv_grh *grh)
{
    const uint8_t *ip = (const uint8_t *)grh + 20;

    return (ntohl(grh->version_tclass_flow) >> 28) != 6 && (ip[0] >> 4) == 4;
}

static int find_sgid(const struct sm_port *p, const union ibv_gid *gid, int type)
{
    for (int i = 0; i < p->ngids; i++) {
        if ((type < 0 || p->gids[i].type == type) && !memcmp(p->gids[i].raw, gid->raw, 16)) {
            return i;
        }
    }
    return -1;
}

SHCA_EXPORT int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc,
                                    struct ibv_grh *grh, struct ibv_ah_attr *a)
{
    const struct sm_dev *d = shca_ctx(ctx)->sm;
    const struct sm_port *p;
    union ibv_gid sgid, dgid;
    bool v4;
    int i, type = -1;

    if (port < 1 || port > d->nports) {
        return EINVAL;
    }
    p = &d->ports[port - 1];
    memset(a, 0, sizeof(*a));
    a->dlid = wc->slid;
    a->sl = wc->sl;
    a->src_path_bits = wc->dlid_path_bits;
    a->port_num = port;
    if (!(wc->wc_flags & IBV_WC_GRH)) {
        return 0;
    }
    v4 = p->link == SM_LINK_ETH && grh_is_v4(grh);
    grh_gids(grh, v4, &sgid, &dgid);
    if (p->link == SM_LINK_ETH) {
        type = v4 || grh->next_hdr == 17 ? SM_GID_ROCE2 : SM_GID_ROCE1;
    }
    i = find_sgid(p, &dgid, type);
    if (i < 0) {
        return ENOENT;
    }
    a->is_global = 1;
    a->grh.dgid = sgid;
    a->grh.sgid_index = (uint8_t)i;
    a->grh.hop_limit = 0xff;
    if (!v4) {
        a->grh.flow_label = ntohl(grh->version_tclass_flow) & 0xfffff;
        a->grh.traffic_class = (uint8_t)(ntohl(grh->version_tclass_flow) >> 20);
    } else {
        a->grh.traffic_class = ((const uint8_t *)grh)[21];
    }
    return 0;
}

SHCA_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                                 struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr a;
    int rc = ibv_init_ah_from_wc(pd->context, port, wc, grh, &a);

    if (rc) {
        errno = rc;
        return NULL;
    }
    return ibv_create_ah(pd, &a);
}
