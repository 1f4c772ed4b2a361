/* The counters of a port that betray trouble, for all tools that look at them.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef TROUBLE_H
#define TROUBLE_H

#include <stdint.h>

struct port_trouble {
    const char *file;         /* below /sys/class/infiniband/DEV/ports/PORT */
    const char *means, *next; /* in words, and what to do */
    uint64_t tolerated;       /* since the host was started; below: not worth a word */
    int is_warning;
};

const struct port_trouble *port_troubles(int *n);
/* NULL: that counter betrays none. */
const struct port_trouble *port_trouble_of(const char *file);

#endif
