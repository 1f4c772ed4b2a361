/* Threads of one process use the same two rails at once: every call of the core, without MPI.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Meant for ThreadSanitizer. Each thread sends, writes, reads and adds in both directions and makes
 * progress; receivers answer from inside the callback. All bytes are checked. Exits with 0 if
 * everything arrived once and right, 77 without a usable port.
 *   core_threads [--mode rc|ud|auto] [--link ib|roce] [--threads N] [--rounds N] [--unlocked]
 * --unlocked breaks the rule that threads need vrb_config.threads: what a sanitizer must see. */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/vrb_clock.h"
#include "vrb.h"

#define LIMIT_S 60 /* a run that takes longer hangs */
#define TAG_ASK 1  /* to be answered */
#define TAG_ANSWER 2
#define TAG_PLAIN 3
#define AREA 4096 /* bytes that each thread writes and reads at the other end */
#define MAX_THREADS 16

struct end {
    struct vrb_rail *rail;
    struct vrb_peer *peer;
    uint64_t name;
    atomic_uint got[4]; /* messages by tag */
    unsigned char *memory;
    uint64_t *counter;
    uint32_t lkey, rkey;
    struct ibv_mr *mr;
};

/* One RDMA operation under way, on its thread's stack. */
struct pending {
    struct end *end;
    atomic_int done; /* 1 well, 2 badly */
};

static struct end ends[2];
static struct vrb_config cfg;
static atomic_uint bad, sent[2][4], added;
static unsigned rounds = 300, threads = 4;

static void fail(const char *what)
{
    printf("# %s\n", what);
    atomic_fetch_add(&bad, 1);
}

static uint8_t pattern(size_t len, size_t i)
{
    return (uint8_t)(len * 31 + i * 7 + (i >> 8));
}

static void fill(uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        p[i] = pattern(len, i);
    }
}

/* Sends `len` bytes by copy, or from a buffer if the copy is declined. */
static void send_now(struct end *from, int side, uint8_t tag, size_t len)
{
    uint8_t bytes[512];
    struct vrb_buf *buf;

    atomic_fetch_add(&sent[side][tag], 1);
    if (len <= sizeof(bytes)) {
        fill(bytes, len);
        if (vrb_send_copy(from->peer, tag, bytes, (uint32_t)len, NULL, 0) == VRB_OK) {
            return;
        }
    }
    while ((buf = vrb_buf_get(from->rail, (uint32_t)len)) == NULL) {
        vrb_rail_progress(from->rail);
    }
    fill(buf->payload, len);
    buf->done = NULL;
    vrb_send(from->peer, buf, tag, (uint32_t)len);
}

static void on_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    struct end *e = ctx;
    const uint8_t *p = data;

    (void)peer;
    for (size_t i = 0; i < len; i++) {
        if (p[i] != pattern(len, i)) {
            fail("a message with wrong bytes");
            break;
        }
    }
    if (tag == TAG_ASK) {
        send_now(e, (int)(e - ends), TAG_ANSWER, len / 2 + 1);
    }
    atomic_fetch_add(&e->got[tag & 3], 1);
}

static void on_failed(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    (void)ctx;
    (void)peer;
    (void)status;
    fail(text == NULL ? "a peer failed" : text);
}

static struct vrb_peer *on_unknown(void *ctx, struct vrb_rail *rail, uint64_t name)
{
    (void)ctx;
    (void)rail;
    (void)name;
    return NULL;
}

static void on_rdma(struct vrb_rdma *r, int status)
{
    struct pending *p = *(struct pending **)vrb_rdma_user(r);

    vrb_rdma_free(p->end->rail, r);
    atomic_store(&p->done, status == VRB_OK ? 1 : 2);
}

