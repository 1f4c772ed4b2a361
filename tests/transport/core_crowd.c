/* Very many connections of one process break at once while nobody polls: the CQ must have room.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rail, with many peers whose QPs are connected to themselves, so that one process is enough.
 * The software HCA fails every long request (a rule of the caller: rc.retry_exc min=4000), which
 * flushes all that is posted behind it, signalled or not. Prints TAP; exits non-zero if a case
 * failed, 77 without a usable port. core_crowd [--link ib|roce] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer/vrb_peer.h"
#include "rc/vrb_rc.h"
#include "util/vrb_clock.h"

#define PEERS 96 /* their send queues together are longer than the CQ */
#define LEN 64   /* leaves inline */
#define LEN_BREAKS 4000
#define LIMIT_S 20

static struct vrb_rail *rail;
static struct vrb_peer *peers[PEERS];
static int cases, failures;
static uint32_t lost, got;
static char overran[512];

static void report(int ok, const char *name)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++cases, name);
    fflush(stdout);
    failures += !ok;
}

static void on_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    (void)ctx;
    (void)peer;
    (void)tag;
    (void)data;
    (void)len;
    got++;
}

static void on_failed(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    (void)ctx;
    (void)peer;
    (void)status;
    (void)text;
    lost++;
}

static void on_rail_failed(void *ctx, struct vrb_rail *r, const char *text)
{
    (void)ctx;
    (void)r;
    snprintf(overran, sizeof(overran), "%s", text == NULL ? "(quiet)" : text);
}

static void on_sent(struct vrb_buf *buf, int status)
{
    (void)status;
    vrb_buf_free(buf);
}

static void open_rail(int link)
{
    struct vrb_callbacks cb = {.recv = on_recv, .failed = on_failed, .rail_failed = on_rail_failed};
    struct vrb_config cfg;
    struct vrb_port *ports = NULL;
    char err[256];
    int n = vrb_ports_find(NULL, NULL, &ports, err, sizeof(err)), rc = VRB_ERR_DEVICE;

    vrb_config_defaults(&cfg);
    cfg.name = 1;
    cfg.credits = 2 * cfg.sq_depth; /* only the queues hold back */
    cfg.recover_timeout = 0;        /* a break is the end: all that is flushed stays so */
    for (int i = 0; i < n && rc != VRB_OK; i++) {
        if (ports[i].usable && (link == 0 || ports[i].link == link)) {
            rc = vrb_rail_open(&ports[i], 0, &cfg, &cb, 64, 64, &rail);
        }
    }
    free(ports);
    if (rc != VRB_OK) {
        printf("1..0 # SKIP no usable port\n");
        exit(77);
    }
}

static void make_peer(unsigned i)
{
    struct vrb_address remote = *vrb_rail_address(rail);
    const char *why = "";

    remote.nonce += 1 + i;
    if (vrb_peer_create(rail, 100 + i, "host", i, 0, &remote, NULL, &peers[i], &why) != VRB_OK) {
        printf("# peer %u: %s\n", i, why);
        exit(1);
    }
    peers[i]->self = 1;
    vrb_peer_connect(peers[i]);
}

static void send_one(struct vrb_peer *peer, uint32_t len)
{
    struct vrb_buf *b = vrb_buf_get(rail, len);

    if (b == NULL) {
        printf("# no buffer\n");
        exit(1);
    }
    memset(b->payload, 1, len);
    b->done = on_sent;
    vrb_send(peer, b, 1, len);
}

static void progress_until(const uint32_t *count, uint32_t enough)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;

    while (*count < enough && overran[0] == '\0' && vrb_clock_ns() < end) {
        vrb_rail_progress(rail);
    }
    for (int i = 0; i < 10000; i++) { /* device events are looked for now and then only */
        vrb_rail_progress(rail);
    }
}

int main(int argc, char **argv)
{
    int link = argc == 3 && strcmp(argv[1], "--link") == 0
                   ? strcmp(argv[2], "ib") == 0 ? VRB_LINK_IB : VRB_LINK_ROCE
                   : 0;
    int room, asked;

    open_rail(link);
    room = rail->cq_room;
    for (unsigned i = 0; i < PEERS; i++) {
        make_peer(i);
    }
    asked = rail->cq->cqe;
    report(PEERS * ((int)rail->cfg.sq_depth - 1) > asked,
           "all send queues together are longer than the CQ");
    for (unsigned i = 0; i < PEERS; i++) {
        send_one(peers[i], LEN_BREAKS); /* refused: all that follows is flushed */
        for (unsigned k = 1; k < rail->cfg.sq_depth; k++) {
            send_one(peers[i], LEN);
        }
    }
    progress_until(&lost, PEERS);
    report(overran[0] == '\0', "the CQ does not overrun");
    if (overran[0] != '\0') {
        printf("# %s\n", overran);
    }
    report(lost == PEERS, "every peer is reported lost");
    for (unsigned i = 0; i < PEERS; i++) {
        vrb_peer_destroy(peers[i], 0);
    }
    report(rail->cq_room == room, "all entries of the CQ are free again");
    if (rail->cq_room != room) {
        printf("# %d instead of %d\n", rail->cq_room, room);
    }
    make_peer(0);
    send_one(peers[0], LEN);
    progress_until(&got, 1);
    report(got == 1, "a new connection works");
    vrb_rail_close(rail, 0);
    printf("1..%d\n", cases);
    return failures != 0;
}
