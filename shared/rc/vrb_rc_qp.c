/* RC queue pairs: how they are made, connected and taken down.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State changes and the attributes each needs: IBTA 10.3.1, ibv_modify_qp(3). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "address/vrb_ah.h"
#include "rc/vrb_rc.h"

/* IBTA table 45: 12 = 0.64 ms. The time a sender waits after RNR NAK; long enough for a receiver
 * that was descheduled, short beside a time slice. */
#define MIN_RNR_TIMER 12

/* Requests per signalled one at the most, and the part of the free CQ entries that the requests of
 * one QP between two signalled ones may take (1/64: 200 QPs of the default CQ get all they want).
 */
#define SIGNAL_EVERY_MAX 32
#define CQ_SHARE 64

/* IBTA: 7 = for ever. A receiver that computes for minutes is not an error. */
#define RNR_RETRY_FOREVER 7

struct ibv_qp *vrb_rc_qp_make(struct vrb_rail *rail, uint32_t *inline_max)
{
    struct ibv_qp_init_attr init = {
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
        .srq = rail->srq,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 0,
        .cap =
            {
                .max_send_wr = rail->cfg.sq_depth,
                .max_recv_wr = rail->srq != NULL ? 0 : rail->cfg.credits + VRB_CREDIT_RESERVE,
                .max_send_sge = 1,
                .max_recv_sge = rail->srq != NULL ? 0 : 1,
                .max_inline_data = *inline_max,
            },
    };
    struct ibv_qp *qp = ibv_create_qp(rail->pd, &init);

    if (qp != NULL) {
        *inline_max = init.cap.max_inline_data;
    }
    return qp;
}

static int say(char *detail, size_t len, const char *what, int err)
{
    snprintf(detail, len, "%s: %s", what, strerror(err));
    return err == ENOMEM || err == ENOSPC ? VRB_ERR_NOMEM : VRB_ERR_DEVICE;
}

/* ibv_modify_qp returns the errno; some old providers return -1 and set it. */
static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int rc = ibv_modify_qp(qp, attr, mask);

    return rc == -1 ? errno : rc;
}

static int to_init(struct vrb_peer *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = peer->rail->pkey_index,
        .port_num = peer->rail->port.port,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                           (peer->rail->port.atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0),
    };

    return modify(peer->qp, &attr,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* The fewer signalled requests the better, but the unsignalled ones need entries of the CQ in case
 * the QP breaks. Each takes a small part of what is left: the last of very many have none. */
static void choose_signal_every(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    int every = (int)rail->cfg.sq_depth / 4;

    if (every > SIGNAL_EVERY_MAX) {
        every = SIGNAL_EVERY_MAX;
    }
    if (every > 1 + rail->cq_room / CQ_SHARE) {
        every = 1 + rail->cq_room / CQ_SHARE;
    }
    if (every < 1) {
        every = 1;
    }
    peer->signal_every = (uint16_t)every;
    peer->cq_reserved += (uint32_t)every - 1;
    rail->cq_room -= every - 1;
}

int vrb_rc_qp_create(struct vrb_peer *peer, char *detail, size_t len)
{
    struct vrb_rail *rail = peer->rail;
    uint32_t inl = rail->inline_max;
    int err, rc;

    peer->qp = vrb_rc_qp_make(rail, &inl);
    if (peer->qp == NULL) {
        return say(detail, len, "creating an RC queue pair", errno);
    }
    rail->rc_count++;
    peer->sq_room = (int)rail->cfg.sq_depth - 1; /* one is for vrb_recover's marker */
    peer->unsignalled = 0;
    rc = vrb_map_put(&rail->by_qpn, peer->qp->qp_num, peer);
    if (rc != VRB_OK) {
        return say(detail, len, "creating an RC queue pair", ENOMEM);
    }
    rail->last_peer = NULL;
    rail->last_qpn = 0;
    err = to_init(peer);
    if (err != 0) {
        return say(detail, len, "moving the queue pair to INIT", err);
    }
    /* Inline packets of all QPs that the peer has one after the other. */
    if (peer->replay.mem == NULL &&
        vrb_replay_init(&peer->replay, rail->cfg.recover_timeout == 0 ? 1 : rail->cfg.sq_depth,
                        rail->inline_max) != VRB_OK) {
        return say(detail, len, "creating an RC queue pair", ENOMEM);
    }
    peer->rx_batch = (rail->cfg.credits + 3) / 4;
    if (peer->rx_batch > VRB_RECV_BATCH) {
        peer->rx_batch = VRB_RECV_BATCH;
    }
    if (vrb_rc_recv_attach(peer) != VRB_OK) {
        return say(detail, len, "posting receive buffers", errno);
    }
    choose_signal_every(peer);
    return VRB_OK;
}

static int to_rtr(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    const struct vrb_hello *remote = &peer->wireup.remote;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)peer->pmtu.limit,
        .dest_qp_num = remote->qpn,
        .rq_psn = remote->psn,
        .max_dest_rd_atomic = rail->rd_in,
        .min_rnr_timer = MIN_RNR_TIMER,
    };

    vrb_ah_fill(&attr.ah_attr, &peer->path, rail->port.port);
    return modify(peer->qp, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;
    uint32_t reads = rail->cfg.rd_atomic;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = rail->cfg.ib_timeout,
        .retry_cnt = rail->cfg.ib_retry_count,
        .rnr_retry = RNR_RETRY_FOREVER,
        .sq_psn = peer->wireup.local.psn,
        .max_rd_atomic =
            (uint8_t)(peer->wireup.remote.rd_in < reads ? peer->wireup.remote.rd_in : reads),
    };

    return modify(peer->qp, &attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int vrb_rc_qp_connect(struct vrb_peer *peer, char *detail, size_t len)
{
    int err = to_rtr(peer);

    if (err != 0) {
        return say(detail, len, "moving the queue pair to RTR (ready to receive)", err);
    }
    err = to_rts(peer);
    if (err != 0) {
        return say(detail, len, "moving the queue pair to RTS (ready to send)", err);
    }
    if (vrb_recover_rewind(peer) != VRB_OK) {
        snprintf(detail, len, "the peer's count of received packets does not fit what was sent");
        return VRB_ERR_MALFORMED;
    }
    return VRB_OK;
}

void vrb_rc_qp_stop(struct vrb_peer *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (peer->qp != NULL) {
        (void)modify(peer->qp, &attr, IBV_QP_STATE); /* it may be in ERR already */
    }
}

void vrb_rc_qp_destroy(struct vrb_peer *peer)
{
    struct vrb_rail *rail = peer->rail;

    if (peer->qp == NULL) {
        return;
    }
    vrb_map_del(&rail->by_qpn, peer->qp->qp_num);
    rail->last_peer = NULL;
    rail->last_qpn = 0;
    ibv_destroy_qp(peer->qp);
    rail->rc_count--;
    peer->qp = NULL;
    vrb_rc_recv_detach(peer);
    rail->cq_room += vrb_rc_cq_held(peer) + (int)peer->cq_reserved;
    rail->markers -= peer->recover.marker_out;
    peer->recover.marker_out = 0;
    peer->signalled = 0;
    peer->unsignalled = 0;
    peer->sq_room = (int)rail->cfg.sq_depth - 1;
    peer->cq_reserved = 0;
}
