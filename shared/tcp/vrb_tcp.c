/* Handshake messages over TCP (see vrb_tcp.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/vrb_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/vrb_peer.h"
#include "tcp/vrb_tcp_address.h"
#include "ud/vrb_ud_hello.h"
#include "wire/vrb_wire.h"

#define MAGIC 0x54425256u /* "VRBT" */
#define VERSION 1
#define PREAMBLE_SIZE 16

#define POLL_NS (1 * VRB_NS_PER_MS)
#define IDLE_NS (10 * VRB_NS_PER_S)   /* a connection that carried nothing for so long is closed */
#define ATTEMPT_NS (2 * VRB_NS_PER_S) /* then the peer's next address is tried */
#define ACCEPTED_MAX 1024             /* connections from others at a time */
#define ACCEPTS_PER_CALL 16

/* A connection: made by us to a peer, or accepted. */
struct conn {
    struct vrb_list link;
    int fd;
    struct vrb_peer *peer; /* of one that we made; NULL: accepted, or its peer has gone */
    uint64_t used;         /* ns, when something last moved on it */
    uint8_t ours, connecting, introduced, dead;
    uint32_t in_len, out_len, out_sent;
    uint8_t in[VRB_HELLO_SIZE]; /* the preamble first, which is shorter */
    uint8_t out[PREAMBLE_SIZE + VRB_HELLO_SIZE];
};

struct vrb_tcp {
    int fd; /* listens */
    uint16_t port;
    uint8_t busy; /* in vrb_tcp_progress: callbacks may come back */
    uint64_t next_poll;
    struct vrb_list conns;
    int accepted, n;
    struct pollfd *fds;
    int fds_room;
};

/* Where a peer answers. */
struct vrb_tcp_peer {
    struct conn *conn;
    uint16_t port;
    int hosts, next; /* the address to try next */
    struct vrb_tcp_host host[VRB_TCP_HOSTS];
};

static int nonblocking(int fd)
{
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* One socket for both families; one for IPv4 where the host has no IPv6. */
static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    socklen_t len = sizeof(six);
    int fd = socket(AF_INET6, SOCK_STREAM, 0), off = 0;

    if (fd >= 0 && (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0 ||
                    bind(fd, (struct sockaddr *)&six, sizeof(six)) != 0)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof(four)) != 0) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        return -1;
    }
    /* sin_port and sin6_port are at the same place. */
    if (listen(fd, 128) != 0 || !nonblocking(fd) ||
        getsockname(fd, (struct sockaddr *)&six, &len) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(six.sin6_port);
    return fd;
}

int vrb_tcp_open(struct vrb_rail *rail, char *detail, size_t len)
{
    struct vrb_tcp *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        snprintf(detail, len, "memory for the TCP carrier");
        return VRB_ERR_NOMEM;
    }
    vrb_list_init(&t->conns);
    t->fd = listen_anywhere(&t->port);
    if (t->fd < 0) {
        snprintf(detail, len, "listening on TCP for handshakes: %s", strerror(errno));
        free(t);
        return VRB_ERR_DEVICE;
    }
    rail->tcp = t;
    return VRB_OK;
}

uint16_t vrb_rail_tcp_port(const struct vrb_rail *rail)
{
    return rail->tcp == NULL ? 0 : rail->tcp->port;
}

int vrb_rail_tcp_pack(struct vrb_rail *const *rails, int n, uint8_t *buf, size_t len)
{
    struct vrb_tcp_host hosts[VRB_TCP_HOSTS];
    uint16_t ports[VRB_MAX_RAILS];
    int any = 0;

    for (int i = 0; i < n && i < VRB_MAX_RAILS; i++) {
        ports[i] = vrb_rail_tcp_port(rails[i]);
        any |= ports[i] != 0;
    }
    return any ? vrb_tcp_pack(ports, n, hosts, vrb_tcp_own_hosts(hosts), buf, len) : 0;
}

int vrb_peer_set_tcp(struct vrb_peer *peer, const uint8_t *packed, size_t len)
{
    struct vrb_tcp_peer t = {.port = 0};
    int rc = VRB_OK;

    vrb_lock(peer->rail);
    t.hosts = packed == NULL ? 0 : vrb_tcp_unpack(packed, len, peer->remote_rail, &t.port, t.host);
    if (t.hosts <= 0) {
        rc = t.hosts < 0 ? VRB_ERR_MALFORMED : VRB_ERR_UNREACH;
    } else if (peer->tcp == NULL) {
        peer->tcp = malloc(sizeof(t));
        if (peer->tcp == NULL) {
            rc = VRB_ERR_NOMEM;
        } else {
            *peer->tcp = t;
        }
    }
    vrb_unlock(peer->rail);
    return rc;
}

