/* Conformance between processes: passive targets, order of writes, sleepers, death of a peer.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program forks before its first verbs call; parent and child are hosts 0 and 1.
 */
#include "t_common.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int child_fn(int sock);

/* ---- talking over a socket ---- */

static void put(int s, const void *p, size_t n)
{
    if (write(s, p, n) != (ssize_t)n) {
        t_bail("socket write");
    }
}

static void get(int s, void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t r = read(s, (char *)p + at, n - at);

        if (r <= 0) {
            t_bail("socket read");
        }
        at += (size_t)r;
    }
}

static void meet(int s)
{
    char c = 'm';

    put(s, &c, 1);
    get(s, &c, 1);
}

static struct addr swap_addr(int s, const struct end *e)
{
    struct addr a = t_addr(e), b;

    put(s, &a, sizeof(a));
    get(s, &b, sizeof(b));
    return b;
}

/* An end connected to the other side's. */
static struct end *connected(int s, struct ibv_context *ctx, const struct opts *o,
                             struct addr *peer)
{
    struct end *e = t_end_on(ctx, o);

    *peer = swap_addr(s, e);
    t_connect(e, peer, o);
    meet(s);
    return e;
}

static pid_t start(child_fn *fn, int *sock)
{
    int sv[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv)) {
        t_bail("socketpair");
    }
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        close(sv[0]);
        setenv("SOFTHCA_HOST", "1", 1);
        exit(fn(sv[1]));
    }
    close(sv[1]);
    *sock = sv[0];
    return pid;
}

static bool ended_well(pid_t pid)
{
    int st;

    return waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0;
}

/* ---- passive target ---- */

static const struct opts big = {.size = 1 << 20};

static int passive_child(int s)
{
    struct addr peer;
    struct end *e = connected(s, t_open(), &big, &peer);

    t_fill(e->buf, 1 << 20, 4);
    for (int i = 0; i < 4; i++) {
        t_recv(e, (uint64_t)i, 0, 65536);
    }
    meet(s);
    meet(s); /* asleep in read(2) while the parent works on our memory */
    if (!t_same(e->buf + 500000, 400000, 8) || *(uint64_t *)(void *)(e->buf + 131072) != 42) {
        return 1;
    }
    t_free(e);
    return 0;
}

