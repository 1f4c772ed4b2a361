/* The inside of a rail: one port's verbs objects, and what its parts share. Internal to the core.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who does what:
 *   rail/vrb_rail.c      opens and closes
 *   rail/vrb_progress.c  polls the CQ and hands each completion to its owner
 *   rail/vrb_async.c     port and device events
 *   ud/vrb_ud.c          the UD QP that carries handshakes
 *   peer/vrb_peer.c      peers: creation, connection, failure
 *   rc/vrb_rc_qp.c       RC QPs: creation and state changes;  rc/vrb_recover.c  their replacement
 *   rc/vrb_rc_send.c     messages out;  rc/vrb_rc_recv.c  messages in;  rc/vrb_rc_rdma.c  put and
 * get mem/                 buffers and memory regions
 *
 * A wr_id is a pointer to the owner of the work request, with its kind in the low three bits. */
#ifndef VRB_RAIL_H
#define VRB_RAIL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>

#include "mem/vrb_pool.h"
#include "mem/vrb_region.h"
#include "util/vrb_list.h"
#include "util/vrb_map.h"
#include "vrb.h"

enum vrb_wr_kind {
    VRB_WR_INLINE =
        0, /* struct vrb_peer: the data left with the post, only the slot is to be freed */
    VRB_WR_SEND = 1,    /* struct vrb_buf */
    VRB_WR_RDMA = 2,    /* struct vrb_rdma */
    VRB_WR_RECV = 3,    /* struct vrb_buf of the receive pool */
    VRB_WR_UD_RECV = 4, /* index of a UD receive buffer */
    VRB_WR_UD_SEND = 5, /* index of a UD send buffer */
    VRB_WR_FLUSH = 6,   /* struct vrb_peer: the CREDIT packet that proves all before it arrived */
    VRB_WR_MARKER = 7,  /* struct vrb_peer: the last request of a QP that is taken out of service */
};
#define VRB_WR_KIND_MASK 7u

static inline uint64_t vrb_wr_id(const void *owner, enum vrb_wr_kind kind)
{
    return (uint64_t)(uintptr_t)owner | kind;
}

static inline void *vrb_wr_owner(uint64_t wr_id)
{
    return (void *)(uintptr_t)(wr_id & ~(uint64_t)VRB_WR_KIND_MASK);
}

/* The longest control message; buffers of this size come from a pool of their own that has no
 * limit, because ob1 cannot wait for one (acknowledgements, FIN). */
#define VRB_SMALL_SIZE 256

/* Space for a packet that leaves inline. */
#define VRB_INLINE_MAX 1024

/* Completions taken from the CQ at a time. */
#define VRB_POLL_BATCH 16

/* Receive work requests are posted in chains of this many. */
#define VRB_RECV_BATCH 32

enum vrb_buf_class { VRB_CLS_SMALL = 0, VRB_CLS_BIG = 1, VRB_CLS_RECV = 2, VRB_CLS_PACKET = 3 };

struct vrb_ud;
struct vrb_dgram_rail;

/* Remote addresses to which the path was found to take less than its ends say. */
#define VRB_NARROW_MAX 64
struct vrb_narrow {
    uint64_t key; /* of the pair of addresses; 0 = empty */
    uint8_t mtu;  /* enum ibv_mtu */
};

/* The work request of a packet that leaves inline, prepared when the rail is opened: address,
 * length, owner and flags are all that changes. The provider has read it when the post returns. */
struct vrb_tx_inline {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
};

struct vrb_rail {
    /* Hot: every packet. */
    struct ibv_cq *cq;
    int cq_room;         /* entries of the CQ that nothing holds yet (vrb_rc_take_slot) */
    uint32_t inline_max; /* packet bytes, header included */
    uint32_t calls;      /* progress calls */
    uint8_t due;         /* something but the CQ needs a look: see vrb_due() */
    uint8_t refused;     /* something was refused: try again although nothing happened */
    uint8_t closing, failed, threads;
    uint8_t doubt_reads; /* 1: what says that a read has ended is the request behind it */
    struct vrb_buf *done_head, **done_tail; /* sent inline: `done` is still to be called */
    struct vrb_list connecting;             /* peers with a handshake under way */
    struct vrb_list credit_due;             /* peers to be told new credits */
    struct vrb_list stalled;                /* peers with queued work that waited for cq_room */
    struct ibv_srq *srq;                    /* NULL: a receive queue per peer */
    struct vrb_buf *rx_free;                /* consumed receive buffers, to be posted again */
    uint32_t rx_free_n;
    uint32_t rx_batch;               /* this many at a time */
    struct vrb_peer *last_peer;      /* of the last receive completion, */
    uint32_t last_qpn;               /* by QPN: most packets come in runs */
    struct vrb_map by_qpn;           /* local QPN -> peer */
    struct ibv_wc *wc_next, *wc_end; /* polled completions not handled yet, in wc */
    struct ibv_wc wc[VRB_POLL_BATCH];
    struct vrb_pool small, big, rx;
    struct vrb_rdma *rdma_free;
    struct vrb_stats stats;
    struct vrb_tx_inline tx;

