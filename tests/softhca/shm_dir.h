/* What attaching and observing share: the fabric's directory, its file lock, its segment.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOFTHCA_SHM_DIR_H
#define SOFTHCA_SHM_DIR_H

#include "softhca.h"

#define SHCA_SHM_DIR "/dev/shm"
#define SHCA_DIR_PREFIX "softhca-"

extern int shca_seg_fd; /* -1: not mapped */

int shca_set_names(const char *fabric); /* NULL: from the environment; 0 or EINVAL */
/* Opens (making it if asked) the directory and takes the file lock. Returns its fd or -1. */
int shca_lock_dir(bool make);
/* Removes everything in a fabric's directory; with its path, the lock and the directory too. */
void shca_wipe(int dir_fd, const char *path);
/* Removes other fabrics of this user that no process uses any more: what killed jobs left. */
void shca_clean_stale(void);
/* Maps the segment, made anew when nobody uses it: 0 or an errno. Under the file lock. */
int shca_open_or_make(void);
void shca_unmap_seg(void);
/* Frees what dead processes left, counts the living. Under the file lock. */
int shca_reap_locked(unsigned int *live);
uint64_t shca_seed_from_env(void);

#endif