static int finish(struct pending *p)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;

    while (atomic_load(&p->done) == 0 && vrb_clock_ns() < end) {
        vrb_rail_progress(ends[0].rail);
        vrb_rail_progress(ends[1].rail);
    }
    if (atomic_load(&p->done) == 0) {
        fail("an RDMA operation hangs");
        exit(1); /* its end would be written to a stack that is gone */
    }
    return atomic_load(&p->done) == 1;
}

static int rdma(struct end *from, enum vrb_rdma_op op, size_t local, size_t remote, size_t size)
{
    struct end *to = &ends[from == &ends[0]];
    struct vrb_rdma *r = vrb_rdma_get(from->rail);
    struct pending p = {.end = from};

    r->op = (uint8_t)op;
    r->local_addr = (uintptr_t)from->memory + local;
    r->remote_addr = op == VRB_RDMA_ADD ? (uintptr_t)to->counter : (uintptr_t)to->memory + remote;
    r->lkey = from->lkey;
    r->rkey = to->rkey;
    r->size = size;
    r->operand = 1;
    r->must = cfg.mode != VRB_MODE_UD;
    r->done = on_rdma;
    *(struct pending **)vrb_rdma_user(r) = &p;
    vrb_rdma_post(from->peer, r);
    return finish(&p);
}

/* Writes a pattern into this thread's own part of the other end and reads it back. */
static void write_and_read(struct end *from, unsigned thread, size_t size)
{
    size_t mine = thread * AREA, back = (MAX_THREADS + thread) * AREA;

    memset(from->memory + mine, 0, size);
    fill(from->memory + mine, size);
    if (!rdma(from, VRB_RDMA_PUT, mine, back + AREA * MAX_THREADS, size)) {
        fail("a put failed");
    }
    if (cfg.mode == VRB_MODE_UD) {
        return;
    }
    memset(from->memory + back, 0, size);
    if (!rdma(from, VRB_RDMA_GET, back, back + AREA * MAX_THREADS, size) ||
        memcmp(from->memory + mine, from->memory + back, size) != 0) {
        fail("a get failed, or brought other bytes");
    }
}

static void *work(void *arg)
{
    unsigned thread = (unsigned)(uintptr_t)arg, random = thread * 7919 + 1;

    for (unsigned i = 0; i < rounds; i++) {
        int side = (int)(random >> 16 & 1);
        struct end *e = &ends[side];

        random = random * 1664525 + 1013904223;
        switch (random >> 20 & 7) {
        case 0:
            write_and_read(e, thread, 1 + (random >> 8) % AREA);
            break;
        case 1:
            if (cfg.mode != VRB_MODE_UD) {
                if (rdma(e, VRB_RDMA_ADD, 0, 0, 8)) {
                    atomic_fetch_add(&added, 1);
                } else {
                    fail("an addition failed");
                }
            }
            break;
        case 2:
            send_now(e, side, TAG_ASK, 1 + (random >> 8) % 400);
            break;
        case 3:
            send_now(e, side, TAG_PLAIN, 1 + (random >> 4) % cfg.recv_size);
            break;
        default:
            send_now(e, side, TAG_PLAIN, 1 + (random >> 8) % 300);
            break;
        }
        vrb_rail_progress(ends[random >> 9 & 1].rail);
    }
    return NULL;
}

static int all_arrived(void)
{
    for (int side = 0; side < 2; side++) {
        for (int tag = TAG_ASK; tag <= TAG_PLAIN; tag++) {
            if (atomic_load(&ends[!side].got[tag]) != atomic_load(&sent[side][tag])) {
                return 0;
            }
        }
    }
    return 1;
}

static void *collect(void *arg)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;

    (void)arg;
    while (!all_arrived() && vrb_clock_ns() < end) {
        vrb_rail_progress(ends[0].rail);
        vrb_rail_progress(ends[1].rail);
    }
    return NULL;
}

static void in_threads(void *(*what)(void *))
{
    pthread_t id[MAX_THREADS];

    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&id[i], NULL, what, (void *)(uintptr_t)i) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
    }
}

