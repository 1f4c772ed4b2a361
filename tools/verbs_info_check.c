/* What RDMA needs of the host and of its network, and which counters betray trouble.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Only what can be read without privileges. What cannot be read is said once and is no fault. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/info.h"
#include "tools/trouble.h"

/* Below this much locked memory a process gets few buffers, and every large message is copied. */
#define MEMLOCK_ENOUGH (UINT64_C(256) << 20)

struct check {
    const struct info *info;
    info_report *report;
    void *ctx;
};

#define SAY(c, port, level, what, text, next) \
    ((c)->report((c)->ctx, (port), (level), (what), (text), (next)))

/* First line of a file below --root. Returns 0 if it cannot be read. */
static int read_line(const struct check *c, char *text, int size, const char *path)
{
    char full[512];
    FILE *f;
    int ok;

    snprintf(full, sizeof(full), "%s%s", c->info->opt.root, path);
    f = fopen(full, "r");
    ok = f != NULL && fgets(text, size, f) != NULL;
    if (f != NULL) {
        fclose(f);
    }
    text[ok ? strcspn(text, "\n") : 0] = '\0';
    return ok;
}

static void check_memlock(const struct check *c)
{
    struct rlimit limit;
    char text[128];

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        SAY(c, NULL, INFO_OK, "locked memory", "not limited in this shell", "");
        return;
    }
    snprintf(text, sizeof(text), "this shell may lock %" PRIu64 " KiB (ulimit -l)",
             (uint64_t)limit.rlim_cur / 1024);
    SAY(c, NULL, limit.rlim_cur < MEMLOCK_ENOUGH ? INFO_WARN : INFO_NOTE, "locked memory", text,
        "it should be unlimited, also where a job's processes come from: LimitMEMLOCK=infinity in "
        "the service of slurmd, pbs_mom or sshd, memlock in /etc/security/limits.conf for logins; "
        "check with: mpirun sh -c 'ulimit -l'");
}

/* ---- MTU ---- */

static void check_mtu(const struct check *c, const struct info_port *p)
{
    const struct vrb_facts *x = &p->facts;
    char text[160];

    for (int i = 0; i < x->num_gids; i++) {
        const struct vrb_gid_entry *e = &x->gids[i];

        if (e->unused == NULL && e->gid.mtu != 0 && e->gid.mtu < x->active_mtu) {
            snprintf(text, sizeof(text), "%s has room for %d bytes, the port uses up to %d",
                     e->ndev, 128 << e->gid.mtu, 128 << x->active_mtu);
            SAY(c, p, INFO_NOTE, "MTU", text,
                "packets over this device are cut to its size; give it the MTU of the port's main "
                "device if the switches carry it");
            return;
        }
    }
    snprintf(text, sizeof(text), "%d bytes", 128 << x->active_mtu);
    if (x->active_mtu < x->max_mtu) {
        SAY(c, p, INFO_NOTE, "MTU", text,
            x->link == VRB_LINK_ROCE
                ? "an Ethernet MTU of 4200 or more lets RoCE use 4096, on all hosts and switches "
                  "of "
                  "the way"
                : "the subnet manager gave this one out; the port could do more (opensm: "
                  "partitions.conf, mtu=)");
    } else {
        SAY(c, p, INFO_OK, "MTU", text, "");
    }
}

/* ---- RoCE: lossless priority and ECN ---- */

static const char *main_ndev(const struct vrb_facts *x)
{
    for (int i = 0; i < x->num_gids; i++) {
        if (x->gids[i].unused == NULL && x->gids[i].ndev[0] != '\0') {
            return x->gids[i].ndev;
        }
    }
    return "";
}

/* Which priorities pause instead of dropping: from the vendor driver's sysfs ("0 0 0 1 0 0 0 0"),
 * else from the kernel. */
static int read_pfc(const struct check *c, const char *ndev, struct info_dcb *dcb)
{
    char path[128], text[64];
    int bit = 0;

    info_dcb_read(c->info->opt.root[0] == '\0' ? ndev : "", dcb);
    snprintf(path, sizeof(path), "/sys/class/net/%s/qos/pfc", ndev);
    if (!dcb->pfc_known && read_line(c, text, sizeof(text), path)) {
        for (const char *s = text; *s != '\0' && bit < 8; s++) {
            if (*s == '0' || *s == '1') {
                dcb->pfc |= (unsigned)(*s - '0') << bit++;
            }
        }
        dcb->pfc_known = bit == 8;
    }
    return dcb->pfc_known;
}

static int priority_of(const struct check *c, const struct info_dcb *dcb)
{
    unsigned dscp = c->info->opt.tclass >> 2;

    if (dcb->dscp_known && dcb->dscp[dscp] >= 0) {
        return dcb->dscp[dscp];
    }
    /* What adapters do by themselves: the upper half of the DSCP, without one the service level. */
    return c->info->opt.tclass != 0 ? (int)(dscp >> 3) : c->info->opt.sl & 7;
}

