/* RDMA write, read and atomics over RC, queued when the send queue is full.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A put's completion is the responder's acknowledgement: the data is in the remote memory
 * (IBTA 9.7.5.1. 'put is complete when the remote memory holds it'). Reads and atomics are limited
 * by the QP itself to max_rd_atomic in flight; the others wait in the send queue.
 *
 * The old value that an atomic fetches lands in a registered buffer of ours, so that the caller's
 * variable needs neither registration nor alignment. Devices return it in the byte order of the
 * host: those that do not are said to have no atomics (IBV_ATOMIC_NONE).
 *
 * Where the success of a read is to be doubted (vrb_query_doubts_reads()), one that takes more than
 * a packet is followed by a read of its first byte, which completes in its place: it succeeds only
 * if the long one did. (Not a write of nothing: when soft-RoCE repeats the answer to a read, it
 * takes the memory region from the last request, and one of no length has none.) As the device has
 * more to wait for than the last packet of the long read, it also finds out sooner that one was
 * lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer/vrb_path.h"
#include "rc/vrb_rc.h"
#include "util/vrb_probe.h"

/* Operations made at a time when the free list is empty. */
#define RDMA_CHUNK 64

/* A read of so many bytes has an answer of one packet at any MTU. */
#define MIN_MTU 256

struct chunk {
    struct chunk *next;
};

static void count(struct vrb_stats *stats, const struct vrb_rdma *rdma, int sign)
{
    if (rdma->op == VRB_RDMA_PUT) {
        stats->puts += (uint64_t)sign;
        stats->put_bytes += (uint64_t)sign * rdma->size;
    } else if (vrb_rdma_is_atomic(rdma->op)) {
        stats->atomics += (uint64_t)sign;
    } else {
        stats->gets += (uint64_t)sign;
        stats->get_bytes += (uint64_t)sign * rdma->size;
    }
}

void vrb_rc_rdma_uncount(struct vrb_rail *rail, const struct vrb_rdma *rdma)
{
    count(&rail->stats, rdma, -1);
}

const char *vrb_rc_rdma_text(uint8_t op)
{
    static const char *const text[] = {
        [VRB_RDMA_PUT] = "RDMA write",
        [VRB_RDMA_GET] = "RDMA read",
        [VRB_RDMA_ADD] = "atomic fetch and add",
        [VRB_RDMA_CSWAP] = "atomic compare and swap",
    };

    return text[op];
}

static void put_back(struct vrb_peer *peer, struct vrb_rdma *rdma)
{
    rdma->next = peer->r_head;
    peer->r_head = rdma;
    if (rdma->next == NULL) {
        peer->r_tail = &rdma->next;
    }
}

/* Makes a write or a read into an atomic operation. 0: no memory for what it fetches. */
static int make_atomic(struct vrb_rail *rail, struct vrb_rdma *rdma, struct ibv_send_wr *wr)
{
    struct vrb_buf *buf = rdma->fetched;

    if (buf == NULL) { /* it is there already when the provider refused the operation before */
        buf = rdma->fetched = vrb_pool_get(&rail->small);
        if (buf == NULL) {
            return 0;
        }
    }
    wr->sg_list->addr = (uintptr_t)buf->payload;
    wr->sg_list->length = sizeof(uint64_t);
    wr->sg_list->lkey = buf->lkey;
    wr->wr.atomic.remote_addr = rdma->remote_addr;
    wr->wr.atomic.rkey = rdma->rkey;
    if (rdma->op == VRB_RDMA_ADD) {
        wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr->wr.atomic.compare_add = rdma->operand;
    } else {
        wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr->wr.atomic.compare_add = rdma->compare;
        wr->wr.atomic.swap = rdma->operand;
    }
    return 1;
}

void vrb_rc_rdma_fetch(struct vrb_rdma *rdma)
{
    if (rdma->fetched != NULL) {
        memcpy(&rdma->result, rdma->fetched->payload, sizeof(rdma->result));
        vrb_pool_put(rdma->fetched->pool, rdma->fetched);
        rdma->fetched = NULL;
    }
}

