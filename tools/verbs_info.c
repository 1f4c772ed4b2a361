/* verbs_info: what the verbs BTL sees on this host, what it would choose, and why not the rest.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * tools/verbs_info.1 is its manual. */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/vrb_filter.h"
#include "tools/info.h"
#include "tools/output.h"

static const char usage_text[] =
    "usage: verbs_info [OPTION...]\n"
    "Lists the RDMA ports of this host as the verbs BTL of Open MPI sees them, which it would "
    "use,\n"
    "and why not the others. Needs no privileges, no job and no device.\n"
    "  --peer FILE|ADDRESS   explain the choice against another host: FILE is what `verbs_info\n"
    "                        --json` wrote there (-: standard input), ADDRESS an IP address of a\n"
    "                        RoCE v2 port\n"
    "  --json                the same for programs, and for --peer on another host\n"
    "  --include LIST        only these devices or ports (DEVICE or DEVICE:PORT, by commas)\n"
    "  --exclude LIST        all but these\n"
    "  --pkey KEY            InfiniBand partition (0: choose)\n"
    "  --sl N, --traffic-class N   service level and traffic class that a job would use\n"
    "  --no-checks           leave out the checks of memory limits, MTU, PFC, ECN and counters\n"
    "  --root DIR            read sysfs below DIR\n"
    "  --version, --help\n"
    "Status: 0 if a job would use a port (with --peer: if the two hosts can talk), 1 if not,\n"
    "2 for a wrong option, a file that cannot be read, or output that cannot be written.\n";

static void read_port(struct info *info, struct ibv_context *ctx, const struct ibv_device_attr *dev,
                      int port, struct vrb_filter *filter)
{
    struct info_port *p = &info->ports[info->num_ports++];

    vrb_facts_read(&p->facts, ctx, dev, (uint8_t)port, &info->net);
    p->wanted = vrb_filter_wants(filter, p->facts.dev, port);
    p->used = vrb_facts_address(&p->facts, info->opt.pkey, &p->address, &p->pkey_index, p->why,
                                sizeof(p->why)) == VRB_OK;
    if (!p->wanted) {
        p->used = 0;
        snprintf(p->why, sizeof(p->why), "%s",
                 filter->exclude ? "--exclude names it" : "--include does not name it");
    }
}

static void read_device(struct info *info, struct ibv_device *device, struct vrb_filter *filter)
{
    struct ibv_context *ctx = ibv_open_device(device);
    struct ibv_device_attr attr;

    if (ctx == NULL || ibv_query_device(ctx, &attr) != 0) {
        struct info_port *p = &info->ports[info->num_ports++];

        snprintf(p->facts.dev, sizeof(p->facts.dev), "%s", ibv_get_device_name(device));
        p->facts.numa = -1;
        p->wanted = 1;
        snprintf(p->why, sizeof(p->why),
                 "it cannot be opened: %s (in a container: is /dev/infiniband/uverbs* there and "
                 "writable?)",
                 strerror(errno));
        if (ctx != NULL) {
            ibv_close_device(ctx);
        }
        return;
    }
    for (int port = 1; port <= attr.phys_port_cnt && info->num_ports < INFO_PORTS_MAX; port++) {
        read_port(info, ctx, &attr, port, filter);
    }
    ibv_close_device(ctx);
}

