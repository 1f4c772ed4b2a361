/* verbs_info: what its parts share.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef INFO_H
#define INFO_H

#include <stdio.h>

#include "device/vrb_facts.h"
#include "device/vrb_net.h"

#define INFO_PORTS_MAX 64

struct info_port {
    struct vrb_facts facts;
    struct vrb_address address; /* what it would publish, if it is used */
    uint16_t pkey_index;
    int wanted;    /* let through by the lists */
    int used;      /* a job would use it */
    char why[256]; /* why not */
};

struct info_options {
    const char *include, *exclude, *root;
    uint16_t pkey;
    uint8_t sl, tclass;
    int json, checks;
};

struct info {
    char host[256];
    char error[256]; /* why no list of devices could be had, "" if one could */
    struct info_options opt;
    struct vrb_net net;
    struct info_port ports[INFO_PORTS_MAX];
    int num_ports;
};

enum info_level { INFO_OK, INFO_NOTE, INFO_WARN };

/* One finding about a port, or about the host (port NULL). next: what to do, "" if nothing. */
typedef void info_report(void *ctx, const struct info_port *port, enum info_level level,
                         const char *what, const char *text, const char *next);

/* verbs_info_check.c: looks at what RDMA needs of the host and its network. */
void info_check(const struct info *info, info_report *report, void *ctx);

/* verbs_info_dcb.c: which priorities are lossless, and which one a DSCP has, from the kernel (DCB).
 * pfc: bit per priority; dscp[d]: priority, or -1. Returns 0, or -1 when the driver does not tell.
 */
struct info_dcb {
    unsigned pfc;
    int pfc_known;
    signed char dscp[64];
    int dscp_known;
};
void info_dcb_read(const char *ndev, struct info_dcb *dcb);

/* verbs_info_text.c, verbs_info_json.c */
void info_print_text(const struct info *info, FILE *f);
void info_print_json(const struct info *info, FILE *f);

/* What another host published. */
struct info_peer {
    char host[256]; /* "" = unknown */
    int n;
    struct vrb_address ports[VRB_MAX_RAILS];
    char names[VRB_MAX_RAILS][80]; /* "mlx5_0:1", "" = unknown */
};

/* verbs_info_peer.c: reads it from a file that --json wrote ("-": standard input), or makes it of
 * one address. Returns 0, or -1 with the reason in err. */
int info_peer_read(const char *from, struct info_peer *peer, char *err, size_t len);
/* verbs_info_pair.c: explains the choice. Returns 0 if the two would talk, else 1. */
int info_pair_explain(const struct info *info, const struct info_peer *peer, FILE *f);

/* The ports that a job would use, in the order in which it publishes them. */
int info_addresses(const struct info *info, struct vrb_address out[VRB_MAX_RAILS],
                   const struct info_port *from[VRB_MAX_RAILS]);

#endif
