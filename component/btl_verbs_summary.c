/* What a node's ranks sent, and how, in one table at the end of the job
 * (btl_verbs_summary). SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of a node meet in a file of the job's folder, which Open MPI's
 * daemon removes with the job: each has a slot there from MPI_Init on, and
 * fills it in at its end. Who finds at its end that all others have filled in
 * theirs, or have died, prints the table. Nobody waits for anybody. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "btl_verbs.h"
#include "rail/vrb_figures.h"
#include "util/vrb_statfile.h"

/* What is in the table: name of the figure, and what it is called there. */
static const struct row {
    const char *figure, *text;
    bool always; /* also if it is 0 */
} rows[] = {
    {"rc_packets", "packets over connections", true},
    {"rc_bytes", "  bytes", true},
    {"tx_inline", "  of them inline", true},
    {"ud_messages", "messages as datagrams", true},
    {"ud_bytes", "  bytes", false},
    {"gets", "RDMA reads", true},
    {"get_bytes", "  bytes", false},
    {"puts", "RDMA writes", true},
    {"put_bytes", "  bytes", false},
    {"atomics", "atomic operations", false},
    {"ud_resent", "datagrams sent again", true},
    {"ud_lost", "  found lost", false},
    {"replayed", "packets sent again", false},
    {"credit_stalls", "waits for credits", true},
    {"queue_stalls", "waits for the send queue", true},
    {"connections", "connections made", true},
    {"recovered_connections", "  made again", false},
    {"lost_connections", "  lost", false},
    {"registered_bytes", "bytes registered at the end", true},
    {"registrations", "registrations", true},
    {"registration_hits", "  spared by the cache", false},
    {"registrations_refused", "  refused", false},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* A rank's place in the file. */
struct slot {
    uint32_t pid, rank;
    uint64_t started; /* of the process: a pid may be given out again */
    uint64_t done;    /* the values are there */
    uint64_t values[ROWS];
};

static bool begun;     /* between start and stop */
static int fd = -1;    /* of the file, while this process has a slot */
static off_t my_place; /* of it */

static bool write_slot(const struct slot *s)
{
    return pwrite(fd, s, sizeof(*s), my_place) == (ssize_t)sizeof(*s);
}

static void new_slot(struct slot *s)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;

    memset(s, 0, sizeof(*s));
    s->pid = (uint32_t)getpid();
    s->rank = (uint32_t)(c->name & UINT32_MAX);
    s->started = vrb_process_started(s->pid);
}

void mca_btl_verbs_summary_start(void)
{
    const char *folder = opal_process_info.job_session_dir;
    char path[4096];
    struct slot s;

    if (!mca_btl_verbs_component.params.summary || begun) {
        return;
    }
    begun = true;
    /* A process that nobody launched has no such folder, and no company. */
    snprintf(path, sizeof(path), "%s/btl-verbs-summary", folder != NULL ? folder : "/nonexistent");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return;
    }
    new_slot(&s);
    (void)flock(fd, LOCK_EX);
    my_place = lseek(fd, 0, SEEK_END);
    if (my_place < 0 || my_place % (off_t)sizeof(s) != 0 || !write_slot(&s)) {
        close(fd); /* what was written of it is shorter than a slot, and read by nobody */
        fd = -1;
        return;
    }
    (void)flock(fd, LOCK_UN);
}

static void fill_values(struct slot *s)
{
    struct vrb_rail *rails[VRB_MAX_RAILS];
    uint64_t values[VRB_FIGURES_MAX];
    int known, n = mca_btl_verbs_rails(rails);
    const struct vrb_figure *figures = vrb_figures(&known);

    (void)vrb_figures_read(rails, n, values);
    for (size_t r = 0; r < ROWS; r++) {
        for (int i = 0; i < known; i++) {
            if (strcmp(figures[i].name, rows[r].figure) == 0) {
                s->values[r] = values[i];
            }
        }
    }
    s->done = 1;
}

/* Sums of a node, and the most that one of its ranks has. */
struct totals {
    unsigned ranks, died;
    uint64_t sum[ROWS], most[ROWS];
    uint32_t most_rank[ROWS];
};

static void add_slot(struct totals *t, const struct slot *s)
{
    t->ranks++;
    for (size_t r = 0; r < ROWS; r++) {
        t->sum[r] += s->values[r];
        if (t->most[r] < s->values[r] || t->ranks == 1) {
            t->most[r] = s->values[r];
            t->most_rank[r] = s->rank;
        }
    }
}

/* Adds the others up. False: one of them is still at work. */
static bool add_others(struct totals *t)
{
    struct slot s;

    for (off_t at = 0; pread(fd, &s, sizeof(s), at) == (ssize_t)sizeof(s); at += sizeof(s)) {
        if (at == my_place) {
            continue;
        }
        if (s.done) {
            add_slot(t, &s);
        } else if (vrb_process_is(s.pid, s.started)) {
            return false;
        } else {
            t->died++;
        }
    }
    return true;
}

static void print(const struct totals *t)
{
    char text[3000];
    size_t used;
    int n;

    used = (size_t)snprintf(text, sizeof(text), "summary of host %s, %u rank%s",
                            opal_process_info.nodename, t->ranks, t->ranks == 1 ? "" : "s");
    if (t->died > 0) {
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 " (and %u that ended without a word)", t->died);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "\n  %-28s %16s %16s  of rank", "",
                             "all ranks", "the most");
    for (size_t r = 0; r < ROWS && used < sizeof(text); r++) {
        if (t->sum[r] == 0 && !rows[r].always) {
            continue;
        }
        n = snprintf(text + used, sizeof(text) - used, "\n  %-28s %16" PRIu64 " %16" PRIu64,
                     rows[r].text, t->sum[r], t->most[r]);
        used += n > 0 ? (size_t)n : 0;
        if (t->most[r] > 0 && used < sizeof(text)) {
            n = snprintf(text + used, sizeof(text) - used, "  %" PRIu32, t->most_rank[r]);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    mca_btl_verbs_say("%s", text);
}

void mca_btl_verbs_summary_stop(void)
{
    struct totals t = {.ranks = 0};
    bool last = true;
    struct slot s;

    if (!begun) {
        return;
    }
    begun = false;
    new_slot(&s);
    fill_values(&s);
    add_slot(&t, &s);
    if (fd >= 0) {
        (void)flock(fd, LOCK_EX); /* held for as long as it takes to read a small file */
        (void)write_slot(&s);
        last = add_others(&t);
        close(fd); /* and the lock goes */
        fd = -1;
    }
    if (last) {
        print(&t);
    }
}
