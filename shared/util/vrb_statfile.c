/* Keeps the file that shows a running process's figures.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_statfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/vrb_status.h"

static int failed(char *err, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int failed(char *err, size_t len, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(err, len, fmt, args);
    va_end(args);
    return VRB_ERR_DEVICE;
}

uint64_t vrb_process_started(uint32_t pid)
{
    char path[64], text[1024];
    uint64_t started = 0;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
    f = fopen(path, "re");
    if (f == NULL) {
        return 0;
    }
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    /* The second field is a name in parentheses that may hold anything; starttime is the 22nd. */
    char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    if (p != NULL) {
        started = strtoull(p, NULL, 10);
    }
    return started;
}

int vrb_process_is(uint32_t pid, uint64_t started)
{
    uint64_t now = vrb_process_started(pid);

    /* Without a /proc to look at, that there is such a process has to do. */
    return now != 0 ? now == started : kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* What tells this machine, and this container's process ids, from others. */
static void fill_place(struct vrb_statfile_header *h)
{
    struct stat st;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f != NULL) {
        if (fgets(h->boot, sizeof(h->boot), f) == NULL) {
            h->boot[0] = '\0';
        }
        h->boot[strcspn(h->boot, "\n")] = '\0';
        fclose(f);
    }
    h->pid_ns = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static uint64_t real_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct vrb_statfile_record *records_of(struct vrb_statfile_header *h)
{
    return (struct vrb_statfile_record *)(h + 1);
}

static void fill(struct vrb_statfile_header *h, uint64_t job, uint64_t rank, const char *host,
                 const struct vrb_figure *figures, int n)
{
    struct vrb_statfile_record *r = records_of(h);

    memcpy(h->magic, VRB_STATFILE_MAGIC, sizeof(h->magic));
    h->version = VRB_STATFILE_VERSION;
    h->header_bytes = sizeof(*h);
    h->record_bytes = sizeof(*r);
    h->records = (uint32_t)n;
    h->pid = (uint32_t)getpid();
    h->job = job;
    h->rank = rank;
    h->started = vrb_process_started(h->pid);
    h->updated = real_ns();
    fill_place(h);
    snprintf(h->host, sizeof(h->host), "%s", host);
    for (int i = 0; i < n; i++) {
        snprintf(r[i].name, sizeof(r[i].name), "%s", figures[i].name);
        r[i].kind = (uint32_t)figures[i].kind;
    }
}

int vrb_statfile_open(struct vrb_statfile *f, const char *dir, uint64_t job, uint64_t rank,
                      const char *host, const struct vrb_figure *figures, int n, char *err,
                      size_t len)
{
    char fresh[sizeof(f->path) + 32];
    void *map = MAP_FAILED;
    int fd, rc;

    memset(f, 0, sizeof(*f));
    f->bytes = sizeof(*f->map) + (size_t)n * sizeof(struct vrb_statfile_record);
    rc = snprintf(f->path, sizeof(f->path), "%s/%" PRIx64 "-%" PRIu64 VRB_STATFILE_SUFFIX, dir, job,
                  rank);
    if (rc < 0 || (size_t)rc >= sizeof(f->path)) {
        return failed(err, len, "%s: the name is too long", dir);
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return failed(err, len, "%s: %s", dir, strerror(errno));
    }
    /* Under another name until it is whole. Nobody else's link is followed: the folder may be one
     * that all may write to. */
    snprintf(fresh, sizeof(fresh), "%s.%ld", f->path, (long)getpid());
    (void)unlink(fresh);
    fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return failed(err, len, "%s: %s", fresh, strerror(errno));
    }
    /* With room on the device: writing to a hole of a full one would end the process. */
    rc = posix_fallocate(fd, 0, (off_t)f->bytes);
    if (rc == 0) {
        map = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = map == MAP_FAILED ? errno : 0;
    }
    close(fd);
    if (rc == 0) {
        fill(map, job, rank, host, figures, n);
        rc = rename(fresh, f->path) == 0 ? 0 : errno;
    }
    if (rc != 0) {
        if (map != MAP_FAILED) {
            munmap(map, f->bytes);
        }
        (void)unlink(fresh);
        return failed(err, len, "%s: %s", f->path, strerror(rc));
    }
    f->map = map;
    return VRB_OK;
}

