/* Shows the counters of running processes: as a table for each job, and as JSON.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "tools/output.h"
#include "tools/stat.h"

/* Ranks that get a column each without being asked for, and columns beside each other. */
#define COLUMNS 6

static const char *life_text(enum vrb_statfile_life life)
{
    return life == VRB_STATFILE_ALIVE  ? "running"
           : life == VRB_STATFILE_DEAD ? "ended"
                                       : "on another machine";
}

static double age(const struct stat_set *set, const struct stat_process *p)
{
    double seconds = (double)(int64_t)(set->looked - p->now.header.updated) / 1e9;

    return seconds < 0 ? 0 : seconds;
}

static uint64_t value_of(const struct stat_process *p, const char *name)
{
    uint64_t value = 0;

    (void)vrb_statfile_find(&p->now, name, &value);
    return value;
}

static void print_processes(const struct stat_set *set, const struct stat_process *list, int n,
                            FILE *f)
{
    for (int i = 0; i < n; i++) {
        const struct vrb_statfile_header *h = &list[i].now.header;

        fprintf(f, "  rank %-5" PRIu64 " host %-16s pid %-8" PRIu32 " %s, %.1f s ago\n", h->rank,
                h->host, h->pid, life_text(list[i].now.life), age(set, &list[i]));
    }
}

/* True for figures that are worth a line. */
static int worth(const struct stat_options *opt, const struct stat_process *list, int n,
                 const char *name)
{
    for (int i = 0; i < n; i++) {
        if (opt->all || value_of(&list[i], name) != 0) {
            return 1;
        }
    }
    return 0;
}

static void print_least_most(const struct stat_process *list, int n, const char *name, FILE *f)
{
    int least = 0, most = 0;

    for (int i = 1; i < n; i++) {
        uint64_t v = value_of(&list[i], name);

        least = v < value_of(&list[least], name) ? i : least;
        most = v > value_of(&list[most], name) ? i : most;
    }
    fprintf(f, " %16" PRIu64 " %-6" PRIu64 " %16" PRIu64 " %-6" PRIu64,
            value_of(&list[least], name), list[least].now.header.rank, value_of(&list[most], name),
            list[most].now.header.rank);
}

/* A table of the job's figures. from, to: the ranks that get columns; none: least and most. */
static void print_table(const struct stat_options *opt, const struct stat_process *list, int n,
                        int from, int to, FILE *f)
{
    const struct vrb_statfile_copy *names = &list[0].now;
    double rate;

    fprintf(f, "  %-24s", "");
    if (from == 0) {
        fprintf(f, opt->watch > 0 ? " %18s %14s" : " %18s", "all ranks", "per second");
    }
    if (from == to) {
        fprintf(f, " %16s %-6s %16s %-6s", "least", "rank", "most", "rank");
    }
    for (int i = from; i < to; i++) {
        char title[32];

        snprintf(title, sizeof(title), "rank %" PRIu64, list[i].now.header.rank);
        fprintf(f, " %16s", title);
    }
    fputc('\n', f);
    for (int k = 0; k < names->n; k++) {
        const char *name = names->records[k].name;
        uint64_t sum;

        if (!worth(opt, list, n, name)) {
            continue;
        }
        fprintf(f, "  %-24s", name);
        sum = stat_sum(list, n, name, &rate);
        if (from == 0) {
            fprintf(f, " %18" PRIu64, sum);
            if (opt->watch > 0 && names->records[k].kind == VRB_FIGURE_COUNT) {
                fprintf(f, " %14.1f", rate);
            } else if (opt->watch > 0) {
                fprintf(f, " %14s", "");
            }
        }
        if (from == to) {
            print_least_most(list, n, name, f);
        }
        for (int i = from; i < to; i++) {
            fprintf(f, " %16" PRIu64, value_of(&list[i], name));
        }
        fputc('\n', f);
    }
}

static void print_job(const struct stat_options *opt, const struct stat_set *set,
                      const struct stat_process *list, int n, FILE *f)
{
    fprintf(f, "job %" PRIx64 ", %d rank%s\n", list[0].now.header.job, n, n == 1 ? "" : "s");
    if (n <= COLUMNS || opt->ranks) {
        print_processes(set, list, n, f);
        for (int from = 0; from < n; from += COLUMNS) {
            print_table(opt, list, n, from, from + COLUMNS < n ? from + COLUMNS : n, f);
        }
    } else {
        print_table(opt, list, n, 0, 0, f);
    }
}

void stat_print_text(const struct stat_options *opt, const struct stat_set *set, FILE *f)
{
    int from = 0;

    for (int i = 1; i <= set->n; i++) {
        if (i == set->n || set->list[i].now.header.job != set->list[from].now.header.job) {
            print_job(opt, set, &set->list[from], i - from, f);
            from = i;
        }
    }
    if (set->n == 0) {
        fprintf(f, "%s: no process shows its counters here\n", opt->dir);
    }
    if (set->dead > 0) {
        fprintf(f, "%d file%s of processes that have ended (--stale shows, --clean removes them)\n",
                set->dead, set->dead == 1 ? "" : "s");
    }
}

static void put_figures(const struct vrb_statfile_copy *names, const struct stat_process *list,
                        int n, int rates, FILE *f)
{
    const char *comma = "";

    fputs("{", f);
    for (int k = 0; k < names->n; k++) {
        double rate;
        uint64_t v = stat_sum(list, n, names->records[k].name, &rate);

        if (rates && names->records[k].kind != VRB_FIGURE_COUNT) {
            continue;
        }
        fputs(comma, f);
        json_put_string(f, names->records[k].name);
        if (rates) {
            fprintf(f, ": %.3f", rate);
        } else {
            fprintf(f, ": %" PRIu64, v);
        }
        comma = ", ";
    }
    fputs("}", f);
}

/* On one line, so that rounds of --watch are lines. */
void stat_print_json(const struct stat_options *opt, const struct stat_set *set, FILE *f)
{
    fputs("{", f);
    json_put_key(f, "verbs_stat", VRB_VERSION);
    fputs(", ", f);
    json_put_key(f, "directory", opt->dir);
    fprintf(f, ", \"time\": %.3f, \"stale_files\": %d, \"refused_files\": %d, \"processes\": [",
            (double)set->looked / 1e9, set->dead, set->refused);
    for (int i = 0; i < set->n; i++) {
        const struct stat_process *p = &set->list[i];
        const struct vrb_statfile_header *h = &p->now.header;

        fprintf(f, "%s{\"job\": \"%" PRIx64 "\", \"rank\": %" PRIu64 ", ", i > 0 ? ", " : "",
                h->job, h->rank);
        json_put_key(f, "host", h->host);
        fprintf(f,
                ", \"pid\": %" PRIu32 ", \"state\": \"%s\", \"age\": %.3f, \"figures\": ", h->pid,
                life_text(p->now.life), age(set, p));
        put_figures(&p->now, p, 1, 0, f);
        if (opt->watch > 0) {
            fputs(", \"per_second\": ", f);
            put_figures(&p->now, p, 1, 1, f);
        }
        fputs("}", f);
    }
    fputs("]", f);
    if (set->n > 0) {
        fputs(", \"sum\": ", f);
        put_figures(&set->list[0].now, set->list, set->n, 0, f);
        if (opt->watch > 0) {
            fputs(", \"sum_per_second\": ", f);
            put_figures(&set->list[0].now, set->list, set->n, 1, f);
        }
    }
    fputs("}\n", f);
}
