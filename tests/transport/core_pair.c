/* Two rails of one process talk to each other over a real or software HCA: the core without MPI.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every byte is checked. Prints one TAP line per case; exits non-zero if one failed, 77 without a
 * usable port. Options choose unusual settings, so that one program covers them all:
 *   core_pair [--mode rc|ud|auto] [--link ib|roce] [--no-srq] [--inline N] [--sq N] [--credits N]
 * [--recv N] [--tcp] */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/vrb_clock.h"
#include "vrb.h"

#define LIMIT_S 20 /* a case that takes longer hangs */
#define TAG_DATA 7
#define TAG_MANY 8

struct end {
    struct vrb_rail *rail;
    struct vrb_peer *peer;
    uint64_t name;
    uint32_t got[2]; /* messages by tag, in any order */
    uint32_t bad;
    uint64_t bytes;
    int failed, unknown;
    char text[2048];
};

static struct end ends[2];
static struct vrb_config cfg;
static int cases, failures;
static int decline; /* processes that nobody knows */
static uint32_t done_ok, done_bad;

static void report(int ok, const char *name)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++cases, name);
    fflush(stdout);
    failures += !ok;
}

/* Contents depend on length and position; message lengths carry the seed. */
static uint8_t pattern(uint32_t seed, size_t i)
{
    return (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void fill(uint8_t *p, uint32_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        p[i] = pattern(seed, i);
    }
}

static int check(const uint8_t *p, uint32_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != pattern(seed, i)) {
            return 0;
        }
    }
    return 1;
}

static void on_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    struct end *e = ctx;

    if (peer != e->peer || ((uintptr_t)data & 7) != 0 || !check(data, (uint32_t)len, len)) {
        e->bad++;
    }
    e->got[tag == TAG_MANY]++;
    e->bytes += len;
}

static void on_failed(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    struct end *e = ctx;

    (void)peer;
    (void)status;
    e->failed++;
    snprintf(e->text, sizeof(e->text), "%s", text == NULL ? "" : text);
    vrb_log(VRB_LOG_DEBUG, "failed: %s", e->text);
}

static struct vrb_peer *make_peer(struct end *self, struct end *other)
{
    const char *why = "";

    if (vrb_peer_create(self->rail, other->name, "other", other->name, 0,
                        vrb_rail_address(other->rail), self, &self->peer, &why) != VRB_OK) {
        printf("# no peer: %s\n", why);
        return NULL;
    }
    if (vrb_rail_tcp_port(self->rail) != 0) {
        uint8_t packed[VRB_TCP_PACKED_MAX];
        int len = vrb_rail_tcp_pack(&other->rail, 1, packed, sizeof(packed));

        if (len <= 0 || vrb_peer_set_tcp(self->peer, packed, (size_t)len) != VRB_OK) {
            printf("# nowhere to connect to\n");
            return NULL;
        }
    }
    return self->peer;
}

static struct vrb_peer *on_unknown(void *ctx, struct vrb_rail *rail, uint64_t name)
{
    struct end *e = ctx;

    (void)rail;
    e->unknown++;
    if (decline) {
        return NULL;
    }
    return name == ends[0].name   ? make_peer(e, &ends[0])
           : name == ends[1].name ? make_peer(e, &ends[1])
                                  : NULL;
}

static int open_end(const struct vrb_port *port, int i)
{
    struct vrb_callbacks cb = {
        .ctx = &ends[i], .recv = on_recv, .unknown = on_unknown, .failed = on_failed};

    memset(&ends[i], 0, sizeof(ends[i]));
    ends[i].name = cfg.name = 100 + (uint64_t)i;
    return vrb_rail_open(port, 0, &cfg, &cb, 64, 64, &ends[i].rail);
}

static void progress(void)
{
    for (int i = 0; i < 2; i++) {
        if (ends[i].rail != NULL) {
            vrb_rail_progress(ends[i].rail);
        }
    }
}

/* Progresses until *count reaches want. */
static int wait_for(const uint32_t *count, uint32_t want)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;

    while (*count < want && vrb_clock_ns() < end) {
        progress();
    }
    if (*count != want) {
        printf("# %u of %u\n", *count, want);
    }
    return *count == want;
}

static void on_sent(struct vrb_buf *buf, int status)
{
    if (status == VRB_OK) {
        done_ok++;
    } else {
        done_bad++;
    }
    vrb_buf_free(buf);
}

