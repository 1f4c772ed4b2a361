/* softhca-ctl: looks into a fabric of software HCAs and changes it while programs run on it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "show.h"
#include "softhca.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "usage: softhca-ctl [--fabric NAME] COMMAND\n"
    "  list                                    the fabrics of this machine\n"
    "  status                                  processes, hosts, devices, ports, fault rules\n"
    "  counters                                operations and faults, one `what value` per line\n"
    "  queues                                  QPs, SRQs and CQs: state, peers, how full\n"
    "  port up|down HOST DEV [PORT]            port state, with its asynchronous event\n"
    "  gid set HOST DEV PORT INDEX ADDRESS [ib|v1|v2]   entry of the GID table\n"
    "  gid clear HOST DEV PORT INDEX\n"
    "  lid set HOST DEV PORT LID\n"
    "  dev fatal HOST DEV                      the device fails for good\n"
    "  inject RULE                             fault rule for every process of the fabric\n"
    "  inject list                             the points that rules can name\n"
    "  inject check RULES                      is that what SOFTHCA_FAULTS may hold?\n"
    "  inject clear [RULE-NUMBER]              removes one rule or all\n"
    "  conf check FILE                         is that what SOFTHCA_CONF may name?\n"
    "  keep on|off                             whether the fabric outlives its last process\n"
    "  reap                                    frees what dead processes left; an unused fabric "
    "goes\n"
    "  reap all                                the same for every fabric of this machine\n"
    "  reset [force]                           removes the fabric (force: even while it is used)\n"
    "NAME defaults to $SOFTHCA_FABRIC. PORT defaults to 1.\n";

static int fail(const char *format, ...) SHCA_PRINTF(1, 2);

static int fail(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fputs("softhca-ctl: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return 1;
}

static int usage(void)
{
    fputs(usage_text, stderr);
    return 2;
}

static int number(const char *text, unsigned long max, unsigned long *value)
{
    char *end;

    errno = 0;
    *value = strtoul(text, &end, 0);
    if (errno || end == text || *end || text[0] == '-' || *value > max) {
        return fail("'%s' is not a number up to %lu", text, max);
    }
    return 0;
}

/* ---- changes ---- */

static struct sm_dev *find_dev(const char *host, const char *name, uint32_t *idx)
{
    struct sm_dev *d = shca_find_dev(host, name, idx);

    if (!d) {
        fail("no device %s on host %s in fabric %s (see status)", name, host, shca.fabric);
    }
    return d;
}

static int find_port(const struct sm_dev *d, const char *text, int *port)
{
    unsigned long v = 1;

    if (text && number(text, SM_MAX_PORTS, &v)) {
        return 1;
    }
    if (v < 1 || v > d->nports) {
        return fail("%s has no port %lu", d->name, v);
    }
    *port = (int)v;
    return 0;
}

static int done(int err, const char *what)
{
    return err ? fail("%s: %s", what, strerror(err)) : 0;
}

static int cmd_port(int argc, char **argv)
{
    struct sm_dev *d;
    uint32_t idx;
    int port;
    bool up;

    if (argc < 4 || argc > 5 || (strcmp(argv[1], "up") && strcmp(argv[1], "down"))) {
        return usage();
    }
    up = strcmp(argv[1], "up") == 0;
    d = find_dev(argv[2], argv[3], &idx);
    if (!d || find_port(d, argc > 4 ? argv[4] : NULL, &port)) {
        return 1;
    }
    return done(shca_set_port_state(idx, port, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN), "port state");
}

static int parse_address(const char *text, uint8_t gid[16])
{
    memset(gid, 0, 16);
    if (inet_pton(AF_INET6, text, gid) == 1) {
        return 0;
    }
    gid[10] = gid[11] = 0xff; /* IPv4-mapped */
    if (inet_pton(AF_INET, text, gid + 12) == 1) {
        return 0;
    }
    return fail("'%s' is neither an IPv6 nor an IPv4 address", text);
}

