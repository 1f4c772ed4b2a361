/* Links that go down, peers that are dropped and made again, processes that start anew: every
 * message arrives exactly once, or not at all if its sender had gone.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two rails of one process, like core_pair, but each message has a number, and each arrival is
 * counted. Prints TAP; exits non-zero if a case failed, 77 without a usable port.
 *   core_lives [--mode rc|ud|auto] [--link ib|roce] [--ctl PATH] CASE...
 * CASE: down, port, narrow (they need --ctl: softhca-ctl), again, cut, restart, silent, slow, left.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/vrb_clock.h"
#include "vrb.h"

#define LIMIT_S 30 /* a case that takes longer hangs */
#define MESSAGES 4096
#define LEN_MAX 9000

struct end {
    struct vrb_rail *rail;
    struct vrb_peer *peer;
    uint64_t name;
    uint32_t sent;
    uint8_t got[MESSAGES]; /* how often number i of the other end arrived */
    uint32_t bad, failed, unknown;
};

static struct end ends[2];
static struct vrb_config cfg;
static const struct vrb_port *the_port;
static const char *ctl;
static int cases, failures;
static char last_text[2048];
static int narrow_said;

static void report(int ok, const char *name)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++cases, name);
    fflush(stdout);
    failures += !ok;
}

static uint32_t length_of(uint32_t number)
{
    return 4 + number * 2654435761u % (number % 3 == 0 ? LEN_MAX - 4 : 200);
}

static struct end *other(const struct end *e)
{
    return &ends[e == &ends[0]];
}

static void on_recv(void *ctx, struct vrb_peer *peer, uint8_t tag, void *data, size_t len)
{
    struct end *e = ctx;
    const uint8_t *p = data;
    uint32_t number;

    (void)tag;
    memcpy(&number, data, 4);
    if (peer != e->peer || number >= MESSAGES || len != length_of(number)) {
        e->bad++;
        return;
    }
    for (size_t i = 4; i < len; i++) {
        e->bad += p[i] != (uint8_t)(number + i);
    }
    e->got[number]++;
}

static void on_failed(void *ctx, struct vrb_peer *peer, int status, const char *text)
{
    struct end *e = ctx;

    (void)peer;
    (void)status;
    e->failed++;
    snprintf(last_text, sizeof(last_text), "%s", text == NULL ? "(quiet)" : text);
    printf("# failed: %s\n", last_text);
}

static void make_peer(struct end *e)
{
    const char *why = "";

    if (vrb_peer_create(e->rail, other(e)->name, "other", other(e)->name, 0,
                        vrb_rail_address(other(e)->rail), e, &e->peer, &why) != VRB_OK) {
        printf("# no peer: %s\n", why);
        exit(1);
    }
}

static struct vrb_peer *on_unknown(void *ctx, struct vrb_rail *rail, uint64_t name)
{
    struct end *e = ctx;

    (void)rail;
    e->unknown++;
    if (name != other(e)->name) {
        return NULL;
    }
    make_peer(e);
    return e->peer;
}

static void drop_peer(struct end *e, unsigned ms)
{
    struct vrb_peer *peer = e->peer;

    vrb_peer_destroy(peer, ms);
    e->peer = e->peer == peer ? NULL : e->peer;
}

static void open_end(struct end *e)
{
    struct vrb_callbacks cb = {
        .ctx = e, .recv = on_recv, .unknown = on_unknown, .failed = on_failed};

    e->name = cfg.name = 100 + (uint64_t)(e - ends);
    if (vrb_rail_open(the_port, 0, &cfg, &cb, 64, 64, &e->rail) != VRB_OK) {
        printf("1..0 # SKIP the port does not open\n");
        exit(77);
    }
}

static void progress(void)
{
    for (int i = 0; i < 2; i++) {
        if (ends[i].rail != NULL) {
            vrb_rail_progress(ends[i].rail);
        }
    }
}

static void progress_for(unsigned ms)
{
    uint64_t end = vrb_clock_ns() + ms * VRB_NS_PER_MS;

    while (vrb_clock_ns() < end) {
        progress();
    }
}

static void on_sent(struct vrb_buf *buf, int status)
{
    (void)status;
    vrb_buf_free(buf);
}

