/* Who reaches whom: sends over RC and UD from one device, port and address to another and says what
 * becomes of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * t_reach DEV:PORT:GID[:PKEY] DEV:PORT:GID[:PKEY]     GID -1: without GRH
 * prints "rc RESULT" and "ud RESULT": ok, silence (retry exceeded, datagram lost), or the errno of
 * the address handle or of the transition to RTR.
 */
#include "t_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct place {
    char dev[64];
    int port, gid, pkey;
};

static bool parse(const char *s, struct place *p)
{
    p->pkey = 0;
    return sscanf(s, "%63[^:]:%d:%d:%d", p->dev, &p->port, &p->gid, &p->pkey) >= 3;
}

static struct end *end_at(const struct place *p, enum ibv_qp_type type, struct opts *o)
{
    *o = (struct opts){.type = type,
                       .port = (uint8_t)p->port,
                       .gid = p->gid < 0 ? 0 : p->gid + 1,
                       .pkey_index = (uint16_t)p->pkey,
                       .timeout = 1 + 8,
                       .retry_cnt = 1 + 2};
    return t_end_on(t_open_named(p->dev), o);
}

static const char *rc(const struct place *pa, const struct place *pb)
{
    struct opts oa, ob;
    struct end *a = end_at(pa, IBV_QPT_RC, &oa), *b = end_at(pb, IBV_QPT_RC, &ob);
    struct addr aa = t_addr(a), ab = t_addr(b);
    struct ibv_wc wc;
    int err;

    a->port.active_mtu = b->port.active_mtu = IBV_MTU_1024;
    t_init(a, &oa);
    t_init(b, &ob);
    t_recv(b, 1, 0, 64);
    err = t_rtr(a, &ab, &oa);
    if (err) {
        return strerrorname_np(err);
    }
    t_rtr(b, &aa, &ob);
    t_rts(a, &oa);
    t_send(a, 1, 0, 8);
    if (t_wait(a->scq, &wc, 10000) != 1) {
        return "nothing";
    }
    return wc.status == IBV_WC_SUCCESS         ? "ok"
           : wc.status == IBV_WC_RETRY_EXC_ERR ? "silence"
                                               : ibv_wc_status_str(wc.status);
}

static const char *ud(const struct place *pa, const struct place *pb)
{
    struct opts oa, ob;
    struct end *a = end_at(pa, IBV_QPT_UD, &oa), *b = end_at(pb, IBV_QPT_UD, &ob);
    struct addr ab = t_addr(b), none = {0};
    struct ibv_ah_attr attr;
    struct ibv_wc wc;
    struct t_wr w;

    t_connect(a, &none, &oa);
    t_connect(b, &none, &ob);
    t_recv(b, 1, 0, 4096);
    t_ah(a, &ab, &attr);
    t_wr(a, &w, IBV_WR_SEND, 1, 0, 8);
    w.wr.wr.ud.ah = ibv_create_ah(a->pd, &attr);
    if (!w.wr.wr.ud.ah) {
        return strerrorname_np(errno);
    }
    w.wr.wr.ud.remote_qpn = ab.qpn;
    w.wr.wr.ud.remote_qkey = 0x1234;
    t_post(a, &w);
    if (t_wait(a->scq, &wc, 5000) != 1 || wc.status != IBV_WC_SUCCESS) {
        return "error";
    }
    return t_wait(b->rcq, &wc, 50) == 1 ? "ok" : "silence";
}

int main(int argc, char **argv)
{
    struct place a, b;

    if (argc != 3 || !parse(argv[1], &a) || !parse(argv[2], &b)) {
        fprintf(stderr, "usage: t_reach DEV:PORT:GID[:PKEY] DEV:PORT:GID[:PKEY]\n");
        return 2;
    }
    printf("rc %s\n", rc(&a, &b));
    printf("ud %s\n", ud(&a, &b));
    return 0;
}