    /* Cold. */
    uint64_t next_probe;       /* ns: when to look for silent peers */
    uint64_t next_tick;        /* ns: of the callback */
    uint64_t rx_refused_since; /* ns: when the shared receive queue began to refuse; 0: it takes */
    pthread_mutex_t lock;      /* recursive; taken only with `threads` */
    struct vrb_config cfg;
    struct vrb_callbacks cb;
    struct vrb_port port;
    struct vrb_address address;                  /* as published: what both ends choose by */
    uint16_t lid;                                /* as it is now */
    uint16_t moved;                              /* bit i: gids[i] has become another one, */
    uint8_t moved_to[VRB_MAX_GIDS][VRB_GID_LEN]; /* this one */
    struct vrb_narrow narrow[VRB_NARROW_MAX];    /* the oldest is overwritten */
    uint32_t narrow_n;
    int index;
    size_t rdma_user;
    void *rdma_chunks;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_device_attr dev_attr;
    struct vrb_ud *ud;
    struct vrb_tcp *tcp;          /* carries handshakes when there is no UD QP */
    struct vrb_dgram_rail *dgram; /* modes ud and auto */
    struct vrb_regions regions;   /* memory that puts over datagrams may go to */
    uint32_t rc_count;            /* RC queue pairs */
    uint32_t markers;             /* of vrb_recover, whose completions were not polled yet */
    struct vrb_list peers;
    struct vrb_list retired; /* destroyed, but their datagram numbers go on: vrb_retired.h */
    struct vrb_list zombies; /* destroyed, but a completion might still point at them */
    struct vrb_map by_name;  /* vrb_peer_key() -> peer */
    uint32_t next_id;        /* for handshakes: random start, never 0 */
    uint16_t pkey_index;
    uint8_t rd_in; /* RDMA reads one of our QPs accepts */
    uint8_t mr_warned;
};

static inline void vrb_lock(struct vrb_rail *rail)
{
    if (rail->threads) {
        pthread_mutex_lock(&rail->lock);
    }
}

static inline void vrb_unlock(struct vrb_rail *rail)
{
    if (rail->threads) {
        pthread_mutex_unlock(&rail->lock);
    }
}

/* Around every callback: it runs without the lock, because it may wait for one of the upper layer's
 * that another thread holds while it calls us. The rail must be consistent at these points:
 * callbacks call us back anyway. */
static inline void vrb_call_begin(struct vrb_rail *rail)
{
    vrb_unlock(rail);
}

static inline void vrb_call_end(struct vrb_rail *rail)
{
    vrb_lock(rail);
}

/* Something was put on a list, or into a queue, that progress looks through. */
static inline void vrb_due(struct vrb_rail *rail)
{
    rail->due = 1;
}

/* True in a callback of progress if the next completion to be handed out is that of another RDMA
 * operation of the same queue pair. */
static inline int vrb_more_rdma(const struct vrb_rail *rail, uint32_t qpn)
{
    return rail->wc_next != rail->wc_end && rail->wc_next->qp_num == qpn &&
           (rail->wc_next->wr_id & VRB_WR_KIND_MASK) == VRB_WR_RDMA;
}

/* True if the provider only means "not now". We count slots, so its queue is not full for want of
 * counting, but it may be short of memory of its own. */
static inline int vrb_is_refusal(int err)
{
    return err == ENOMEM || err == EAGAIN || err == EBUSY || err == ENOBUFS;
}

/* rail/vrb_async.c: handles pending device events without blocking. */
void vrb_async_poll(struct vrb_rail *rail);

/* rail/vrb_async.c: the rail is of no use any more; tells the upper layer, once. err: an errno, or
 * 0. */
void vrb_rail_fail(struct vrb_rail *rail, const char *what, int err);

#endif
