/* Shows programs the device files of the simulated host in place of this machine's, and its name.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * libc functions that take a path look at it first: below /dev/infiniband and
 * /sys/class/infiniband[_verbs] the answer comes from sysfs.c, everything else goes to the next
 * library untouched. Character devices become /dev/null, files become memory files with the text as
 * it is now, directories are read through a list of ours (env_dir.c).
 */
#undef _FORTIFY_SOURCE /* its inline open() and stat() stand in the way of defining them */
#include "env.h"
#include "softhca.h"
#include "sysfs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

SHCA_EARLY void *shca_next(const char *name, void **cache)
{
    void *fn = __atomic_load_n(cache, __ATOMIC_RELAXED);

    if (!fn) {
        fn = dlsym(RTLD_NEXT, name);
        __atomic_store_n(cache, fn, __ATOMIC_RELAXED);
    }
    return fn;
}

/* ---- opening ---- */

/* Reading the attributes of an empty GID slot fails with EINVAL; so does reading an epoll fd. */
static int unreadable(int flags)
{
    return epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
}

static int memory_file(const char *text, size_t len, int flags)
{
    int fd = memfd_create("softhca", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);

    if (fd >= 0 && (write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        errno = EIO;
        return -1;
    }
    return fd;
}

/* Opens a node of ours. */
static int open_node(const char *path, enum shca_node_kind kind, int flags)
{
    char text[SHCA_SYSFS_TEXT];
    int len;

    if (kind == SHCA_NODE_MISSING) {
        errno = ENOENT;
        return -1;
    }
    if (kind == SHCA_NODE_DIR || (flags & O_DIRECTORY)) {
        errno = kind == SHCA_NODE_DIR ? EACCES : ENOTDIR; /* opendir() is the way in */
        return -1;
    }
    if (kind == SHCA_NODE_CHARDEV) {
        int (*next)(const char *, int, ...) = NULL;
        static void *cache;

        next = (int (*)(const char *, int, ...))shca_next("open", &cache);
        return next("/dev/null", flags & ~(O_CREAT | O_EXCL | O_TRUNC));
    }
    if ((flags & O_ACCMODE) != O_RDONLY) {
        errno = EACCES;
        return -1;
    }
    len = shca_sysfs_text(path, text);
    if (len == -EINVAL) {
        return unreadable(flags);
    }
    if (len < 0) {
        errno = -len;
        return -1;
    }
    return memory_file(text, (size_t)len, flags);
}

/* Absolute paths only: a path relative to a directory of ours cannot be, they have no fd. */
SHCA_EARLY static bool ours(const char *path, enum shca_node_kind *kind)
{
    int saved = errno;

    if (SHCA_LIKELY(!shca_sysfs_owns(path))) {
        return false;
    }
    *kind = shca_sysfs_find(path);
    errno = saved;
    return *kind != SHCA_NODE_NONE;
}

#define NEXT(name, result, ...) \
    static void *cache_;        \
    result (*next)(__VA_ARGS__) = (result(*)(__VA_ARGS__))shca_next(name, &cache_)

#define NEED_NEXT(failure) \
    if (!next) {           \
        errno = ENOSYS;    \
        return failure;    \
    }

/* The mode argument exists only with these flags. */
#define NEEDS_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

#define DEFINE_OPEN(name)                                             \
    SHCA_EXPORT int name(const char *path, int flags, ...);           \
    SHCA_EXPORT SHCA_EARLY int name(const char *path, int flags, ...) \
    {                                                                 \
        NEXT(#name, int, const char *, int, ...);                     \
        enum shca_node_kind kind;                                     \
        unsigned int mode = 0;                                        \
                                                                      \
        if (NEEDS_MODE(flags)) {                                      \
            va_list list;                                             \
                                                                      \
            va_start(list, flags);                                    \
            mode = va_arg(list, unsigned int);                        \
            va_end(list);                                             \
        }                                                             \
        if (ours(path, &kind)) {                                      \
            return open_node(path, kind, flags);                      \
        }                                                             \
        NEED_NEXT(-1)                                                 \
        return next(path, flags, mode);                               \
    }

#define DEFINE_OPENAT(name)                                                    \
    SHCA_EXPORT int name(int dir, const char *path, int flags, ...);           \
    SHCA_EXPORT SHCA_EARLY int name(int dir, const char *path, int flags, ...) \
    {                                                                          \
        NEXT(#name, int, int, const char *, int, ...);                         \
        enum shca_node_kind kind;                                              \
        unsigned int mode = 0;                                                 \
                                                                               \
        if (NEEDS_MODE(flags)) {                                               \
            va_list list;                                                      \
                                                                               \
            va_start(list, flags);                                             \
            mode = va_arg(list, unsigned int);                                 \
            va_end(list);                                                      \
        }                                                                      \
        if (ours(path, &kind)) {                                               \
            return open_node(path, kind, flags);                               \
        }                                                                      \
        NEED_NEXT(-1)                                                          \
        return next(dir, path, flags, mode);                                   \
    }

#define DEFINE_FOPEN(name)                                                \
    SHCA_EXPORT FILE *name(const char *path, const char *mode);           \
    SHCA_EXPORT SHCA_EARLY FILE *name(const char *path, const char *mode) \
    {                                                                     \
        NEXT(#name, FILE *, const char *, const char *);                  \
        enum shca_node_kind kind;                                         \
                                                                          \
        if (ours(path, &kind)) {                                          \
            return fopen_node(path, kind, mode);                          \
        }                                                                 \
        NEED_NEXT(NULL)                                                   \
        return next(path, mode);                                          \
    }

static FILE *fopen_node(const char *path, enum shca_node_kind kind, const char *mode)
{
    int flags = mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR, fd;
    FILE *file;

    if (strchr(mode, 'e')) {
        flags |= O_CLOEXEC;
    }
    fd = open_node(path, kind, flags);
    if (fd < 0) {
        return NULL;
    }
    file = fdopen(fd, mode);
    if (!file) {
        close(fd);
    }
    return file;
}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

/* What -D_FORTIFY_SOURCE makes of open without a mode. */
#define DEFINE_OPEN_2(name)                                      \
    SHCA_EXPORT int name(const char *path, int flags);           \
    SHCA_EXPORT SHCA_EARLY int name(const char *path, int flags) \
    {                                                            \
        NEXT(#name, int, const char *, int);                     \
        enum shca_node_kind kind;                                \
                                                                 \
        if (ours(path, &kind)) {                                 \
            return open_node(path, kind, flags);                 \
        }                                                        \
        NEED_NEXT(-1)                                            \
        return next(path, flags);                                \
    }

DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)

#define DEFINE_OPENAT_2(name)                                             \
    SHCA_EXPORT int name(int dir, const char *path, int flags);           \
    SHCA_EXPORT SHCA_EARLY int name(int dir, const char *path, int flags) \
    {                                                                     \
        NEXT(#name, int, int, const char *, int);                         \
        enum shca_node_kind kind;                                         \
                                                                          \
        if (ours(path, &kind)) {                                          \
            return open_node(path, kind, flags);                          \
        }                                                                 \
        NEED_NEXT(-1)                                                     \
        return next(dir, path, flags);                                    \
    }

DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/* ---- asking ---- */

static int stat_node(enum shca_node_kind kind, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_nlink = 1;
    st->st_blksize = 4096;
    switch (kind) {
    case SHCA_NODE_DIR:
        st->st_mode = S_IFDIR | 0755;
        return 0;
    case SHCA_NODE_FILE:
        st->st_mode = S_IFREG | 0444;
        st->st_size = 4096; /* as in sysfs */
        return 0;
    case SHCA_NODE_CHARDEV:
        st->st_mode = S_IFCHR | 0666;
        st->st_rdev = 231u << 8 | 192; /* INFINIBAND_MAJOR, first uverbs minor */
        return 0;
    default:
        errno = ENOENT;
        return -1;
    }
}

/* struct stat and struct stat64 are one on the 64-bit systems we build for. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit file offsets");

#define DEFINE_STAT(name, type)                                 \
    SHCA_EXPORT SHCA_EARLY int name(const char *path, type *st) \
    {                                                           \
        NEXT(#name, int, const char *, type *);                 \
        enum shca_node_kind kind;                               \
                                                                \
        if (ours(path, &kind)) {                                \
            return stat_node(kind, (struct stat *)st);          \
        }                                                       \
        NEED_NEXT(-1)                                           \
        return next(path, st);                                  \
    }

#define DEFINE_FSTATAT(name, type)                                                  \
    SHCA_EXPORT SHCA_EARLY int name(int dir, const char *path, type *st, int flags) \
    {                                                                               \
        NEXT(#name, int, int, const char *, type *, int);                           \
        enum shca_node_kind kind;                                                   \
                                                                                    \
        if (ours(path, &kind)) {                                                    \
            return stat_node(kind, (struct stat *)st);                              \
        }                                                                           \
        NEED_NEXT(-1)                                                               \
        return next(dir, path, st, flags);                                          \
    }

/* Programs built against glibc before 2.33 call these. */
#define DEFINE_XSTAT(name, type)                                             \
    SHCA_EXPORT int name(int version, const char *path, type *st);           \
    SHCA_EXPORT SHCA_EARLY int name(int version, const char *path, type *st) \
    {                                                                        \
        NEXT(#name, int, int, const char *, type *);                         \
        enum shca_node_kind kind;                                            \
                                                                             \
        if (ours(path, &kind)) {                                             \
            return stat_node(kind, (struct stat *)st);                       \
        }                                                                    \
        NEED_NEXT(-1)                                                        \
        return next(version, path, st);                                      \
    }

#define DEFINE_FXSTATAT(name, type)                                                              \
    SHCA_EXPORT int name(int version, int dir, const char *path, type *st, int flags);           \
    SHCA_EXPORT SHCA_EARLY int name(int version, int dir, const char *path, type *st, int flags) \
    {                                                                                            \
        NEXT(#name, int, int, int, const char *, type *, int);                                   \
        enum shca_node_kind kind;                                                                \
                                                                                                 \
        if (ours(path, &kind)) {                                                                 \
            return stat_node(kind, (struct stat *)st);                                           \
        }                                                                                        \
        NEED_NEXT(-1)                                                                            \
        return next(version, dir, path, st, flags);                                              \
    }

DEFINE_STAT(stat, struct stat)
DEFINE_STAT(stat64, struct stat64)
DEFINE_STAT(lstat, struct stat)
DEFINE_STAT(lstat64, struct stat64)
DEFINE_FSTATAT(fstatat, struct stat)
DEFINE_FSTATAT(fstatat64, struct stat64)
DEFINE_XSTAT(__xstat, struct stat)
DEFINE_XSTAT(__xstat64, struct stat64)
DEFINE_XSTAT(__lxstat, struct stat)
DEFINE_XSTAT(__lxstat64, struct stat64)
DEFINE_FXSTATAT(__fxstatat, struct stat)
DEFINE_FXSTATAT(__fxstatat64, struct stat64)

SHCA_EXPORT SHCA_EARLY int statx(int dir, const char *restrict path, int flags, unsigned int mask,
                                 struct statx *restrict stx)
{
    NEXT("statx", int, int, const char *, int, unsigned int, struct statx *);
    enum shca_node_kind kind;
    struct stat st;

    if (ours(path, &kind)) {
        if (stat_node(kind, &st)) {
            return -1;
        }
        memset(stx, 0, sizeof(*stx));
        stx->stx_mask = STATX_BASIC_STATS;
        stx->stx_mode = (uint16_t)st.st_mode;
        stx->stx_nlink = 1;
        stx->stx_size = (uint64_t)st.st_size;
        stx->stx_blksize = 4096;
        stx->stx_rdev_major = (uint32_t)st.st_rdev >> 8;
        stx->stx_rdev_minor = (uint32_t)st.st_rdev & 0xff;
        return 0;
    }
    NEED_NEXT(-1)
    return next(dir, path, flags, mask, stx);
}

static int access_node(enum shca_node_kind kind, int mode)
{
    if (kind == SHCA_NODE_MISSING) {
        errno = ENOENT;
        return -1;
    }
    if ((kind == SHCA_NODE_FILE && (mode & (W_OK | X_OK))) ||
        (kind == SHCA_NODE_DIR && (mode & W_OK)) || (kind == SHCA_NODE_CHARDEV && (mode & X_OK))) {
        errno = EACCES;
        return -1;
    }
    return 0;
}

#define DEFINE_ACCESS(name)                                     \
    SHCA_EXPORT SHCA_EARLY int name(const char *path, int mode) \
    {                                                           \
        NEXT(#name, int, const char *, int);                    \
        enum shca_node_kind kind;                               \
                                                                \
        if (ours(path, &kind)) {                                \
            return access_node(kind, mode);                     \
        }                                                       \
        NEED_NEXT(-1)                                           \
        return next(path, mode);                                \
    }

DEFINE_ACCESS(access)
DEFINE_ACCESS(euidaccess)
DEFINE_ACCESS(eaccess)

SHCA_EXPORT SHCA_EARLY int faccessat(int dir, const char *path, int mode, int flags)
{
    NEXT("faccessat", int, int, const char *, int, int);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return access_node(kind, mode);
    }
    NEED_NEXT(-1)
    return next(dir, path, mode, flags);
}

/* ---- links: we have none ---- */

static ssize_t not_a_link(enum shca_node_kind kind)
{
    errno = kind == SHCA_NODE_MISSING ? ENOENT : EINVAL;
    return -1;
}

SHCA_EXPORT SHCA_EARLY ssize_t readlink(const char *restrict path, char *restrict buf, size_t len)
{
    NEXT("readlink", ssize_t, const char *, char *, size_t);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return not_a_link(kind);
    }
    NEED_NEXT(-1)
    return next(path, buf, len);
}

SHCA_EXPORT SHCA_EARLY ssize_t readlinkat(int dir, const char *restrict path, char *restrict buf,
                                          size_t len)
{
    NEXT("readlinkat", ssize_t, int, const char *, char *, size_t);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return not_a_link(kind);
    }
    NEED_NEXT(-1)
    return next(dir, path, buf, len);
}

SHCA_EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);
SHCA_EXPORT SHCA_EARLY ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size)
{
    NEXT("__readlink_chk", ssize_t, const char *, char *, size_t, size_t);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return not_a_link(kind);
    }
    NEED_NEXT(-1)
    return next(path, buf, len, size);
}

static char *real_node(const char *path, enum shca_node_kind kind, char *to)
{
    if (kind == SHCA_NODE_MISSING || strlen(path) >= PATH_MAX) {
        errno = kind == SHCA_NODE_MISSING ? ENOENT : ENAMETOOLONG;
        return NULL;
    }
    return to ? strcpy(to, path) : strdup(path);
}

SHCA_EXPORT SHCA_EARLY char *realpath(const char *restrict path, char *restrict to)
{
    NEXT("realpath", char *, const char *, char *);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return real_node(path, kind, to);
    }
    NEED_NEXT(NULL)
    return next(path, to);
}

SHCA_EXPORT char *__realpath_chk(const char *path, char *to, size_t size);
SHCA_EXPORT SHCA_EARLY char *__realpath_chk(const char *path, char *to, size_t size)
{
    NEXT("__realpath_chk", char *, const char *, char *, size_t);
    enum shca_node_kind kind;

    if (ours(path, &kind)) {
        return real_node(path, kind, to);
    }
    NEED_NEXT(NULL)
    return next(path, to, size);
}

/* ---- the host's name ---- */

SHCA_EARLY static const char *host_name(void)
{
    const char *name = getenv("SOFTHCA_HOSTNAME");

    return name && *name ? name : NULL;
}

SHCA_EARLY static int copy_name(const char *name, char *to, size_t len)
{
    size_t need = strlen(name) + 1;

    if (need > len) {
        memcpy(to, name, len);
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to, name, need);
    return 0;
}

SHCA_EXPORT SHCA_EARLY int gethostname(char *to, size_t len)
{
    NEXT("gethostname", int, char *, size_t);
    const char *name = host_name();

    if (name) {
        return copy_name(name, to, len);
    }
    NEED_NEXT(-1)
    return next(to, len);
}

SHCA_EXPORT int __gethostname_chk(char *to, size_t len, size_t size);
SHCA_EXPORT SHCA_EARLY int __gethostname_chk(char *to, size_t len, size_t size)
{
    if (len > size) {
        abort();
    }
    return gethostname(to, len);
}

SHCA_EXPORT SHCA_EARLY int uname(struct utsname *to)
{
    NEXT("uname", int, struct utsname *);
    const char *name = host_name();
    int rc;

    NEED_NEXT(-1)
    rc = next(to);
    if (rc == 0 && name) {
        snprintf(to->nodename, sizeof(to->nodename), "%s", name);
    }
    return rc;
}
