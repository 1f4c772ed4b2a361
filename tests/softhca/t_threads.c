/* Conformance: several threads at one QP, one CQ and the object tables.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 4, EACH = 5000 };

static struct ibv_context *ctx;
static struct end *a, *b;
static _Atomic int sent, done, received, bad;

static void *sender(void *arg)
{
    int me = (int)(intptr_t)arg;

    for (int i = 0; i < EACH;) {
        struct ibv_wc wc[4];
        struct t_wr w;
        int rc, n;

        t_wr(a, &w, IBV_WR_SEND, (uint64_t)me, 64 * (size_t)me, i % 5 ? 16 : 2000);
        rc = t_post(a, &w);
        if (!rc) {
            i++;
            atomic_fetch_add(&sent, 1);
        } else if (rc != ENOMEM) {
            atomic_fetch_add(&bad, 1);
            break;
        }
        n = ibv_poll_cq(a->scq, 4, wc);
        for (int k = 0; k < n; k++) {
            atomic_fetch_add(wc[k].status == IBV_WC_SUCCESS ? &done : &bad, 1);
        }
        if (rc) {
            sched_yield();
        }
    }
    return NULL;
}

/* Each request has a buffer of its own. */
static int post_recv(uint64_t wr_id)
{
    return t_recv(b, wr_id, 4096 + 2048 * wr_id, 2048);
}

static void *receiver(void *arg)
{
    uint64_t end = t_now_ms() + 60000;

    (void)arg;
    while (atomic_load(&received) < THREADS * EACH && t_now_ms() < end && !atomic_load(&bad)) {
        struct ibv_wc wc[4];
        int n = ibv_poll_cq(b->rcq, 4, wc);

        for (int k = 0; k < n; k++) {
            if (wc[k].status != IBV_WC_SUCCESS || post_recv(wc[k].wr_id)) {
                atomic_fetch_add(&bad, 1);
            }
            atomic_fetch_add(&received, 1);
        }
        if (!n) {
            sched_yield();
        }
    }
    return NULL;
}

/* Makes and destroys objects while traffic runs. */
static void *churn(void *arg)
{
    const struct opts o = {.size = 4096};

    (void)arg;
    for (int i = 0; i < 100 && !atomic_load(&bad); i++) {
        struct end *x = t_end_on(ctx, &o), *y = t_end_on(ctx, &o);
        struct ibv_wc wc;

        t_pair(x, y, &o);
        t_recv(y, 1, 0, 64);
        t_send(x, 2, 0, 64);
        if (t_wait(y->rcq, &wc, 20000) != 1 || wc.status != IBV_WC_SUCCESS) {
            atomic_fetch_add(&bad, 1);
        }
        t_free(x);
        t_free(y);
    }
    return NULL;
}

int main(void)
{
    const struct opts o = {
        .send_wr = 32, .recv_wr = 64, .cqe = 256, .rnr_timer = 1 + 1, .size = 4096 + 64 * 2048};
    pthread_t th[THREADS + 4];
    struct ibv_wc wc;

    ctx = t_open();
    a = t_end_on(ctx, &o);
    b = t_end_on(ctx, &o);
    t_pair(a, b, &o);
    for (int i = 0; i < 64; i++) {
        post_recv((uint64_t)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&th[i], NULL, sender, (void *)(intptr_t)i);
    }
    pthread_create(&th[THREADS], NULL, receiver, NULL);
    pthread_create(&th[THREADS + 1], NULL, receiver, NULL);
    pthread_create(&th[THREADS + 2], NULL, churn, NULL);
    pthread_create(&th[THREADS + 3], NULL, churn, NULL);
    for (int i = 0; i < THREADS + 4; i++) {
        pthread_join(th[i], NULL);
    }
    while (atomic_load(&done) < THREADS * EACH && t_wait(a->scq, &wc, 2000) == 1) {
        atomic_fetch_add(wc.status == IBV_WC_SUCCESS ? &done : &bad, 1);
    }
    t_ok(!atomic_load(&bad), "no request fails with %d threads at one QP", THREADS);
    t_ok(atomic_load(&sent) == THREADS * EACH && atomic_load(&done) == THREADS * EACH,
         "every send completes once (%d)", atomic_load(&done));
    t_ok(atomic_load(&received) == THREADS * EACH, "every message is received once (%d)",
         atomic_load(&received));
    t_free(a);
    t_free(b);
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