static void check_ecn(const struct check *c, const struct info_port *p, const char *ndev,
                      int priority)
{
    char path[160], np[16], rp[16], text[160];

    snprintf(path, sizeof(path), "/sys/class/net/%s/ecn/roce_np/enable/%d", ndev, priority);
    if (!read_line(c, np, sizeof(np), path)) {
        SAY(c, p, INFO_NOTE, "ECN",
            "the driver does not tell whether it reacts to congestion marks", "");
        return;
    }
    snprintf(path, sizeof(path), "/sys/class/net/%s/ecn/roce_rp/enable/%d", ndev, priority);
    if (!read_line(c, rp, sizeof(rp), path)) {
        rp[0] = '\0';
    }
    if (np[0] == '1' && rp[0] == '1') {
        snprintf(text, sizeof(text), "on for priority %d: marks are answered and obeyed", priority);
        SAY(c, p, INFO_OK, "ECN", text, "");
        return;
    }
    snprintf(text, sizeof(text), "off for priority %d (%s)", priority,
             np[0] != '1' ? "marks are not answered" : "answers are not obeyed");
    SAY(c, p, INFO_WARN, "ECN", text,
        "without it a congested switch pauses whole links (PFC) or drops: write 1 into "
        "ecn/roce_np/enable/PRIORITY and ecn/roce_rp/enable/PRIORITY of the device in sysfs, and "
        "let "
        "the switches mark that priority");
}

static void check_priority(const struct check *c, const struct info_port *p)
{
    const char *ndev = main_ndev(&p->facts);
    struct info_dcb dcb;
    char text[200];
    int priority;

    if (ndev[0] == '\0') {
        SAY(c, p, INFO_NOTE, "PFC", "the port's network device is not visible here", "");
        return;
    }
    if (!read_pfc(c, ndev, &dcb)) {
        snprintf(text, sizeof(text), "%s does not tell which priorities are lossless", ndev);
        SAY(c, p, INFO_NOTE, "PFC", text,
            "mlnx_qos -i DEVICE, or lldptool -t -i DEVICE -V PFC, may show it; without lossless "
            "priority RoCE depends on ECN, and on the transport's own retransmission");
        check_ecn(c, p, ndev, c->info->opt.sl & 7);
        return;
    }
    priority = priority_of(c, &dcb);
    snprintf(text, sizeof(text),
             "traffic class %d (DSCP %d), service level %d: priority %d, which is %s",
             c->info->opt.tclass, c->info->opt.tclass >> 2, c->info->opt.sl, priority,
             dcb.pfc >> priority & 1 ? "lossless" : "not lossless");
    if (dcb.pfc >> priority & 1) {
        SAY(c, p, INFO_OK, "PFC", text, "");
    } else if (dcb.pfc == 0) {
        SAY(c, p, INFO_NOTE, "PFC", text,
            "no priority of this device is. Set one up on host and switches (mlnx_qos -i DEVICE "
            "--pfc 0,0,0,1,0,0,0,0 --trust dscp), and choose it by --mca btl_verbs_traffic_class; "
            "or "
            "see that ECN is on");
    } else {
        char next[256];
        int lossless = __builtin_ctz(dcb.pfc);

        snprintf(
            next, sizeof(next),
            "priority %d is lossless: choose it by --mca btl_verbs_traffic_class %d (with trust "
            "dscp) or --mca btl_verbs_sl %d (VLAN priorities)",
            lossless, (lossless * 8 + 2) << 2, lossless);
        SAY(c, p, INFO_WARN, "PFC", text, next);
    }
    check_ecn(c, p, ndev, priority);
}

/* ---- counters ---- */

static int check_counter(const struct check *c, const struct info_port *p,
                         const struct port_trouble *k)
{
    char path[256], line[64], text[200];
    uint64_t value;
    const char *name = strchr(k->file, '/') + 1;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/%s", p->facts.dev,
             p->facts.port, k->file);
    if (!read_line(c, line, sizeof(line), path)) {
        return 0;
    }
    value = strtoull(line, NULL, 10);
    if (value > k->tolerated) {
        snprintf(text, sizeof(text), "%s = %" PRIu64 ": %s", name, value, k->means);
        SAY(c, p, k->is_warning ? INFO_WARN : INFO_NOTE, "counters", text, k->next);
    }
    return value > k->tolerated ? 2 : 1;
}

static void check_counters(const struct check *c, const struct info_port *p)
{
    int readable = 0, telling = 0, n;
    const struct port_trouble *troubles = port_troubles(&n);
    char text[96];

    for (int i = 0; i < n; i++) {
        int rc = check_counter(c, p, &troubles[i]);

        readable += rc > 0;
        telling += rc > 1;
    }
    if (readable == 0) {
        SAY(c, p, INFO_NOTE, "counters", "the driver shows none", "");
    } else if (telling == 0) {
        snprintf(text, sizeof(text), "none of %d that would betray trouble does", readable);
        SAY(c, p, INFO_OK, "counters", text, "");
    }
}

void info_check(const struct info *info, info_report *report, void *ctx)
{
    struct check c = {.info = info, .report = report, .ctx = ctx};

    check_memlock(&c);
    for (int i = 0; i < info->num_ports; i++) {
        const struct info_port *p = &info->ports[i];

        if (!p->used) {
            continue;
        }
        check_mtu(&c, p);
        if (p->facts.link == VRB_LINK_ROCE) {
            check_priority(&c, p);
        }
        check_counters(&c, p);
    }
}
