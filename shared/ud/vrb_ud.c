/* The UD QP: creation, posting, completions, and address handles (see vrb_ud.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "ud/vrb_ud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "address/vrb_ah.h"
#include "dgram/vrb_dgram.h"
#include "peer/vrb_peer_addr.h"
#include "tcp/vrb_tcp.h"
#include "ud/vrb_ud_hello.h"
#include "wire/vrb_ud_wire.h"

#define UD_HELLOS 32       /* handshakes in flight: as many as hello_busy has bits */
#define UD_HELLO_SIZE 128  /* bytes of a handshake slot */
#define UD_HELLO_RECVS 128 /* receive slots when no data comes this way */
#define UD_SEND_DEPTH 512
#define UD_RESERVE 64 /* send slots that data leaves alone */
#define UD_SIGNAL_EVERY 32
#define UD_CHAIN 32 /* receives posted with one call */

_Static_assert(UD_HELLO_SIZE >= VRB_HELLO_SIZE, "a HELLO fits its slot");

static int carries_data(const struct vrb_rail *rail)
{
    return rail->cfg.mode != VRB_MODE_RC;
}

/* Some devices have short queues. */
static uint32_t at_most_max_wr(const struct vrb_rail *rail, uint32_t wanted)
{
    uint32_t most = rail->dev_attr.max_qp_wr > 0 ? (uint32_t)rail->dev_attr.max_qp_wr : wanted;

    return wanted < most ? wanted : most;
}

static uint32_t recv_slots(const struct vrb_rail *rail)
{
    return at_most_max_wr(rail, carries_data(rail) ? rail->cfg.ud_buffers : UD_HELLO_RECVS);
}

static uint32_t send_depth(const struct vrb_rail *rail)
{
    return at_most_max_wr(rail, carries_data(rail) ? UD_SEND_DEPTH : UD_HELLOS);
}

int vrb_ud_cq_entries(const struct vrb_rail *rail)
{
    return (int)(recv_slots(rail) + send_depth(rail));
}

static int smaller(uint32_t a, uint32_t b)
{
    return (int)(a < b ? a : b);
}

/* Handshakes alone have short slots: what comes behind them is zeros, which go where nobody reads.
 */
static int recv_sges(const struct vrb_rail *rail)
{
    return carries_data(rail) || rail->dev_attr.max_sge < 2 ? 1 : 2;
}

/* So do those that leave, where a device takes two pieces. */
static uint32_t hello_size(const struct vrb_rail *rail)
{
    return rail->dev_attr.max_sge < 2 ? 128u << rail->address.mtu : UD_HELLO_SIZE;
}

/* Posts n (<= UD_CHAIN) receives with one call. Returns how many were taken, the first ones; fewer
 * than n: *err says why. */
static uint32_t post_recvs(struct vrb_rail *rail, const uint32_t *slots, uint32_t n, int *err)
{
    struct vrb_ud *ud = rail->ud;
    struct ibv_recv_wr wr[UD_CHAIN], *bad = NULL;
    struct ibv_sge sge[UD_CHAIN][2];

    for (uint32_t i = 0; i < n; i++) {
        sge[i][0] =
            (struct ibv_sge){.addr = (uintptr_t)(ud->mem + (size_t)slots[i] * ud->slot_size),
                             .length = ud->slot_size,
                             .lkey = ud->mr->lkey};
        sge[i][1] = (struct ibv_sge){
            .addr = (uintptr_t)ud->dump, .length = 128u << rail->address.mtu, .lkey = ud->mr->lkey};
        wr[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)ud->generation << 48 |
                                              (uint64_t)slots[i] << 3 | VRB_WR_UD_RECV,
                                     .next = i + 1 < n ? &wr[i + 1] : NULL,
                                     .sg_list = sge[i],
                                     .num_sge = recv_sges(rail)};
    }
    *err = abs(ibv_post_recv(ud->qp, wr, &bad));
    return *err == 0 ? n : bad == NULL ? 0 : (uint32_t)(bad - wr);
}

/* What is refused is offered again by the next progress: when nothing is posted any more, nothing
 * arrives that would give another occasion. */