/* Where completions are not what is tested, they are not counted either. */
static void on_sent_uncounted(struct vrb_buf *buf, int status)
{
    (void)status;
    vrb_buf_free(buf);
}

/* One message of len bytes, with a completion; retries while no buffer is to be had. */
static void send_buf(struct end *e, uint8_t tag, uint32_t len,
                     void (*done)(struct vrb_buf *buf, int status))
{
    struct vrb_buf *b;

    while ((b = vrb_buf_get(e->rail, len)) == NULL) {
        progress();
    }
    fill(b->payload, len, len);
    b->done = done;
    vrb_send(e->peer, b, tag, len);
}

static void send_any(struct end *e, uint8_t tag, uint32_t len)
{
    static uint8_t buf[1 << 20];
    uint32_t hdr = len < 14 ? len : 14;

    fill(buf, len, len);
    if (vrb_send_copy(e->peer, tag, buf, hdr, buf + hdr, len - hdr) == VRB_ERR_AGAIN) {
        send_buf(e, tag, len, on_sent_uncounted);
    }
}

/* Connects to a rail's port as anybody can, and sends some bytes. */
static int stranger(const struct end *e, const void *bytes, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(vrb_rail_tcp_port(e->rail))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
        (len > 0 && write(fd, bytes, len) != (ssize_t)len)) {
        report(0, "a stranger reaches the port");
        exit(1);
    }
    return fd;
}

/* Streams that no peer sends, before and while the real ones connect. */
static void case_strangers(void)
{
    uint8_t junk[200];
    int fd[64], closed = 0;
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;
    char c;

    memset(junk, 'V', sizeof(junk));
    memcpy(junk, "VRBT\1\0\0\0", 8); /* a preamble with the wrong secret, then messages */
    for (int i = 0; i < 64; i++) {
        fd[i] = stranger(&ends[i % 2], junk + (i & 4), (size_t)i % 4 * 60);
        fcntl(fd[i], F_SETFL, O_NONBLOCK);
    }
    while (closed < 48 && vrb_clock_ns() < end) { /* those that sent a whole preamble */
        progress();
        for (int i = 0; i < 64; i++) {
            if (fd[i] >= 0 && i % 4 != 0 && recv(fd[i], &c, 1, 0) <= 0 && errno != EAGAIN) {
                close(fd[i]);
                fd[i] = -1;
                closed++;
            }
        }
    }
    report(closed == 48, "streams that start wrong are closed");
    for (int i = 0; i < 64; i++) {
        if (fd[i] >= 0) {
            close(fd[i]);
        }
    }
}

static void case_sizes(void)
{
    static const uint32_t sizes[] = {0,    1,    8,    55,   56,   57,    63,   64,   120,
                                     247,  248,  249,  256,  257,  1000,  1016, 1024, 1025,
                                     2048, 2049, 4096, 8184, 8192, 16383, 16384};
    unsigned n = 0;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] <= cfg.recv_size) {
            send_any(&ends[0], TAG_DATA, sizes[i]);
            send_any(&ends[1], TAG_DATA, sizes[i]);
            n++;
        }
    }
    report(wait_for(&ends[0].got[0], n) && wait_for(&ends[1].got[0], n) && ends[0].bad == 0 &&
               ends[1].bad == 0,
           "both connect at once; every size arrives whole");
}

static void case_completions(void)
{
    unsigned n = 300;

    done_ok = done_bad = 0;
    ends[1].got[0] = 0;
    for (unsigned i = 0; i < n; i++) {
        send_buf(&ends[0], TAG_DATA, i * 37 % cfg.recv_size, on_sent);
    }
    report(wait_for(&done_ok, n) && wait_for(&ends[1].got[0], n) && done_bad == 0 &&
               ends[1].bad == 0,
           "each buffer completes once");
}

static void case_flood(void)
{
    unsigned n = 20000;
    struct vrb_stats *s = vrb_rail_stats(ends[0].rail);
    uint64_t before = s->tx_packets;

    ends[0].got[1] = ends[1].got[1] = 0;
    for (unsigned i = 0; i < n; i++) {
        send_any(&ends[0], TAG_MANY, 1 + i % 90);
        send_any(&ends[1], TAG_MANY, 1 + i % 90);
    }
    report(wait_for(&ends[0].got[1], n) && wait_for(&ends[1].got[1], n) && ends[0].bad == 0 &&
               ends[1].bad == 0,
           "a flood both ways without progress in between arrives whole");
    printf("# %u messages in %llu packets, %llu credit packets\n", n,
           (unsigned long long)(s->tx_packets - before), (unsigned long long)s->credit_packets);
    report(s->tx_packets - before < n && s->tx_coalesced > 0,
           "messages that must wait share packets");
}