static void send_some(struct end *e, uint32_t n)
{
    while (n-- > 0) {
        uint32_t number = e->sent++, len = length_of(number);
        struct vrb_buf *b;

        while ((b = vrb_buf_get(e->rail, len)) == NULL) {
            progress();
        }
        memcpy(b->payload, &number, 4);
        for (uint32_t i = 4; i < len; i++) {
            b->payload[i] = (uint8_t)(number + i);
        }
        b->done = on_sent;
        vrb_send(e->peer, b, 1, len);
    }
}

static void start(void)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &ends[i];

        e->sent = e->bad = e->failed = e->unknown = 0;
        memset(e->got, 0, sizeof(e->got));
        if (e->rail == NULL) {
            open_end(e);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i].peer == NULL) {
            make_peer(&ends[i]);
        }
    }
}

static uint32_t arrived(const struct end *to)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        n += to->got[i] > 0;
    }
    return n;
}

/* Waits until all that both ends sent has arrived; then each once, whole, and no more comes. */
static int all_once(void)
{
    uint64_t end = vrb_clock_ns() + LIMIT_S * VRB_NS_PER_S;
    int ok = 1;

    while ((arrived(&ends[0]) < ends[1].sent || arrived(&ends[1]) < ends[0].sent) &&
           vrb_clock_ns() < end) {
        progress();
    }
    progress_for(20);
    for (int i = 0; i < 2; i++) {
        const struct end *e = &ends[i];
        uint32_t twice = 0;

        for (uint32_t k = 0; k < MESSAGES; k++) {
            twice += e->got[k] > 1;
        }
        if (arrived(e) != other(e)->sent || twice || e->bad || e->failed) {
            printf("# end %d: %u of %u arrived, %u more than once, %u damaged, %u failures\n", i,
                   arrived(e), other(e)->sent, twice, e->bad, e->failed);
            ok = 0;
        }
    }
    return ok;
}

static void run_ctl(const char *what)
{
    char command[512];

    snprintf(command, sizeof(command), "LD_PRELOAD= %s %s >/dev/null", ctl, what);
    if (system(command) != 0) {
        printf("# %s failed\n", command);
        exit(1);
    }
}

static void set_port(const char *state)
{
    char what[256];

    snprintf(what, sizeof(what), "port %s %s %s", state, getenv("SOFTHCA_HOST"), the_port->dev);
    run_ctl(what);
}

/* Somewhere on the way a link with a smaller MTU takes over. */
static void case_narrow(void)
{
    start();
    send_some(&ends[0], 50);
    send_some(&ends[1], 50);
    report(all_once(), "a path as wide as its ends say");
    run_ctl("inject path.mtu bytes=1024");
    send_some(&ends[0], 50);
    send_some(&ends[1], 50);
    report(all_once(), "it gets narrower: every message arrives once");
    report(vrb_rail_stats(ends[0].rail)->recovered > 0, "over another connection");
}

/* A peer that does not look for a while has not answered, which says nothing about the path. */
static void case_slow(void)
{
    start();
    send_some(&ends[1], 20);
    report(all_once(), "one end has heard the other");
    for (int i = 0; i < 12; i++) {
        uint64_t end = vrb_clock_ns() + 20 * VRB_NS_PER_MS;

        send_some(&ends[0], 2);
        while (vrb_clock_ns() < end) {
            vrb_rail_progress(ends[0].rail);
        }
    }
    report(all_once() && !narrow_said, "a slow peer is not taken for a narrow path");
}

/* The link goes down under traffic, more is sent into it, and it comes back. */
static void case_down(void)
{
    int rounds = 3;

    start();
    while (rounds-- > 0) {
        send_some(&ends[0], 50);
        send_some(&ends[1], 50);
        set_port("down");
        send_some(&ends[0], 50);
        progress_for(60);
        send_some(&ends[1], 50);
        progress_for(60);
        set_port("up");
    }
    report(all_once(), "the link goes down and comes back: every message arrives once");
    if (getenv("SOFTHCA_DOWN") != NULL && strcmp(getenv("SOFTHCA_DOWN"), "error") == 0) {
        report(vrb_rail_stats(ends[0].rail)->ud_broken > 0, "the datagram queue pair had broken");
    }
}

