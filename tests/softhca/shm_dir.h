/* What attaching and observing share: the fabric's directory, its file lock, its segment.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOFTHCA_SHM_DIR_H
#define SOFTHCA_SHM_DIR_H

#include "softhca.h"

extern int shca_seg_fd; /* -1: not mapped */

int shca_set_names(const char *fabric); /* NULL: from the environment; 0 or EINVAL */
/* Opens (making it if asked) the directory and takes the file lock. Returns its fd or -1. */
int shca_lock_dir(bool make);
/* Removes everything in the directory; with `all`, the lock and the directory too. */
void shca_wipe_dir(bool all);
/* Maps the segment, made anew when nobody uses it: 0 or an errno. Under the file lock. */
int shca_open_or_make(void);
void shca_unmap_seg(void);
/* Frees what dead processes left, counts the living. Under the file lock. */
int shca_reap_locked(unsigned int *live);
uint64_t shca_seed_from_env(void);

#endif
