/* The fabric's segment and directory: making, checking, mapping, reaping of the dead, removal.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The segment is /dev/shm/softhca-FABRIC/seg; beside it lie the FIFOs of event channels and the
 * file `lock`, whose flock() serialises attaching, reaping and removal. An attached process holds a
 * shared flock on the segment itself, so that nobody takes a segment of another build for an
 * orphan.
 */
#include "shm_dir.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct shca shca = {.dir_fd = -1, .strict = 1, .bounce = 1024, .lock = PTHREAD_MUTEX_INITIALIZER};

int shca_seg_fd = -1;

enum { SEG_GIB = 8 }; /* address space of the sparse segment; pages exist only once touched */

/* Hash of everything whose change makes two builds incompatible. */
static uint64_t abi_hash(void)
{
    const uint64_t part[] = {
        SM_VERSION,
        sizeof(struct sm_seg),
        sizeof(struct sm_host),
        sizeof(struct sm_dev),
        sizeof(struct sm_port),
        sizeof(struct sm_proc),
        sizeof(struct sm_ctx),
        sizeof(struct sm_chan),
        sizeof(struct sm_cq),
        sizeof(struct sm_srq),
        sizeof(struct sm_qp),
        sizeof(struct sm_mr),
        sizeof(struct sm_cqe),
        sizeof(struct sm_bounce),
        sizeof(struct sm_event),
        sizeof(struct shca_fault_shared),
        offsetof(struct sm_seg, hosts),
        offsetof(struct sm_seg, qps),
        offsetof(struct sm_qp, rq),
        offsetof(struct sm_cq, prod),
    };
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        h = (h ^ part[i]) * UINT64_C(1099511628211);
    }
    return h;
}

static bool valid_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < SM_NAME_LEN - 16 && s[0] != '.' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

int shca_set_names(const char *fabric)
{
    if (!fabric) {
        fabric = getenv("SOFTHCA_FABRIC");
    }
    if (!fabric || !*fabric) {
        fabric = "default";
    }
    if (!valid_name(fabric)) {
        shca_log("SOFTHCA_FABRIC: bad name (letters, digits, '.', '_', '-' only)");
        return EINVAL;
    }
    snprintf(shca.fabric, sizeof(shca.fabric), "%s", fabric);
    snprintf(shca.dir, sizeof(shca.dir), SHCA_SHM_DIR "/" SHCA_DIR_PREFIX "%s", fabric);
    return 0;
}

/* Opens (making it if asked) the directory and takes the file lock. Returns its fd or -1. */
int shca_lock_dir(bool make)
{
    for (;;) {
        struct stat st;
        int dfd, lfd;

        if (make && mkdir(shca.dir, 0700) < 0 && errno != EEXIST) {
            return -1;
        }
        /* Attached: the directory we know, should another have taken its name meanwhile. */
        dfd = shca.seg && !make ? dup(shca.dir_fd)
                                : open(shca.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dfd < 0) {
            if (make && errno == ENOENT) {
                continue; /* its last user removed it between the two calls */
            }
            return -1;
        }
        lfd = openat(dfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lfd < 0) {
            int err = errno;

            close(dfd);
            if (err == ENOENT && make) {
                continue;
            }
            errno = err;
            return -1;
        }
        while (flock(lfd, LOCK_EX) < 0 && errno == EINTR) {
        }
        if (fstat(lfd, &st) == 0 && st.st_nlink > 0) {
            if (shca.dir_fd < 0) {
                shca.dir_fd = dfd;
            } else {
                dup3(dfd, shca.dir_fd, O_CLOEXEC); /* other threads may be using the number */
                close(dfd);
            }
            return lfd;
        }
        close(lfd); /* removed while we waited */
        close(dfd);
    }
}

