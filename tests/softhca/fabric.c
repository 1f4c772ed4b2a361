/* Hosts, devices, ports and their addresses; who reaches whom.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "softhca.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool gid_is_zero(const uint8_t g[16])
{
    static const uint8_t zero[16];

    return memcmp(g, zero, 16) == 0;
}

static bool gid_is_v4(const uint8_t g[16])
{
    return memcmp(g, v4_mapped, 12) == 0;
}

static bool gid_is_link_local(const uint8_t g[16])
{
    return g[0] == 0xfe && (g[1] & 0xc0) == 0x80;
}

static void default_limits(struct sm_limits *l)
{
    *l = (struct sm_limits){
        .max_qp = 4096,
        .max_qp_wr = 16384,
        .max_sge = 30,
        .max_sge_rd = 30,
        .max_inline = 512,
        .max_cq = 4096,
        .max_cqe = 131072,
        .max_srq = 1024,
        .max_srq_wr = 16384,
        .max_srq_sge = 30,
        .max_mr = 32768,
        .max_pd = 32768,
        .max_ah = 1u << 20,
        .max_rd_atom = 16,
        .max_init_rd_atom = 16,
        .atomic_cap = IBV_ATOMIC_HCA,
        .comp_vectors = 4,
        .max_mr_size = UINT64_C(1) << 40,
    };
}

/* The EUI-64 of a port, in network order: locally administered, "SH", host, device, port. */
static void port_eui(const struct sm_dev *d, unsigned int port, uint8_t eui[8])
{
    for (int i = 0; i < 8; i++) {
        eui[i] = (uint8_t)(d->node_guid >> (56 - 8 * i));
    }
    eui[7] = (uint8_t)(eui[7] + port);
}

void shca_default_port(struct sm_dev *d, unsigned int port, enum sm_link link)
{
    struct sm_port *p = &d->ports[port - 1];
    uint8_t eui[8];

    memset(p, 0, sizeof(*p));
    atomic_store(&p->state, IBV_PORT_ACTIVE);
    p->link = (uint8_t)link;
    p->width = 2;  /* 4X */
    p->speed = 32; /* EDR */
    p->max_mtu = IBV_MTU_4096;
    p->npkeys = 1;
    p->pkeys[0] = 0xffff;
    p->max_msg_sz = 1u << 30;
    port_eui(d, port, eui);
    if (link == SM_LINK_IB) {
        p->active_mtu = IBV_MTU_4096;
        p->lid = (uint16_t)(0x10 + d->host + 0x100 * d->ordinal + 0x40 * (port - 1));
        p->sm_lid = 1;
        p->ngids = 1;
        p->gids[0].raw[0] = 0xfe;
        p->gids[0].raw[1] = 0x80;
        memcpy(p->gids[0].raw + 8, eui, 8);
        p->gids[0].type = SM_GID_IB;
        snprintf(p->net, sizeof(p->net), "ib0");
        return;
    }
    p->active_mtu = IBV_MTU_1024; /* what an Ethernet MTU of 1500 leaves */
    p->ngids = 16;
    for (int i = 0; i < 4; i++) {
        struct sm_gid *g = &p->gids[i];

        g->type = i % 2 ? SM_GID_ROCE2 : SM_GID_ROCE1;
        snprintf(g->ndev, sizeof(g->ndev), "lo");
        if (i < 2) {
            g->raw[0] = 0xfe;
            g->raw[1] = 0x80;
            memcpy(g->raw + 8, eui, 8);
            g->plen = 64;
        } else {
            memcpy(g->raw, v4_mapped, 12);
            g->raw[12] = 10;
            g->raw[13] = 77;
            g->raw[14] = (uint8_t)(d->ordinal + 2 * (port - 1));
            g->raw[15] = (uint8_t)(d->host + 1);
            g->plen = 24;
        }
    }
    snprintf(p->net, sizeof(p->net), "eth0");
}

struct sm_dev *shca_new_dev(uint32_t host, const char *name, enum sm_link link)
{
    struct sm_host *h = &shca.seg->hosts[host];
    struct sm_dev *d;

