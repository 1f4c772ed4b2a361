/* What /sys/class/infiniband and /dev/infiniband say about the simulated devices of this host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tree is a list of patterns; %-components stand for the devices, ports and table entries that
 * exist. Texts are made from the segment at each reading, as the kernel does.
 */
#include "sysfs.h"

#include "softhca.h"

#include <string.h>
#include <unistd.h>

/* What the %-components of a path stand for. */
struct at {
    const struct sm_dev *dev;
    const struct sm_port *port;
    unsigned int index;
};

typedef int text_fn(const struct at *at, char *to, size_t size);

/* ---- texts ---- */

static int guid_text(uint64_t guid, char *to, size_t size)
{
    return snprintf(to, size, "%04x:%04x:%04x:%04x\n", (unsigned int)(guid >> 48 & 0xffff),
                    (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
                    (unsigned int)(guid & 0xffff));
}

static int abi_version(const struct at *at, char *to, size_t size)
{
    (void)at;
    return snprintf(to, size, "6\n"); /* IB_USER_VERBS_ABI_VERSION */
}

static int ibdev(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s\n", at->dev->name);
}

static int uverbs_abi(const struct at *at, char *to, size_t size)
{
    (void)at;
    return snprintf(to, size, "1\n");
}

static int fw_ver(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s\n", at->dev->fw);
}

static int hca_type(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "SHCA%u\n", at->dev->part_id);
}

static int board_id(const struct at *at, char *to, size_t size)
{
    (void)at;
    return snprintf(to, size, "SHCA0000000001\n");
}

static int hw_rev(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%x\n", at->dev->hw_ver);
}

static int node_desc(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s %s\n", shca.seg->hosts[at->dev->host].name, at->dev->name);
}

static int node_guid(const struct at *at, char *to, size_t size)
{
    return guid_text(at->dev->node_guid, to, size);
}

static int node_type(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s\n",
                    at->dev->transport == IBV_TRANSPORT_IWARP ? "4: RNIC" : "1: CA");
}

static int numa_node(const struct at *at, char *to, size_t size)
{
    (void)at;
    return snprintf(to, size, "0\n");
}

static long cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);

    return n < 1 ? 1 : n > 512 ? 512 : n;
}

/* As the kernel's %*pb: groups of 32 bits, the highest first. */
static int local_cpus(const struct at *at, char *to, size_t size)
{
    long n = cpus(), group = (n - 1) / 32;
    size_t used = 0;

    (void)at;
    for (; group >= 0; group--) {
        long bits = n - group * 32;
        unsigned int mask = bits >= 32 ? 0xffffffffu : (1u << bits) - 1;

        used += (size_t)snprintf(to + used, size - used, used ? ",%08x" : "%x", mask);
    }
    return (int)used + snprintf(to + used, size - used, "\n");
}

static int local_cpulist(const struct at *at, char *to, size_t size)
{
    (void)at;
    return cpus() == 1 ? snprintf(to, size, "0\n") : snprintf(to, size, "0-%ld\n", cpus() - 1);
}

static int vendor(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "0x%04x\n", at->dev->vendor_id & 0xffff);
}

static int device(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "0x%04x\n", at->dev->part_id & 0xffff);
}

static int lid(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "0x%x\n", at->port->lid);
}

static int sm_lid(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "0x%x\n", at->port->sm_lid);
}

static int lid_mask_count(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%u\n", at->port->lmc);
}

static int zero(const struct at *at, char *to, size_t size)
{
    (void)at;
    return snprintf(to, size, "0\n");
}

static int state(const struct at *at, char *to, size_t size)
{
    static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    uint32_t s = atomic_load(&at->port->state);

    return snprintf(to, size, "%u: %s\n", s,
                    s < sizeof(names) / sizeof(names[0]) ? names[s] : "<unknown>");
}

static int phys_state(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s\n",
                    atomic_load(&at->port->state) >= IBV_PORT_INIT ? "5: LinkUp" : "3: Disabled");
}

