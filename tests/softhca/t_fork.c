/* Conformance across fork(): the child harms nothing of the parent's and can open devices itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "t_common.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct opts plain;
static struct ibv_context *ctx;
static struct end *a, *b;

static bool exchange(struct end *x, struct end *y, uint32_t seed)
{
    struct ibv_wc wc;

    t_fill(x->buf, 700, seed);
    return !t_recv(y, seed, 0, 1024) && !t_send(x, seed, 0, 700) &&
           t_wait(x->scq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS &&
           t_wait(y->rcq, &wc, 5000) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == seed &&
           t_same(y->buf, 700, seed);
}

/* Destroys all it inherited, as exit handlers of a program may. */
static void destroyer(void)
{
    ibv_destroy_qp(a->qp);
    ibv_destroy_cq(a->scq);
    ibv_dereg_mr(a->mr);
    ibv_destroy_qp(b->qp);
    ibv_close_device(ctx);
    exit(0);
}

static void opener(void)
{
    struct ibv_context *own = t_open();
    struct end *x = t_end_on(own, &plain), *y = t_end_on(own, &plain);
    bool good;

    t_pair(x, y, &plain);
    good = exchange(x, y, 3);
    t_free(x);
    t_free(y);
    ibv_close_device(own);
    exit(good ? 0 : 1);
}

static bool child(void (*fn)(void))
{
    pid_t pid;
    int st;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        fn();
    }
    return waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0;
}

static void killed(void)
{
    abort();
}

int main(void)
{
    ctx = t_open();
    a = t_end_on(ctx, &plain);
    b = t_end_on(ctx, &plain);
    t_pair(a, b, &plain);
    t_ok(exchange(a, b, 1), "traffic before fork");
    t_ok(child(destroyer), "a child destroys what it inherited");
    t_ok(exchange(a, b, 2), "... and the parent's objects are all there");
    t_ok(child(opener), "a child opens the device and talks to itself");
    t_ok(exchange(a, b, 4), "... and the parent goes on");
    t_ok(!child(killed), "a child is aborted");
    t_ok(exchange(a, b, 5), "... and the parent goes on");
    t_ok(system("true") == 0 && exchange(a, b, 6), "system(3) does no harm");
    t_free(a);
    t_free(b);
    ibv_close_device(ctx);
    t_plan();
    return t_failures ? 1 : 0;
}
