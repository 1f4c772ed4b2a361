/* Directory streams over the tree of sysfs.c, for programs that list /sys/class/infiniband.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream of ours is a list of entries behind a DIR pointer. The functions that take a DIR look it
 * up among the open ones; while there are none (the usual case) that costs one load.
 */
#include "env.h"
#include "softhca.h"
#include "sysfs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

struct stream {
    struct stream *next;
    struct dirent *entries;
    size_t count, room, pos;
    bool full; /* out of memory while filling */
};

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "64-bit file offsets");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;
static _Atomic unsigned int nstreams;

SHCA_EARLY static struct stream *find(DIR *dir)
{
    struct stream *s;

    if (SHCA_LIKELY(atomic_load_explicit(&nstreams, memory_order_relaxed) == 0)) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    for (s = streams; s && (void *)s != (void *)dir; s = s->next) {
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static void emit(void *arg, const char *name, enum shca_node_kind kind)
{
    struct stream *s = arg;
    struct dirent *e;

    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 32;
        struct dirent *more = realloc(s->entries, room * sizeof(*more));

        if (!more) {
            s->full = true;
            return;
        }
        s->entries = more;
        s->room = room;
    }
    e = &s->entries[s->count++];
    memset(e, 0, sizeof(*e));
    e->d_ino = s->count;
    e->d_off = (off_t)s->count;
    e->d_reclen = sizeof(*e);
    e->d_type = kind == SHCA_NODE_DIR ? DT_DIR : kind == SHCA_NODE_FILE ? DT_REG : DT_CHR;
    snprintf(e->d_name, sizeof(e->d_name), "%s", name);
}

static DIR *open_stream(const char *path, enum shca_node_kind kind)
{
    struct stream *s;

    if (kind != SHCA_NODE_DIR) {
        errno = kind == SHCA_NODE_MISSING ? ENOENT : ENOTDIR;
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (!s) {
        return NULL;
    }
    emit(s, ".", SHCA_NODE_DIR);
    emit(s, "..", SHCA_NODE_DIR);
    shca_sysfs_list(path, emit, s);
    if (s->full) {
        free(s->entries);
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    pthread_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    atomic_fetch_add(&nstreams, 1);
    pthread_mutex_unlock(&lock);
    return (DIR *)s;
}

static void close_stream(struct stream *s)
{
    struct stream **p;

    pthread_mutex_lock(&lock);
    for (p = &streams; *p && *p != s; p = &(*p)->next) {
    }
    if (*p) {
        *p = s->next;
        atomic_fetch_sub(&nstreams, 1);
    }
    pthread_mutex_unlock(&lock);
    free(s->entries);
    free(s);
}

SHCA_EXPORT SHCA_EARLY DIR *opendir(const char *path)
{
    static void *cache;
    DIR *(*next)(const char *) = (DIR * (*)(const char *)) shca_next("opendir", &cache);

    if (shca_sysfs_owns(path)) {
        enum shca_node_kind kind = shca_sysfs_find(path);

        if (kind != SHCA_NODE_NONE) {
            return open_stream(path, kind);
        }
    }
    return next(path);
}

SHCA_EXPORT SHCA_EARLY struct dirent *readdir(DIR *dir)
{
    static void *cache;
    struct dirent *(*next)(DIR *) = (struct dirent * (*)(DIR *)) shca_next("readdir", &cache);
    struct stream *s = find(dir);

    if (s) {
        return s->pos < s->count ? &s->entries[s->pos++] : NULL;
    }
    return next(dir);
}

SHCA_EXPORT SHCA_EARLY struct dirent64 *readdir64(DIR *dir)
{
    static void *cache;
    struct dirent64 *(*next)(DIR *) = (struct dirent64 * (*)(DIR *)) shca_next("readdir64", &cache);
    struct stream *s = find(dir);

    if (s) {
        return s->pos < s->count ? (struct dirent64 *)&s->entries[s->pos++] : NULL;
    }
    return next(dir);
}

SHCA_EXPORT SHCA_EARLY int closedir(DIR *dir)
{
    static void *cache;
    int (*next)(DIR *) = (int (*)(DIR *))shca_next("closedir", &cache);
    struct stream *s = find(dir);

    if (s) {
        close_stream(s);
        return 0;
    }
    return next(dir);
}

SHCA_EXPORT SHCA_EARLY void rewinddir(DIR *dir)
{
    static void *cache;
    void (*next)(DIR *) = (void (*)(DIR *))shca_next("rewinddir", &cache);
    struct stream *s = find(dir);

    if (s) {
        s->pos = 0;
        return;
    }
    next(dir);
}

SHCA_EXPORT SHCA_EARLY int dirfd(DIR *dir)
{
    static void *cache;
    int (*next)(DIR *) = (int (*)(DIR *))shca_next("dirfd", &cache);

    if (find(dir)) {
        errno = ENOTSUP;
        return -1;
    }
    return next(dir);
}

typedef int filter_fn(const struct dirent *);
typedef int compare_fn(const struct dirent **, const struct dirent **);

static int scan(const char *path, enum shca_node_kind kind, struct dirent ***list,
                filter_fn *filter, compare_fn *compare)
{
    DIR *dir = open_stream(path, kind);
    struct stream *s = (struct stream *)dir;
    struct dirent **out;
    size_t n = 0;

    if (!dir) {
        return -1;
    }
    out = calloc(s->count + 1, sizeof(*out));
    for (size_t i = 0; out && i < s->count; i++) {
        if (filter && !filter(&s->entries[i])) {
            continue;
        }
        out[n] = malloc(sizeof(**out));
        if (!out[n]) {
            break;
        }
        *out[n++] = s->entries[i];
    }
    close_stream(s);
    if (!out) {
        return -1;
    }
    if (compare) {
        qsort(out, n, sizeof(*out), (int (*)(const void *, const void *))compare);
    }
    *list = out;
    return (int)n;
}

SHCA_EXPORT SHCA_EARLY int scandir(const char *restrict path, struct dirent ***restrict list,
                                   filter_fn *filter, compare_fn *compare)
{
    static void *cache;
    int (*next)(const char *, struct dirent ***, filter_fn *, compare_fn *) =
        (int (*)(const char *, struct dirent ***, filter_fn *, compare_fn *))shca_next("scandir",
                                                                                       &cache);

    if (shca_sysfs_owns(path)) {
        enum shca_node_kind kind = shca_sysfs_find(path);

        if (kind != SHCA_NODE_NONE) {
            return scan(path, kind, list, filter, compare);
        }
    }
    return next(path, list, filter, compare);
}
