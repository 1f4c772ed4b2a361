/* Progress of one rail: polls the CQ, hands completions to their owners, runs what is due.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Order within a call: completions first, then what they made possible (receives posted again,
 * credits told, stalled queues), then timers. Callbacks may call progress again: polled completions
 * not handled yet lie in the rail, so a nested call goes on with them and the order within a QP is
 * kept. */
#include <string.h>

#include "dgram/vrb_dgram.h"
#include "peer/vrb_path.h"
#include "rc/vrb_rc.h"
#include "tcp/vrb_tcp.h"
#include "ud/vrb_ud.h"

/* Calls between two looks around (a power of two below 2^32), and looks around between two at the
 * device's event file, which cost a system call each. */
#define LOOK_EVERY 256
#define ASYNC_EVERY 16

/* Calls between two looks at the CQ while no peer is in touch: all that can come is somebody's
 * first packet, and a job whose ranks talk through shared memory is to lose nothing by us. A power
 * of two, and no more than LOOK_EVERY. */
#define ALONE_EVERY 32

/* Between two calls of vrb_callbacks.tick. */
#define TICK_NS (500 * VRB_NS_PER_MS)

/* Returns 1 if the peer's QP is being replaced, so that what failed is to be kept; 0 if the peer
 * has failed, or is gone. */
static int failed_completion(struct vrb_peer *peer, const struct ibv_wc *wc, const char *what)
{
    struct vrb_failure f;

    if (peer == NULL || peer->failed) {
        return 0;
    }
    vrb_failure_init(&f, what);
    f.wc_status = wc->status;
    f.vendor_err = wc->vendor_err;
    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        /* The QP went to ERR without a request of ours failing first: the responder side broke. */
        f.detail = "the queue pair went into error";
    }
    if (vrb_recover_may_pass(wc->status) && vrb_recover_break(peer, &f)) {
        return 1;
    }
    vrb_peer_fail(peer, VRB_ERR_PEER, &f);
    return 0;
}

static void send_completion(const struct ibv_wc *wc)
{
    struct vrb_buf *buf = vrb_wr_owner(wc->wr_id);
    struct vrb_peer *peer = buf->peer;
    int ok = wc->status == IBV_WC_SUCCESS;

    if (ok) {
        vrb_rc_free_slots(peer, buf->retire);
        peer->owned--;
        vrb_path_message_done(buf, VRB_OK);
        vrb_path_wake(peer);
    } else {
        vrb_rc_lost_slot(peer);
        if (failed_completion(peer, wc, "sending")) {
            vrb_recover_keep(peer, buf);
        } else {
            vrb_path_message_done(buf, VRB_ERR_PEER);
        }
    }
}

static void rdma_completion(const struct ibv_wc *wc)
{
    struct vrb_rdma *rdma = vrb_wr_owner(wc->wr_id);
    struct vrb_peer *peer = rdma->peer;
    int ok = wc->status == IBV_WC_SUCCESS;

    if (ok) {
        vrb_rc_free_slots(peer, rdma->retire);
        peer->owned--;
        peer->recover.work++;
        vrb_path_rdma_done(peer->rail, rdma, VRB_OK);
        if (!peer->fast && !(peer->holding && vrb_path_may_hold(peer))) {
            vrb_path_drain(peer);
        }
    } else {
        vrb_rc_lost_slot(peer);
        if (!failed_completion(peer, wc, vrb_rc_rdma_text(rdma->op)) ||
            !vrb_recover_keep_rdma(peer, rdma)) {
            vrb_path_rdma_done(peer->rail, rdma, VRB_ERR_PEER);
        }
    }
}

static void inline_completion(struct vrb_rail *rail, const struct ibv_wc *wc, int flush)
{
    /* By QPN and not by pointer: such a completion may outlive its peer. */
    struct vrb_peer *peer = vrb_map_get(&rail->by_qpn, wc->qp_num);

    if (peer == NULL) {
        return;
    }
    if (wc->status == IBV_WC_SUCCESS) {
        vrb_rc_free_slots(peer, flush ? peer->flush_retire : peer->signal_every);
        peer->recover.work += (uint32_t)flush;
        vrb_path_wake(peer);
    } else {
        vrb_rc_flushed(peer);
        (void)failed_completion(peer, wc, rail->doubt_reads ? "sending or reading" : "sending");
    }
    if (flush) {
        peer->flushing = 0;
    }
}

static void recv_failure(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    struct vrb_buf *buf = vrb_wr_owner(wc->wr_id);
    struct vrb_peer *peer = vrb_map_get(&rail->by_qpn, wc->qp_num);

    /* A flushed receive alone says nothing: the send side, or an event, tells why. */
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        (void)failed_completion(peer, wc, "receiving");
    }
    if (peer != NULL) {
        peer->recover.rx_flushed++;
    }
    vrb_rc_recv_flushed(rail, buf);
}