static int parse_type(const struct sm_port *p, const char *text, int *type)
{
    static const char *const words[] = {"ib", "v1", "v2"};

    if (!text) {
        *type = p->link == SM_LINK_ETH ? SM_GID_ROCE2 : SM_GID_IB;
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *type = i;
            return 0;
        }
    }
    return fail("'%s' is not a GID type (ib, v1, v2)", text);
}

static int cmd_gid(int argc, char **argv)
{
    bool set = argc > 1 && strcmp(argv[1], "set") == 0;
    uint8_t gid[16] = {0};
    unsigned long index;
    struct sm_dev *d;
    int port, type = -1;
    uint32_t idx;

    if (argc < 6 || (!set && strcmp(argv[1], "clear")) || (set && argc < 7) ||
        argc > (set ? 8 : 6)) {
        return usage();
    }
    d = find_dev(argv[2], argv[3], &idx);
    if (!d || find_port(d, argv[4], &port) || number(argv[5], SM_MAX_GIDS - 1, &index)) {
        return 1;
    }
    if (set && (parse_address(argv[6], gid) ||
                parse_type(&d->ports[port - 1], argc > 7 ? argv[7] : NULL, &type))) {
        return 1;
    }
    return done(shca_set_gid(idx, port, (unsigned int)index, gid, type), "GID");
}

static int cmd_lid(int argc, char **argv)
{
    unsigned long lid;
    struct sm_dev *d;
    uint32_t idx;
    int port;

    if (argc != 6 || strcmp(argv[1], "set")) {
        return usage();
    }
    d = find_dev(argv[2], argv[3], &idx);
    if (!d || find_port(d, argv[4], &port) || number(argv[5], 0xbfff, &lid)) {
        return 1;
    }
    return done(shca_set_lid(idx, port, (uint16_t)lid), "LID");
}

static int cmd_dev(int argc, char **argv)
{
    uint32_t idx;

    if (argc != 4 || strcmp(argv[1], "fatal")) {
        return usage();
    }
    return find_dev(argv[2], argv[3], &idx) ? done(shca_set_fatal(idx), "device") : 1;
}

/* Sleeping helper threads must look at rules that act by the clock. */
static void poke_all(void)
{
    for (uint32_t i = 0; i < SM_MAX_PROCS; i++) {
        if (atomic_load(&shca.seg->procs[i].state) == SM_PROC_LIVE) {
            shca_proc_poke(i);
        }
    }
}

static int list_points(void)
{
    for (int i = 0; i < SHCA_FAULT_POINTS; i++) {
        printf("%-18s %s\n", shca_fault_point_name((enum shca_fault_point)i),
               shca_fault_point_help((enum shca_fault_point)i));
    }
    puts("rule: POINT [host= dev= port= qp= type= op= peer= min= max=] [nth=|every=|prob=] [at=]"
         " [for=]\n      [count= [scope=fabric]] [us= errno= status= bytes= window= index= lid= "
         "gid=]");
    return 0;
}

static int check_rules(const char *rules)
{
    char err[256];

    return shca_fault_check(rules, err, sizeof(err)) == 0 ? 0 : fail("%s", err);
}

static int cmd_inject(int argc, char **argv)
{
    char rules[4096] = "", err[256];
    unsigned long slot;

    if (argc < 2) {
        return usage();
    }
    if (strcmp(argv[1], "clear") == 0) {
        if (argc > 3 || (argc == 3 && number(argv[2], SHCA_FAULT_RULES - 1, &slot))) {
            return argc > 3 ? usage() : 1;
        }
        shca_fault_remove(argc == 3 ? (int)slot : -1);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        size_t used = strlen(rules);

        if (used + strlen(argv[i]) + 2 > sizeof(rules)) {
            return fail("rules longer than %zu characters", sizeof(rules));
        }
        snprintf(rules + used, sizeof(rules) - used, "%s%s", used ? " " : "", argv[i]);
    }
    if (shca_fault_add(rules, true, err, sizeof(err))) {
        return fail("%s", err);
    }
    poke_all();
    return 0;
}

static int cmd_keep(int argc, char **argv)
{
    if (argc != 2 || (strcmp(argv[1], "on") && strcmp(argv[1], "off"))) {
        return usage();
    }
    atomic_store(&shca.seg->keep, strcmp(argv[1], "on") == 0);
    return 0;
}

