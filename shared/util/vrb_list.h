/* Intrusive doubly linked list: an element may leave from anywhere, and knows whether it is in one.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_LIST_H
#define VRB_LIST_H

#include <stddef.h>

struct vrb_list {
    struct vrb_list *next,
        *prev; /* a head points at itself when empty; an element outside any list too */
};

#define vrb_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void vrb_list_init(struct vrb_list *l)
{
    l->next = l->prev = l;
}

static inline int vrb_list_empty(const struct vrb_list *l)
{
    return l->next == l;
}

/* Also tells whether an element is in a list. */
static inline int vrb_list_linked(const struct vrb_list *l)
{
    return l->next != l;
}

static inline void vrb_list_append(struct vrb_list *head, struct vrb_list *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

/* Harmless for an element that is in no list. */
static inline void vrb_list_remove(struct vrb_list *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    vrb_list_init(l);
}

static inline struct vrb_list *vrb_list_pop(struct vrb_list *head)
{
    struct vrb_list *l = head->next;

    if (l == head) {
        return NULL;
    }
    vrb_list_remove(l);
    return l;
}

#endif
