/* verbs_stat hw: which counters of this host's ports a command changed.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table goes to standard error, as that of time(1) does, so that the command's output stays
 * what it is. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/output.h"
#include "tools/stat.h"
#include "tools/trouble.h"

struct counter {
    char port[80]; /* "mlx5_0:1" */
    char file[96]; /* "counters/port_rcv_data" */
    uint64_t before, after;
    int seen; /* after the command, too */
};

struct counters {
    struct counter *list;
    int n, room;
};

struct hw_options {
    const char *root, *output;
    int json, all;
};

static const char usage_text[] =
    "usage: verbs_stat hw [OPTION...] -- COMMAND...\n"
    "Runs a command and shows which counters of this host's RDMA ports changed meanwhile, whoever\n"
    "changed them, with a word on those that betray trouble. Ends with the command's status.\n"
    "  --all           also counters that did not change\n"
    "  --json          for programs\n"
    "  --output FILE   write there instead of to standard error\n"
    "  --root DIR      read sysfs below DIR\n"
    "  --help\n";

/* A number in a file; 0: there is none. */
static int read_number(const char *path, uint64_t *value)
{
    char text[64], *end;
    FILE *f = fopen(path, "re");
    int ok = f != NULL && fgets(text, sizeof(text), f) != NULL;

    if (f != NULL) {
        fclose(f);
    }
    if (!ok) {
        return 0;
    }
    *value = strtoull(text, &end, 10);
    return end != text;
}

static struct counter *find(const struct counters *all, const char *port, const char *file)
{
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->list[i].port, port) == 0 && strcmp(all->list[i].file, file) == 0) {
            return &all->list[i];
        }
    }
    return NULL;
}

static void note_before(struct counters *all, const char *port, const char *file, uint64_t value)
{
    struct counter *c;

    if (all->n == all->room) {
        int room = all->room == 0 ? 128 : 2 * all->room;

        c = realloc(all->list, (size_t)room * sizeof(*c));
        if (c == NULL) {
            return;
        }
        all->list = c;
        all->room = room;
    }
    c = &all->list[all->n++];
    memset(c, 0, sizeof(*c));
    snprintf(c->port, sizeof(c->port), "%s", port);
    snprintf(c->file, sizeof(c->file), "%s", file);
    c->before = value;
}

static void note(struct counters *all, int after, const char *port, const char *file,
                 uint64_t value)
{
    struct counter *c = after ? find(all, port, file) : NULL;

    if (!after) {
        note_before(all, port, file, value);
    } else if (c != NULL) {
        c->after = value;
        c->seen = 1;
    }
}

/* Calls `each` for every entry of a folder but those with a dot in front; a missing one is empty.
 */