void vrb_ud_repost_chain(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;
    int err = 0;

    if (ud->state != VRB_UD_WORKS) {
        return; /* its recovery posts them all */
    }
    while (ud->free_n >= ud->chain && err == 0) {
        uint32_t *slots = ud->free_slots + ud->free_n - ud->chain;
        uint32_t posted = post_recvs(rail, slots, ud->chain, &err);

        memmove(slots, slots + posted, (ud->chain - posted) * sizeof(*slots));
        ud->free_n -= posted;
    }
    if (err == 0 || rail->failed || rail->closing) {
        return;
    }
    if (vrb_is_refusal(err)) {
        rail->refused = 1;
        vrb_due(rail);
    } else if (!vrb_ud_is_broken(rail, "it refuses receive buffers")) {
        vrb_rail_fail(rail, "posting receives for handshakes failed", err);
    }
}

/* Q_Keys with the top bit set mean "use the QP's own" in a send (IBTA 10.2.5): never choose one. */
static uint32_t random_qkey(void)
{
    uint32_t key = 0;

    while (key == 0) {
        if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
            key = (uint32_t)vrb_clock_ns();
        }
        key &= 0x7fffffff;
    }
    return key;
}

int vrb_ud_to_rts(struct vrb_rail *rail)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = rail->pkey_index,
        .port_num = rail->port.port,
        .qkey = rail->address.qkey,
    };
    struct ibv_qp *qp = rail->ud->qp;
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    if (rc == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    }
    if (rc == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 0};
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    return rc == -1 ? errno : rc;
}

static int make_qp(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;
    uint32_t want = rail->cfg.max_inline;

    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = rail->cq,
            .recv_cq = rail->cq,
            .qp_type = IBV_QPT_UD,
            .cap = {.max_send_wr = send_depth(rail),
                    .max_recv_wr = ud->recvs,
                    .max_send_sge = carries_data(rail) || rail->dev_attr.max_sge >= 2 ? 2 : 1,
                    .max_recv_sge = (uint32_t)recv_sges(rail),
                    .max_inline_data = want},
        };

        ud->qp = ibv_create_qp(rail->pd, &init);
        if (ud->qp != NULL) {
            ud->inline_max = init.cap.max_inline_data < rail->cfg.max_inline
                                 ? init.cap.max_inline_data
                                 : rail->cfg.max_inline;
            return 0;
        }
        if (want == 0 || errno == ENOMEM) {
            return errno;
        }
        want /= 2;
    }
}

static int open_memory(struct vrb_rail *rail, const char **what)
{
    struct vrb_ud *ud = rail->ud;
    size_t longest = (size_t)128 << rail->address.mtu;
    uint32_t data = recv_sges(rail) == 1 ? (uint32_t)longest : 256;
    size_t hellos;

    ud->recvs = recv_slots(rail);
    ud->chain = (uint32_t)smaller(UD_CHAIN, (ud->recvs + 3) / 4);
    ud->slot_size = (VRB_UD_GRH + data + 63) & ~63u;
    hellos = (size_t)ud->recvs * ud->slot_size;
    ud->mem_size = hellos + UD_HELLOS * (size_t)hello_size(rail) + 2 * longest;
    ud->free_slots = calloc(ud->recvs, sizeof(*ud->free_slots));
    *what = "memory for the datagram buffers";
    ud->mem = mmap(NULL, ud->mem_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ud->mem == MAP_FAILED || ud->free_slots == NULL) {
        ud->mem = ud->mem == MAP_FAILED ? NULL : ud->mem;
        return ENOMEM;
    }
    ud->hellos = ud->mem + hellos;
    ud->zeros = ud->hellos + UD_HELLOS * (size_t)hello_size(rail);
    ud->dump = ud->zeros + longest;
    madvise(ud->mem, ud->mem_size, MADV_DONTFORK);
    *what = "registering the datagram buffers";
    ud->mr = ibv_reg_mr(rail->pd, ud->mem, ud->mem_size, IBV_ACCESS_LOCAL_WRITE);
    if (ud->mr == NULL) {
        return errno;
    }
    rail->stats.reg_bytes += ud->mem_size;
    if (rail->stats.reg_bytes > rail->stats.reg_bytes_max) {
        rail->stats.reg_bytes_max = rail->stats.reg_bytes;
    }
    return 0;
}

