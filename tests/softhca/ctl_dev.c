/* Devices: listing, opening, queries.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs_impl.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct shca_device *devices[SM_MAX_DEVS];

static struct shca_device *device(uint32_t idx)
{
    const struct sm_dev *d = &shca.seg->devs[idx];
    struct shca_device *dev = devices[idx];

    if (dev) {
        return dev;
    }
    dev = calloc(1, sizeof(*dev));
    if (!dev) {
        return NULL;
    }
    dev->idx = idx;
    dev->dev.node_type = d->transport == IBV_TRANSPORT_IWARP       ? IBV_NODE_RNIC
                         : d->transport == IBV_TRANSPORT_USNIC_UDP ? IBV_NODE_USNIC_UDP
                                                                   : IBV_NODE_CA;
    dev->dev.transport_type = (enum ibv_transport_type)d->transport;
    snprintf(dev->dev.name, sizeof(dev->dev.name), "%s", d->name);
    snprintf(dev->dev.dev_name, sizeof(dev->dev.dev_name), "uverbs%u", d->ordinal);
    snprintf(dev->dev.dev_path, sizeof(dev->dev.dev_path), "/sys/class/infiniband_verbs/uverbs%u",
             d->ordinal);
    snprintf(dev->dev.ibdev_path, sizeof(dev->dev.ibdev_path), "/sys/class/infiniband/%s", d->name);
    devices[idx] = dev; /* kept to the end: programs use it after ibv_free_device_list */
    return dev;
}

SHCA_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
    struct ibv_device **list;
    int n = 0, rc = shca_attach();
    uint32_t idx;

    if (num) {
        *num = 0;
    }
    if (rc) {
        errno = rc;
        return NULL;
    }
    list = calloc(SM_MAX_DEVS_PER_HOST + 1, sizeof(*list));
    if (!list) {
        return NULL;
    }
    pthread_mutex_lock(&shca.lock);
    while (shca_host_dev((unsigned int)n, &idx)) {
        struct shca_device *dev = device(idx);

        if (!dev) {
            break;
        }
        list[n++] = &dev->dev;
    }
    pthread_mutex_unlock(&shca.lock);
    if (num) {
        *num = n;
    }
    return list;
}

SHCA_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

SHCA_EXPORT const char *ibv_get_device_name(struct ibv_device *dev)
{
    return dev->name;
}

static const struct sm_dev *sm_of(struct ibv_device *dev)
{
    return &shca.seg->devs[((struct shca_device *)dev)->idx];
}

SHCA_EXPORT __be64 ibv_get_device_guid(struct ibv_device *dev)
{
    return htobe64(sm_of(dev)->node_guid);
}

SHCA_EXPORT int ibv_get_device_index(struct ibv_device *dev)
{
    return (int)sm_of(dev)->ordinal;
}

static void fill_ops(struct verbs_context *v)
{
    v->sz = sizeof(*v);
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    v->query_port = shca_query_port;
    v->query_device_ex = shca_query_device_ex;
    v->create_qp_ex = shca_create_qp_ex;
    v->create_srq_ex = shca_create_srq_ex;
    v->create_cq_ex = shca_create_cq_ex;
    v->context.ops.poll_cq = shca_poll_cq;
    v->context.ops.req_notify_cq = shca_req_notify_cq;
    v->context.ops.post_send = shca_post_send;
    v->context.ops.post_recv = shca_post_recv;
    v->context.ops.post_srq_recv = shca_post_srq_recv;
}

SHCA_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *ibdev)
{
    struct shca_device *dev = (struct shca_device *)ibdev;
    struct shca_context *ctx;
    uint32_t gen;
    int i, rc = shca_attach();

    if (!rc && atomic_load(&shca.seg->devs[dev->idx].fatal)) {
        rc = EIO;
    }
    ctx = rc ? NULL : calloc(1, sizeof(*ctx));
    if (!ctx) {
        errno = rc ? rc : ENOMEM;
        return NULL;
    }
    ctx->dev = dev;
    ctx->dev_idx = dev->idx;
    ctx->sm = &shca.seg->devs[dev->idx];
    rc = shca_fault_ctl(ctx, SHCA_FAULT_OPEN_DEVICE_FAIL);
    if (rc) {
        free(ctx);
        errno = rc;
        return NULL;
    }
    i = shca_obj_alloc(SM_T_CTX, dev->idx, 0);
    if (i < 0) {
        free(ctx);
        errno = EMFILE;
        return NULL;
    }
    ctx->idx = (uint32_t)i;
    rc = shca_chan_create(ctx, SM_CHAN_ASYNC, &ctx->async_chan, &gen, &ctx->v.context.async_fd);
    if (rc) {
        shca_obj_free(SM_T_CTX, ctx->idx);
        free(ctx);
        errno = rc;
        return NULL;
    }
    shca.seg->ctxs[i].chan_gen = gen;
    shca.seg->ctxs[i].chan = ctx->async_chan;
    fill_ops(&ctx->v);
    ctx->v.context.device = ibdev;
    ctx->v.context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ctx->v.context.num_comp_vectors = (int)ctx->sm->lim.comp_vectors;
    pthread_mutex_init(&ctx->v.context.mutex, NULL);
    shca.ctxs[i] = ctx;
    shca_conf_remind();
    return &ctx->v.context;
}