/* One end drops its peer, in an orderly way, and makes it again, while the other keeps its own. */
static void case_again(void)
{
    start();
    for (int round = 0; round < 12; round++) {
        struct end *e = &ends[round % 2];

        send_some(e, 20);
        send_some(other(e), 20);
        if (!all_once()) {
            break;
        }
        drop_peer(e, 1000);
        if (round % 4 >= 2) { /* whoever speaks first to the one without a peer */
            send_some(other(e), 20);
            progress_for(5);
            if (!all_once()) {
                break;
            }
        }
        if (e->peer == NULL) {
            make_peer(e);
        }
    }
    report(all_once() && ends[0].sent > 400 - 160,
           "a peer is dropped and made again by one end: every message arrives once");
    for (int round = 0; round < 6; round++) {
        drop_peer(&ends[0], 1000);
        drop_peer(&ends[1], 1000);
        make_peer(&ends[round % 2]);
        send_some(&ends[round % 2], 30);
        progress_for(round);
        if (ends[(round + 1) % 2].peer == NULL) {
            make_peer(&ends[(round + 1) % 2]);
        }
        send_some(&ends[(round + 1) % 2], 30);
        if (!all_once()) {
            break;
        }
    }
    report(all_once(), "both drop and make it again: every message arrives once");
}

/* One end drops its peer at once, with messages under way, which may get lost: then it makes it
 * again, and what is sent from then on arrives. */
static void case_cut(void)
{
    start();
    for (int round = 0; round < 6; round++) {
        struct end *e = &ends[round % 2];
        uint32_t before = e->sent;

        send_some(e, 100);
        if (round & 2) {
            vrb_rail_progress(other(e)->rail);
        }
        drop_peer(e, 0);
        if (e->peer == NULL) {
            make_peer(e);
        }
        for (uint32_t i = before; i < e->sent; i++) { /* as if: nobody counts on these */
            if (!other(e)->got[i]) {
                other(e)->got[i] = 1;
            }
        }
        before = e->sent;
        send_some(e, 100);
        send_some(other(e), 10);
        progress_for(300);
        /* One that was under way and yet arrived was counted twice above. */
        for (uint32_t i = 0; i < before; i++) {
            other(e)->got[i] = 1;
        }
        if (!all_once()) {
            break;
        }
    }
    report(all_once(), "a peer is dropped in mid-transfer and made again: later messages arrive");
}

/* A process ends and another one of the same name starts, at the same address. */
static void case_restart(void)
{
    int ok = 1;

    start();
    for (int round = 0; round < 8 && ok; round++) {
        struct end *e = &ends[round % 2];

        send_some(e, 60);
        send_some(other(e), 60);
        ok = all_once();
        vrb_rail_close(e->rail, 1000);
        e->rail = NULL;
        e->peer = NULL;
        drop_peer(other(e), 0);
        start();
    }
    report(ok, "a process starts anew: nothing of its earlier life counts");
}

/* Runs end 0 alone until it has reported a failure. Returns the seconds it took, -1: never. */
static double wait_for_failure(void)
{
    uint64_t begin = vrb_clock_ns();

    while (ends[0].failed == 0 && vrb_clock_ns() - begin < LIMIT_S * VRB_NS_PER_S) {
        vrb_rail_progress(ends[0].rail);
    }
    return ends[0].failed == 0 ? -1 : (double)(vrb_clock_ns() - begin) / 1e9;
}

static void close_both(void)
{
    for (int i = 0; i < 2; i++) {
        if (ends[i].rail != NULL) {
            vrb_rail_close(ends[i].rail, 100);
        }
        ends[i].rail = NULL;
        ends[i].peer = NULL;
    }
}

/* The other process stops for good; this one has sent all that it had to, and only waits. */
static void case_silent(void)
{
    double took;

    close_both();
    cfg.peer_timeout = 2;
    cfg.keepalive = 1;
    start();
    send_some(&ends[0], 20);
    send_some(&ends[1], 20);
    report(all_once(), "both ends talk");
    progress_for(3500);
    report(all_once(), "silence of a peer that answers is no failure");
    took = wait_for_failure();
    printf("# after %.1f s\n", took);
    report(took > 1.5 && ends[0].failed == 1 && strstr(last_text, "peer_timeout") != NULL,
           "a peer that answers no more is given up, once, though nothing was sent to it");
    close_both();
}

