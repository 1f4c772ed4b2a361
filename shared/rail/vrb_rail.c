/* Opening and closing a rail: its verbs objects, sized by what the device allows.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "rail/vrb_rail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "device/vrb_facts.h"
#include "dgram/vrb_dgram.h"
#include "mem/vrb_memlock.h"
#include "peer/vrb_path.h"
#include "peer/vrb_retired.h"
#include "rail/vrb_fit.h"
#include "rc/vrb_rc.h"
#include "tcp/vrb_tcp.h"
#include "ud/vrb_ud.h"
#include "util/vrb_explain.h"
#include "wire/vrb_wire.h"

/* CQ entries asked for: receives, handshakes, and requests of many peers at once. A device that has
 * fewer gets fewer; posting is held back by vrb_rail.cq_room, the CQ never overruns. */
#define CQ_SENDS 8192
#define CQ_OWN_QUEUES 32768 /* without an SRQ each peer's receives need entries too */

/* Fewer shared buffers than this for want of memory, and a job of any size only collides. */
#define RECV_BUFFERS_MIN 16

#define SMALL_PER_SLAB 128
#define BIG_PER_SLAB 16
#define RX_PER_SLAB 32

static struct ibv_context *open_device(const char *name)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *ctx = NULL;

    for (int i = 0; list != NULL && i < n; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            ctx = ibv_open_device(list[i]);
            break;
        }
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    return ctx;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Fits the settings to the device, before anything is made. */
static int fit_config(struct vrb_rail *rail, char *detail, size_t len)
{
    const struct ibv_device_attr *d = &rail->dev_attr;
    const struct vrb_limits limits = {
        .max_cqe = d->max_cqe,
        .max_qp_wr = d->max_qp_wr,
        .max_srq = d->max_srq,
        .max_srq_wr = d->max_srq_wr,
        .max_qp_init_rd_atom = d->max_qp_init_rd_atom,
        .ud_cqes = vrb_ud_cq_entries(rail),
    };

    /* No more than 16, which is what the devices of the field do; one may say 0 for "unknown". */
    rail->rd_in = (uint8_t)min_int(d->max_qp_rd_atom > 0 ? d->max_qp_rd_atom : 1, 16);
    return vrb_fit(&rail->cfg, &limits, detail, len);
}

/* What the port publishes. detail: why not, in words. */
static int open_address(struct vrb_rail *rail, char *detail, size_t len)
{
    struct vrb_address *a = &rail->address;
    uint64_t nonce = a->nonce;
    struct vrb_facts f;
    struct vrb_net net;
    int tclass, rc;

    vrb_net_read(&net);
    vrb_facts_read(&f, rail->ctx, &rail->dev_attr, rail->port.port, &net);
    rc = vrb_facts_address(&f, rail->cfg.pkey, a, &rail->pkey_index, detail, len);
    vrb_facts_free(&f);
    vrb_net_free(&net);
    a->nonce = nonce;
    a->recv_size = rail->cfg.recv_size;
    rail->lid = a->lid;
    tclass = vrb_query_tclass(rail->port.dev, rail->port.port);
    if (rail->cfg.tclass == 0 && tclass > 0) {
        rail->cfg.tclass = (uint8_t)tclass;
    }
    errno = 0; /* the reason is in words */
    return rc;
}

/* Some devices promise shared receive queues and then make none: each peer has its own then. */
static int open_srq(struct vrb_rail *rail, char *detail, size_t len)
{
    struct vrb_config *c = &rail->cfg;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = c->recv_buffers, .max_sge = 1}};

    if (c->use_srq) {
        rail->srq = ibv_create_srq(rail->pd, &init);
        if (rail->srq == NULL) {
            vrb_log(VRB_LOG_INFO,
                    "%s port %d: no shared receive queue (%s): each peer gets its own",
                    rail->port.dev, rail->port.port, strerror(errno));
            c->use_srq = 0;
            return fit_config(rail, detail, len);
        }
    }
    return VRB_OK;
}