    if (h->ndevs == SM_MAX_DEVS_PER_HOST) {
        return NULL;
    }
    h->devs[h->ndevs] = host * SM_MAX_DEVS_PER_HOST + h->ndevs;
    d = &shca.seg->devs[h->devs[h->ndevs]];
    memset(d, 0, sizeof(*d));
    d->host = host;
    d->ordinal = h->ndevs++;
    d->nports = 1;
    d->node_guid = UINT64_C(0x025348fffe000000) | (uint64_t)host << 16 | d->ordinal << 8;
    d->vendor_id = 0x5348;
    d->part_id = 1;
    d->hw_ver = 1;
    snprintf(d->name, sizeof(d->name), "%s", name);
    snprintf(d->fw, sizeof(d->fw), "1.0.0");
    default_limits(&d->lim);
    shca_default_port(d, 1, link);
    atomic_store(&d->used, 1);
    return d;
}

static void make_host(uint32_t i, const char *name)
{
    struct sm_host *h = &shca.seg->hosts[i];

    memcpy(h->name, name, strlen(name) + 1); /* the caller checked the length */
    shca_conf_host(i);
    atomic_store(&h->used, 1);
    atomic_fetch_add(&shca.seg->epoch, 1);
}

/* Trailing digits of a name choose the slot, so that node1 has the same addresses in every run
 * whichever rank comes first. */
static int slot_for(const char *name)
{
    size_t n = strlen(name), d = n;
    unsigned long want;

    while (d > 0 && name[d - 1] >= '0' && name[d - 1] <= '9') {
        d--;
    }
    want = d < n ? strtoul(name + d, NULL, 10) : SM_MAX_HOSTS;
    if (want < SM_MAX_HOSTS && !atomic_load(&shca.seg->hosts[want].used)) {
        return (int)want;
    }
    for (int i = 0; i < SM_MAX_HOSTS; i++) {
        if (!atomic_load(&shca.seg->hosts[i].used)) {
            return i;
        }
    }
    return -1;
}

int shca_host_get(const char *name)
{
    struct utsname u;
    int slot;

    if (!name || !*name) {
        name = getenv("SOFTHCA_HOSTNAME");
    }
    if (!name || !*name) {
        uname(&u);
        name = u.nodename;
    }
    if (strlen(name) >= SM_NAME_LEN) {
        shca_log("host name %.20s... is too long", name);
        return -1;
    }
    for (int i = 0; i < SM_MAX_HOSTS; i++) {
        if (atomic_load(&shca.seg->hosts[i].used) && !strcmp(shca.seg->hosts[i].name, name)) {
            return i;
        }
    }
    slot = shca_conf_host_index(name);
    if (slot < 0 || atomic_load(&shca.seg->hosts[slot].used)) {
        slot = slot_for(name);
    }
    if (slot < 0) {
        shca_log("host %s: the fabric already has %d hosts", name, SM_MAX_HOSTS);
        return -1;
    }
    make_host((uint32_t)slot, name);
    return slot;
}

/* SOFTHCA_DEVS: comma list of device names, `ib` or `roce`. */
static bool dev_wanted(const struct sm_dev *d)
{
    const char *s = getenv("SOFTHCA_DEVS");
    bool ib = d->ports[0].link == SM_LINK_IB;

    if (!s || !*s) {
        return true;
    }
    while (*s) {
        size_t n = strcspn(s, ",");

        if ((n == strlen(d->name) && !strncmp(s, d->name, n)) ||
            (n == 2 && !strncmp(s, "ib", 2) && ib) || (n == 4 && !strncmp(s, "roce", 4) && !ib)) {
            return true;
        }
        s += n + (s[n] == ',');
    }
    return false;
}

struct sm_dev *shca_host_dev(unsigned int i, uint32_t *idx)
{
    const struct sm_host *h = &shca.seg->hosts[shca.host_idx];

    for (uint32_t k = 0; k < h->ndevs; k++) {
        struct sm_dev *d = &shca.seg->devs[h->devs[k]];

        if (dev_wanted(d) && i-- == 0) {
            if (idx) {
                *idx = h->devs[k];
            }
            return d;
        }
    }
    return NULL;
}

struct sm_dev *shca_find_dev(const char *host, const char *dev, uint32_t *idx)
{
    for (uint32_t i = 0; i < SM_MAX_DEVS; i++) {
        struct sm_dev *d = &shca.seg->devs[i];

        if (!atomic_load(&d->used) || strcmp(d->name, dev)) {
            continue;
        }
        if (host ? !strcmp(shca.seg->hosts[d->host].name, host) : d->host == shca.host_idx) {
            if (idx) {
                *idx = i;
            }
            return d;
        }
    }
    return NULL;
}