static int rate(const struct at *at, char *to, size_t size)
{
    static const struct {
        unsigned int code, tenths; /* tenths of Gb/s per lane */
        const char *name;
    } speeds[] = {{1, 25, "SDR"},   {2, 50, "DDR"},   {4, 100, "QDR"},  {8, 100, "FDR10"},
                  {16, 140, "FDR"}, {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"}};
    unsigned int lanes = 1, i;

    for (i = 0; i < sizeof(speeds) / sizeof(speeds[0]) - 1; i++) {
        if (speeds[i].code == at->port->speed) {
            break;
        }
    }
    lanes = at->port->width == 2   ? 4
            : at->port->width == 4 ? 8
            : at->port->width == 8 ? 12
                                   : 1; /* IBTA: the width code is a bit mask */
    i = at->port->speed == speeds[i].code ? i : 0;
    lanes *= speeds[i].tenths;
    return snprintf(to, size, lanes % 10 ? "%u.%u Gb/sec (%uX %s)\n" : "%u%.0u Gb/sec (%uX %s)\n",
                    lanes / 10, lanes % 10, lanes / speeds[i].tenths, speeds[i].name);
}

static int link_layer(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "%s\n", at->port->link == SM_LINK_ETH ? "Ethernet" : "InfiniBand");
}

/* A GID that is not there reads as zeroes, its attributes as an error. */
static int gid(const struct at *at, char *to, size_t size)
{
    const uint8_t *g = at->port->gids[at->index].raw;
    size_t used = 0;

    for (int i = 0; i < 16; i += 2) {
        used +=
            (size_t)snprintf(to + used, size - used, "%s%02x%02x", i ? ":" : "", g[i], g[i + 1]);
    }
    return (int)used + snprintf(to + used, size - used, "\n");
}

static bool gid_empty(const struct sm_gid *g)
{
    static const uint8_t none[16];

    return memcmp(g->raw, none, sizeof(none)) == 0;
}

static int gid_type(const struct at *at, char *to, size_t size)
{
    const struct sm_gid *g = &at->port->gids[at->index];

    if (gid_empty(g)) {
        return -EINVAL;
    }
    return snprintf(to, size, "%s\n", g->type == SM_GID_ROCE2 ? "RoCE v2" : "IB/RoCE v1");
}

static int gid_ndev(const struct at *at, char *to, size_t size)
{
    const struct sm_gid *g = &at->port->gids[at->index];

    if (gid_empty(g) || at->port->link != SM_LINK_ETH || !g->ndev[0]) {
        return -EINVAL;
    }
    return snprintf(to, size, "%.*s\n", (int)sizeof(g->ndev), g->ndev);
}

static int pkey(const struct at *at, char *to, size_t size)
{
    return snprintf(to, size, "0x%04x\n", at->port->pkeys[at->index]);
}

static int cnt(const struct at *at, enum sm_counter c, char *to, size_t size)
{
    return snprintf(to, size, "%llu\n", (unsigned long long)atomic_load(&at->dev->cnt[c]));
}

static int ack_timeouts(const struct at *at, char *to, size_t size)
{
    return cnt(at, SM_CNT_TIMEOUT, to, size);
}

static int rnr_naks(const struct at *at, char *to, size_t size)
{
    return cnt(at, SM_CNT_RNR, to, size);
}

/* ---- the tree ---- */

/* %d device by name, %u device as uverbsN, %p port, %g GID index, %k P_Key index */
static const struct {
    const char *pattern;
    text_fn *text; /* NULL: a character device */
} tree[] = {
    {"/dev/infiniband/%u", NULL},
    {"/sys/class/infiniband_verbs/abi_version", abi_version},
    {"/sys/class/infiniband_verbs/%u/ibdev", ibdev},
    {"/sys/class/infiniband_verbs/%u/abi_version", uverbs_abi},
    {"/sys/class/infiniband_verbs/%u/device/numa_node", numa_node},
    {"/sys/class/infiniband_verbs/%u/device/local_cpus", local_cpus},
    {"/sys/class/infiniband_verbs/%u/device/local_cpulist", local_cpulist},
    {"/sys/class/infiniband_verbs/%u/device/vendor", vendor},
    {"/sys/class/infiniband_verbs/%u/device/device", device},
    {"/sys/class/infiniband/%d/fw_ver", fw_ver},
    {"/sys/class/infiniband/%d/hca_type", hca_type},
    {"/sys/class/infiniband/%d/board_id", board_id},
    {"/sys/class/infiniband/%d/hw_rev", hw_rev},
    {"/sys/class/infiniband/%d/node_desc", node_desc},
    {"/sys/class/infiniband/%d/node_guid", node_guid},
    {"/sys/class/infiniband/%d/node_type", node_type},
    {"/sys/class/infiniband/%d/sys_image_guid", node_guid},
    {"/sys/class/infiniband/%d/device/numa_node", numa_node},
    {"/sys/class/infiniband/%d/device/local_cpus", local_cpus},
    {"/sys/class/infiniband/%d/device/local_cpulist", local_cpulist},
    {"/sys/class/infiniband/%d/device/vendor", vendor},
    {"/sys/class/infiniband/%d/device/device", device},
    {"/sys/class/infiniband/%d/ports/%p/lid", lid},
    {"/sys/class/infiniband/%d/ports/%p/lid_mask_count", lid_mask_count},
    {"/sys/class/infiniband/%d/ports/%p/sm_lid", sm_lid},
    {"/sys/class/infiniband/%d/ports/%p/sm_sl", zero},
    {"/sys/class/infiniband/%d/ports/%p/state", state},
    {"/sys/class/infiniband/%d/ports/%p/phys_state", phys_state},
    {"/sys/class/infiniband/%d/ports/%p/rate", rate},
    {"/sys/class/infiniband/%d/ports/%p/link_layer", link_layer},
    {"/sys/class/infiniband/%d/ports/%p/gids/%g", gid},
    {"/sys/class/infiniband/%d/ports/%p/gid_attrs/types/%g", gid_type},
    {"/sys/class/infiniband/%d/ports/%p/gid_attrs/ndevs/%g", gid_ndev},
    {"/sys/class/infiniband/%d/ports/%p/pkeys/%k", pkey},
    {"/sys/class/infiniband/%d/ports/%p/hw_counters/local_ack_timeout_err", ack_timeouts},
    {"/sys/class/infiniband/%d/ports/%p/hw_counters/rnr_nak_retry_err", rnr_naks},
};

enum { TREE_SIZE = sizeof(tree) / sizeof(tree[0]) };

/* Copies the next component of *path and moves behind it; false at the end or if it is too long. */
static bool component(const char **path, char name[SM_NAME_LEN])
{
    const char *p = *path;
    size_t len;

    while (*p == '/') {
        p++;
    }
    len = strcspn(p, "/");
    if (len >= SM_NAME_LEN) {
        len = 0; /* no name of ours is that long: matches nothing */
        name[0] = '\0';
        *path = p + strcspn(p, "/");
        return true;
    }
    memcpy(name, p, len);
    name[len] = '\0';
    *path = p + len;
    return len > 0;
}

static bool index_of(const char *name, unsigned int limit, unsigned int *value)
{
    unsigned int v = 0;

    if (!*name || (*name == '0' && name[1])) {
        return false;
    }
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || v > 65535) {
            return false;
        }
        v = v * 10 + (unsigned int)(*name - '0');
    }
    *value = v;
    return v < limit;
}

