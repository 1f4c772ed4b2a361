/* What the conformance tests of the software HCA share: TAP lines and short ways to make objects.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tests use plain verbs, so they would run on real hardware too. T_DEV names the device
 * (default: the first), T_GID the GID index (default 3 on Ethernet, none on InfiniBand).
 */
#ifndef SOFTHCA_T_COMMON_H
#define SOFTHCA_T_COMMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One end: a QP with its CQs and one registered buffer. */
struct end {
    struct ibv_context *ctx;
    struct ibv_port_attr port;
    uint8_t num;   /* of the port */
    int gid_index; /* -1: no GRH */
    struct ibv_pd *pd;
    struct ibv_comp_channel *ch;
    struct ibv_cq *scq, *rcq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
    size_t size;
};

/* What a peer has to know. */
struct addr {
    uint16_t lid;
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t buf;
};

/* Deviations from the usual end; zero means the default. */
struct opts {
    enum ibv_qp_type type;               /* IBV_QPT_RC */
    uint32_t send_wr, recv_wr, sge, inl; /* 16, 16, 4, 64 */
    int cqe;                             /* 64 */
    size_t size;                         /* buffer: 8192 */
    bool srq, sig_all, channel;
    int access;    /* of the region: everything */
    int qp_access; /* everything */
    int rnr_retry; /* 1 + value; 0: 7 */
    int retry_cnt; /* 1 + value; 0: 7 */
    int timeout;   /* 1 + value; 0: 10 (4 ms) */
    int rnr_timer; /* 1 + value; 0: 1 (10 us) */
    uint32_t qkey; /* 0x1234 */
    uint8_t port;  /* 1 */
    uint16_t pkey_index;
    int gid; /* 1 + index; 0: T_GID or the device's usual one */
};

extern int t_failures;

void t_plan(void);
bool t_ok(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void t_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void t_bail(const char *what); /* a precondition failed */

struct ibv_context *t_open(void);
struct ibv_context *t_open_named(const char *dev); /* NULL: the first */
struct end *t_end(const struct opts *o);
struct end *t_end_on(struct ibv_context *ctx, const struct opts *o);
void t_free(struct end *e);
struct addr t_addr(const struct end *e);
void t_ah(const struct end *e, const struct addr *to, struct ibv_ah_attr *ah);

int t_init(struct end *e, const struct opts *o);
int t_rtr(struct end *e, const struct addr *to, const struct opts *o);
int t_rts(struct end *e, const struct opts *o);
void t_connect(struct end *e, const struct addr *to, const struct opts *o); /* all three */
void t_pair(struct end *a, struct end *b, const struct opts *o);            /* both ways */
int t_error(struct end *e);                                                 /* to the error state */

int t_recv(struct end *e, uint64_t wr_id, size_t off, uint32_t len);
/* A work request on the end's buffer; the caller changes what it wants and posts it. */
struct t_wr {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
};
void t_wr(struct end *e, struct t_wr *w, enum ibv_wr_opcode op, uint64_t wr_id, size_t off,
          uint32_t len);
void t_remote(struct t_wr *w, const struct addr *to, size_t off);
int t_post(struct end *e, struct t_wr *w);
int t_send(struct end *e, uint64_t wr_id, size_t off, uint32_t len); /* signalled */

/* Waits up to `ms` for one completion; 1, or 0 at the time limit. */
int t_wait(struct ibv_cq *cq, struct ibv_wc *wc, int ms);
bool t_none(struct ibv_cq *cq, int ms); /* nothing comes */
/* Expects a completion with this status (and wr_id unless it is ~0). */
bool t_expect(struct ibv_cq *cq, enum ibv_wc_status status, uint64_t wr_id, const char *what);
/* Waits up to `ms` for this asynchronous event, dropping others. */
bool t_async(struct ibv_context *ctx, enum ibv_event_type type, int ms);
int t_state(struct end *e); /* of the QP, asked for */

uint64_t t_now_ms(void);
void t_fill(uint8_t *p, size_t n, uint32_t seed);
bool t_same(const uint8_t *p, size_t n, uint32_t seed);

#endif