static int open_end(const struct vrb_port *port, int i)
{
    struct vrb_callbacks cb = {
        .ctx = &ends[i], .recv = on_recv, .unknown = on_unknown, .failed = on_failed};
    struct end *e = &ends[i];

    e->name = cfg.name = 100 + (uint64_t)i;
    e->memory = calloc(3 * MAX_THREADS + 1, AREA);
    e->counter = (uint64_t *)(void *)(e->memory + (size_t)3 * MAX_THREADS * AREA);
    return vrb_rail_open(port, 0, &cfg, &cb, 64, 64, &e->rail) == VRB_OK &&
           vrb_mr_register(e->rail, e->memory, (3 * MAX_THREADS + 1) * (size_t)AREA, 15, &e->mr,
                           &e->lkey, &e->rkey) == VRB_OK;
}

static int run(const struct vrb_port *port)
{
    const char *why = "";

    if (!open_end(port, 0) || !open_end(port, 1)) {
        printf("# the port cannot be opened\n");
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        if (vrb_peer_create(ends[i].rail, ends[!i].name, "other", ends[!i].name, 0,
                            vrb_rail_address(ends[!i].rail), &ends[i], &ends[i].peer,
                            &why) != VRB_OK) {
            printf("# no peer: %s\n", why);
            return 1;
        }
    }
    in_threads(work);
    in_threads(collect);
    if (!all_arrived()) {
        fail("messages are missing, or came twice");
    }
    if (*ends[0].counter + *ends[1].counter != atomic_load(&added)) {
        fail("additions are missing, or came twice");
    }
    printf("%u threads: %u and %u messages, %u answers, %u additions: %s\n", threads,
           atomic_load(&ends[0].got[TAG_PLAIN]), atomic_load(&ends[1].got[TAG_PLAIN]),
           atomic_load(&ends[0].got[TAG_ANSWER]) + atomic_load(&ends[1].got[TAG_ANSWER]),
           atomic_load(&added), atomic_load(&bad) == 0 ? "right" : "WRONG");
    for (int i = 0; i < 2; i++) {
        vrb_rail_set_closing(ends[i].rail);
        vrb_mr_deregister(ends[i].rail, ends[i].mr);
        vrb_rail_close(ends[i].rail, 100);
        free(ends[i].memory);
    }
    return atomic_load(&bad) != 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mode", required_argument, NULL, 'm'},    {"link", required_argument, NULL, 'l'},
        {"threads", required_argument, NULL, 't'}, {"rounds", required_argument, NULL, 'r'},
        {"unlocked", no_argument, NULL, 'u'},      {NULL, 0, NULL, 0},
    };
    struct vrb_port *ports = NULL;
    char err[256] = "";
    int link = VRB_LINK_IB, c, n, rc = 77;

    vrb_config_defaults(&cfg);
    cfg.threads = 1;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'm':
            cfg.mode = strcmp(optarg, "ud") == 0     ? VRB_MODE_UD
                       : strcmp(optarg, "auto") == 0 ? VRB_MODE_AUTO
                                                     : VRB_MODE_RC;
            break;
        case 'l':
            link = strcmp(optarg, "roce") == 0 ? VRB_LINK_ROCE : VRB_LINK_IB;
            break;
        case 't':
            threads = (unsigned)atoi(optarg);
            break;
        case 'r':
            rounds = (unsigned)atoi(optarg);
            break;
        case 'u':
            cfg.threads = 0;
            break;
        default:
            return 2;
        }
    }
    if (threads < 1 || threads > MAX_THREADS) {
        return 2;
    }
    n = vrb_ports_find(NULL, NULL, &ports, err, sizeof(err));
    for (int i = 0; i < n; i++) {
        if (ports[i].usable && ports[i].link == link) {
            rc = run(&ports[i]);
            break;
        }
    }
    free(ports);
    return rc;
}