/* Progresses until nothing has moved for a while: credits are told and taken, the queues are empty,
 * also where a device that executes late shares its core with others. */
static void come_to_rest(void)
{
    const struct vrb_stats *s = vrb_rail_stats(ends[0].rail), *r = vrb_rail_stats(ends[1].rail);
    uint64_t moved = 0, since = vrb_clock_ns();

    while (vrb_clock_ns() - since < 100 * VRB_NS_PER_MS) {
        uint64_t now = s->tx_packets + s->credit_packets + s->rx_packets + r->tx_packets +
                       r->credit_packets + r->rx_packets;

        if (now != moved) {
            moved = now;
            since = vrb_clock_ns();
        }
        progress();
    }
}

/* Sends n messages of 8 bytes without progress; returns how many packets left meanwhile. */
static unsigned in_one_go(struct end *e, unsigned n)
{
    uint64_t before = vrb_rail_stats(e->rail)->tx_packets;

    for (unsigned i = 0; i < n; i++) {
        send_any(e, TAG_DATA, 8);
    }
    return (unsigned)(vrb_rail_stats(e->rail)->tx_packets - before);
}

/* A record of 8 bytes takes 16; shared packets of a burst leave with 1024. */
#define PER_PACKET 64

static void case_burst(void)
{
    const struct vrb_config *c = vrb_rail_config(ends[0].rail);
    struct vrb_stats *s = vrb_rail_stats(ends[0].rail);
    unsigned burst = c->burst, sent;
    uint64_t before;

    if (c->mode != VRB_MODE_RC || c->max_inline < 64 || c->credits < burst + 8 ||
        c->sq_depth < 2 * burst) {
        return; /* flow control would decide, not the burst */
    }
    come_to_rest();
    ends[1].got[0] = 0;
    before = s->tx_packets;
    sent = in_one_go(&ends[0], burst);
    report(sent == burst, "the first messages of a burst leave at once");
    in_one_go(&ends[0], 5);
    report(s->tx_packets - before == burst, "later ones are held");
    vrb_rail_progress(ends[0].rail);
    report(s->tx_packets - before == burst + 1, "and leave together with the next progress");
    report(wait_for(&ends[1].got[0], burst + 5) && ends[1].bad == 0, "the burst arrives whole");

    ends[1].got[0] = 0;
    sent = in_one_go(&ends[0], burst + 2 * PER_PACKET);
    report(sent == burst + 2, "a shared packet that is full leaves without progress");
    report(wait_for(&ends[1].got[0], burst + 2 * PER_PACKET), "all of them arrive");

    ends[1].got[0] = 0;
    before = s->tx_packets;
    in_one_go(&ends[0], burst + 3);
    send_buf(&ends[0], TAG_DATA, 1000, on_sent_uncounted);
    report(s->tx_packets - before == burst + 2, "a message with a completion takes them along");
    in_one_go(&ends[0], 3);
    send_any(&ends[0], TAG_DATA, 512);
    report(s->tx_packets - before == burst + 4, "so does one that is too long to be held");
    report(wait_for(&ends[1].got[0], burst + 8) && ends[1].bad == 0, "all of that arrives");

    ends[1].got[0] = 0;
    for (unsigned i = 0; i < 4 * burst; i++) {
        before = s->tx_packets;
        send_any(&ends[0], TAG_DATA, 8);
        if (s->tx_packets - before != 1) {
            break;
        }
        vrb_rail_progress(ends[0].rail);
        vrb_rail_progress(ends[1].rail);
    }
    report(wait_for(&ends[1].got[0], 4 * burst), "with progress in between nothing is held");
}

static void on_rdma(struct vrb_rdma *r, int status)
{
    struct end *e = *(struct end **)vrb_rdma_user(r);

    if (status == VRB_OK) {
        done_ok++;
    } else {
        done_bad++;
    }
    vrb_rdma_free(e->rail, r);
}