/* The other process ends while this one has nothing to say to it: who left in good order has not
 * failed (a spawned process that is done), who just went has. */
static void case_left(void)
{
    for (int in_order = 1; in_order >= 0; in_order--) {
        double took;

        close_both();
        cfg.keepalive = 1;
        cfg.recover_timeout = 1;
        cfg.ib_timeout = 8;
        start();
        send_some(&ends[0], 20);
        send_some(&ends[1], 20);
        report(all_once(), "both ends talk");
        drop_peer(&ends[1], in_order ? 1000 : 0);
        vrb_rail_close(ends[1].rail, 0);
        ends[1].rail = NULL;
        progress_for(5000);
        if (in_order) {
            report(ends[0].failed == 0, "a peer that left in good order is not missed");
            send_some(&ends[0], 1);
        }
        took = wait_for_failure();
        printf("# after %.1f s\n", took);
        report(ends[0].failed == 1,
               in_order ? "until something is sent to it" : "one that is gone is");
    }
    close_both();
}

/* The port goes down for good. */
static void case_port(void)
{
    double took;

    close_both();
    cfg.peer_timeout = 0;
    cfg.port_timeout = 2;
    start();
    send_some(&ends[0], 20);
    report(all_once(), "messages arrive");
    set_port("down");
    progress_for(3500);
    report(ends[0].failed == 0 && ends[1].failed == 0, "a port that nothing waits for may be down");
    send_some(&ends[0], 20);
    took = wait_for_failure();
    printf("# after %.1f s\n", took);
    report(took > 0 && ends[0].failed == 1 && strstr(last_text, "port_timeout") != NULL,
           "a port that stays down ends what waits for it");
    set_port("up");
    close_both();
}

static void say(enum vrb_log_level level, const char *text)
{
    narrow_said |= strstr(text, "small packets arrive") != NULL;
    printf("# log %d: %s\n", level, text);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mode", 1, NULL, 'm'},    {"link", 1, NULL, 'l'},    {"ctl", 1, NULL, 'c'},
        {"buffers", 1, NULL, 'b'}, {"verbose", 0, NULL, 'v'}, {NULL, 0, NULL, 0},
    };
    struct vrb_port *ports;
    char err[256];
    int c, n, link = 0;

    vrb_config_defaults(&cfg);
    cfg.mode = VRB_MODE_UD;
    cfg.rank = 0;
    cfg.peer_timeout = 20;
    snprintf(cfg.host, sizeof(cfg.host), "here");
    vrb_log_set(say, VRB_LOG_WARN);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'm':
            cfg.mode = strcmp(optarg, "auto") == 0 ? VRB_MODE_AUTO
                       : strcmp(optarg, "rc") == 0 ? VRB_MODE_RC
                                                   : VRB_MODE_UD;
            break;
        case 'l':
            link = strcmp(optarg, "ib") == 0 ? VRB_LINK_IB : VRB_LINK_ROCE;
            break;
        case 'c':
            ctl = optarg;
            break;
        case 'b':
            cfg.ud_buffers = (uint32_t)atoi(optarg);
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
    for (int i = 0; i < n && the_port == NULL; i++) {
        if (ports[i].usable && (link == 0 || ports[i].link == link)) {
            the_port = &ports[i];
        }
    }
    if (the_port == NULL) {
        printf("1..0 # SKIP no usable port\n");
        return 77;
    }
    for (int i = optind; i < argc; i++) {
        if (strcmp(argv[i], "down") == 0) {
            case_down();
        } else if (strcmp(argv[i], "again") == 0) {
            case_again();
        } else if (strcmp(argv[i], "cut") == 0) {
            case_cut();
        } else if (strcmp(argv[i], "restart") == 0) {
            case_restart();
        } else if (strcmp(argv[i], "silent") == 0) {
            case_silent();
        } else if (strcmp(argv[i], "narrow") == 0) {
            case_narrow();
        } else if (strcmp(argv[i], "slow") == 0) {
            case_slow();
        } else if (strcmp(argv[i], "left") == 0) {
            case_left();
        } else if (strcmp(argv[i], "port") == 0) {
            case_port();
        } else {
            return 2;
        }
    }
    close_both();
    printf("1..%d\n", cases);
    free(ports);
    return failures != 0;
}