/* Closed at once, freed by the next sweep: whoever walks the list may hold it. */
static void hang_up(struct vrb_tcp *t, struct conn *c)
{
    if (c->dead) {
        return;
    }
    close(c->fd);
    c->dead = 1;
    t->accepted -= !c->ours;
    if (c->peer != NULL && c->peer->tcp != NULL && c->peer->tcp->conn == c) {
        c->peer->tcp->conn = NULL;
    }
    c->peer = NULL;
}

static void sweep(struct vrb_tcp *t)
{
    struct vrb_list *l, *next;

    for (l = t->conns.next; l != &t->conns; l = next) {
        struct conn *c = vrb_container_of(l, struct conn, link);

        next = l->next;
        if (c->dead) {
            vrb_list_remove(l);
            t->n--;
            free(c);
        }
    }
}

void vrb_tcp_close(struct vrb_rail *rail)
{
    struct vrb_tcp *t = rail->tcp;

    if (t == NULL) {
        return;
    }
    for (struct vrb_list *l = t->conns.next; l != &t->conns; l = l->next) {
        hang_up(t, vrb_container_of(l, struct conn, link));
    }
    sweep(t);
    close(t->fd);
    free(t->fds);
    free(t);
    rail->tcp = NULL;
}

void vrb_tcp_forget(struct vrb_peer *peer)
{
    if (peer->tcp != NULL) {
        if (peer->tcp->conn != NULL && peer->rail->tcp != NULL) {
            hang_up(peer->rail->tcp, peer->tcp->conn);
        }
        free(peer->tcp);
        peer->tcp = NULL;
    }
}

static struct conn *add(struct vrb_tcp *t, int fd, struct vrb_peer *peer)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (c == NULL || !nonblocking(fd)) {
        close(fd);
        free(c);
        return NULL;
    }
    c->fd = fd;
    c->peer = peer;
    c->ours = peer != NULL;
    c->used = vrb_clock_ns();
    t->accepted += !c->ours;
    t->n++;
    vrb_list_append(&t->conns, &c->link);
    return c;
}

/* Starts a connection to the peer's next address. NULL: not now. */
static struct conn *dial(struct vrb_peer *peer)
{
    struct vrb_tcp_peer *p = peer->tcp;
    const struct vrb_tcp_host *h = &p->host[p->next];
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(p->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(p->port)};
    int fd = socket(h->len == 4 ? AF_INET : AF_INET6, SOCK_STREAM, 0), rc;
    struct conn *c;

    p->next = (p->next + 1) % p->hosts;
    c = fd < 0 ? NULL : add(peer->rail->tcp, fd, peer);
    if (c == NULL) {
        return NULL;
    }
    memcpy(&four.sin_addr, h->raw, 4);
    memcpy(&six.sin6_addr, h->raw, 16);
    rc = h->len == 4 ? connect(fd, (struct sockaddr *)&four, sizeof(four))
                     : connect(fd, (struct sockaddr *)&six, sizeof(six));
    if (rc != 0 && errno != EINPROGRESS) {
        hang_up(peer->rail->tcp, c);
        return NULL;
    }
    c->connecting = rc != 0;
    p->conn = c;
    vrb_put32(c->out, MAGIC);
    memset(c->out + 4, 0, 4);
    c->out[4] = VERSION;
    vrb_put64(c->out + 8, peer->remote.nonce);
    c->out_len = PREAMBLE_SIZE;
    return c;
}

static void flush(struct vrb_tcp *t, struct conn *c)
{
    while (!c->dead && !c->connecting && c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);

        if (n > 0) {
            c->out_sent += (uint32_t)n;
            c->used = vrb_clock_ns();
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            return;
        } else {
            hang_up(t, c);
        }
    }
    if (c->out_sent == c->out_len) {
        c->out_sent = c->out_len = 0;
    }
}

int vrb_tcp_hello(struct vrb_peer *peer, const struct vrb_hello *h, char *detail, size_t len)
{
    struct conn *c;

    if (peer->tcp == NULL) {
        snprintf(detail, len, "the peer did not publish where it answers over TCP");
        return VRB_ERR_UNREACH;
    }
    c = peer->tcp->conn != NULL ? peer->tcp->conn : dial(peer);
    if (c == NULL) {
        return VRB_OK;
    }
    /* A newer message replaces one that has not begun to leave. */
    if (c->out_sent == 0 && c->out_len >= VRB_HELLO_SIZE) {
        c->out_len -= VRB_HELLO_SIZE;
    }
    if (sizeof(c->out) - c->out_len >= VRB_HELLO_SIZE && c->out_sent == 0) {
        vrb_hello_put(h, c->out + c->out_len);
        c->out_len += VRB_HELLO_SIZE;
        peer->rail->stats.hellos_tx++;
    }
    flush(peer->rail->tcp, c);
    return VRB_OK;
}