static void entries(const char *path, void (*each)(void *ctx, const char *path, const char *name),
                    void *ctx)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char full[4096];

    while (d != NULL && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            snprintf(full, sizeof(full), "%.3000s/%.255s", path, e->d_name);
            each(ctx, full, e->d_name);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

struct walk {
    struct counters *all;
    int after;
    const char *folder; /* counters, hw_counters */
    char dev[64], port[80];
};

static void one_counter(void *ctx, const char *path, const char *name)
{
    struct walk *w = ctx;
    char file[96];
    uint64_t value;

    /* "lifespan" says how long the driver may show old values. */
    if (strcmp(name, "lifespan") != 0 && read_number(path, &value)) {
        snprintf(file, sizeof(file), "%.15s/%.79s", w->folder, name);
        note(w->all, w->after, w->port, file, value);
    }
}

static void one_port(void *ctx, const char *path, const char *name)
{
    static const char *const folders[] = {"counters", "hw_counters"};
    struct walk *w = ctx;
    char full[4096];

    snprintf(w->port, sizeof(w->port), "%s:%.10s", w->dev, name);
    for (int i = 0; i < 2; i++) {
        w->folder = folders[i];
        snprintf(full, sizeof(full), "%.3000s/%s", path, folders[i]);
        entries(full, one_counter, w);
    }
}

static void one_device(void *ctx, const char *path, const char *name)
{
    struct walk *w = ctx;
    char full[4096];

    snprintf(w->dev, sizeof(w->dev), "%.63s", name);
    snprintf(full, sizeof(full), "%.3000s/ports", path);
    entries(full, one_port, w);
}

static void read_all(struct counters *all, const char *root, int after)
{
    struct walk w = {.all = all, .after = after};
    char path[4096];

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    entries(path, one_device, &w);
}

static int by_name(const void *a, const void *b)
{
    const struct counter *x = a, *y = b;
    int c = strcmp(x->port, y->port);

    return c != 0 ? c : strcmp(x->file, y->file);
}

static const char *name_of(const struct counter *c)
{
    return strchr(c->file, '/') + 1;
}

/* In words, "" for most. */
static const char *remark(const struct counter *c)
{
    const struct port_trouble *t = port_trouble_of(c->file);
    const char *name = name_of(c);

    if (!c->seen) {
        return "the port is gone";
    }
    if (c->after < c->before) {
        return "was set back";
    }
    if (strcmp(name, "port_rcv_data") == 0 || strcmp(name, "port_xmit_data") == 0) {
        return "in units of 4 bytes";
    }
    return t != NULL && c->after > c->before ? t->means : "";
}

static void print_text(const struct counters *all, const struct hw_options *opt, FILE *f)
{
    int shown = 0, told = 0;

    for (int i = 0; i < all->n; i++) {
        const struct counter *c = &all->list[i];

        if (c->after == c->before && c->seen && !opt->all) {
            continue;
        }
        if (shown++ == 0) {
            fprintf(f, "%-12s %-28s %20s %20s\n", "port", "counter", "change", "now");
        }
        fprintf(f, "%-12s %-28s %+20" PRId64 " %20" PRIu64, c->port, name_of(c),
                c->seen ? (int64_t)(c->after - c->before) : 0, c->after);
        fprintf(f, remark(c)[0] != '\0' ? "  %s\n" : "%s\n", remark(c));
    }
    if (all->n == 0) {
        fprintf(f, "no RDMA port of this host shows counters (%s/sys/class/infiniband)\n",
                opt->root);
    } else if (shown == 0) {
        fprintf(f, "none of %d counters changed\n", all->n);
    }
    for (int i = 0; i < all->n; i++) {
        const struct counter *c = &all->list[i];
        const struct port_trouble *t = port_trouble_of(c->file);

        if (t != NULL && c->seen && c->after > c->before) {
            fprintf(f, told++ == 0 ? "\nWhat betrays trouble:\n" : "");
            fprintf(f, "  %s %s %s +%" PRIu64 ": %s. What to do: %s\n",
                    t->is_warning ? "WARN" : "note", c->port, name_of(c), c->after - c->before,
                    t->means, t->next);
        }
    }
}

static void print_json(const struct counters *all, const struct hw_options *opt, int status,
                       FILE *f)
{
    const char *comma = "";

    fprintf(f, "{\"status\": %d, \"counters\": [", status);
    for (int i = 0; i < all->n; i++) {
        const struct counter *c = &all->list[i];
        const struct port_trouble *t = port_trouble_of(c->file);

        if (c->after == c->before && c->seen && !opt->all) {
            continue;
        }
        fprintf(f, "%s{", comma);
        json_put_key(f, "port", c->port);
        fputs(", ", f);
        json_put_key(f, "counter", c->file);
        fprintf(f, ", \"before\": %" PRIu64 ", \"after\": %" PRIu64 ", \"there\": %s", c->before,
                c->after, c->seen ? "true" : "false");
        if (t != NULL && c->after > c->before) {
            fputs(", ", f);
            json_put_key(f, "means", t->means);
            fprintf(f, ", \"warning\": %s", t->is_warning ? "true" : "false");
        }
        fputs("}", f);
        comma = ", ";
    }
    fputs("]}\n", f);
}

/* Runs it to its end. Returns its status as a shell would. */
static int run(char **command)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    int status = 0;
    pid_t pid;

    /* Ctrl-C is meant for the command; the table is wanted all the same. */
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    pid = fork();
    if (pid == 0) {
        sigaction(SIGINT, &interrupt, NULL);
        sigaction(SIGQUIT, &quit, NULL);
        execvp(command[0], command);
        status = errno == ENOENT ? 127 : 126;
        fprintf(stderr, "verbs_stat: %s: %s\n", command[0], strerror(errno));
        _exit(status);
    }
    if (pid < 0) {
        fprintf(stderr, "verbs_stat: %s: %s\n", command[0], strerror(errno));
        return 126;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Returns the index of the command; ends the program for anything else. */
static int take_options(int argc, char **argv, struct hw_options *o)
{
    const struct option options[] = {
        {"all", no_argument, &o->all, 1},         {"json", no_argument, &o->json, 1},
        {"output", required_argument, NULL, 'o'}, {"root", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (c == 'o') {
            o->output = optarg;
        } else if (c == 'r') {
            o->root = optarg;
        } else if (c == 'h') {
            fputs(usage_text, stdout);
            exit(0);
        } else if (c != 0) {
            fputs(usage_text, stderr);
            exit(2);
        }
    }
    if (optind >= argc) {
        fprintf(stderr, "verbs_stat: hw needs a command\n%s", usage_text);
        exit(2);
    }
    return optind;
}

int stat_hw(int argc, char **argv)
{
    struct hw_options opt = {.root = ""};
    struct counters all = {.n = 0};
    int at = take_options(argc, argv, &opt), status;
    FILE *f = stderr;

    if (opt.output != NULL) { /* before the command has run for hours */
        f = fopen(opt.output, "we");
        if (f == NULL) {
            fprintf(stderr, "verbs_stat: %s: %s\n", opt.output, strerror(errno));
            return 2;
        }
    }
    read_all(&all, opt.root, 0);
    status = run(&argv[at]);
    read_all(&all, opt.root, 1);
    if (all.n > 0) {
        qsort(all.list, (size_t)all.n, sizeof(all.list[0]), by_name);
    }
    if (opt.json) {
        print_json(&all, &opt, status, f);
    } else {
        print_text(&all, &opt, f);
    }
    if (f != stderr && fclose(f) != 0) {
        fprintf(stderr, "verbs_stat: %s: %s\n", opt.output, strerror(errno));
    }
    free(all.list);
    return status;
}
