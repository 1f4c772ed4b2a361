/* Port and device events of a rail, read without blocking from progress.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "peer/vrb_peer_addr.h"
#include "rc/vrb_rc.h"
#include "ud/vrb_ud.h"

void vrb_rail_fail(struct vrb_rail *rail, const char *what, int err)
{
    char text[384];

    if (rail->failed) {
        return;
    }
    rail->failed = 1;
    snprintf(text, sizeof(text),
             "%s port %d on host %s: %s%s%s. The device must be reset by its driver; see the "
             "kernel's log (dmesg).",
             rail->port.dev, rail->port.port, rail->cfg.host, what, err != 0 ? ": " : "",
             err != 0 ? strerror(err) : "");
    if (rail->cb.rail_failed != NULL) {
        vrb_call_begin(rail);
        rail->cb.rail_failed(rail->cb.ctx, rail, rail->closing ? NULL : text);
        vrb_call_end(rail);
    }
}

static void port_event(struct vrb_rail *rail, const struct ibv_async_event *e, const char *what)
{
    if (e->element.port_num == rail->port.port) {
        vrb_log(VRB_LOG_INFO, "%s port %d on host %s: %s", rail->port.dev, rail->port.port,
                rail->cfg.host, what);
    }
}

/* A QP's fatal event comes beside flushed completions, or instead of them when only the responder
 * half broke (a peer used a key it must not use). */
static void qp_event(struct vrb_rail *rail, const struct ibv_async_event *e)
{
    struct vrb_peer *peer = vrb_map_get(&rail->by_qpn, e->element.qp->qp_num);
    struct vrb_failure f;

    if (rail->ud->qp != NULL && e->element.qp == rail->ud->qp) {
        vrb_ud_broke(rail, ibv_event_type_str(e->event_type));
        return;
    }
    if (peer == NULL || peer->failed) {
        return;
    }
    vrb_failure_init(&f, "serving the peer's requests");
    f.detail = ibv_event_type_str(e->event_type);
    /* The other two mean that the peer asked for what it must not have. */
    if (e->event_type == IBV_EVENT_QP_FATAL && vrb_recover_break(peer, &f)) {
        return;
    }
    vrb_peer_fail(peer, VRB_ERR_PEER, &f);
}

static void addresses_event(struct vrb_rail *rail, const struct ibv_async_event *e)
{
    if (e->element.port_num == rail->port.port) {
        vrb_rail_addresses_changed(rail);
    }
}

static void handle(struct vrb_rail *rail, const struct ibv_async_event *e)
{
    switch (e->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
        vrb_rail_fail(rail, "the device reported a fatal error", 0);
        break;
    case IBV_EVENT_CQ_ERR:
        vrb_rail_fail(rail, "the completion queue overran", 0);
        break;
    case IBV_EVENT_SRQ_ERR:
        vrb_rail_fail(rail, "the shared receive queue broke", 0);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        qp_event(rail, e);
        break;
    case IBV_EVENT_PORT_ERR:
        port_event(rail, e, "the port went down; requests are retried until their time is over");
        break;
    case IBV_EVENT_PORT_ACTIVE:
        port_event(rail, e, "the port is up");
        addresses_event(rail, e);
        break;
    case IBV_EVENT_LID_CHANGE:
        port_event(rail, e, "the LID changed");
        addresses_event(rail, e);
        break;
    case IBV_EVENT_GID_CHANGE:
        port_event(rail, e, "the GID table changed");
        addresses_event(rail, e);
        break;
    default:
        vrb_log(VRB_LOG_DEBUG, "%s: event %s", rail->port.dev, ibv_event_type_str(e->event_type));
        break;
    }
}

void vrb_async_poll(struct vrb_rail *rail)
{
    struct pollfd fd = {.fd = rail->ctx->async_fd, .events = POLLIN};
    struct ibv_async_event e;

    while (!rail->failed && poll(&fd, 1, 0) == 1 && ibv_get_async_event(rail->ctx, &e) == 0) {
        struct ibv_async_event copy = e;

        /* Acknowledged first: handling may destroy the QP, which waits for acknowledgements. */
        if (copy.event_type == IBV_EVENT_QP_FATAL || copy.event_type == IBV_EVENT_QP_REQ_ERR ||
            copy.event_type == IBV_EVENT_QP_ACCESS_ERR) {
            handle(rail, &copy);
            ibv_ack_async_event(&e);
        } else {
            ibv_ack_async_event(&e);
            handle(rail, &copy);
        }
    }
}
