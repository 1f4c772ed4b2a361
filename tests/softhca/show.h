/* What softhca-ctl can print about the fabric it observes. Each prints to stdout and returns 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SHCA_SHOW_H
#define SHCA_SHOW_H

int shca_show_status(void);
int shca_show_counters(void);
int shca_show_queues(void);

#endif