/* How many things the placeholder can stand for, and the name of the i-th (i counts from 0). */
static bool nth_name(char what, unsigned int i, const struct at *at, char name[SM_NAME_LEN])
{
    const struct sm_dev *dev;

    switch (what) {
    case 'd':
    case 'u':
        dev = shca_host_dev(i, NULL);
        if (dev && what == 'd') {
            snprintf(name, SM_NAME_LEN, "%s", dev->name);
        } else if (dev) {
            snprintf(name, SM_NAME_LEN, "uverbs%u", dev->ordinal);
        }
        return dev != NULL;
    case 'p':
        snprintf(name, SM_NAME_LEN, "%u", i + 1);
        return i < at->dev->nports;
    case 'g':
        snprintf(name, SM_NAME_LEN, "%u", i);
        return i < at->port->ngids;
    default:
        snprintf(name, SM_NAME_LEN, "%u", i);
        return i < at->port->npkeys;
    }
}

static bool bind(char what, const char *name, struct at *at)
{
    unsigned int v;

    switch (what) {
    case 'd':
    case 'u':
        for (unsigned int i = 0; (at->dev = shca_host_dev(i, NULL)); i++) {
            char have[SM_NAME_LEN];

            if (nth_name(what, i, at, have) && strcmp(have, name) == 0) {
                return true;
            }
        }
        return false;
    case 'p':
        if (!index_of(name, at->dev->nports + 1, &v) || v == 0) {
            return false;
        }
        at->port = &at->dev->ports[v - 1];
        return true;
    case 'g':
        return index_of(name, at->port->ngids, &at->index);
    default:
        return index_of(name, at->port->npkeys, &at->index);
    }
}

