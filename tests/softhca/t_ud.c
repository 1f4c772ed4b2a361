/* Conformance of UD: the 40 bytes, Q_Keys, what is dropped, what breaks, address handles.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *ctx;
static const struct opts ud = {.type = IBV_QPT_UD};

static struct ibv_ah *ah_to(struct end *from, struct end *to, bool grh)
{
    struct addr a = t_addr(to);
    struct ibv_ah_attr attr;

    t_ah(from, &a, &attr);
    if (grh && !attr.is_global) {
        attr.is_global = 1;
        attr.grh.hop_limit = 1;
        ibv_query_gid(to->ctx, 1, 0, &attr.grh.dgid);
    }
    return ibv_create_ah(from->pd, &attr);
}

static int send_ud(struct end *e, struct ibv_ah *ah, struct end *to, uint32_t len, uint32_t qkey)
{
    struct t_wr w;

    t_wr(e, &w, IBV_WR_SEND, 1, 0, len);
    w.wr.wr.ud.ah = ah;
    w.wr.wr.ud.remote_qpn = to->qp->qp_num;
    w.wr.wr.ud.remote_qkey = qkey;
    return t_post(e, &w);
}

static void basics(struct end *a, struct end *b)
{
    uint32_t mtu = 128u << a->port.active_mtu, sizes[] = {0, 1, 200, 1000, mtu};

    for (int grh = 0; grh < 2; grh++) {
        struct ibv_ah *ah = ah_to(a, b, grh);
        bool good = ah != NULL, with_grh = grh || a->gid_index >= 0;

        for (size_t i = 0; i < 5; i++) {
            struct ibv_wc wc;

            t_fill(a->buf, sizes[i], (uint32_t)i);
            good = good && !t_recv(b, 10 + i, 0, 40 + mtu);
            memset(b->buf, 0xee, 40);
            good = good && !send_ud(a, ah, b, sizes[i], 0x1234);
            good = good && t_wait(a->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS;
            good = good && t_wait(b->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
                   wc.byte_len == sizes[i] + 40 && wc.src_qp == a->qp->qp_num &&
                   wc.wr_id == 10 + i && !(wc.wc_flags & IBV_WC_GRH) == !with_grh &&
                   t_same(b->buf + 40, sizes[i], (uint32_t)i);
            good = good && (with_grh || b->buf[0] == 0xee);
        }
        t_ok(good, "datagrams of 0 B to the MTU, %s GRH", with_grh ? "with" : "without");
        if (ah) {
            ibv_destroy_ah(ah);
        }
    }
}

static void answer(struct end *a, struct end *b)
{
    struct ibv_ah *ah = ah_to(a, b, false), *back;
    struct ibv_wc wc;

    t_recv(b, 1, 0, 2048);
    t_recv(a, 2, 4096, 2048);
    t_fill(a->buf, 100, 1);
    send_ud(a, ah, b, 100, 0x1234);
    t_wait(a->scq, &wc, 5000);
    t_ok(t_wait(b->rcq, &wc, 5000) == 1, "a datagram arrives");
    back = ibv_create_ah_from_wc(b->pd, &wc, (struct ibv_grh *)(void *)b->buf, 1);
    t_ok(back != NULL, "its completion and GRH make an address handle");
    if (back) {
        t_fill(b->buf, 50, 2);
        t_ok(!send_ud(b, back, a, 50, 0x1234) && t_wait(a->rcq, &wc, 5000) == 1 &&
                 wc.status == IBV_WC_SUCCESS && wc.byte_len == 90 && wc.src_qp == b->qp->qp_num &&
                 t_same(a->buf + 4096 + 40, 50, 2),
             "which leads back");
        t_wait(b->scq, &wc, 5000);
        ibv_destroy_ah(back);
    }
    ibv_destroy_ah(ah);
}

static void dropped(struct end *a, struct end *b)
{
    struct ibv_ah *ah = ah_to(a, b, false);
    struct ibv_wc wc;
    struct t_wr w;

    send_ud(a, ah, b, 8, 0x1234);
    t_expect(a->scq, IBV_WC_SUCCESS, 1,
             "without a receive request the sender succeeds all the same");
    t_recv(b, 5, 0, 2048);
    t_ok(t_none(b->rcq, 10), "... and the datagram is gone");
    send_ud(a, ah, b, 8, 0x9999);
    t_wait(a->scq, &wc, 5000);
    t_ok(t_none(b->rcq, 10), "a wrong Q_Key is dropped");
    send_ud(a, ah, b, 8, 0x80000001u);
    t_wait(a->scq, &wc, 5000);
    t_ok(t_wait(b->rcq, &wc, 5000) == 1, "a Q_Key with the high bit means the QP's own");
    t_recv(b, 6, 0, 2048);
    t_wr(a, &w, IBV_WR_SEND, 1, 0, 8);
    w.wr.wr.ud.ah = ah;
    w.wr.wr.ud.remote_qpn = b->qp->qp_num ^ 0x4000;
    w.wr.wr.ud.remote_qkey = 0x1234;
    t_post(a, &w);
    t_wait(a->scq, &wc, 5000);
    t_ok(t_none(b->rcq, 10), "a recycled QPN reaches nobody");
    ibv_destroy_ah(ah);
}

static void too_long(void)
{
    struct end *a = t_end_on(ctx, &ud), *b = t_end_on(ctx, &ud);
    uint32_t mtu = 128u << a->port.active_mtu;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    struct ibv_ah *ah;

    t_pair(a, b, &ud);
    ah = ah_to(a, b, false);
    t_recv(a, 7, 0, 2048);
    send_ud(a, ah, b, mtu + 1, 0x1234);
    t_expect(a->scq, IBV_WC_LOC_LEN_ERR, 1, "a datagram beyond the MTU is a local length error");
    t_ok(t_state(a) == IBV_QPS_SQE, "... and stops the send queue");
    send_ud(a, ah, b, 8, 0x1234);
    t_expect(a->scq, IBV_WC_WR_FLUSH_ERR, 1, "... which flushes");
    t_ok(!ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), "SQE goes back to RTS");
    t_recv(b, 8, 0, 2048);
    send_ud(a, ah, b, 8, 0x1234);
    t_expect(b->rcq, IBV_WC_SUCCESS, 8, "... and sends again");
    ibv_destroy_ah(ah);
    t_free(a);
    t_free(b);
}

static void bad_posts(struct end *a, struct end *b)
{
    struct ibv_ah *ah = ah_to(a, b, false);
    struct ibv_ah_attr attr;
    struct addr to = t_addr(b);
    struct t_wr w;

    t_wr(a, &w, IBV_WR_RDMA_WRITE, 1, 0, 8);
    w.wr.wr.ud.ah = ah;
    t_ok(t_post(a, &w) == EINVAL, "RDMA on a UD QP is refused");
    t_wr(a, &w, IBV_WR_SEND, 1, 0, 8);
    t_ok(t_post(a, &w) == EINVAL, "a datagram without an address handle is refused");
    t_ok(ibv_dealloc_pd(a->pd) == EBUSY, "a PD with an address handle is not freed");
    t_ah(a, &to, &attr);
    if (a->gid_index >= 0) {
        attr.is_global = 0;
        attr.dlid = 1;
    } else {
        attr.dlid = 0;
    }
    errno = 0;
    t_ok(!ibv_create_ah(a->pd, &attr) && errno == EINVAL, "%s",
         a->gid_index >= 0 ? "an address handle on RoCE needs a GRH" : "a zero LID makes none");
    ibv_destroy_ah(ah);
}

int main(void)
{
    struct end *a, *b;

    ctx = t_open();
    a = t_end_on(ctx, &ud);
    b = t_end_on(ctx, &ud);
    t_pair(a, b, &ud);
    basics(a, b);
    answer(a, b);
    dropped(a, b);
    bad_posts(a, b);
    t_free(a);
    t_free(b);
    too_long();
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