static int open_queues(struct vrb_rail *rail, const char **what, char *detail, size_t len)
{
    const struct vrb_config *c = &rail->cfg;
    int recvs, entries;

    *what = "allocating a protection domain";
    rail->pd = ibv_alloc_pd(rail->ctx);
    if (rail->pd == NULL) {
        return VRB_ERR_DEVICE;
    }
    *what = detail;
    if (open_srq(rail, detail, len) != VRB_OK) {
        errno = 0;
        return VRB_ERR_DEVICE;
    }
    *what = "creating the completion queue";
    recvs = c->use_srq ? (int)c->recv_buffers : CQ_OWN_QUEUES;
    entries = recvs + vrb_ud_cq_entries(rail) + max_int(CQ_SENDS, (int)c->sq_depth) +
              VRB_FIT_MARGIN_QPS * (int)c->sq_depth;
    entries = min_int(entries, rail->dev_attr.max_cqe);
    rail->cq = ibv_create_cq(rail->ctx, entries, NULL, NULL, 0);
    if (rail->cq == NULL) {
        return VRB_ERR_DEVICE;
    }
    rail->cq_room = rail->cq->cqe - vrb_ud_cq_entries(rail) -
                    VRB_FIT_MARGIN_QPS * (int)c->sq_depth - (c->use_srq ? (int)c->recv_buffers : 0);
    if (rail->cq_room < (int)c->sq_depth) {
        errno = ENOSPC;
        return VRB_ERR_DEVICE;
    }
    return VRB_OK;
}

/* Finds the most inline data that the device grants, up to what is wanted: providers differ in
 * whether they round up, refuse, or have none at all. */
static int probe_inline(struct vrb_rail *rail, const char **what)
{
    uint32_t want = rail->cfg.max_inline;

    if (rail->cfg.mode == VRB_MODE_UD) {
        return VRB_OK; /* the UD queue pair finds out for itself */
    }
    *what = "creating an RC queue pair";
    if (want > VRB_INLINE_MAX) {
        want = VRB_INLINE_MAX;
    }
    for (;;) {
        uint32_t got = want;
        struct ibv_qp *qp = vrb_rc_qp_make(rail, &got);

        if (qp != NULL) {
            ibv_destroy_qp(qp);
            rail->inline_max = got < VRB_INLINE_MAX ? got : VRB_INLINE_MAX;
            if (rail->inline_max > rail->cfg.max_inline) {
                rail->inline_max = rail->cfg.max_inline; /* what the user asked for is a limit */
            }
            rail->cfg.max_inline = rail->inline_max;
            return VRB_OK;
        }
        if ((want == 0 || errno == ENOMEM) && rail->cfg.mode == VRB_MODE_AUTO) {
            vrb_log(VRB_LOG_INFO, "%s port %d: no RC queue pair (%s): datagrams only",
                    rail->port.dev, rail->port.port, strerror(errno));
            rail->cfg.max_rc = 0;
            return VRB_OK;
        }
        if (want == 0 || errno == ENOMEM) {
            return VRB_ERR_DEVICE;
        }
        want /= 2;
        if (want < VRB_HDR_SIZE) {
            want = 0;
        }
    }
}

/* Buffers, and receives posted. Little lockable memory means fewer shared buffers, down to a
 * minimum. */
static int open_buffers(struct vrb_rail *rail, size_t buf_user, const char **what)
{
    struct vrb_config *c = &rail->cfg;
    int rc;

    vrb_pool_init(&rail->small, rail, VRB_SMALL_SIZE, VRB_POOL_HEADROOM, (uint32_t)buf_user,
                  SMALL_PER_SLAB, UINT32_MAX, VRB_CLS_SMALL);
    vrb_pool_init(&rail->big, rail, c->recv_size, VRB_POOL_HEADROOM, (uint32_t)buf_user,
                  BIG_PER_SLAB, c->send_buffers, VRB_CLS_BIG);
    vrb_pool_init(&rail->rx, rail, c->recv_size, VRB_POOL_HEADROOM, 0, RX_PER_SLAB,
                  c->use_srq ? c->recv_buffers : UINT32_MAX, VRB_CLS_RECV);
    *what = "registering message buffers";
    if (vrb_pool_grow(&rail->small) != VRB_OK || vrb_pool_grow(&rail->big) != VRB_OK) {
        return VRB_ERR_NOMEM;
    }
    while (c->use_srq && rail->rx.total < c->recv_buffers) {
        rc = vrb_pool_grow(&rail->rx);
        if (rc != VRB_OK) {
            if (rail->rx.total < RECV_BUFFERS_MIN) {
                return VRB_ERR_NOMEM;
            }
            vrb_log(VRB_LOG_INFO, "%s: %u receive buffers instead of %u for want of memory",
                    rail->port.dev, rail->rx.total, c->recv_buffers);
            c->recv_buffers = rail->rx.total;
            if (c->credits > c->recv_buffers) {
                c->credits = c->recv_buffers;
            }
        }
    }
    *what = "posting receives";
    return vrb_rc_recv_init(rail);
}

