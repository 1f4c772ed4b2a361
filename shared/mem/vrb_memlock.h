/* The limit on locked memory, in words: it is behind most failed registrations.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_MEMLOCK_H
#define VRB_MEMLOCK_H

#include <stddef.h>
#include <stdint.h>

/* The soft limit in bytes; UINT64_MAX: unlimited, or not to be found out. */
uint64_t vrb_memlock_limit(void);

/* "locked memory limit 64 KiB" or "... unlimited". Returns buf. */
const char *vrb_memlock_text(char *buf, size_t len);

#endif
