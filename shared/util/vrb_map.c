/* Growth and removal for the hash map of vrb_map.h.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_map.h"

#include <stdlib.h>
#include <string.h>

#include "util/vrb_status.h"

static void insert(struct vrb_map *m, uint64_t key, void *value)
{
    size_t mask = ((size_t)1 << m->bits) - 1;
    size_t i = vrb_map_home(m, key);

    while (m->slots[i].value != NULL && m->slots[i].key != key) {
        i = (i + 1) & mask;
    }
    if (m->slots[i].value == NULL) {
        m->used++;
    }
    m->slots[i].key = key;
    m->slots[i].value = value;
}

static int grow(struct vrb_map *m)
{
    struct vrb_map old = *m;
    size_t i, n = old.slots == NULL ? 0 : (size_t)1 << old.bits;

    m->bits = old.slots == NULL ? 4 : old.bits + 1;
    m->slots = calloc((size_t)1 << m->bits, sizeof(*m->slots));
    if (m->slots == NULL) {
        *m = old;
        return VRB_ERR_NOMEM;
    }
    m->used = 0;
    for (i = 0; i < n; i++) {
        if (old.slots[i].value != NULL) {
            insert(m, old.slots[i].key, old.slots[i].value);
        }
    }
    free(old.slots);
    return VRB_OK;
}

int vrb_map_put(struct vrb_map *m, uint64_t key, void *value)
{
    if (m->slots == NULL || (m->used + 1) * 2 > (size_t)1 << m->bits) {
        int rc = grow(m);
        if (rc != VRB_OK) {
            return rc;
        }
    }
    insert(m, key, value);
    return VRB_OK;
}

void vrb_map_del(struct vrb_map *m, uint64_t key)
{
    size_t mask, i, j;

    if (m->used == 0) {
        return;
    }
    mask = ((size_t)1 << m->bits) - 1;
    for (i = vrb_map_home(m, key); m->slots[i].value == NULL || m->slots[i].key != key;
         i = (i + 1) & mask) {
        if (m->slots[i].value == NULL) {
            return;
        }
    }
    m->used--;
    /* Close the gap: move back every later entry of the run whose home lies at or before it. */
    for (j = (i + 1) & mask; m->slots[j].value != NULL; j = (j + 1) & mask) {
        size_t home = vrb_map_home(m, m->slots[j].key);
        if (((j - home) & mask) >= ((j - i) & mask)) {
            m->slots[i] = m->slots[j];
            i = j;
        }
    }
    m->slots[i].value = NULL;
}

void vrb_map_clear(struct vrb_map *m)
{
    free(m->slots);
    memset(m, 0, sizeof(*m));
}
