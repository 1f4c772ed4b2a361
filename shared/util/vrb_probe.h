/* Probe points on the main events of the protocols, for perf and bpftrace (docs/observing.md).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each is a no-op instruction and a note in the object that says where its arguments are: nothing
 * is called, nothing is tested. All the same they stand on slow paths only, because arguments may
 * have to be fetched. Without <sys/sdt.h> (Debian: systemtap-sdt-dev) there are none.
 *
 * Arguments are integers and pointers; `host` is a pointer to a string. */
#ifndef VRB_PROBE_H
#define VRB_PROBE_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef VRB_HAVE_SDT
#include <sys/sdt.h>
#define VRB_PROBE1(name, a) DTRACE_PROBE1(verbs, name, a)
#define VRB_PROBE2(name, a, b) DTRACE_PROBE2(verbs, name, a, b)
#define VRB_PROBE3(name, a, b, c) DTRACE_PROBE3(verbs, name, a, b, c)
#else
/* Looked at by the compiler, and gone. */
#define VRB_PROBE1(name, a) ((void)sizeof(a))
#define VRB_PROBE2(name, a, b) ((void)sizeof(a), (void)sizeof(b))
#define VRB_PROBE3(name, a, b, c) ((void)sizeof(a), (void)sizeof(b), (void)sizeof(c))
#endif

#endif