/* Reads a configuration into SM_CONF_LEN bytes. 0 or an errno, which has been said. */
static int read_conf(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t r = 0;

    while (fd >= 0 && n < SM_CONF_LEN - 1 && (r = read(fd, text + n, SM_CONF_LEN - 1 - n)) > 0) {
        n += (size_t)r;
    }
    if (fd < 0 || r < 0) {
        int err = errno;

        shca_log("SOFTHCA_CONF: %s: %s", path, strerror(err));
        if (fd >= 0) {
            close(fd);
        }
        return err;
    }
    close(fd);
    text[n] = '\0';
    if (n == SM_CONF_LEN - 1) {
        shca_log("SOFTHCA_CONF: %s: only the first %d bytes count", path, SM_CONF_LEN - 1);
    }
    if (memchr(text, 0, n) != NULL) {
        shca_log("SOFTHCA_CONF: %s: not a text", path);
        return EINVAL;
    }
    return 0;
}

static bool said_here; /* this process made the fabric and found mistakes */

static void load_conf(struct sm_seg *s)
{
    const char *path = getenv("SOFTHCA_CONF");

    if (!path || !*path) {
        return;
    }
    snprintf(s->conf_path, sizeof(s->conf_path), "%s", path);
    if (read_conf(path, s->conf) != 0 || shca_conf_check(s->conf, path) != 0) {
        atomic_store(&s->conf_bad, 1);
        said_here = true;
    }
}

int shca_conf_check_file(const char *path)
{
    char *text = calloc(1, SM_CONF_LEN);
    int rc = text ? read_conf(path, text) : ENOMEM;

    if (!rc) {
        rc = shca_conf_check(text, path);
    }
    free(text);
    return rc;
}

/* What a launcher's daemon says of a mistake is read by nobody: whoever uses a device first says it
 * once more. */
void shca_conf_remind(void)
{
    if (atomic_load(&shca.seg->conf_bad) && atomic_exchange(&shca.seg->conf_bad, 0) != 0 &&
        !said_here) {
        shca_log("%s: could not be read as a whole; what is wrong was ignored",
                 shca.seg->conf_path);
        shca_conf_check(shca.seg->conf, shca.seg->conf_path);
    }
}

static int map_seg(int fd, uint64_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (p == MAP_FAILED) {
        return errno;
    }
    madvise(p, size, MADV_DONTDUMP);
    shca.seg = p;
    return 0;
}

/* Each process says it once. */
void shca_no_room(uint64_t bytes)
{
    static _Atomic bool said;
    struct statvfs v;

    if (!atomic_exchange(&said, true)) {
        uint64_t left =
            fstatvfs(shca.dir_fd, &v) == 0 ? ((uint64_t)v.f_bavail * v.f_bsize) >> 10 : 0;

        shca_log("no room for %" PRIu64 " KiB more of shared memory: " SHCA_SHM_DIR " has %" PRIu64
                 " KiB left; a container gets more with --shm-size, a host by remounting it",
                 (bytes + 1023) >> 10, left);
    }
}

/* Pages for a part of the segment, which is sparse: touching one for which there is no room would
 * end in SIGBUS. 0 or an errno. */
int shca_reserve(uint64_t off, uint64_t len)
{
    int rc;

    do {
        rc = shca_seg_fd < 0 || fallocate(shca_seg_fd, 0, (off_t)off, (off_t)len) == 0 ? 0 : errno;
    } while (rc == EINTR);
    if (rc == EOPNOTSUPP) {
        rc = 0;
    }
    if (rc) {
        shca_no_room(len);
    }
    return rc;
}