static void rdma(struct end *e, enum vrb_rdma_op op, void *local, uint32_t lkey, void *remote,
                 uint32_t rkey, size_t size)
{
    struct vrb_rdma *r = vrb_rdma_get(e->rail);

    r->op = (uint8_t)op;
    r->local_addr = (uintptr_t)local;
    r->remote_addr = (uintptr_t)remote;
    r->lkey = lkey;
    r->rkey = rkey;
    r->size = size;
    r->done = on_rdma;
    *(struct end **)vrb_rdma_user(r) = e;
    vrb_rdma_post(e->peer, r);
}

static void case_rdma(void)
{
    size_t size = 3 << 20, step = 4099, n = 0, at;
    uint8_t *a = malloc(size), *b = malloc(size);
    struct ibv_mr *ma, *mb;
    uint32_t la, ra, lb, rb;
    int ok;

    if (vrb_mr_register(ends[0].rail, a, size, VRB_ACCESS_LOCAL_WRITE, &ma, &la, &ra) != VRB_OK ||
        vrb_mr_register(ends[1].rail, b, size, VRB_ACCESS_REMOTE_READ | VRB_ACCESS_REMOTE_WRITE,
                        &mb, &lb, &rb) != VRB_OK) {
        report(0, "memory is registered");
        return;
    }
    fill(a, 1, size);
    memset(b, 0, size);
    done_ok = done_bad = 0;
    rdma(&ends[0], VRB_RDMA_PUT, a, la, b, rb, size);
    rdma(&ends[0], VRB_RDMA_PUT, a, la, b, rb, 0);
    report(wait_for(&done_ok, 2) && check(b, 1, size), "a put of 3 MiB and one of nothing");
    if (cfg.mode == VRB_MODE_UD) {
        done_bad = 0;
        rdma(&ends[0], VRB_RDMA_GET, a, la, b, rb, 100);
        report(wait_for(&done_bad, 1), "a get is declined: it needs RC");
        goto out;
    }
    fill(b, 2, size);
    done_ok = 0;
    for (at = 0; at < size; at += step, n++) { /* more than the send queue holds */
        rdma(&ends[0], VRB_RDMA_GET, a + at, la, b + at, rb, size - at < step ? size - at : step);
    }
    ok = wait_for(&done_ok, (uint32_t)n) && check(a, 2, size) && done_bad == 0;
    report(ok, "more gets than the send queue holds");
out:
    report(vrb_mr_deregister(ends[0].rail, ma) == VRB_OK &&
               vrb_mr_deregister(ends[1].rail, mb) == VRB_OK,
           "memory is deregistered");
    free(a);
    free(b);
}

static uint64_t fetched[512]; /* by atomics, in the order of their completion */

static void on_atomic(struct vrb_rdma *r, int status)
{
    if (status == VRB_OK) {
        fetched[done_ok++ % 512] = r->result;
    } else {
        done_bad++;
    }
    vrb_rdma_free((*(struct end **)vrb_rdma_user(r))->rail, r);
}

static void atomic(struct vrb_peer *peer, enum vrb_rdma_op op, const void *remote, uint32_t rkey,
                   uint64_t operand, uint64_t compare)
{
    struct vrb_rdma *r = vrb_rdma_get(ends[0].rail);

    r->op = (uint8_t)op;
    r->remote_addr = (uintptr_t)remote;
    r->rkey = rkey;
    r->size = 8;
    r->operand = operand;
    r->compare = compare;
    r->must = 1;
    r->done = on_atomic;
    *(struct end **)vrb_rdma_user(r) = &ends[0];
    vrb_rdma_post(peer, r);
}