void vrb_statfile_write(struct vrb_statfile *f, const uint64_t *values, int n)
{
    struct vrb_statfile_header *h = f->map;

    if (h == NULL || __atomic_exchange_n(&f->busy, 1, __ATOMIC_ACQUIRE)) {
        return;
    }
    __atomic_store_n(&h->turn, h->turn | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (int i = 0; i < n && i < (int)h->records; i++) {
        records_of(h)[i].value = values[i];
    }
    h->updated = real_ns();
    __atomic_store_n(&h->turn, h->turn + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&f->busy, 0, __ATOMIC_RELEASE);
}

void vrb_statfile_close(struct vrb_statfile *f)
{
    struct vrb_statfile_header *h = f->map;

    if (h == NULL) {
        return;
    }
    f->map = NULL;
    if (h->pid == (uint32_t)getpid()) { /* not the child of a fork */
        (void)unlink(f->path);
    }
    munmap(h, f->bytes);
}

/* ---- reading ---- */

#define READ_MOST 65536 /* bytes of a file that are looked at */
#define TURNS 50        /* tries to catch a writer between two rounds */

/* Reads the file once. Returns bytes, or -1. */
static ssize_t read_once(int fd, char *buf, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, buf + got, len - got, (off_t)got);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -1 : (ssize_t)got;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* The same, until no value changed meanwhile: the counts of turns before and behind are the same. A
 * process that was ended while it wrote leaves an odd one for ever: then what there is, is taken.
 */
static ssize_t read_settled(int fd, char *buf, size_t len)
{
    struct timespec pause = {.tv_nsec = 100000};
    struct vrb_statfile_header before, after;
    ssize_t n = -1;

    for (int i = 0; i < TURNS; i++) {
        if (read_once(fd, (char *)&before, sizeof(before)) != (ssize_t)sizeof(before)) {
            return read_once(fd, buf, len);
        }
        n = read_once(fd, buf, len);
        if (read_once(fd, (char *)&after, sizeof(after)) == (ssize_t)sizeof(after) &&
            before.turn == after.turn && !(after.turn & 1)) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    return n;
}

/* Names end up on terminals and in JSON. */
static void make_printable(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            *text = '?';
        }
    }
}

static int parse(const char *buf, size_t got, struct vrb_statfile_copy *copy, char *err, size_t len)
{
    struct vrb_statfile_header *h = &copy->header;
    uint64_t end;

    if (got < sizeof(*h)) {
        (void)failed(err, len, "too short");
        return VRB_ERR_MALFORMED;
    }
    memcpy(h, buf, sizeof(*h));
    if (memcmp(h->magic, VRB_STATFILE_MAGIC, sizeof(h->magic)) != 0) {
        (void)failed(err, len, "no file of counters");
        return VRB_ERR_MALFORMED;
    }
    if (h->version != VRB_STATFILE_VERSION) {
        (void)failed(err, len, "layout %" PRIu32 ", and this program reads %d", h->version,
                     VRB_STATFILE_VERSION);
        return VRB_ERR_MALFORMED;
    }
    end = h->header_bytes + (uint64_t)h->records * h->record_bytes;
    if (h->header_bytes < sizeof(*h) || h->record_bytes < sizeof(copy->records[0]) || end > got ||
        h->pid == 0 || h->pid > INT32_MAX) {
        (void)failed(err, len, "cut short, or damaged");
        return VRB_ERR_MALFORMED;
    }
    make_printable(h->host, sizeof(h->host));
    h->boot[sizeof(h->boot) - 1] = '\0';
    copy->n = 0;
    for (uint32_t i = 0; i < h->records && copy->n < VRB_FIGURES_MAX; i++) {
        struct vrb_statfile_record *r = &copy->records[copy->n++];

        memcpy(r, buf + h->header_bytes + (size_t)i * h->record_bytes, sizeof(*r));
        make_printable(r->name, sizeof(r->name));
        if (r->name[0] == '\0' || r->kind < VRB_FIGURE_COUNT || r->kind > VRB_FIGURE_MEAN) {
            copy->n--; /* of a kind that came later */
        }
    }
    return VRB_OK;
}

static enum vrb_statfile_life life_of(const struct vrb_statfile_header *h)
{
    struct vrb_statfile_header here = {.pid = 0};

    fill_place(&here);
    if (strcmp(h->boot, here.boot) != 0 || h->pid_ns != here.pid_ns) {
        return VRB_STATFILE_UNKNOWN;
    }
    return vrb_process_is(h->pid, h->started) ? VRB_STATFILE_ALIVE : VRB_STATFILE_DEAD;
}

int vrb_statfile_read(const char *path, struct vrb_statfile_copy *copy, char *err, size_t len)
{
    /* Whatever lies there must not block or be taken for a file. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC), rc = VRB_ERR_MALFORMED;
    struct stat st;
    char *buf;
    ssize_t n;

    if (fd < 0) {
        rc = errno == ENOENT ? VRB_ERR_AGAIN : VRB_ERR_MALFORMED;
        (void)failed(err, len, "%s", strerror(errno));
        return rc;
    }
    buf = malloc(READ_MOST);
    if (buf == NULL || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)failed(err, len, "no regular file");
    } else if ((n = read_settled(fd, buf, READ_MOST)) < 0) {
        (void)failed(err, len, "%s", strerror(errno));
    } else {
        rc = parse(buf, (size_t)n, copy, err, len);
    }
    if (rc == VRB_OK) {
        copy->life = life_of(&copy->header);
    }
    free(buf);
    close(fd);
    return rc;
}

int vrb_statfile_find(const struct vrb_statfile_copy *copy, const char *name, uint64_t *value)
{
    for (int i = 0; i < copy->n; i++) {
        if (strcmp(copy->records[i].name, name) == 0) {
            *value = copy->records[i].value;
            return 1;
        }
    }
    return 0;
}
