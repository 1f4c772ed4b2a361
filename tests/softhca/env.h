/* What the files of the path redirection share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SHCA_ENV_H
#define SHCA_ENV_H

/* The next definition of a libc function after ours, found once; NULL if there is none. */
void *shca_next(const char *name, void **cache);

#endif
