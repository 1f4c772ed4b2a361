/* A file that shows a running process's figures to others: what is in it, writing, reading.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A header and then records of a name and a value, so that a reader needs to know neither the list
 * nor its order, and one that is older or newer than the writer reads what it knows. In the byte
 * order of the host. The writer maps it; readers must not: a file that somebody cuts short would
 * end them. */
#ifndef VRB_STATFILE_H
#define VRB_STATFILE_H

#include <stddef.h>
#include <stdint.h>

#include "rail/vrb_figures.h"

#define VRB_STATFILE_MAGIC "VRBSTAT\n"
#define VRB_STATFILE_VERSION 1
#define VRB_STATFILE_SUFFIX ".verbs-stat"

struct vrb_statfile_header {
    char magic[8];
    uint32_t version;      /* of this layout; another one is not read */
    uint32_t header_bytes; /* where the records begin */
    uint32_t record_bytes; /* of one: later versions may append fields */
    uint32_t records;
    uint32_t pid;
    uint32_t turn; /* odd while values are being written */
    uint64_t job;  /* number of the job, as its launcher gave it */
    uint64_t rank;
    uint64_t started; /* of the process, clock ticks since the boot: proc(5), starttime */
    uint64_t pid_ns;  /* inode of the name space that pid is in */
    uint64_t updated; /* ns since 1970 */
    char boot[40];    /* the kernel's boot_id: the same machine, not started anew */
    char host[64];
};

struct vrb_statfile_record {
    char name[48];
    uint32_t kind; /* enum vrb_figure_kind */
    uint32_t reserved;
    uint64_t value;
};

/* ---- writing ---- */

struct vrb_statfile {
    struct vrb_statfile_header *map; /* NULL: none is kept */
    size_t bytes;
    int busy; /* a thread is writing */
    char path[512];
};

/* Makes the file in dir (which is made too, if only its last part is missing) for these figures.
 * One that a dead process left under that name is replaced. VRB_OK, or an error with its reason. */
int vrb_statfile_open(struct vrb_statfile *f, const char *dir, uint64_t job, uint64_t rank,
                      const char *host, const struct vrb_figure *figures, int n, char *err,
                      size_t len);

/* Shows these values, in the order of the figures. If another thread does so now, that is enough.
 */
void vrb_statfile_write(struct vrb_statfile *f, const uint64_t *values, int n);

/* Removes it. */
void vrb_statfile_close(struct vrb_statfile *f);

/* ---- reading ---- */

enum vrb_statfile_life {
    VRB_STATFILE_ALIVE,
    VRB_STATFILE_DEAD,    /* its process has ended without removing it */
    VRB_STATFILE_UNKNOWN, /* it is of another machine or container */
};

struct vrb_statfile_copy {
    struct vrb_statfile_header header;
    enum vrb_statfile_life life;
    int n;
    struct vrb_statfile_record records[VRB_FIGURES_MAX]; /* names are printable and end */
};

/* Reads one, whatever it is. VRB_OK; VRB_ERR_MALFORMED: no such file, cut short, of another version
 * (err says which); VRB_ERR_AGAIN: it was removed meanwhile. */
int vrb_statfile_read(const char *path, struct vrb_statfile_copy *copy, char *err, size_t len);

/* 1, with its value, if there is a record of that name. */
int vrb_statfile_find(const struct vrb_statfile_copy *copy, const char *name, uint64_t *value);

/* True if the process that had that id and start is still there; on this machine only. */
int vrb_process_is(uint32_t pid, uint64_t started);
/* When it started: 0 if there is none. */
uint64_t vrb_process_started(uint32_t pid);

#endif