static int preamble_is_good(const struct vrb_rail *rail, const uint8_t *p)
{
    return vrb_get32(p) == MAGIC && p[4] == VERSION && vrb_get64(p + 8) == rail->address.nonce;
}

/* A whole preamble or message is in c->in. */
static void take(struct vrb_rail *rail, struct conn *c)
{
    c->in_len = 0;
    if (!c->introduced) {
        c->introduced = 1;
        if (!preamble_is_good(rail, c->in)) {
            rail->stats.hellos_stale++;
            hang_up(rail->tcp, c);
        }
        return;
    }
    vrb_hello_take(rail, c->in, VRB_HELLO_SIZE, NULL, NULL);
}

/* A few messages at a time: a peer that sends without end keeps nobody else waiting. */
static void receive(struct vrb_rail *rail, struct conn *c)
{
    for (int i = 0; i < 8 && !c->dead; i++) {
        uint32_t want = c->introduced || c->ours ? VRB_HELLO_SIZE : PREAMBLE_SIZE;
        ssize_t n = recv(c->fd, c->in + c->in_len, want - c->in_len, 0);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            return;
        }
        if (n <= 0 || c->ours) { /* nothing comes back on one that we made */
            hang_up(rail->tcp, c);
            return;
        }
        c->used = vrb_clock_ns();
        c->in_len += (uint32_t)n;
        if (c->in_len == want) {
            take(rail, c);
        }
    }
}

static void accept_some(struct vrb_tcp *t)
{
    for (int i = 0; i < ACCEPTS_PER_CALL && t->accepted < ACCEPTED_MAX; i++) {
        int fd = accept(t->fd, NULL, NULL);

        if (fd < 0) {
            return;
        }
        (void)add(t, fd, NULL);
    }
}

static void serve(struct vrb_rail *rail, struct conn *c, short events, uint64_t now)
{
    struct vrb_tcp *t = rail->tcp;

    if (c->connecting && (events & (POLLOUT | POLLERR | POLLHUP))) {
        int err = 0;
        socklen_t len = sizeof(err);

        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0) {
            hang_up(t, c); /* the next message tries the next address */
            return;
        }
        c->connecting = 0;
        c->used = now;
    }
    if (now - c->used > (c->connecting ? ATTEMPT_NS : IDLE_NS)) {
        hang_up(t, c);
        return;
    }
    flush(t, c);
    if (!c->dead && !c->connecting && (events & (POLLIN | POLLERR | POLLHUP))) {
        receive(rail, c);
    }
}

static int fill_fds(struct vrb_tcp *t)
{
    int n = 1;

    if (t->fds_room < t->n + 1) {
        int room = 2 * (t->n + 1);
        struct pollfd *fds = realloc(t->fds, (size_t)room * sizeof(*fds));

        if (fds == NULL) {
            return 0;
        }
        t->fds = fds;
        t->fds_room = room;
    }
    t->fds[0] =
        (struct pollfd){.fd = t->fd, .events = (short)(t->accepted < ACCEPTED_MAX ? POLLIN : 0)};
    for (struct vrb_list *l = t->conns.next; l != &t->conns; l = l->next) {
        const struct conn *c = vrb_container_of(l, struct conn, link);

        t->fds[n++] = (struct pollfd){
            .fd = c->fd,
            .events = (short)((c->connecting || c->out_len > 0 ? POLLOUT : 0) | POLLIN)};
    }
    return n;
}

void vrb_tcp_progress(struct vrb_rail *rail, uint64_t now)
{
    struct vrb_tcp *t = rail->tcp;
    struct vrb_list *l;
    int n, i = 1;

    if (t->busy || now < t->next_poll) {
        return;
    }
    t->next_poll = now + POLL_NS;
    t->busy = 1;
    n = fill_fds(t);
    if (n > 0 && poll(t->fds, (nfds_t)n, 0) >= 0) {
        /* Callbacks may add connections at the list's end, which is beyond n. */
        for (l = t->conns.next; l != &t->conns && i < n; l = l->next) {
            struct conn *c = vrb_container_of(l, struct conn, link);

            if (!c->dead) {
                serve(rail, c, t->fds[i].revents, now);
            }
            i++;
        }
        if (t->fds[0].revents & POLLIN) {
            accept_some(t);
        }
    }
    sweep(t);
    t->busy = 0;
}