static void case_atomics(struct end *to, struct vrb_peer *peer, const char *whom)
{
    static uint64_t cells[4];
    char name[100];
    struct ibv_mr *mr;
    uint32_t lkey, rkey;
    unsigned char odd[16];
    struct vrb_rdma *r;

    if (vrb_mr_register(to->rail, cells, sizeof(cells),
                        VRB_ACCESS_REMOTE_ATOMIC | VRB_ACCESS_REMOTE_READ | VRB_ACCESS_REMOTE_WRITE,
                        &mr, &lkey, &rkey) != VRB_OK) {
        report(0, "memory for atomics is registered");
        return;
    }
    cells[0] = 1;
    cells[1] = 5;
    done_ok = done_bad = 0;
    if (cfg.mode == VRB_MODE_UD) {
        atomic(peer, VRB_RDMA_ADD, &cells[0], rkey, 1, 0);
        report(wait_for(&done_bad, 1) && cells[0] == 1, "an atomic is declined: it needs RC");
        vrb_mr_deregister(to->rail, mr);
        return;
    }
    for (uint32_t i = 0; i < 400; i++) { /* more than the send queue holds */
        atomic(peer, VRB_RDMA_ADD, &cells[0], rkey, 3, 0);
    }
    snprintf(name, sizeof(name), "fetch and add, %s", whom);
    if (!wait_for(&done_ok, 400) || cells[0] != 1201) {
        report(0, name);
    } else {
        uint32_t i = 0;

        while (i < 400 && fetched[i] == 1 + 3 * (uint64_t)i) {
            i++;
        }
        report(i == 400, name);
    }
    done_ok = 0;
    atomic(peer, VRB_RDMA_CSWAP, &cells[1], rkey, 77, 4);
    atomic(peer, VRB_RDMA_CSWAP, &cells[1], rkey, UINT64_MAX, 5);
    atomic(peer, VRB_RDMA_CSWAP, &cells[1], rkey, 8, UINT64_MAX);
    snprintf(name, sizeof(name), "compare and swap, %s", whom);
    report(wait_for(&done_ok, 3) && fetched[0] == 5 && fetched[1] == 5 &&
               fetched[2] == UINT64_MAX && cells[1] == 8,
           name);
    if (cfg.mode == VRB_MODE_RC && vrb_rail_config(ends[0].rail)->max_inline >= 9) {
        /* From memory that is not registered, and may change as soon as it is done. */
        r = vrb_rdma_get(ends[0].rail);
        memcpy(odd + 3, "123456789", 9);
        r->op = VRB_RDMA_PUT;
        r->local_addr = (uintptr_t)odd + 3;
        r->lkey = 0;
        r->remote_addr = (uintptr_t)cells + 17;
        r->rkey = rkey;
        r->size = 9;
        r->from_anywhere = 1;
        r->done = on_rdma;
        *(struct end **)vrb_rdma_user(r) = &ends[0];
        done_ok = 0;
        vrb_rdma_post(peer, r);
        snprintf(name, sizeof(name), "a put from anywhere, %s", whom);
        report(wait_for(&done_ok, 1) && memcmp((char *)cells + 17, "123456789", 9) == 0, name);
    }
    vrb_mr_deregister(to->rail, mr);
}

/* The window of the process itself: its queue pair is connected to itself. */
static void case_self(void)
{
    struct vrb_peer *self;
    const char *why = "";

    if (cfg.mode == VRB_MODE_UD) {
        return;
    }
    if (vrb_peer_create(ends[0].rail, ends[0].name, "me", 0, 0, vrb_rail_address(ends[0].rail),
                        &ends[0], &self, &why) != VRB_OK) {
        printf("# %s\n", why);
        report(0, "a peer of oneself");
        return;
    }
    case_atomics(&ends[0], self, "to oneself");
    vrb_peer_destroy(self, 1000);
}

static void case_memory(uint64_t at_start)
{
    uint64_t now = vrb_rail_stats(ends[0].rail)->reg_bytes;

    printf("# registered at start %llu KiB, now %llu KiB\n", (unsigned long long)at_start / 1024,
           (unsigned long long)now / 1024);
    report(at_start < 16 << 20, "less than 16 MiB registered at start");
}

/* The peer's QP vanishes without a word: the next message ends in one failure with both ends named.
 */
static void case_failure(void)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;

    vrb_peer_destroy(ends[1].peer, 1000);
    ends[1].peer = NULL;
    decline = 1;
    done_ok = done_bad = 0;
    for (int i = 0; i < 200; i++) {
        send_buf(&ends[0], TAG_DATA, 1000, on_sent);
    }
    while (done_ok + done_bad < 200 && vrb_clock_ns() < end) {
        progress();
    }
    report(done_ok + done_bad == 200 && done_bad > 0, "every message to a vanished peer completes");
    report(ends[0].failed == 1 && strstr(ends[0].text, "other") != NULL &&
               strstr(ends[0].text, "here") != NULL,
           "one failure is reported, and names both ends");
    printf("# %s\n", ends[0].text);
    report(vrb_send_copy(ends[0].peer, 1, "x", 1, NULL, 0) == VRB_ERR_PEER,
           "later messages are refused");
}