void shca_port_gid(const struct sm_dev *d, int port, unsigned int index, union ibv_gid *gid)
{
    memcpy(gid->raw, d->ports[port - 1].gids[index].raw, 16);
}

/* True if the two addresses lie in one IP subnet, as seen from the sender's mask. */
static bool same_subnet(const struct sm_gid *src, const uint8_t dst[16])
{
    unsigned int bits = src->plen, from = 0;

    if (gid_is_link_local(dst)) {
        return gid_is_link_local(src->raw);
    }
    if (gid_is_v4(src->raw) != gid_is_v4(dst)) {
        return false;
    }
    if (gid_is_v4(dst)) {
        from = 96;
    }
    for (unsigned int b = 0; b < bits && from + b < 128; b++) {
        unsigned int at = from + b;

        if ((src->raw[at / 8] ^ dst[at / 8]) & (0x80u >> (at % 8))) {
            return false;
        }
    }
    return true;
}

/* Which port owns a RoCE address on this wire? RoCE v1 and v2 entries are different addresses, and
 * each VLAN is a wire of its own. */
static bool find_gid(const char *net, uint16_t vlan, const uint8_t gid[16], int type, uint32_t *dev,
                     int *port)
{
    for (uint32_t i = 0; i < SM_MAX_DEVS; i++) {
        const struct sm_dev *d = &shca.seg->devs[i];

        if (!atomic_load(&d->used)) {
            continue;
        }
        for (uint32_t p = 0; p < d->nports; p++) {
            const struct sm_port *pp = &d->ports[p];

            if (pp->link != SM_LINK_ETH || strcmp(pp->net, net)) {
                continue;
            }
            for (unsigned int g = 0; g < pp->ngids; g++) {
                if (pp->gids[g].type == type && pp->gids[g].vlan == vlan &&
                    !memcmp(pp->gids[g].raw, gid, 16)) {
                    *dev = i;
                    *port = (int)p + 1;
                    return true;
                }
            }
        }
    }
    return false;
}

/* Same wire and same subnet prefix: the subnet manager of the sender's subnet programmed a route.
 */
static bool find_lid(const struct sm_port *from, uint16_t lid, uint32_t *dev, int *port)
{
    for (uint32_t i = 0; i < SM_MAX_DEVS; i++) {
        const struct sm_dev *d = &shca.seg->devs[i];

        if (!atomic_load(&d->used)) {
            continue;
        }
        for (uint32_t p = 0; p < d->nports; p++) {
            const struct sm_port *pp = &d->ports[p];

            if (pp->link == SM_LINK_IB && lid >= pp->lid && lid < pp->lid + (1u << pp->lmc) &&
                !strcmp(pp->net, from->net) && !memcmp(pp->gids[0].raw, from->gids[0].raw, 8)) {
                *dev = i;
                *port = (int)p + 1;
                return true;
            }
        }
    }
    return false;
}

static int check_roce(const struct sm_port *p, const struct ibv_ah_attr *attr)
{
    const struct sm_gid *src;
    uint32_t dev;
    int port;

    if (!attr->is_global) {
        return shca_strict(EINVAL, "an address on RoCE needs a GRH (is_global = 0)");
    }
    if (attr->grh.sgid_index >= p->ngids) {
        return shca_strict(EINVAL, "sgid_index %u: the table has %u entries", attr->grh.sgid_index,
                           p->ngids);
    }
    src = &p->gids[attr->grh.sgid_index];
    if (gid_is_zero(src->raw)) {
        return shca_strict(EINVAL, "sgid_index %u is an empty entry", attr->grh.sgid_index);
    }
    if (gid_is_zero(attr->grh.dgid.raw)) {
        return shca_strict(EINVAL, "destination GID is zero");
    }
    if (gid_is_link_local(attr->grh.dgid.raw)) {
        return 0; /* its MAC address is computed, nobody is asked */
    }
    if (!same_subnet(src, attr->grh.dgid.raw)) {
        return EHOSTUNREACH; /* no route */
    }
    if (!find_gid(p->net, src->vlan, attr->grh.dgid.raw, src->type, &dev, &port)) {
        for (int t = SM_GID_ROCE1; t <= SM_GID_ROCE2; t++) {
            if (find_gid(p->net, src->vlan, attr->grh.dgid.raw, t, &dev, &port)) {
                return 0; /* ARP finds the host; that it drops the other RoCE version shows later */
            }
        }
        return ETIMEDOUT; /* nobody answers */
    }
    return 0;
}