static int open_all(struct vrb_rail *rail, size_t buf_user, const char **what, char *detail,
                    size_t len)
{
    int rc;

    *what = "opening the device";
    rail->ctx = open_device(rail->port.dev);
    if (rail->ctx == NULL || ibv_query_device(rail->ctx, &rail->dev_attr) != 0) {
        return VRB_ERR_DEVICE;
    }
    rail->doubt_reads = (uint8_t)vrb_query_doubts_reads(&rail->dev_attr);
    fcntl(rail->ctx->async_fd, F_SETFL, fcntl(rail->ctx->async_fd, F_GETFL) | O_NONBLOCK);
    *what = detail;
    if (fit_config(rail, detail, len) != VRB_OK) {
        errno = 0;
        return VRB_ERR_DEVICE;
    }
    rc = open_address(rail, detail, len);
    if (rc == VRB_OK) {
        rc = open_queues(rail, what, detail, len);
    }
    if (rc == VRB_OK) {
        rc = probe_inline(rail, what);
    }
    if (rc == VRB_OK) {
        rc = open_buffers(rail, buf_user, what);
    }
    if (rc == VRB_OK) {
        *what = detail;
        rc = vrb_ud_open(rail, detail, len);
    }
    if (rc == VRB_OK && rail->cfg.mode != VRB_MODE_RC) {
        *what = "memory for datagrams";
        rc = vrb_dgram_open(rail);
    }
    return rc;
}

