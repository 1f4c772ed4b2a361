/* Reads the files that running processes keep, whatever else lies beside them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/stat.h"
#include "util/vrb_status.h"

static int by_rank(const void *a, const void *b)
{
    const struct vrb_statfile_header *x = &((const struct stat_process *)a)->now.header;
    const struct vrb_statfile_header *y = &((const struct stat_process *)b)->now.header;

    return x->job != y->job     ? (x->job < y->job ? -1 : 1)
           : x->rank != y->rank ? (x->rank < y->rank ? -1 : 1)
                                : 0;
}

static const struct stat_process *same_process(const struct stat_set *set,
                                               const struct stat_process *p)
{
    const struct stat_process *found;

    if (set == NULL || set->n == 0) {
        return NULL;
    }
    found = bsearch(p, set->list, (size_t)set->n, sizeof(*p), by_rank);
    return found != NULL && found->now.header.pid == p->now.header.pid ? found : NULL;
}

/* A process that has written nothing since the last round (it computes, or we look too often) keeps
 * the rate that it had. */
static void take_rates(struct stat_process *p, const struct stat_set *before)
{
    const struct stat_process *old = same_process(before, p);
    double seconds;

    memset(p->rate, 0, sizeof(p->rate));
    if (old == NULL || old->now.n != p->now.n) {
        return;
    }
    seconds = (double)(int64_t)(p->now.header.updated - old->now.header.updated) / 1e9;
    for (int i = 0; i < p->now.n; i++) {
        uint64_t was = old->now.records[i].value, is = p->now.records[i].value;

        if (p->now.records[i].kind != VRB_FIGURE_COUNT) {
            continue;
        }
        p->rate[i] = seconds <= 0 ? old->rate[i] : is < was ? 0 : (double)(is - was) / seconds;
    }
}

/* Takes one file into the set. */
static void take(const struct stat_options *opt, const struct stat_set *before,
                 struct stat_set *set, const char *name)
{
    struct stat_process *p = &set->list[set->n];
    char path[4096], err[256];

    snprintf(path, sizeof(path), "%s/%s", opt->dir, name);
    switch (vrb_statfile_read(path, &p->now, err, sizeof(err))) {
    case VRB_OK:
        break;
    case VRB_ERR_AGAIN:
        return; /* its process has just ended */
    default:
        fprintf(stderr, "verbs_stat: %s: %s\n", path, err);
        set->refused++;
        return;
    }
    if (p->now.life == VRB_STATFILE_DEAD) {
        if (opt->clean && unlink(path) != 0) {
            fprintf(stderr, "verbs_stat: %s: %s\n", path, strerror(errno));
        }
        if (!opt->stale) {
            set->dead++;
            return;
        }
    } else {
        set->alive++;
    }
    take_rates(p, before);
    set->n++;
}

int stat_read(const struct stat_options *opt, const struct stat_set *before, struct stat_set *set)
{
    const size_t suffix = strlen(VRB_STATFILE_SUFFIX);
    struct timespec ts;
    struct dirent *e;
    int room = 0;
    DIR *d = opendir(opt->dir);

    memset(set, 0, sizeof(*set));
    if (d == NULL) {
        return -1;
    }
    while ((e = readdir(d)) != NULL) {
        size_t len = strlen(e->d_name);

        if (len <= suffix || strcmp(e->d_name + len - suffix, VRB_STATFILE_SUFFIX) != 0) {
            continue;
        }
        if (set->n == room) {
            struct stat_process *list;

            room = room == 0 ? 16 : 2 * room;
            list = realloc(set->list, (size_t)room * sizeof(*list));
            if (list == NULL) {
                fprintf(stderr, "verbs_stat: out of memory after %d files\n", set->n);
                break;
            }
            set->list = list;
        }
        take(opt, before, set, e->d_name);
    }
    closedir(d);
    if (set->n > 0) {
        qsort(set->list, (size_t)set->n, sizeof(set->list[0]), by_rank);
    }
    clock_gettime(CLOCK_REALTIME, &ts);
    set->looked = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return 0;
}

void stat_free(struct stat_set *set)
{
    free(set->list);
    memset(set, 0, sizeof(*set));
}

uint64_t stat_sum(const struct stat_process *list, int n, const char *name, double *rate)
{
    uint64_t sum = 0, seen = 0;

    *rate = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < list[i].now.n; k++) {
            const struct vrb_statfile_record *r = &list[i].now.records[k];

            if (strcmp(r->name, name) == 0) {
                sum = vrb_figure_join((enum vrb_figure_kind)r->kind, sum, r->value, &seen);
                *rate += list[i].rate[k];
                break;
            }
        }
    }
    return sum;
}