static int open_qp(struct vrb_rail *rail, const char **what)
{
    struct vrb_ud *ud = rail->ud;
    int err = open_memory(rail, what);

    if (err != 0) {
        return err;
    }
    *what = "creating the UD queue pair";
    err = make_qp(rail);
    if (err != 0) {
        return err;
    }
    rail->address.ud_qpn = ud->qp->qp_num;
    rail->address.qkey = random_qkey();
    ud->depth = send_depth(rail);
    ud->sq_room = (int)ud->depth;
    ud->reserve = carries_data(rail) ? smaller(UD_RESERVE, send_depth(rail) / 4) : 0;
    ud->signal_every = (uint32_t)smaller(UD_SIGNAL_EVERY, (send_depth(rail) + 3) / 4);
    *what = "bringing up the UD queue pair";
    err = vrb_ud_to_rts(rail);
    for (; ud->free_n < ud->recvs; ud->free_n++) {
        ud->free_slots[ud->free_n] = ud->free_n;
    }
    return err == 0 ? vrb_ud_fill(rail) : err;
}

int vrb_ud_fill(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;
    int err = 0;

    while (err == 0 && ud->free_n > 0) {
        uint32_t n = ud->free_n < UD_CHAIN ? ud->free_n : UD_CHAIN;
        uint32_t *slots = ud->free_slots + ud->free_n - n;
        uint32_t posted = post_recvs(rail, slots, n, &err);

        memmove(slots, slots + posted, (n - posted) * sizeof(*slots));
        ud->free_n -= posted;
    }
    if (vrb_is_refusal(err) && ud->free_n < ud->recvs) { /* vrb_ud_repost_chain posts the rest */
        rail->refused = 1;
        vrb_due(rail);
        return 0;
    }
    return err;
}

/* No UD QP: nothing is ever posted or reposted here, and handshakes go over TCP. */
static int open_tcp(struct vrb_rail *rail, const char *why, char *detail, size_t len)
{
    struct vrb_ud *ud = rail->ud;

    if (rail->cfg.mode == VRB_MODE_UD) {
        snprintf(detail, len, "no UD queue pair (%s), which mode ud needs", why);
        return VRB_ERR_DEVICE;
    }
    vrb_log(VRB_LOG_INFO,
            "%s port %d: no UD queue pair (%s): connections are made over TCP, mode rc",
            rail->port.dev, rail->port.port, why);
    if (ud->mr != NULL) {
        ibv_dereg_mr(ud->mr);
        rail->stats.reg_bytes -= ud->mem_size;
    }
    if (ud->mem != NULL) {
        munmap(ud->mem, ud->mem_size);
    }
    free(ud->free_slots);
    memset(ud, 0, sizeof(*ud));
    ud->chain = UINT32_MAX;
    rail->cfg.mode = VRB_MODE_RC;
    rail->address.ud_qpn = 0;
    rail->address.qkey = 0;
    return vrb_tcp_open(rail, detail, len);
}

int vrb_ud_open(struct vrb_rail *rail, char *detail, size_t len)
{
    const char *what = "memory";
    int err = ENOMEM;

    rail->ud = calloc(1, sizeof(*rail->ud));
    if (rail->ud != NULL && rail->cfg.carrier == VRB_CARRIER_TCP) {
        return open_tcp(rail, "TCP was asked for", detail, len);
    }
    if (rail->ud != NULL) {
        err = open_qp(rail, &what);
    }
    /* Devices say it with different errors. */
    if (rail->ud != NULL && rail->ud->mr != NULL && rail->ud->qp == NULL && err != ENOMEM) {
        return open_tcp(rail, strerror(err), detail, len);
    }
    if (err != 0) {
        int no_memory = err == ENOMEM; /* which the caller explains at length */

        snprintf(detail, len, "%s%s%s", what, no_memory ? "" : ": ",
                 no_memory ? "" : strerror(err));
        errno = err;
        return no_memory ? VRB_ERR_NOMEM : VRB_ERR_DEVICE;
    }
    return VRB_OK;
}

void vrb_ud_close(struct vrb_rail *rail)
{
    struct vrb_ud *ud = rail->ud;

    if (ud == NULL) {
        return;
    }
    if (ud->qp != NULL) {
        ibv_destroy_qp(ud->qp);
    }
    if (ud->mr != NULL) {
        ibv_dereg_mr(ud->mr);
    }
    if (ud->mem != NULL) {
        munmap(ud->mem, ud->mem_size);
    }
    free(ud->free_slots);
    free(ud);
    rail->ud = NULL;
}