static int make_seg(void)
{
    uint64_t size = (uint64_t)SEG_GIB << 30;
    int fd, rc;

    shca_wipe(shca.dir_fd, NULL);
    shca_clean_stale();
    fd = openat(shca.dir_fd, "seg", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    shca_seg_fd = fd;
    rc = ftruncate(fd, (off_t)size) < 0 ? errno : shca_reserve(0, offsetof(struct sm_seg, ctxs));
    rc = rc ? rc : map_seg(fd, size);
    if (rc) {
        shca_seg_fd = -1;
        close(fd);
        shca_wipe(shca.dir_fd, shca.dir);
        return rc;
    }
    shca.seg->version = SM_VERSION;
    shca.seg->abi = abi_hash();
    shca.seg->size = size;
    shca.seg->heap_top = (sizeof(struct sm_seg) + 4095) & ~UINT64_C(4095);
    shca.seg->heap_end = size;
    atomic_store(&shca.seg->epoch, 1);
    atomic_store(&shca.seg->next_pd, 1);
    shca_lock_init(&shca.seg->table_lock);
    shca_lock_init(&shca.seg->atomic_lock);
    load_conf(shca.seg);
    atomic_thread_fence(memory_order_release);
    shca.seg->magic = SM_MAGIC;
    return 0;
}

/* Maps what is there. ENOENT: nothing; ESTALE: made by another build, or half made. */
static int open_seg(void)
{
    struct {
        uint32_t magic, version;
        uint64_t abi, size;
    } head; /* the first fields of sm_seg, which is too large for a stack */
    struct stat st;
    int fd, rc;

    fd = openat(shca.dir_fd, "seg", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < sizeof(struct sm_seg) ||
        pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.magic != SM_MAGIC ||
        head.version != SM_VERSION || head.abi != abi_hash() || head.size != (uint64_t)st.st_size) {
        bool orphan = flock(fd, LOCK_EX | LOCK_NB) == 0;

        close(fd);
        return orphan ? ESTALE : EPROTO;
    }
    rc = map_seg(fd, head.size);
    if (rc) {
        close(fd);
        return rc;
    }
    shca_seg_fd = fd;
    return 0;
}

void shca_unmap_seg(void)
{
    munmap(shca.seg, shca.seg->size);
    shca.seg = NULL;
    close(shca_seg_fd);
    shca_seg_fd = -1;
}

/* Both under the file lock. */
int shca_reap_locked(unsigned int *live)
{
    int reaped = 0;

    *live = 0;
    for (uint32_t i = 0; i < SM_MAX_PROCS; i++) {
        struct sm_proc *p = &shca.seg->procs[i];

        if (atomic_load(&p->state) != SM_PROC_LIVE) {
            continue;
        }
        if (shca_proc_exists(p)) {
            ++*live;
            continue;
        }
        shca_free_objects(i);
        atomic_fetch_add(&p->gen, 1);
        atomic_store(&p->state, SM_PROC_FREE);
        reaped++;
    }
    return reaped;
}

uint64_t shca_seed_from_env(void)
{
    const char *s = getenv("SOFTHCA_SEED");

    return s && *s ? strtoull(s, NULL, 0) : 1;
}

int shca_attach_observer(const char *fabric)
{
    int rc, lfd;

    rc = shca_set_names(fabric);
    if (rc) {
        return rc;
    }
    lfd = shca_lock_dir(false);
    if (lfd < 0) {
        return errno;
    }
    rc = open_seg();
    if (!rc) {
        shca.proc_idx = UINT32_MAX;
        shca_fault_attach(&shca.seg->faults, shca_seed_from_env(), 0);
    }
    close(lfd);
    return rc;
}

int shca_reap(void)
{
    unsigned int live;
    int n, lfd = shca_lock_dir(false);

    if (lfd < 0) {
        return 0;
    }
    n = shca_reap_locked(&live);
    close(lfd);
    return n;
}

int shca_remove_fabric(const char *fabric, bool force)
{
    unsigned int live = 0;
    int rc, lfd;

    rc = shca_set_names(fabric);
    if (rc) {
        return rc;
    }
    lfd = shca_lock_dir(false);
    if (lfd < 0) {
        return errno;
    }
    rc = open_seg();
    if (rc == 0) {
        shca_reap_locked(&live);
        shca_unmap_seg();
    } else if (rc == EPROTO) {
        live = 1;
    }
    rc = live && !force ? EBUSY : 0;
    if (!rc) {
        shca_wipe(shca.dir_fd, shca.dir);
    }
    close(lfd);
    return rc;
}

/* Maps the segment, made anew when nobody uses it. Under the file lock. */
int shca_open_or_make(void)
{
    unsigned int live;
    int rc = open_seg();

    if (rc == EPROTO) {
        shca_log("fabric %s is in use by another build of this library", shca.fabric);
        return rc;
    }
    if (rc == ENOENT || rc == ESTALE) {
        return make_seg();
    }
    if (rc) {
        return rc;
    }
    shca_reap_locked(&live);
    if (live == 0 && !atomic_load(&shca.seg->keep)) {
        shca_unmap_seg();
        return make_seg();
    }
    return 0;
}
