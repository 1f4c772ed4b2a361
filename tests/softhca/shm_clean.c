/* Removal of fabrics: one's own at the end, and those that killed jobs left behind.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "shm_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static DIR *list(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (!d && fd >= 0) {
        close(fd);
    }
    return d;
}

void shca_wipe(int dir_fd, const char *path)
{
    DIR *d = list(dir_fd);
    struct dirent *e;

    if (!d) {
        return;
    }
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "lock")) {
            unlinkat(dir_fd, e->d_name, 0);
        }
    }
    closedir(d);
    if (path) {
        unlinkat(dir_fd, "lock", 0);
        rmdir(path);
    }
}

/* Every attached process holds a shared flock on the segment; the kernel drops it at any death. */
static bool orphan(int dir_fd)
{
    uint32_t keep = 0;
    bool free_to_take;
    int fd = openat(dir_fd, "seg", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        return errno == ENOENT;
    }
    free_to_take = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (pread(fd, &keep, sizeof(keep), offsetof(struct sm_seg, keep)) != (ssize_t)sizeof(keep)) {
        keep = 0;
    }
    close(fd);
    return free_to_take && !keep;
}

static void clean_one(const char *path)
{
    int dfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), lfd = -1;
    struct stat st;

    if (dfd >= 0 && fstat(dfd, &st) == 0 && st.st_uid == geteuid()) {
        lfd = openat(dfd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    /* A held lock means that somebody is coming or going: not stale. */
    if (lfd >= 0 && flock(lfd, LOCK_EX | LOCK_NB) == 0 && fstat(lfd, &st) == 0 && st.st_nlink &&
        orphan(dfd)) {
        shca_wipe(dfd, path);
    }
    if (lfd >= 0) {
        close(lfd);
    }
    if (dfd >= 0) {
        close(dfd);
    }
}

void shca_clean_stale(void)
{
    DIR *d = opendir(SHCA_SHM_DIR);
    struct dirent *e;

    if (!d) {
        return;
    }
    while ((e = readdir(d))) {
        char path[300];

        snprintf(path, sizeof(path), SHCA_SHM_DIR "/%s", e->d_name);
        if (!strncmp(e->d_name, SHCA_DIR_PREFIX, strlen(SHCA_DIR_PREFIX)) &&
            strcmp(path, shca.dir) != 0) {
            clean_one(path);
        }
    }
    closedir(d);
}