SHCA_EXPORT int ibv_close_device(struct ibv_context *ibctx)
{
    struct shca_context *ctx = shca_ctx(ibctx);

    if (shca_foreign()) {
        return 0;
    }
    if (atomic_load(&ctx->npd) || atomic_load(&ctx->ncq) || atomic_load(&ctx->nchan)) {
        /* The kernel cleans up behind the program; the program's pointers dangle all the same. */
        shca_strict(0, "ibv_close_device: %u PDs, %u CQs, %u channels are still there",
                    atomic_load(&ctx->npd), atomic_load(&ctx->ncq), atomic_load(&ctx->nchan));
        return 0;
    }
    shca.ctxs[ctx->idx] = NULL;
    shca_obj_free(SM_T_CTX, ctx->idx);
    shca_chan_destroy(ctx->async_chan, ibctx->async_fd);
    close(ibctx->cmd_fd);
    free(ctx);
    return 0;
}

static void device_attr(const struct sm_dev *d, struct ibv_device_attr *a)
{
    const struct sm_limits *l = &d->lim;

    memset(a, 0, sizeof(*a));
    snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", d->fw);
    a->node_guid = htobe64(d->node_guid);
    a->sys_image_guid = a->node_guid;
    a->max_mr_size = l->max_mr_size;
    a->page_size_cap = 0xfffff000;
    a->vendor_id = d->vendor_id;
    a->vendor_part_id = d->part_id;
    a->hw_ver = d->hw_ver;
    a->max_qp = (int)l->max_qp;
    a->max_qp_wr = (int)l->max_qp_wr;
    a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID;
    if (l->max_srq) {
        a->device_cap_flags |= IBV_DEVICE_SRQ_RESIZE;
    }
    a->max_sge = (int)l->max_sge;
    a->max_sge_rd = (int)l->max_sge_rd;
    a->max_cq = (int)l->max_cq;
    a->max_cqe = (int)l->max_cqe;
    a->max_mr = (int)l->max_mr;
    a->max_pd = (int)l->max_pd;
    a->max_qp_rd_atom = (int)l->max_rd_atom;
    a->max_qp_init_rd_atom = (int)l->max_init_rd_atom;
    a->max_res_rd_atom = (int)(l->max_rd_atom * l->max_qp);
    a->atomic_cap = (enum ibv_atomic_cap)l->atomic_cap;
    a->max_ah = (int)l->max_ah;
    a->max_srq = (int)l->max_srq;
    a->max_srq_wr = l->max_srq ? (int)l->max_srq_wr : 0;
    a->max_srq_sge = l->max_srq ? (int)l->max_srq_sge : 0;
    a->max_pkeys = d->ports[0].npkeys;
    a->local_ca_ack_delay = 15;
    a->phys_port_cnt = (uint8_t)d->nports;
}

SHCA_EXPORT int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    if (atomic_load(&shca_ctx(ctx)->sm->fatal)) {
        return EIO;
    }
    device_attr(shca_ctx(ctx)->sm, attr);
    return 0;
}

int shca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in,
                         struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex a;

    (void)in;
    if (atomic_load(&shca_ctx(ctx)->sm->fatal)) {
        return EIO;
    }
    memset(&a, 0, sizeof(a));
    device_attr(shca_ctx(ctx)->sm, &a.orig_attr);
    a.phys_port_cnt_ex = shca_ctx(ctx)->sm->nports;
    memset(attr, 0, size);
    memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
    return 0;
}

static int port_attr(const struct sm_dev *d, int port, struct ibv_port_attr *a)
{
    const struct sm_port *p;

    if (atomic_load(&d->fatal)) {
        return EIO;
    }
    if (port < 1 || port > (int)d->nports) {
        return EINVAL;
    }
    p = &d->ports[port - 1];
    memset(a, 0, sizeof(*a));
    a->state = (enum ibv_port_state)atomic_load(&p->state);
    a->max_mtu = (enum ibv_mtu)p->max_mtu;
    a->active_mtu = (enum ibv_mtu)p->active_mtu;
    a->gid_tbl_len = p->ngids;
    a->max_msg_sz = p->max_msg_sz;
    a->pkey_tbl_len = p->npkeys;
    a->bad_pkey_cntr = atomic_load(&p->bad_pkey);
    a->qkey_viol_cntr = atomic_load(&p->qkey_viol);
    a->max_vl_num = 1;
    a->active_width = p->width;
    a->active_speed = p->speed;
    a->phys_state = a->state == IBV_PORT_ACTIVE ? 5 : 3; /* LinkUp, Disabled */
    if (p->link == SM_LINK_IB) {
        a->lid = p->lid;
        a->sm_lid = p->sm_lid;
        a->lmc = p->lmc;
        a->subnet_timeout = 18;
        a->link_layer = IBV_LINK_LAYER_INFINIBAND;
        a->flags = p->grh_required ? IBV_QPF_GRH_REQUIRED : 0;
    } else {
        a->link_layer = IBV_LINK_LAYER_ETHERNET;
        a->flags = IBV_QPF_GRH_REQUIRED;
        a->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    }
    return 0;
}