/* ---- clearing up ---- */

static int reap_one(const char *fabric)
{
    int rc = shca_attach_observer(fabric), dead = 0;

    if (rc == ENOENT) {
        return 0;
    }
    if (rc == 0) {
        dead = shca_reap();
        if (dead) {
            printf("fabric %s: %d dead process%s reaped\n", shca.fabric, dead,
                   dead == 1 ? "" : "es");
        }
        if (atomic_load(&shca.seg->keep)) {
            return 0;
        }
    }
    rc = shca_remove_fabric(fabric, false);
    return rc == EBUSY || rc == ENOENT ? 0 : done(rc, shca.fabric);
}

/* Names of the fabrics in /dev/shm; calls visit for each. */
static int each_fabric(int (*visit)(const char *name))
{
    static const char prefix[] = "softhca-";
    DIR *dir = opendir("/dev/shm");
    struct dirent *e;
    int rc = 0;

    if (!dir) {
        return done(errno, "/dev/shm");
    }
    while ((e = readdir(dir))) {
        if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) == 0) {
            rc |= visit(e->d_name + sizeof(prefix) - 1);
        }
    }
    closedir(dir);
    return rc;
}

static int print_name(const char *name)
{
    return puts(name) < 0;
}

static int cmd_reset(const char *fabric, int argc, char **argv)
{
    bool force = argc == 2 && strcmp(argv[1], "force") == 0;
    int rc;

    if (argc > 2 || (argc == 2 && !force)) {
        return usage();
    }
    rc = shca_remove_fabric(fabric, force);
    if (rc == EBUSY) {
        return fail("fabric %s is in use (reset force removes it all the same)", shca.fabric);
    }
    return rc == ENOENT ? 0 : done(rc, shca.fabric);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"port", cmd_port}, {"gid", cmd_gid},       {"lid", cmd_lid},
                    {"dev", cmd_dev},   {"inject", cmd_inject}, {"keep", cmd_keep}};
    static const struct {
        const char *name;
        int (*run)(void);
    } views[] = {{"status", shca_show_status},
                 {"counters", shca_show_counters},
                 {"queues", shca_show_queues}};
    const char *fabric = NULL, *cmd;
    int rc;

    if (argc > 2 && (strcmp(argv[1], "--fabric") == 0 || strcmp(argv[1], "-f") == 0)) {
        fabric = argv[2];
        argc -= 2;
        argv += 2;
    }
    argc--;
    argv++;
    if (argc < 1) {
        return usage();
    }
    cmd = argv[0];
    if (strcmp(cmd, "-h") == 0 || strcmp(cmd, "--help") == 0) {
        return fputs(usage_text, stdout) < 0;
    }
    if (strcmp(cmd, "list") == 0 && argc == 1) {
        return each_fabric(print_name);
    }
    if (strcmp(cmd, "reap") == 0 && argc == 2 && strcmp(argv[1], "all") == 0) {
        return each_fabric(reap_one);
    }
    if (strcmp(cmd, "reap") == 0 && argc == 1) {
        return reap_one(fabric);
    }
    if (strcmp(cmd, "reset") == 0) {
        return cmd_reset(fabric, argc, argv);
    }
    if (strcmp(cmd, "inject") == 0 && argc == 2 && strcmp(argv[1], "list") == 0) {
        return list_points();
    }
    if (strcmp(cmd, "inject") == 0 && argc == 3 && strcmp(argv[1], "check") == 0) {
        return check_rules(argv[2]);
    }
    if (strcmp(cmd, "conf") == 0 && argc == 3 && strcmp(argv[1], "check") == 0) {
        return shca_conf_check_file(argv[2]) != 0;
    }
    rc = shca_attach_observer(fabric);
    if (rc) {
        return rc == ENOENT ? fail("no such fabric: %s (none of its programs runs)", shca.fabric)
                            : done(rc, shca.fabric);
    }
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        if (strcmp(cmd, views[i].name) == 0 && argc == 1) {
            return views[i].run();
        }
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(cmd, commands[i].name) == 0) {
            return commands[i].run(argc, argv);
        }
    }
    return usage();
}