static void init_lists(struct vrb_rail *rail)
{
    pthread_mutexattr_t attr;

    vrb_list_init(&rail->connecting);
    vrb_list_init(&rail->credit_due);
    vrb_list_init(&rail->stalled);
    vrb_list_init(&rail->peers);
    vrb_list_init(&rail->retired);
    vrb_list_init(&rail->zombies);
    rail->done_tail = &rail->done_head;
    rail->wc_next = rail->wc_end = rail->wc;
    vrb_due(rail); /* progress finds out itself whether there is ever anything */
    rail->tx.wr = (struct ibv_send_wr){
        .sg_list = &rail->tx.sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
    };
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&rail->lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* The handshake ids' start, and what tells this incarnation of the rail from all others. */
static void random_numbers(struct vrb_rail *rail)
{
    if (getrandom(&rail->next_id, sizeof(rail->next_id), 0) != (ssize_t)sizeof(rail->next_id)) {
        rail->next_id = (uint32_t)vrb_clock_ns();
    }
    if (rail->next_id == 0) {
        rail->next_id = 1;
    }
    if (getrandom(&rail->address.nonce, sizeof(rail->address.nonce), 0) !=
        (ssize_t)sizeof(rail->address.nonce)) {
        rail->address.nonce = vrb_clock_ns() ^ rail->cfg.name << 32;
    }
}

/* what: the step that failed, with the error in words already if err is 0. */
static void say_not_usable(const struct vrb_rail *rail, const char *what, int err, int no_memory)
{
    char text[512], advice[1400];

    snprintf(text, sizeof(text), "%s port %d on host %s cannot be used: %s", rail->port.dev,
             rail->port.port, rail->cfg.host, what);
    if (no_memory) {
        vrb_explain_memory(text, vrb_memlock_limit(), strerror(ENOMEM), advice, sizeof(advice));
        vrb_log(VRB_LOG_WARN, "%s", advice);
    } else {
        vrb_log(VRB_LOG_WARN, "%s%s%s", text, err == 0 ? "" : ": ", err == 0 ? "" : strerror(err));
    }
}

int vrb_rail_open(const struct vrb_port *port, int index, const struct vrb_config *cfg,
                  const struct vrb_callbacks *cb, size_t buf_user, size_t rdma_user,
                  struct vrb_rail **out)
{
    struct vrb_rail *rail = calloc(1, sizeof(*rail));
    const char *what = "";
    char detail[256] = "";
    int rc;

    if (rail == NULL) {
        return VRB_ERR_NOMEM;
    }
    rail->port = *port;
    rail->index = index;
    rail->cfg = *cfg;
    rail->cb = *cb;
    rail->threads = cfg->threads;
    rail->rdma_user = rdma_user;
    random_numbers(rail);
    init_lists(rail);
    rc = open_all(rail, buf_user, &what, detail, sizeof(detail));
    if (rc != VRB_OK) {
        say_not_usable(rail, what, what == detail ? 0 : errno, errno == ENOMEM);
        vrb_rail_close(rail, 0);
        return rc;
    }
    *out = rail;
    return VRB_OK;
}

/* Lets everything that was accepted arrive, all peers in parallel. */
static void settle(struct vrb_rail *rail, unsigned ms)
{
    uint64_t end = vrb_clock_ns() + ms * VRB_NS_PER_MS;
    int busy = 1;

    while (busy && !rail->failed && vrb_clock_ns() < end) {
        busy = rail->done_head != NULL;
        for (struct vrb_list *l = rail->peers.next; l != &rail->peers; l = l->next) {
            busy |= !vrb_path_settled(vrb_container_of(l, struct vrb_peer, link));
        }
        vrb_rail_progress(rail);
    }
}

static void free_chunks(struct vrb_rail *rail)
{
    while (rail->rdma_chunks != NULL) {
        void *next = *(void **)rail->rdma_chunks;

        free(rail->rdma_chunks);
        rail->rdma_chunks = next;
    }
}

void vrb_rail_close(struct vrb_rail *rail, unsigned ms)
{
    struct vrb_list *l;

    rail->closing = 1;
    if (ms > 0) {
        settle(rail, ms);
    }
    while (!vrb_list_empty(&rail->peers)) {
        vrb_peer_destroy(vrb_container_of(rail->peers.next, struct vrb_peer, link), 0);
    }
    vrb_retired_clear(rail);
    vrb_tcp_close(rail);
    vrb_ud_close(rail);
    vrb_dgram_close(rail);
    vrb_regions_clear(&rail->regions);
    while ((l = vrb_list_pop(&rail->zombies)) != NULL) {
        vrb_peer_free(vrb_container_of(l, struct vrb_peer, link));
    }
    if (rail->srq != NULL) {
        ibv_destroy_srq(rail->srq);
    }
    if (rail->cq != NULL) {
        ibv_destroy_cq(rail->cq);
    }
    vrb_pool_destroy(&rail->small);
    vrb_pool_destroy(&rail->big);
    vrb_pool_destroy(&rail->rx);
    free_chunks(rail);
    if (rail->pd != NULL) {
        ibv_dealloc_pd(rail->pd);
    }
    if (rail->ctx != NULL) {
        ibv_close_device(rail->ctx);
    }
    vrb_map_clear(&rail->by_qpn);
    vrb_map_clear(&rail->by_name);
    pthread_mutex_destroy(&rail->lock);
    free(rail);
}

struct vrb_buf *vrb_buf_get(struct vrb_rail *rail, uint32_t size)
{
    struct vrb_buf *b = NULL;

    vrb_lock(rail);
    if (size <= VRB_SMALL_SIZE) {
        b = vrb_pool_get(&rail->small);
    }
    if (b == NULL && size <= rail->big.capacity) {
        b = vrb_pool_get(&rail->big);
    }
    vrb_unlock(rail);
    return b;
}

void vrb_buf_free(struct vrb_buf *buf)
{
    struct vrb_rail *rail = buf->pool->rail;

    vrb_lock(rail);
    vrb_pool_put(buf->pool, buf);
    vrb_unlock(rail);
}

const struct vrb_address *vrb_rail_address(const struct vrb_rail *rail)
{
    return &rail->address;
}

const struct vrb_port *vrb_rail_port(const struct vrb_rail *rail)
{
    return &rail->port;
}

const struct vrb_config *vrb_rail_config(const struct vrb_rail *rail)
{
    return &rail->cfg;
}

void vrb_rail_set_closing(struct vrb_rail *rail)
{
    rail->closing = 1;
}

struct vrb_stats *vrb_rail_stats(struct vrb_rail *rail)
{
    return &rail->stats;
}