int vrb_ud_peer_ah(struct vrb_peer *peer, char *detail, size_t len)
{
    struct ibv_ah_attr attr;
    char text[80];

    int rc = VRB_OK;

    while (peer->ah == NULL && rc == VRB_OK) {
        int err;

        vrb_ah_fill(&attr, &peer->path, peer->rail->port.port);
        peer->ah = ibv_create_ah(peer->rail->pd, &attr);
        err = errno;
        if (peer->ah != NULL) {
            peer->ah_failing = 0;
            break;
        }
        snprintf(detail, len, "no address handle for %s: %s%s",
                 vrb_address_text(&peer->remote, peer->path.use_grh ? &peer->path.dgid : NULL, text,
                                  sizeof(text)),
                 strerror(err), peer->path.pairs > 1 ? " (nor for any other address)" : "");
        rc = vrb_peer_no_ah(peer, err, vrb_clock_ns());
    }
    return rc;
}

/* The number of a request travels in its completion above the kind and the handshake slot. */
static uint64_t send_wr_id(const struct vrb_ud *ud, unsigned slot)
{
    return (uint64_t)ud->generation << 48 | (uint64_t)ud->posted << 16 | (uint64_t)slot << 8 |
           VRB_WR_UD_SEND;
}

static int post_numbered(struct vrb_peer *peer, struct ibv_send_wr *wr, unsigned slot, int signal)
{
    struct vrb_ud *ud = peer->rail->ud;
    uint32_t unsignalled = ud->unsignalled;
    struct ibv_send_wr *bad;
    int err;

    ud->posted++;
    wr->wr_id = send_wr_id(ud, slot);
    wr->next = NULL;
    wr->opcode = IBV_WR_SEND;
    wr->wr.ud.ah = peer->ah;
    wr->wr.ud.remote_qpn = peer->remote.ud_qpn;
    wr->wr.ud.remote_qkey = peer->remote.qkey;
    if (++ud->unsignalled >= ud->signal_every || signal) {
        wr->send_flags |= IBV_SEND_SIGNALED;
        ud->unsignalled = 0;
    }
    err = abs(ibv_post_send(ud->qp, wr, &bad));
    if (err != 0) {
        ud->posted--;
        ud->unsignalled = unsignalled;
        return !vrb_is_refusal(err) && vrb_ud_is_broken(peer->rail, "it refuses requests") ? EAGAIN
                                                                                           : err;
    }
    ud->sq_room--;
    return 0;
}

int vrb_ud_post(struct vrb_peer *peer, struct ibv_send_wr *wr, int signal)
{
    return post_numbered(peer, wr, UD_HELLOS, signal);
}

/* What every message tells of its sender. */
static void sign(const struct vrb_peer *peer, struct vrb_hello *out)
{
    const struct vrb_rail *rail = peer->rail;

    out->round = peer->round;
    out->token = vrb_ud_token(rail->address.nonce, peer->remote.nonce);
    out->lid = rail->lid;
    out->has_gid = peer->path.use_grh;
    if (out->has_gid) {
        memcpy(out->gid, peer->path.sgid.raw, VRB_GID_LEN);
        memcpy(out->gid_was, rail->address.gids[peer->path.sgid_at].raw, VRB_GID_LEN);
    }
}

/* More than the message is zeros. Returns how many pieces it has. */
static int lengthen(const struct vrb_rail *rail, struct ibv_sge sge[2], uint8_t mtu)
{
    const struct vrb_ud *ud = rail->ud;
    uint32_t whole = 128u << mtu;

    if (mtu == 0 || whole <= VRB_HELLO_SIZE) {
        return 1;
    }
    if (rail->dev_attr.max_sge < 2) { /* the rest of a slot is zeros, too */
        sge[0].length = whole;
        return 1;
    }
    sge[1] = (struct ibv_sge){
        .addr = (uintptr_t)ud->zeros, .length = whole - VRB_HELLO_SIZE, .lkey = ud->mr->lkey};
    return 2;
}

