/* Misuse on purpose: changes a send buffer, or reads a receive buffer, before the completion.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * With SOFTHCA_EXEC=deferred SOFTHCA_CHECK=1 `t_early send` has to be aborted; `t_early recv`
 * prints what it finds in a posted receive buffer that held zeroes; `t_early wait` changes its send
 * buffer after the completion, which is right.
 */
#include "t_common.h"

#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const struct opts plain;
    struct ibv_context *ctx = t_open();
    struct end *a = t_end_on(ctx, &plain), *b = t_end_on(ctx, &plain);
    const char *what = argc > 1 ? argv[1] : "";
    struct ibv_wc wc;

    t_pair(a, b, &plain);
    t_recv(b, 1, 0, 64);
    if (!strcmp(what, "recv")) {
        printf("found 0x%02x\n", b->buf[0]);
        return 0;
    }
    if (!strcmp(what, "hold")) {
        printf("holding %d\n", (int)getpid());
        fflush(stdout);
        sleep(60);
        return 0;
    }
    t_send(a, 2, 0, 64);
    if (!strcmp(what, "send")) {
        a->buf[63] ^= 1;
    }
    t_wait(a->scq, &wc, 5000);
    a->buf[0] ^= 1;
    printf("completed\n");
    t_free(a);
    t_free(b);
    ibv_close_device(ctx);
    return wc.status;
}