int shca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    struct ibv_port_attr a;
    int rc = port_attr(shca_ctx(ctx)->sm, port, &a);

    if (rc) {
        return rc;
    }
    memset(attr, 0, size);
    memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
    return 0;
}

/* Programs built before the structure grew get only what they have room for. */
#undef ibv_query_port
SHCA_EXPORT int ibv_query_port(struct ibv_context *ctx, uint8_t port,
                               struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr a;
    int rc = port_attr(shca_ctx(ctx)->sm, port, &a);

    if (!rc) {
        memcpy(attr, &a, offsetof(struct ibv_port_attr, port_cap_flags2));
    }
    return rc;
}

static const struct sm_gid *gid_of(struct ibv_context *ctx, uint32_t port, uint32_t index)
{
    const struct sm_dev *d = shca_ctx(ctx)->sm;

    if (port < 1 || port > d->nports || index >= d->ports[port - 1].ngids) {
        return NULL;
    }
    return &d->ports[port - 1].gids[index];
}

SHCA_EXPORT int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
    const struct sm_gid *g = index < 0 ? NULL : gid_of(ctx, port, (uint32_t)index);

    if (!g) {
        errno = EINVAL;
        return -1;
    }
    memcpy(gid->raw, g->raw, 16);
    return 0;
}

static bool fill_entry(struct ibv_context *ctx, uint32_t port, uint32_t index,
                       struct ibv_gid_entry *e)
{
    static const uint8_t zero[16];
    const struct sm_gid *g = gid_of(ctx, port, index);

    if (!g || !memcmp(g->raw, zero, 16)) {
        return false;
    }
    memset(e, 0, sizeof(*e));
    memcpy(e->gid.raw, g->raw, 16);
    e->gid_index = index;
    e->port_num = port;
    e->gid_type = g->type; /* same values: IB, RoCE v1, RoCE v2 */
    e->ndev_ifindex = g->ndev[0] ? if_nametoindex(g->ndev) : 0;
    return true;
}

SHCA_EXPORT int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
                                  struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct ibv_gid_entry e;

    if (flags) {
        return EOPNOTSUPP;
    }
    if (!gid_of(ctx, port, index)) {
        return EINVAL;
    }
    if (!fill_entry(ctx, port, index, &e)) {
        return ENODATA;
    }
    memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
    return 0;
}

SHCA_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries,
                                         size_t max, uint32_t flags, size_t size)
{
    const struct sm_dev *d = shca_ctx(ctx)->sm;
    size_t n = 0;

    if (flags) {
        return -EOPNOTSUPP;
    }
    for (uint32_t p = 1; p <= d->nports; p++) {
        for (uint32_t i = 0; i < d->ports[p - 1].ngids; i++) {
            struct ibv_gid_entry e;

            if (!fill_entry(ctx, p, i, &e)) {
                continue;
            }
            if (n == max) {
                return -EINVAL;
            }
            memcpy((char *)entries + n++ * size, &e, size < sizeof(e) ? size : sizeof(e));
        }
    }
    return (ssize_t)n;
}

/* Exported by the library for its own examples; declared in no header. */
enum ibv_gid_type_sysfs { GID_TYPE_SYSFS_IB_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index,
                       enum ibv_gid_type_sysfs *type);

SHCA_EXPORT int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index,
                                   enum ibv_gid_type_sysfs *type)
{
    const struct sm_gid *g = gid_of(ctx, port, index);

    if (!g) {
        errno = EINVAL;
        return -1;
    }
    *type = g->type == SM_GID_ROCE2 ? GID_TYPE_SYSFS_ROCE_V2 : GID_TYPE_SYSFS_IB_ROCE_V1;
    return 0;
}

SHCA_EXPORT int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
    const struct sm_dev *d = shca_ctx(ctx)->sm;

    if (port < 1 || port > d->nports || index < 0 || index >= d->ports[port - 1].npkeys) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htons(d->ports[port - 1].pkeys[index]);
    return 0;
}

SHCA_EXPORT int ibv_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
    const struct sm_dev *d = shca_ctx(ctx)->sm;

    if (port >= 1 && port <= d->nports) {
        for (int i = 0; i < d->ports[port - 1].npkeys; i++) {
            if (d->ports[port - 1].pkeys[i] == ntohs(pkey)) {
                return i;
            }
        }
    }
    errno = EINVAL;
    return -1;
}

__attribute__((destructor)) static void at_exit(void)
{
    shca_detach();
}
