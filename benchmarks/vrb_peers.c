/* Memory of peers: makes 1, 64, 1024 and 16384 of them and counts what the heap gave out.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The core alone, on any usable port; nobody answers, so the peers are of this process's own
 * making: idle    known, nothing was ever sent to it active  messages went to it: its datagram half
 * and its address handle RC      a queue pair of its own, shared receive queue; the driver's memory
 * counts only as far as it comes from the heap Options: --link ib|roce. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "rc/vrb_rc.h"
#include "ud/vrb_ud.h"

static struct vrb_rail *rail;

/* Heap bytes in use, mapped ones too. */
static size_t heap(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 m = mallinfo2();
#else
    struct mallinfo m = mallinfo();
#endif

    return (size_t)m.uordblks + (size_t)m.hblkhd;
}

static void no_message(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    (void)ctx;
    (void)peer;
    (void)tag;
    (void)data;
    (void)len;
}

static void lost(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    (void)ctx;
    (void)peer;
    (void)status;
    (void)text;
}

static int open_rail(int link)
{
    struct vrb_callbacks cb = {.recv = no_message, .failed = lost};
    struct vrb_config cfg;
    struct vrb_port *ports = NULL;
    char err[256];
    int n = vrb_ports_find(NULL, NULL, &ports, err, sizeof(err)), rc = VRB_ERR_DEVICE;

    vrb_config_defaults(&cfg);
    cfg.mode = VRB_MODE_AUTO;
    cfg.name = 1;
    for (int i = 0; i < n && rc != VRB_OK; i++) {
        if (ports[i].usable && (link == 0 || ports[i].link == link)) {
            rc = vrb_rail_open(&ports[i], 0, &cfg, &cb, 64, 64, &rail);
        }
    }
    free(ports);
    return rc;
}

static struct vrb_peer *make(unsigned i)
{
    struct vrb_address remote = *vrb_rail_address(rail);
    struct vrb_peer *peer = NULL;
    const char *why = "";

    remote.nonce += 1 + i;
    if (vrb_peer_create(rail, 100 + i, "host", i, 0, &remote, NULL, &peer, &why) != VRB_OK) {
        fprintf(stderr, "vrb_peers: peer %u: %s\n", i, why);
        exit(1);
    }
    return peer;
}

static int activate(struct vrb_peer *peer)
{
    char detail[256];

    return vrb_dgram_of(peer, vrb_clock_ns()) != NULL &&
           vrb_ud_peer_ah(peer, detail, sizeof(detail)) == VRB_OK;
}

static int connect_rc(struct vrb_peer *peer)
{
    char detail[256];

    return vrb_rc_qp_create(peer, detail, sizeof(detail)) == VRB_OK;
}

/* Bytes for each of n, or -1 when the device does not have so many. */
static double each(unsigned n, struct vrb_peer **peers, int (*more)(struct vrb_peer *peer))
{
    size_t before = heap();

    for (unsigned i = 0; i < n; i++) {
        if (more == NULL) {
            peers[i] = make(i);
        } else if (!more(peers[i])) {
            return -1;
        }
    }
    return ((double)heap() - (double)before) / n;
}

static void print(double bytes)
{
    if (bytes < 0) {
        printf(" %14s", "(not so many)");
    } else {
        printf(" %14.0f", bytes);
    }
}

static void measure(unsigned n, int link)
{
    struct vrb_peer **peers = calloc(n, sizeof(*peers));
    double idle, active, rc;

    if (peers == NULL || open_rail(link) != VRB_OK) {
        fprintf(stderr, "vrb_peers: no usable port\n");
        exit(77);
    }
    idle = each(n, peers, NULL);
    active = each(n, peers, activate);
    rc = each(n, peers, connect_rc);
    printf("%6u", n);
    print(idle);
    print(active < 0 ? active : idle + active);
    print(rc);
    printf(" %18llu\n", (unsigned long long)vrb_rail_stats(rail)->reg_bytes);
    vrb_rail_close(rail, 0);
    free(peers);
}

int main(int argc, char **argv)
{
    int link = argc == 3 && strcmp(argv[1], "--link") == 0
                   ? strcmp(argv[2], "ib") == 0 ? VRB_LINK_IB : VRB_LINK_ROCE
                   : 0;

    if (argc != 1 && link == 0) {
        printf("Usage: vrb_peers [--link ib|roce]\n"
               "Prints the memory that peers take: bytes of the heap for each, and the registered\n"
               "memory of the process.\n");
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    printf("%6s %14s %14s %14s %18s\n", "peers", "idle", "active (UD)", "more for RC",
           "registered, all");
    for (unsigned n = 1; n <= 16384; n = n == 1 ? 64 : 16 * n) {
        measure(n, link);
    }
    return 0;
}
