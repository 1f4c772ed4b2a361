/* verbs_stat: what its parts share.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef STAT_H
#define STAT_H

#include <stdio.h>

#include "util/vrb_statfile.h"

struct stat_options {
    const char *dir; /* of the files */
    int json;
    int all;      /* figures that are 0 everywhere, too */
    int ranks;    /* a column for each rank, however many */
    int stale;    /* processes that have ended, too */
    int clean;    /* remove what they left */
    double watch; /* seconds; 0: once */
    long rounds;  /* 0: until the processes end */
};

/* One process, as its file shows it. */
struct stat_process {
    struct vrb_statfile_copy now;
    double rate[VRB_FIGURES_MAX]; /* of now.records: events in a second, while we watched */
};

struct stat_set {
    struct stat_process *list; /* by job and rank */
    int n, alive;              /* shown, and of those running for all we know */
    int dead, refused;         /* files that are not shown */
    uint64_t looked;           /* ns since 1970 */
};

/* verbs_stat_read.c: reads the folder; what is wrong with a file is said on stderr. before: the set
 * of the last round, for rates, or NULL. Returns 0, or -1 when the folder cannot be read. */
int stat_read(const struct stat_options *opt, const struct stat_set *before, struct stat_set *set);
void stat_free(struct stat_set *set);

/* A figure of the first n processes of list together; *rate: their events in a second. */
uint64_t stat_sum(const struct stat_process *list, int n, const char *name, double *rate);

/* verbs_stat_show.c */
void stat_print_text(const struct stat_options *opt, const struct stat_set *set, FILE *f);
void stat_print_json(const struct stat_options *opt, const struct stat_set *set, FILE *f);

/* verbs_stat_hw.c: `verbs_stat hw`; argv[0] is "hw". Returns the exit status. */
int stat_hw(int argc, char **argv);

#endif