int vrb_rc_rdma_send(struct vrb_peer *peer, struct vrb_rdma *rdma)
{
    struct vrb_rail *rail = peer->rail;
    const char *what = vrb_rc_rdma_text(rdma->op);
    struct ibv_sge sge = {
        .addr = rdma->local_addr, .length = (uint32_t)rdma->size, .lkey = rdma->lkey};
    struct ibv_send_wr wr = {
        .wr_id = vrb_wr_id(rdma, VRB_WR_RDMA),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = rdma->op == VRB_RDMA_PUT ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
        .send_flags = rdma->from_anywhere ? IBV_SEND_INLINE : 0,
        .wr.rdma = {.remote_addr = rdma->remote_addr, .rkey = rdma->rkey},
    };
    struct ibv_sge first = {.addr = rdma->local_addr, .length = 1, .lkey = rdma->lkey};
    struct ibv_send_wr proof, *bad, *last = &wr;
    uint16_t alone = 0;
    int err;

    if (vrb_rdma_is_atomic(rdma->op) && !make_atomic(rail, rdma, &wr)) {
        put_back(peer, rdma);
        vrb_rc_retry_later(peer, ENOMEM, what);
        return 0;
    }
    count(&rail->stats, rdma, 1);
    if (rail->doubt_reads && rdma->op == VRB_RDMA_GET && rdma->size > MIN_MTU) {
        proof = wr;
        proof.sg_list = &first;
        wr.wr_id = vrb_wr_id(peer, VRB_WR_INLINE); /* it only frees slots, or fails */
        wr.next = last = &proof;
        alone = vrb_rc_take_slot(peer, 0, &wr.send_flags);
    }
    rdma->retire = vrb_rc_take_slot(peer, 1, &last->send_flags);
    peer->owned++;
    err = abs(ibv_post_send(peer->qp, &wr, &bad));
    if (__builtin_expect(err == 0, 1)) {
        VRB_PROBE3(rdma_posted, rdma, rdma->size, rdma->op);
        return 1;
    }
    if (vrb_is_refusal(err)) {
        vrb_rc_return_slot(peer, last->send_flags, rdma->retire);
        if (last != &wr && bad == &wr) { /* otherwise it is read twice, which does no harm */
            vrb_rc_return_slot(peer, wr.send_flags, alone);
        }
        peer->owned--;
        count(&rail->stats, rdma, -1);
        put_back(peer, rdma);
        vrb_rc_retry_later(peer, err, what);
    } else {
        vrb_rc_post_failed(peer, err, what);
        vrb_rc_lost_slot(peer);
        vrb_path_rdma_done(rail, rdma, VRB_ERR_PEER);
    }
    return 0;
}

void vrb_rc_rdma_drain(struct vrb_peer *peer)
{
    while (peer->up && !peer->failed && peer->r_head != NULL && vrb_rc_can_post_rdma(peer)) {
        struct vrb_rdma *rdma = peer->r_head;

        peer->r_head = rdma->next;
        if (peer->r_head == NULL) {
            peer->r_tail = &peer->r_head;
        }
        if (!vrb_rc_rdma_send(peer, rdma)) {
            return;
        }
        peer->refused_since = 0;
    }
}

static size_t rdma_size(const struct vrb_rail *rail)
{
    return (sizeof(struct vrb_rdma) + rail->rdma_user + 15) & ~(size_t)15;
}

struct vrb_rdma *vrb_rdma_get(struct vrb_rail *rail)
{
    struct vrb_rdma *rdma;

    vrb_lock(rail);
    if (rail->rdma_free == NULL) {
        size_t size = rdma_size(rail);
        char *mem = calloc(1, 16 + RDMA_CHUNK * size);

        if (mem != NULL) {
            ((struct chunk *)(void *)mem)->next = rail->rdma_chunks;
            rail->rdma_chunks = mem;
            for (int i = 0; i < RDMA_CHUNK; i++) {
                rdma = (struct vrb_rdma *)(void *)(mem + 16 + (size_t)i * size);
                rdma->next = rail->rdma_free;
                rail->rdma_free = rdma;
            }
        }
    }
    rdma = rail->rdma_free;
    if (rdma != NULL) {
        rail->rdma_free = rdma->next;
        rdma->from_anywhere = rdma->must = 0;
    }
    vrb_unlock(rail);
    return rdma;
}

void vrb_rdma_free(struct vrb_rail *rail, struct vrb_rdma *rdma)
{
    vrb_lock(rail);
    rdma->next = rail->rdma_free;
    rail->rdma_free = rdma;
    vrb_unlock(rail);
}