static void read_all(struct info *info, struct vrb_filter *filter)
{
    struct ibv_device **list;
    int n = 0, used = 0;

    if (gethostname(info->host, sizeof(info->host) - 1) != 0) {
        snprintf(info->host, sizeof(info->host), "localhost");
    }
    vrb_net_read(&info->net);
    list = ibv_get_device_list(&n);
    if (list == NULL && errno != ENOSYS && errno != 0) {
        snprintf(info->error, sizeof(info->error), "%s", strerror(errno));
    }
    for (int i = 0; list != NULL && i < n && info->num_ports < INFO_PORTS_MAX; i++) {
        read_device(info, list[i], filter);
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    for (int i = 0; i < info->num_ports; i++) {
        if (info->ports[i].used && ++used > VRB_MAX_RAILS) {
            info->ports[i].used = 0;
            snprintf(info->ports[i].why, sizeof(info->ports[i].why),
                     "a process uses %d ports at the most", VRB_MAX_RAILS);
        }
    }
}

int info_addresses(const struct info *info, struct vrb_address out[VRB_MAX_RAILS],
                   const struct info_port *from[VRB_MAX_RAILS])
{
    int n = 0;

    for (int i = 0; i < info->num_ports && n < VRB_MAX_RAILS; i++) {
        if (info->ports[i].used) {
            from[n] = &info->ports[i];
            out[n] = info->ports[i].address;
            /* What a running process adds; no one is there to be reached. */
            out[n].ud_qpn = 0xffffff;
            out[n].recv_size = 1;
            n++;
        }
    }
    return n;
}

/* A number for an option, or the end of the program. */
static unsigned number(const char *option, const char *text, unsigned long most)
{
    char *end;
    unsigned long v = strtoul(text, &end, 0);

    if (end == text || *end != '\0' || text[0] == '-' || v > most) {
        fprintf(stderr, "verbs_info: %s needs a number from 0 to %lu, not '%s'\n", option, most,
                text);
        exit(2);
    }
    return (unsigned)v;
}

enum {
    OPT_PEER = 256,
    OPT_JSON,
    OPT_INCLUDE,
    OPT_EXCLUDE,
    OPT_PKEY,
    OPT_SL,
    OPT_TCLASS,
    OPT_NO_CHECKS,
    OPT_ROOT,
    OPT_VERSION,
    OPT_HELP
};

static const struct option options[] = {
    {"peer", required_argument, NULL, OPT_PEER},
    {"json", no_argument, NULL, OPT_JSON},
    {"include", required_argument, NULL, OPT_INCLUDE},
    {"exclude", required_argument, NULL, OPT_EXCLUDE},
    {"pkey", required_argument, NULL, OPT_PKEY},
    {"sl", required_argument, NULL, OPT_SL},
    {"traffic-class", required_argument, NULL, OPT_TCLASS},
    {"no-checks", no_argument, NULL, OPT_NO_CHECKS},
    {"root", required_argument, NULL, OPT_ROOT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void take_options(int argc, char **argv, struct info_options *o, const char **peer)
{
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case OPT_PEER:
            *peer = optarg;
            break;
        case OPT_JSON:
            o->json = 1;
            break;
        case OPT_INCLUDE:
            o->include = optarg;
            break;
        case OPT_EXCLUDE:
            o->exclude = optarg;
            break;
        case OPT_PKEY:
            o->pkey = (uint16_t)number("--pkey", optarg, 0xffff);
            break;
        case OPT_SL:
            o->sl = (uint8_t)number("--sl", optarg, 15);
            break;
        case OPT_TCLASS:
            o->tclass = (uint8_t)number("--traffic-class", optarg, 255);
            break;
        case OPT_NO_CHECKS:
            o->checks = 0;
            break;
        case OPT_ROOT:
            o->root = optarg;
            break;
        case OPT_VERSION:
            printf("verbs_info %s\n", VRB_VERSION);
            exit(output_end("verbs_info", 0));
        case OPT_HELP:
            fputs(usage_text, stdout);
            exit(output_end("verbs_info", 0));
        default:
            fputs(usage_text, stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "verbs_info: '%s' is not an option\n%s", argv[optind], usage_text);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct info info = {.opt = {.root = "", .checks = 1}};
    static struct info_peer remote;
    static struct vrb_filter filter;
    char err[512];
    const char *peer = NULL;
    int status = 1;

    take_options(argc, argv, &info.opt, &peer);
    if (vrb_filter_parse(&filter, info.opt.include, info.opt.exclude, err, sizeof(err)) != VRB_OK) {
        fprintf(stderr, "verbs_info: %s\n", err);
        return 2;
    }
    if (peer != NULL && info_peer_read(peer, &remote, err, sizeof(err)) < 0) {
        fprintf(stderr, "verbs_info: %s\n", err);
        return 2;
    }
    read_all(&info, &filter);
    if (peer != NULL) {
        status = info_pair_explain(&info, &remote, stdout);
    } else if (info.opt.json) {
        info_print_json(&info, stdout);
    } else {
        info_print_text(&info, stdout);
    }
    if (vrb_filter_unused(&filter, err, sizeof(err)) > 0) {
        fprintf(stderr, "verbs_info: '%s' is not here\n", err);
    }
    for (int i = 0; i < info.num_ports; i++) {
        if (peer == NULL && info.ports[i].used) {
            status = 0;
        }
        vrb_facts_free(&info.ports[i].facts);
    }
    vrb_net_free(&info.net);
    return output_end("verbs_info", status);
}
