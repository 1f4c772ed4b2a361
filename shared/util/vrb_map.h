/* A small hash map from a 64-bit number to a pointer: QPN to peer, process name to peer.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open addressing with linear probing, at most half full; look-up takes one multiplication and,
 * nearly always, one cache line. A NULL value marks a free slot, so NULL cannot be stored. */
#ifndef VRB_MAP_H
#define VRB_MAP_H

#include <stddef.h>
#include <stdint.h>

struct vrb_map_slot {
    uint64_t key;
    void *value;
};

struct vrb_map {
    struct vrb_map_slot *slots; /* 1 << bits of them, NULL while empty */
    unsigned bits;
    size_t used;
};

static inline size_t vrb_map_home(const struct vrb_map *m, uint64_t key)
{
    /* Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio. */
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - m->bits));
}

/* The value stored under key, or NULL. */
static inline void *vrb_map_get(const struct vrb_map *m, uint64_t key)
{
    size_t mask, i;

    if (m->used == 0) {
        return NULL;
    }
    mask = ((size_t)1 << m->bits) - 1;
    for (i = vrb_map_home(m, key); m->slots[i].value != NULL; i = (i + 1) & mask) {
        if (m->slots[i].key == key) {
            return m->slots[i].value;
        }
    }
    return NULL;
}

/* Stores value (not NULL) under key, replacing what was there. Returns VRB_OK or VRB_ERR_NOMEM. */
int vrb_map_put(struct vrb_map *m, uint64_t key, void *value);

/* Forgets key if it is there. */
void vrb_map_del(struct vrb_map *m, uint64_t key);

/* Frees the table; the map is empty and usable again. */
void vrb_map_clear(struct vrb_map *m);

#endif
