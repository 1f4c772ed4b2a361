/* Packets in flight and packets to send again: table and lists.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "reliable/vrb_rel_tx.h"

#include <string.h>

#include "reliable/vrb_rel_num.h"

static uint16_t slot_of(uint64_t dseq)
{
    return (uint16_t)(dseq & (VRB_REL_WINDOW - 1));
}

static uint16_t *chunk_of(struct vrb_rel_tx *tx, uint64_t dseq)
{
    return &tx->chunk[slot_of(dseq) / VRB_REL_CHUNK];
}

static struct vrb_rel_pkt *at(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                              uint16_t slot)
{
    return &pool->chunks[tx->chunk[slot / VRB_REL_CHUNK]].pkt[slot % VRB_REL_CHUNK];
}

/* The number of the packet in a slot: the only one with it in the window. */
static uint64_t dseq_of(const struct vrb_rel_tx *tx, uint16_t slot)
{
    return tx->una + slot_of(slot - tx->una);
}

static void append(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool, uint16_t *head,
                   uint16_t *tail, uint16_t slot)
{
    struct vrb_rel_pkt *pkt = at(tx, pool, slot);

    pkt->prev = *tail;
    pkt->next = VRB_REL_NIL;
    if (*tail == VRB_REL_NIL) {
        *head = slot;
    } else {
        at(tx, pool, *tail)->next = slot;
    }
    *tail = slot;
}

static void unlink_from(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                        uint16_t *head, uint16_t *tail, const struct vrb_rel_pkt *pkt)
{
    if (pkt->prev == VRB_REL_NIL) {
        *head = pkt->next;
    } else {
        at(tx, pool, pkt->prev)->next = pkt->next;
    }
    if (pkt->next == VRB_REL_NIL) {
        *tail = pkt->prev;
    } else {
        at(tx, pool, pkt->next)->prev = pkt->prev;
    }
}

void vrb_rel_tx_init(struct vrb_rel_tx *tx, uint32_t start)
{
    tx->next_pn = tx->next_dseq = tx->una = vrb_rel_first(start);
    tx->echoed = tx->next_pn - 1;
    tx->sent_head = tx->sent_tail = tx->lost_head = tx->lost_tail = VRB_REL_NIL;
    tx->in_flight = tx->lost = 0;
    memset(tx->chunk, 0xff, sizeof(tx->chunk)); /* VRB_REL_NIL */
}

int vrb_rel_tx_can_add(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool)
{
    return tx->next_dseq - tx->una < VRB_REL_SPAN &&
           (tx->chunk[slot_of(tx->next_dseq) / VRB_REL_CHUNK] != VRB_REL_NIL ||
            !vrb_rel_pool_empty(pool));
}

/* Gives a packet its next number and makes it the youngest in flight. */
static void leaves(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint16_t slot, uint64_t now)
{
    struct vrb_rel_pkt *pkt = at(tx, pool, slot);

    pkt->pn = tx->next_pn++;
    pkt->sent = now;
    append(tx, pool, &tx->sent_head, &tx->sent_tail, slot);
    tx->in_flight++;
}

struct vrb_rel_pkt *vrb_rel_tx_add(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, void *cookie,
                                   uint64_t now)
{
    uint16_t slot = slot_of(tx->next_dseq), *chunk = chunk_of(tx, tx->next_dseq);

    if (tx->next_dseq - tx->una >= VRB_REL_SPAN) {
        return NULL;
    }
    if (*chunk == VRB_REL_NIL) {
        *chunk = vrb_rel_pool_get(pool);
        if (*chunk == VRB_REL_NIL) {
            return NULL;
        }
    }
    struct vrb_rel_pkt *pkt = at(tx, pool, slot);

    pkt->cookie = cookie;
    pkt->flags = 0;
    pkt->again = 0;
    pool->chunks[*chunk].live |= (uint16_t)(1u << slot % VRB_REL_CHUNK);
    tx->next_dseq++;
    leaves(tx, pool, slot, now);
    return pkt;
}

struct vrb_rel_pkt *vrb_rel_tx_oldest(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool)
{
    return tx->sent_head == VRB_REL_NIL ? NULL : at(tx, pool, tx->sent_head);
}

void vrb_rel_tx_lose_oldest(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint8_t flags)
{
    uint16_t slot = tx->sent_head;
    struct vrb_rel_pkt *pkt = at(tx, pool, slot);

    unlink_from(tx, pool, &tx->sent_head, &tx->sent_tail, pkt);
    tx->in_flight--;
    pkt->flags = VRB_REL_PKT_LOST | flags;
    append(tx, pool, &tx->lost_head, &tx->lost_tail, slot);
    tx->lost++;
}

struct vrb_rel_pkt *vrb_rel_tx_again(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint64_t now,
                                     uint64_t *dseq)
{
    uint16_t slot = tx->lost_head;

    if (slot == VRB_REL_NIL) {
        return NULL;
    }
    struct vrb_rel_pkt *pkt = at(tx, pool, slot);

    unlink_from(tx, pool, &tx->lost_head, &tx->lost_tail, pkt);
    tx->lost--;
    pkt->flags &= (uint8_t)~VRB_REL_PKT_LOST;
    if (pkt->again < UINT8_MAX) {
        pkt->again++;
    }
    *dseq = dseq_of(tx, slot);
    leaves(tx, pool, slot, now);
    return pkt;
}

uint16_t vrb_rel_tx_live(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                         uint64_t base)
{
    uint16_t chunk = tx->chunk[slot_of(base) / VRB_REL_CHUNK];

    return chunk == VRB_REL_NIL ? 0 : pool->chunks[chunk].live;
}

struct vrb_rel_pkt *vrb_rel_tx_find(const struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool,
                                    uint64_t dseq)
{
    return at(tx, pool, slot_of(dseq));
}

void vrb_rel_tx_remove(struct vrb_rel_tx *tx, struct vrb_rel_pool *pool, uint64_t dseq)
{
    uint16_t *chunk = chunk_of(tx, dseq);
    struct vrb_rel_pkt *pkt = at(tx, pool, slot_of(dseq));

    if (pkt->flags & VRB_REL_PKT_LOST) {
        unlink_from(tx, pool, &tx->lost_head, &tx->lost_tail, pkt);
        tx->lost--;
    } else {
        unlink_from(tx, pool, &tx->sent_head, &tx->sent_tail, pkt);
        tx->in_flight--;
    }
    pool->chunks[*chunk].live &= (uint16_t) ~(1u << dseq % VRB_REL_CHUNK);
    if (pool->chunks[*chunk].live == 0) {
        vrb_rel_pool_put(pool, *chunk);
        *chunk = VRB_REL_NIL;
    }
}

void vrb_rel_tx_advance(struct vrb_rel_tx *tx, const struct vrb_rel_pool *pool)
{
    while (tx->una < tx->next_dseq) {
        unsigned in_chunk = (unsigned)(tx->una % VRB_REL_CHUNK);
        uint64_t base = tx->una - in_chunk;
        unsigned rest = (unsigned)vrb_rel_tx_live(tx, pool, base) >> in_chunk;

        if (rest) {
            tx->una += (unsigned)__builtin_ctz(rest);
            return;
        }
        tx->una = base + VRB_REL_CHUNK;
    }
    tx->una = tx->next_dseq;
}
