/* What the files of the path redirection share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SHCA_ENV_H
#define SHCA_ENV_H

/* libc functions are called by constructors that run before AddressSanitizer's own (libucm's). */
#define SHCA_EARLY __attribute__((no_sanitize_address))

/* The next definition of a libc function after ours, found once; NULL if there is none. */
void *shca_next(const char *name, void **cache);

#endif