static void say(enum vrb_log_level level, const char *text)
{
    printf("# log %d: %s\n", level, text);
}

static const struct vrb_port *pick(struct vrb_port *ports, int n, int link)
{
    for (int i = 0; i < n; i++) {
        if (ports[i].usable && (link == 0 || ports[i].link == link)) {
            return &ports[i];
        }
    }
    return NULL;
}

static int run(const struct vrb_port *port)
{
    uint64_t at_start;

    if (open_end(port, 0) != VRB_OK || open_end(port, 1) != VRB_OK) {
        report(0, "both rails open");
        return 1;
    }
    report(1, "both rails open");
    at_start = vrb_rail_stats(ends[0].rail)->reg_bytes;
    if (make_peer(&ends[0], &ends[1]) == NULL || make_peer(&ends[1], &ends[0]) == NULL) {
        report(0, "both see each other");
        return 1;
    }
    if (vrb_rail_tcp_port(ends[0].rail) != 0) {
        case_strangers();
    }
    case_sizes();
    case_completions();
    case_burst();
    case_flood();
    case_rdma();
    case_atomics(&ends[1], ends[0].peer, "to the other end");
    case_self();
    case_memory(at_start);
    vrb_peer_destroy(ends[0].peer, 1000);
    vrb_peer_destroy(ends[1].peer, 1000);
    report(ends[0].failed == 0 && ends[1].failed == 0, "an orderly end is no failure");
    ends[1].peer = NULL;
    make_peer(&ends[0], &ends[1]);
    ends[1].got[0] = 0;
    send_any(&ends[0], TAG_DATA, 100);
    report(wait_for(&ends[1].got[0], 1) && ends[1].unknown == 1,
           "a peer that is not known yet is made known by its first message");
    case_failure();
    vrb_rail_close(ends[0].rail, 100);
    vrb_rail_close(ends[1].rail, 100);
    return failures != 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mode", 1, NULL, 'm'},   {"link", 1, NULL, 'l'},    {"no-srq", 0, NULL, 'n'},
        {"inline", 1, NULL, 'i'}, {"sq", 1, NULL, 's'},      {"credits", 1, NULL, 'c'},
        {"recv", 1, NULL, 'r'},   {"verbose", 0, NULL, 'v'}, {"tcp", 0, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    const struct vrb_port *port;
    struct vrb_port *ports;
    char err[256];
    int c, n, rc, link = 0;

    vrb_config_defaults(&cfg);
    cfg.burst = 8;
    cfg.recover_timeout = 1; /* a peer that vanished is not waited for any longer */
    cfg.rank = 0;
    cfg.ib_timeout = 10; /* 4 ms: the vanished peer is found out fast */
    cfg.peer_timeout = 2;
    snprintf(cfg.host, sizeof(cfg.host), "here");
    vrb_log_set(say, VRB_LOG_WARN);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'm':
            cfg.mode = strcmp(optarg, "rc") == 0   ? VRB_MODE_RC
                       : strcmp(optarg, "ud") == 0 ? VRB_MODE_UD
                                                   : VRB_MODE_AUTO;
            break;
        case 'l':
            link = strcmp(optarg, "ib") == 0 ? VRB_LINK_IB : VRB_LINK_ROCE;
            break;
        case 'n':
            cfg.use_srq = 0;
            break;
        case 'i':
            cfg.max_inline = (uint32_t)atoi(optarg);
            break;
        case 's':
            cfg.sq_depth = (uint32_t)atoi(optarg);
            break;
        case 'c':
            cfg.credits = (uint32_t)atoi(optarg);
            break;
        case 'r':
            cfg.recv_buffers = (uint32_t)atoi(optarg);
            break;
        case 't':
            cfg.carrier = VRB_CARRIER_TCP;
            break;
        case 'v':
            vrb_log_set(say, VRB_LOG_DEBUG);
            break;
        default:
            return 2;
        }
    }
    vrb_config_clamp(&cfg, "");
    n = vrb_ports_find(NULL, NULL, &ports, err, sizeof(err));
    port = pick(ports, n, link);
    if (port == NULL) {
        printf("1..0 # SKIP no usable port\n");
        return 77;
    }
    rc = run(port);
    printf("1..%d\n", cases);
    free(ports);
    return rc;
}