static void passive(struct ibv_context *ctx, pid_t pid, int s)
{
    struct addr peer;
    struct end *e = connected(s, ctx, &big, &peer);
    struct t_wr w;
    struct ibv_wc wc;
    bool good = true;

    meet(s);
    t_wr(e, &w, IBV_WR_RDMA_READ, 1, 0, 400000);
    t_remote(&w, &peer, 0);
    t_ok(!t_post(e, &w) && t_wait(e->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
             t_same(e->buf, 400000, 4),
         "RDMA read from a process that sleeps");
    t_fill(e->buf, 400000, 8);
    t_wr(e, &w, IBV_WR_RDMA_WRITE, 2, 0, 400000);
    t_remote(&w, &peer, 500000);
    t_ok(!t_post(e, &w) && t_wait(e->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS,
         "RDMA write to it");
    for (int i = 0; i < 4; i++) {
        good = good && !t_send(e, 3, 0, 65536) && t_wait(e->scq, &wc, 5000) == 1 &&
               wc.status == IBV_WC_SUCCESS;
    }
    t_ok(good, "sends to it");
    *(uint64_t *)(void *)e->buf = 42;
    t_wr(e, &w, IBV_WR_RDMA_WRITE, 4, 0, 8);
    t_remote(&w, &peer, 131072);
    t_post(e, &w);
    t_wait(e->scq, &wc, 5000);
    meet(s);
    t_ok(ended_well(pid), "it finds what was written");
    t_free(e);
}

/* ---- order of a write ---- */

enum { ROUNDS = 2000, REPLY = 512 << 10 };
static const struct {
    uint32_t len, off;
} shapes[] = {{64, 0}, {100, 3}, {4096, 0}, {5001, 7}, {65536, 0}};

static uint8_t stamp(int round)
{
    return (uint8_t)(1 + round % 250);
}

static bool reply(struct end *e, const struct addr *peer, int round)
{
    struct t_wr w;
    struct ibv_wc wc;

    e->buf[REPLY + 64] = stamp(round);
    t_wr(e, &w, IBV_WR_RDMA_WRITE, 1, REPLY + 64, 1);
    t_remote(&w, peer, REPLY);
    return !t_post(e, &w) && t_wait(e->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
}

static bool await(const volatile uint8_t *p, uint8_t v)
{
    uint64_t end = t_now_ms() + 20000;

    for (unsigned int n = 0; *p != v; n++) {
        if (n % 256 == 255) {
            sched_yield();
            if (t_now_ms() > end) {
                return false;
            }
        }
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return true;
}

/* Writes whole bodies of one stamp; waits for the answer between rounds. */
static int order_child(int s)
{
    struct addr peer;
    struct end *e = connected(s, t_open(), &big, &peer);
    int total = 0;

    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        for (int r = 0; r < ROUNDS; r++, total++) {
            struct t_wr w;
            struct ibv_wc wc;

            memset(e->buf, stamp(total), shapes[k].len);
            t_wr(e, &w, IBV_WR_RDMA_WRITE, 1, 0, shapes[k].len);
            t_remote(&w, &peer, shapes[k].off);
            if (t_post(e, &w) || t_wait(e->scq, &wc, 5000) != 1 || wc.status != IBV_WC_SUCCESS ||
                !await(e->buf + REPLY, stamp(total))) {
                return 1;
            }
        }
    }
    t_free(e);
    return 0;
}

static void order(struct ibv_context *ctx, pid_t pid, int s)
{
    struct addr peer;
    struct end *e = connected(s, ctx, &big, &peer);
    int total = 0;

    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        uint32_t len = shapes[k].len;
        const uint8_t *b = e->buf + shapes[k].off;
        int early = 0;
        bool good = true;

        for (int r = 0; r < ROUNDS && good; r++, total++) {
            good = await(b + len - 1, stamp(total));
            for (uint32_t i = 0; good && i < len; i++) {
                early += b[i] != stamp(total);
            }
            good = good && reply(e, &peer, total);
        }
        t_ok(good && !early, "a write of %u bytes shows its last byte last (%d rounds)", len,
             ROUNDS);
    }
    t_ok(ended_well(pid), "and the writer got every answer");
    t_free(e);
}

/* ---- sleepers ---- */

static const struct opts chan = {.channel = true, .rnr_timer = 1 + 14 /* 1.28 ms */};

static int sleeper_child(int s)
{
    struct addr peer;
    struct end *e = connected(s, t_open(), &chan, &peer);
    struct ibv_wc wc;

    meet(s);
    usleep(100000); /* the parent's send finds no receive request and stalls */
    t_recv(e, 1, 0, 64);
    if (t_wait(e->rcq, &wc, 5000) != 1 || wc.status != IBV_WC_SUCCESS) {
        return 1;
    }
    meet(s);
    t_free(e);
    return 0;
}

static void sleeper(struct ibv_context *ctx, pid_t pid, int s)
{
    struct addr peer;
    struct end *e = connected(s, ctx, &chan, &peer);
    struct pollfd p = {.fd = e->ch->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *cookie;
    uint64_t t;

    ibv_req_notify_cq(e->scq, 0);
    t_send(e, 1, 0, 8);
    meet(s);
    t = t_now_ms();
    t_ok(poll(&p, 1, 5000) == 1, "a stalled send goes on while its owner sleeps in poll(2)");
    t_ok(t_now_ms() - t < 3000, "... within a second or so");
    ibv_get_cq_event(e->ch, &cq, &cookie);
    ibv_ack_cq_events(cq, 1);
    t_expect(e->scq, IBV_WC_SUCCESS, 1, "... to its success");
    meet(s);
    t_ok(ended_well(pid), "... and the receiver has it");
    t_free(e);
}

/* ---- death ---- */

static const struct opts quick = {.timeout = 1 + 8, .retry_cnt = 1 + 3, .size = 1 << 20};

static int exit_child(int s)
{
    struct addr peer;

    connected(s, t_open(), &quick, &peer);
    meet(s);
    return 0; /* leaves everything behind */
}

static void leaves(struct ibv_context *ctx, pid_t pid, int s)
{
    struct addr peer;
    struct end *e = connected(s, ctx, &quick, &peer);

    meet(s);
    ended_well(pid);
    t_send(e, 1, 0, 8);
    t_expect(e->scq, IBV_WC_RETRY_EXC_ERR, 1, "a peer that has exited: retry exceeded");
    t_free(e);
}

/* Floods the parent until it is killed: RDMA writes, big and small sends, reads. */
static int victim_child(int s)
{
    struct addr peer;
    struct end *e = connected(s, t_open(), &quick, &peer);
    struct ibv_wc wc;

    meet(s);
    for (uint64_t i = 0;; i++) {
        static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND,
                                                 IBV_WR_RDMA_READ};
        struct t_wr w;

        t_wr(e, &w, ops[i % 4], i, 0, i % 3 ? 200000 : 32);
        t_remote(&w, &peer, 300000);
        t_post(e, &w);
        t_wait(e->scq, &wc, 1000);
    }
    return 0;
}

/* Kills a flooding peer in mid-traffic; the QP and its CQ stay usable, and the peer's death shows.
 */
static bool survive(struct ibv_context *ctx, int round)
{
    const struct opts with_srq = {
        .timeout = 1 + 8, .retry_cnt = 1 + 3, .size = 1 << 20, .srq = round % 2};
    int s;
    pid_t pid = start(victim_child, &s);
    struct addr peer;
    struct end *e = connected(s, ctx, &with_srq, &peer);
    struct ibv_wc wc;
    uint64_t stop;
    bool good;

    for (int i = 0; i < 16; i++) {
        t_recv(e, (uint64_t)i, 0, 200000);
    }
    meet(s);
    stop = t_now_ms() + 10 + (uint64_t)(round * 7 % 40);
    while (t_now_ms() < stop) {
        if (ibv_poll_cq(e->rcq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
            t_recv(e, wc.wr_id, 0, 200000);
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    t_send(e, 77, 0, 8);
    good = t_wait(e->scq, &wc, 10000) == 1 && wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 77;
    if (!good) {
        t_note("round %d: no retry-exceeded for the killed peer", round);
    }
    while (t_wait(e->rcq, &wc, 2)) {
    }
    t_free(e); /* must not hang on a lock that the dead one held */
    close(s);
    return good;
}

static int idle_child(int s)
{
    char c;

    t_open();
    meet(s);
    get(s, &c, 1);
    return 0;
}

int main(void)
{
    struct ibv_context *ctx;
    int s[4], idle_s, ok = 0;
    pid_t p[4], idle;

    idle = start(idle_child, &idle_s);
    p[0] = start(passive_child, &s[0]);
    p[1] = start(order_child, &s[1]);
    p[2] = start(sleeper_child, &s[2]);
    p[3] = start(exit_child, &s[3]);
    setenv("SOFTHCA_HOST", "0", 1);
    ctx = t_open();
    meet(idle_s);
    passive(ctx, p[0], s[0]);
    order(ctx, p[1], s[1]);
    sleeper(ctx, p[2], s[2]);
    leaves(ctx, p[3], s[3]);
    for (int round = 0; round < 20; round++) {
        ok += survive(ctx, round);
    }
    t_ok(ok == 20, "20 peers killed in mid-traffic, half of them over an SRQ: nothing wedges (%d)",
         ok);
    put(idle_s, "x", 1);
    t_ok(ended_well(idle), "a bystander leaves as if nothing had happened");
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
