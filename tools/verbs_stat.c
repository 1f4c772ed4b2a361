/* verbs_stat: the counters of running jobs, and those of the ports before and after a command.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * tools/verbs_stat.1 is its manual. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "tools/output.h"
#include "tools/stat.h"

#define DIR_VARIABLE "OMPI_MCA_btl_verbs_stats_dir"

static const char usage_text[] =
    "usage: verbs_stat [OPTION...] [DIR]\n"
    "       verbs_stat hw [OPTION...] -- COMMAND...\n"
    "Shows the counters of processes that run with `--mca btl_verbs_stats_dir DIR`, for each rank\n"
    "and together; DIR may be left out where " DIR_VARIABLE " names it.\n"
    "  --watch SECONDS    again and again, with rates, until the processes have ended\n"
    "  --rounds N         so many times only\n"
    "  --ranks            a column for each rank, however many there are\n"
    "  --all              counters that are 0, too\n"
    "  --json             for programs: one line for each round\n"
    "  --stale            also what processes left that have ended\n"
    "  --clean            remove that\n"
    "  --version, --help\n"
    "hw runs a command and shows which counters of this host's ports it changed.\n"
    "Status: 0 if a process was shown, 1 if there is none, 2 for a wrong option, a folder that\n"
    "cannot be read, or output that cannot be written; hw: that of the command.\n";

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || !(v >= least && v <= most)) {
        fprintf(stderr, "verbs_stat: %s needs a number from %g to %g, not '%s'\n", option, least,
                most, text);
        exit(2);
    }
    return v;
}

enum { OPT_WATCH = 256, OPT_ROUNDS, OPT_VERSION, OPT_HELP };

static void take_options(int argc, char **argv, struct stat_options *o)
{
    const struct option options[] = {
        {"watch", required_argument, NULL, OPT_WATCH},
        {"rounds", required_argument, NULL, OPT_ROUNDS},
        {"ranks", no_argument, &o->ranks, 1},
        {"all", no_argument, &o->all, 1},
        {"json", no_argument, &o->json, 1},
        {"stale", no_argument, &o->stale, 1},
        {"clean", no_argument, &o->clean, 1},
        {"version", no_argument, NULL, OPT_VERSION},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 0:
            break;
        case OPT_WATCH:
            o->watch = number("--watch", optarg, 0.1, 86400);
            break;
        case OPT_ROUNDS:
            o->rounds = (long)number("--rounds", optarg, 1, 1e9);
            break;
        case OPT_VERSION:
            printf("verbs_stat %s\n", VRB_VERSION);
            exit(output_end("verbs_stat", 0));
        case OPT_HELP:
            fputs(usage_text, stdout);
            exit(output_end("verbs_stat", 0));
        default:
            fputs(usage_text, stderr);
            exit(2);
        }
    }
    o->dir = optind < argc ? argv[optind++] : getenv(DIR_VARIABLE);
    if (optind < argc) {
        fprintf(stderr, "verbs_stat: '%s' is one folder too many\n%s", argv[optind], usage_text);
        exit(2);
    }
    if (o->dir == NULL || o->dir[0] == '\0') {
        fprintf(stderr, "verbs_stat: which folder? Name the one that the job was given with `--mca "
                        "btl_verbs_stats_dir DIR`, or set " DIR_VARIABLE "\n");
        exit(2);
    }
}

static void show(const struct stat_options *opt, const struct stat_set *set)
{
    if (opt->json) {
        stat_print_json(opt, set, stdout);
        return;
    }
    if (opt->watch > 0 && isatty(STDOUT_FILENO)) {
        fputs("\033[H\033[J", stdout); /* ECMA-48: to the top, and clear */
    }
    stat_print_text(opt, set, stdout);
}

int main(int argc, char **argv)
{
    struct stat_options opt = {.dir = NULL};
    struct stat_set set, before = {.n = 0};
    struct timespec pause;
    int shown = 0;

    if (argc > 1 && strcmp(argv[1], "hw") == 0) {
        return stat_hw(argc - 1, argv + 1);
    }
    take_options(argc, argv, &opt);
    pause.tv_sec = (time_t)opt.watch;
    pause.tv_nsec = (long)((opt.watch - (double)pause.tv_sec) * 1e9);
    for (long round = 1;; round++) {
        if (stat_read(&opt, &before, &set) < 0) {
            fprintf(stderr, "verbs_stat: %s: %s\n", opt.dir, strerror(errno));
            return output_end("verbs_stat", 2);
        }
        stat_free(&before);
        /* What was there before has ended: the last word was said in the last round. */
        if (shown && set.alive == 0 && opt.watch > 0) {
            break;
        }
        show(&opt, &set);
        shown = shown || set.n > 0;
        if (opt.watch == 0 || round == opt.rounds || fflush(stdout) != 0) {
            break;
        }
        before = set;
        nanosleep(&pause, NULL);
    }
    stat_free(&set);
    return output_end("verbs_stat", shown ? 0 : 1);
}