int vrb_ud_hello(struct vrb_peer *peer, const struct vrb_hello *h, uint8_t mtu, char *detail,
                 size_t len)
{
    struct vrb_rail *rail = peer->rail;
    struct vrb_ud *ud = rail->ud;
    struct ibv_sge sge[2] = {{.length = VRB_HELLO_SIZE}};
    struct ibv_send_wr wr = {.sg_list = sge};
    struct vrb_hello out = *h;
    unsigned slot;
    int rc;

    if (rail->tcp != NULL) {
        sign(peer, &out);
        return vrb_tcp_hello(peer, &out, detail, len);
    }
    vrb_peer_unanswered(peer, vrb_clock_ns());
    rc = vrb_ud_peer_ah(peer, detail, len);
    if (rc == VRB_ERR_AGAIN || ud->hello_busy == UINT32_MAX || ud->sq_room <= 0) {
        return VRB_OK;
    }
    if (rc != VRB_OK) {
        return rc;
    }
    slot = (unsigned)__builtin_ctz(~ud->hello_busy);
    sign(peer, &out); /* now: by another pair than before, if an address handle could not be made */
    sge[0].lkey = ud->mr->lkey;
    sge[0].addr = (uintptr_t)(ud->hellos + (size_t)slot * hello_size(rail));
    vrb_hello_put(&out, (uint8_t *)(uintptr_t)sge[0].addr);
    wr.num_sge = lengthen(rail, sge, mtu < peer->path.mtu ? mtu : peer->path.mtu);
    rc = post_numbered(peer, &wr, slot, 1);
    if (vrb_is_refusal(rc)) {
        return VRB_OK; /* like one lost on the way: the handshake repeats it */
    }
    if (rc != 0) {
        snprintf(detail, len, "sending on the UD queue pair: %s", strerror(rc));
        return VRB_ERR_DEVICE;
    }
    ud->hello_busy |= 1u << slot;
    rail->stats.hellos_tx++;
    return VRB_OK;
}

/* An error that is not the echo of another one tells why the QP broke. */
static void failed(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    char why[96];

    snprintf(why, sizeof(why), "%s, vendor error 0x%x", ibv_wc_status_str(wc->status),
             wc->vendor_err);
    vrb_ud_broke(rail, why);
}

static int is_of_this_life(const struct vrb_ud *ud, const struct ibv_wc *wc)
{
    return (uint8_t)(wc->wr_id >> 48) == ud->generation;
}

void vrb_ud_send_done(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    struct vrb_ud *ud = rail->ud;
    unsigned slot = wc->wr_id >> 8 & 0xff;
    uint32_t number = (uint32_t)(wc->wr_id >> 16);

    if (__builtin_expect(wc->status != IBV_WC_SUCCESS || !is_of_this_life(ud, wc), 0)) {
        if (!is_of_this_life(ud, wc)) {
            return;
        }
        failed(rail, wc);
    }
    if (slot < UD_HELLOS) {
        ud->hello_busy &= ~(1u << slot);
    }
    ud->sq_room += (int)(number - ud->completed);
    ud->completed = number;
    vrb_dgram_sends_done(rail);
}

void vrb_ud_recv(struct vrb_rail *rail, const struct ibv_wc *wc)
{
    struct vrb_ud *ud = rail->ud;
    uint32_t slot = (uint32_t)(wc->wr_id >> 3);
    uint8_t *grh;

    if (slot >= ud->recvs || !is_of_this_life(ud, wc)) {
        return;
    }
    if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0)) {
        failed(rail, wc);
        ud->free_slots[ud->free_n++] = slot;
        return;
    }
    ud->arrived++;
    ud->held++;
    grh = ud->mem + (size_t)slot * ud->slot_size;
    if (wc->byte_len > VRB_UD_GRH) {
        if (grh[VRB_UD_GRH] == VRB_HELLO_FIRST_BYTE) {
            vrb_ud_hello_recv(rail, wc, grh);
        } else if (carries_data(rail)) {
            vrb_dgram_recv(rail, wc, grh + VRB_UD_GRH, wc->byte_len - VRB_UD_GRH);
        } else {
            rail->stats.hellos_stale++;
        }
    }
    ud->held--;
    ud->free_slots[ud->free_n++] = slot;
}