int shca_path_check(const struct sm_dev *d, const struct ibv_ah_attr *attr, struct sm_path *path)
{
    const struct sm_port *p;
    int rc;

    if (attr->port_num < 1 || attr->port_num > d->nports) {
        return shca_strict(EINVAL, "port %u: %s has %u", attr->port_num, d->name, d->nports);
    }
    if (attr->sl > 15) {
        return shca_strict(EINVAL, "service level %u", attr->sl);
    }
    p = &d->ports[attr->port_num - 1];
    if (p->link == SM_LINK_ETH) {
        rc = check_roce(p, attr);
        if (rc) {
            return rc;
        }
    } else {
        if (attr->is_global && attr->grh.sgid_index >= p->ngids) {
            return shca_strict(EINVAL, "sgid_index %u: the table has %u entries",
                               attr->grh.sgid_index, p->ngids);
        }
        if (!attr->dlid) {
            return shca_strict(EINVAL, "destination LID is zero on InfiniBand");
        }
    }
    memset(path, 0, sizeof(*path));
    path->port_num = attr->port_num;
    path->is_grh = attr->is_global;
    path->sl = attr->sl;
    path->src_path_bits = attr->src_path_bits;
    path->dlid = p->link == SM_LINK_IB ? attr->dlid : 0;
    if (attr->is_global) {
        path->sgid_index = attr->grh.sgid_index;
        path->hop_limit = attr->grh.hop_limit;
        path->tclass = attr->grh.traffic_class;
        path->flow = attr->grh.flow_label;
        memcpy(path->dgid, attr->grh.dgid.raw, 16);
    }
    return 0;
}

void shca_path_to_attr(const struct sm_path *path, struct ibv_ah_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->port_num = path->port_num;
    attr->is_global = path->is_grh;
    attr->sl = path->sl;
    attr->src_path_bits = path->src_path_bits;
    attr->dlid = path->dlid;
    if (path->is_grh) {
        attr->grh.sgid_index = path->sgid_index;
        attr->grh.hop_limit = path->hop_limit;
        attr->grh.traffic_class = path->tclass;
        attr->grh.flow_label = path->flow;
        memcpy(attr->grh.dgid.raw, path->dgid, 16);
    }
}

static void resolve(uint32_t dev_idx, const struct sm_path *path, struct shca_route *r)
{
    const struct sm_dev *d = &shca.seg->devs[dev_idx];
    const struct sm_port *from = &d->ports[path->port_num - 1], *to;

    r->port = 0;
    r->slid = r->dlid = 0;
    if (atomic_load(&from->state) != IBV_PORT_ACTIVE) {
        return;
    }
    if (from->link == SM_LINK_ETH) {
        const struct sm_gid *src = &from->gids[path->sgid_index];

        if (gid_is_zero(src->raw) || !same_subnet(src, path->dgid) ||
            !find_gid(from->net, src->vlan, path->dgid, src->type, &r->dev, &r->port)) {
            return;
        }
    } else {
        if (path->is_grh && memcmp(path->dgid, from->gids[0].raw, 8)) {
            return; /* another subnet: there is no router */
        }
        if (!find_lid(from, path->dlid, &r->dev, &r->port)) {
            return;
        }
        r->slid = (uint16_t)(from->lid + (path->src_path_bits & ((1u << from->lmc) - 1)));
        r->dlid = path->dlid;
    }
    to = &shca.seg->devs[r->dev].ports[r->port - 1];
    if (from->link == SM_LINK_IB && (from->grh_required || to->grh_required) && !path->is_grh) {
        r->port = 0;
        return;
    }
    if (atomic_load(&to->state) != IBV_PORT_ACTIVE || atomic_load(&shca.seg->devs[r->dev].fatal)) {
        r->port = 0;
        return;
    }
    if (from->link == SM_LINK_IB && path->is_grh) {
        bool ours = false;

        for (unsigned int g = 0; g < to->ngids; g++) {
            ours = ours || !memcmp(to->gids[g].raw, path->dgid, 16);
        }
        if (!ours) {
            r->port = 0; /* the GRH names somebody else */
        }
    }
}

void shca_route_resolve(uint32_t dev_idx, const struct sm_path *path, struct shca_route *r)
{
    uint64_t e = atomic_load_explicit(&shca.seg->epoch, memory_order_acquire);

    if (SHCA_LIKELY(r->epoch == e)) {
        return;
    }
    resolve(dev_idx, path, r);
    r->epoch = e;
}
