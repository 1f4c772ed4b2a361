/* A virtual clock's events: taken out in order of time, and of arrival when times are equal.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef EVENT_HEAP_H
#define EVENT_HEAP_H

#include <stdint.h>
#include <stdlib.h>

struct event {
    uint64_t at, order;
    uint32_t type, who, what;
};

struct event_heap {
    struct event *e;
    uint32_t used, room;
    uint64_t order;
};

static inline int event_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static inline void event_push(struct event_heap *h, uint64_t at, uint32_t type, uint32_t who,
                              uint32_t what)
{
    if (h->used == h->room) {
        h->room = h->room ? 2 * h->room : 256;
        h->e = realloc(h->e, h->room * sizeof(*h->e));
        if (h->e == NULL) {
            abort();
        }
    }
    struct event ev = {.at = at, .order = h->order++, .type = type, .who = who, .what = what};
    uint32_t i = h->used++;

    while (i && event_before(&ev, &h->e[(i - 1) / 2])) {
        h->e[i] = h->e[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->e[i] = ev;
}

/* Returns 0 when there is none. */
static inline int event_pop(struct event_heap *h, struct event *out)
{
    if (h->used == 0) {
        return 0;
    }
    *out = h->e[0];
    struct event last = h->e[--h->used];
    uint32_t i = 0, child;

    while ((child = 2 * i + 1) < h->used) {
        child += child + 1 < h->used && event_before(&h->e[child + 1], &h->e[child]);
        if (!event_before(&h->e[child], &last)) {
            break;
        }
        h->e[i] = h->e[child];
        i = child;
    }
    h->e[i] = last;
    return 1;
}

#endif