enum match { MATCH_NO, MATCH_FULL, MATCH_ABOVE };

/* MATCH_ABOVE: the path is a directory of the pattern; *rest is the pattern's remaining part. */
static enum match match(const char *path, const char *pattern, struct at *at, const char **rest)
{
    char have[SM_NAME_LEN], want[SM_NAME_LEN];

    memset(at, 0, sizeof(*at));
    for (;;) {
        bool more = component(&path, have);

        *rest = pattern;
        if (!component(&pattern, want)) {
            return more ? MATCH_NO : MATCH_FULL;
        }
        if (!more) {
            return MATCH_ABOVE;
        }
        if (want[0] == '%' ? !bind(want[1], have, at) : strcmp(want, have) != 0) {
            return MATCH_NO;
        }
    }
}

enum shca_node_kind shca_sysfs_find(const char *path)
{
    enum shca_node_kind kind = SHCA_NODE_MISSING;
    const char *rest;
    struct at at;

    if (!shca_sysfs_owns(path) || shca_attach() != 0) {
        return SHCA_NODE_NONE;
    }
    for (int i = 0; i < TREE_SIZE; i++) {
        switch (match(path, tree[i].pattern, &at, &rest)) {
        case MATCH_FULL:
            return tree[i].text ? SHCA_NODE_FILE : SHCA_NODE_CHARDEV;
        case MATCH_ABOVE:
            kind = SHCA_NODE_DIR;
            break;
        default:
            break;
        }
    }
    return kind;
}

int shca_sysfs_text(const char *path, char text[SHCA_SYSFS_TEXT])
{
    const char *rest;
    struct at at;

    for (int i = 0; i < TREE_SIZE; i++) {
        if (tree[i].text && match(path, tree[i].pattern, &at, &rest) == MATCH_FULL) {
            int len = tree[i].text(&at, text, SHCA_SYSFS_TEXT);

            return len >= SHCA_SYSFS_TEXT ? SHCA_SYSFS_TEXT - 1 : len;
        }
    }
    return -ENOENT;
}

void shca_sysfs_list(const char *path,
                     void (*emit)(void *arg, const char *name, enum shca_node_kind kind), void *arg)
{
    char name[SM_NAME_LEN], last[SM_NAME_LEN] = "";
    const char *rest;
    struct at at;

    for (int i = 0; i < TREE_SIZE; i++) {
        enum shca_node_kind kind;

        if (match(path, tree[i].pattern, &at, &rest) != MATCH_ABOVE || !component(&rest, name) ||
            strcmp(name, last) == 0) {
            continue; /* patterns that share a directory stand together in the list */
        }
        snprintf(last, sizeof(last), "%s", name);
        kind = *rest ? SHCA_NODE_DIR : tree[i].text ? SHCA_NODE_FILE : SHCA_NODE_CHARDEV;
        if (name[0] != '%') {
            emit(arg, name, kind);
            continue;
        }
        for (unsigned int n = 0; nth_name(last[1], n, &at, name); n++) {
            emit(arg, name, kind);
        }
    }
}