/* All but messages that arrived. */
static __attribute__((noinline)) void completion(struct vrb_rail *rail, const struct ibv_wc copy)
{
    const struct ibv_wc *wc = &copy;

    switch (wc->wr_id & VRB_WR_KIND_MASK) {
    case VRB_WR_INLINE:
        inline_completion(rail, wc, 0);
        break;
    case VRB_WR_SEND:
        send_completion(wc);
        break;
    case VRB_WR_RDMA:
        rdma_completion(wc);
        break;
    case VRB_WR_RECV:
        recv_failure(rail, wc);
        break;
    case VRB_WR_UD_RECV:
        vrb_ud_recv(rail, wc);
        vrb_ud_repost(rail);
        break;
    case VRB_WR_UD_SEND:
        vrb_ud_send_done(rail, wc);
        break;
    case VRB_WR_FLUSH:
        inline_completion(rail, wc, 1);
        break;
    case VRB_WR_MARKER:
        vrb_recover_marked(rail, wc);
        break;
    default:
        break;
    }
}

/* Peers whose queue waited for room in the CQ, or was refused. Each gets one turn: a peer may come
 * back to the list at once. */
static void run_stalled(struct vrb_rail *rail)
{
    struct vrb_list *last = rail->stalled.prev, *l;

    while (rail->cq_room > 0 && (l = vrb_list_pop(&rail->stalled)) != NULL) {
        struct vrb_peer *peer = vrb_container_of(l, struct vrb_peer, stall_link);

        vrb_rc_repost_peer(peer);
        vrb_path_drain(peer);
        if (l == last) {
            break;
        }
    }
}

/* Rare errands: device events, and what needs the time. */
static __attribute__((noinline)) void look_around(struct vrb_rail *rail)
{
    uint64_t now;

    vrb_due(rail); /* nothing depends on it; but who forgets to call it shall only be slow */
    if (rail->calls / LOOK_EVERY % ASYNC_EVERY == 0) {
        vrb_async_poll(rail);
    }
    now = vrb_clock_ns();
    vrb_ud_look(rail, now);
    if (rail->tcp != NULL) {
        vrb_tcp_progress(rail, now);
    }
    if (rail->cb.tick != NULL && now >= rail->next_tick) {
        rail->next_tick = now + TICK_NS;
        vrb_call_begin(rail);
        rail->cb.tick(rail->cb.ctx, rail);
        vrb_call_end(rail);
    }
    if (rail->cfg.keepalive == 0 || rail->closing || now < rail->next_probe) {
        return;
    }
    if (rail->next_probe != 0) {
        vrb_peer_probe(rail);
    }
    rail->next_probe = now + rail->cfg.keepalive * VRB_NS_PER_S;
}

static inline int poll_cq(struct vrb_rail *rail)
{
    int n = 0;

    if (__builtin_expect(rail->wc_next == rail->wc_end, 1)) {
        n = ibv_poll_cq(rail->cq, VRB_POLL_BATCH, rail->wc);
        if (n <= 0) {
            return 0;
        }
        rail->wc_next = rail->wc;
        rail->wc_end = rail->wc + n;
    }
    n = 0;
    do {
        const struct ibv_wc *wc = rail->wc_next++;

        n++;
        if (__builtin_expect(
                (wc->wr_id & VRB_WR_KIND_MASK) == VRB_WR_RECV && wc->status == IBV_WC_SUCCESS, 1)) {
            vrb_rc_recv(rail, wc); /* has read it before it calls back */
        } else {
            completion(rail, *wc); /* a copy: a nested call overwrites the array */
        }
    } while (rail->wc_next != rail->wc_end);
    return n;
}

/* What is due beside completions. n: how many of these there were. */
static __attribute__((noinline)) int run_due(struct vrb_rail *rail, int n)
{
    if (rail->ud->state != VRB_UD_WORKS) {
        vrb_ud_recover(rail);
    }
    if (n > 0 || rail->refused) {
        rail->refused = 0;
        vrb_ud_repost(rail);
        if (!vrb_list_empty(&rail->credit_due)) {
            vrb_rc_tell_credits(rail);
        }
        if (!vrb_list_empty(&rail->stalled)) {
            run_stalled(rail);
        }
    }
    if (rail->dgram != NULL) {
        n += vrb_dgram_progress(rail, n == 0);
    }
    if (rail->done_head != NULL) {
        n += vrb_path_run_done(rail);
    }
    if (!vrb_list_empty(&rail->connecting)) {
        n += vrb_peer_timers(rail, vrb_clock_ns(), n == 0);
    }
    rail->due = rail->refused || rail->ud->state != VRB_UD_WORKS ||
                (rail->dgram != NULL && rail->dgram->peers > 0) || rail->done_head != NULL ||
                !vrb_list_empty(&rail->connecting) || !vrb_list_empty(&rail->credit_due) ||
                !vrb_list_empty(&rail->stalled);
    return n;
}

static inline int progress(struct vrb_rail *rail)
{
    int n = poll_cq(rail);

    vrb_rc_repost(rail);
    if (__builtin_expect(++rail->calls % LOOK_EVERY == 0, 0)) {
        look_around(rail);
    }
    if (__builtin_expect(rail->due, 0)) {
        n = run_due(rail, n);
    }
    return n;
}

static __attribute__((noinline)) int progress_locked(struct vrb_rail *rail)
{
    int n;

    vrb_lock(rail);
    n = progress(rail);
    vrb_unlock(rail);
    return n;
}

int vrb_rail_progress(struct vrb_rail *rail)
{
    /* Without the lock, so only where nobody else can be at work: hence `threads` first. */
    if (!rail->threads && rail->rc_count == 0 && !rail->due &&
        (rail->calls + 1) % ALONE_EVERY != 0) {
        rail->calls++;
        return 0;
    }
    return progress_locked(rail);
}
