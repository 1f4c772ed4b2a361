/* Threads of each rank talk at once: all sizes, wildcards, probes, collectives and windows.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Thread t of a rank talks to the threads t of the others, by tag on one communicator and by a
 * communicator of its own, so that threads meet in the transport and not by their messages.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

#define WINDOW 8 /* messages of a thread under way */
#define MAX_THREADS 32

struct worker {
    pthread_t id;
    int number;
    MPI_Comm comm; /* of its own */
    MPI_Win win;   /* of its own; MPI_WIN_NULL: no one-sided operations */
    uint64_t *cells;
    uint64_t messages, bytes; /* verified */
};

static struct worker workers[MAX_THREADS];
static uint64_t threads = 4;
static atomic_int alarms;

/* The watchdog is fed by whoever gets on, so it bites only if all threads hang. */
static void on(void)
{
    if (atomic_fetch_add(&alarms, 1) % 64 == 0) {
        alarm((unsigned)chk.timeout);
    }
}

/* The same at both ends: what thread t sends to rank `to` in a round. */
static size_t size_of(int from, int to, int thread, int round, int i)
{
    uint64_t x = chk_mix((((uint64_t)from * 64 + (uint64_t)to) * 64 + (uint64_t)thread) * 100003 +
                         (uint64_t)round * WINDOW + (uint64_t)i + chk.seed);
    uint64_t most = x % 16 == 0 ? chk.max_size : x % 4 == 0 ? 20000 : 300;

    return (size_t)(x >> 8) % (most + 1);
}

static uint64_t key_of(int from, int to, int thread, int round, int i)
{
    return chk_key(from, to, thread, (uint64_t)round * WINDOW + (uint64_t)i);
}

static void verify(struct worker *w, const unsigned char *in, size_t size, int from, int round,
                   int i)
{
    uint64_t key = key_of(from, chk.rank, w->number, round, i);

    if (chk_first_difference(in, size, key, 0) < size) {
        chk_fail("thread %d, round %d: message %d of %zu bytes from rank %d is wrong", w->number,
                 round, i, size, from);
    }
    w->messages++;
    w->bytes += size;
}

/* A window of messages to the next rank by tag, in their order, from the rank before. */
static void exchange(struct worker *w, int round)
{
    int to = (chk.rank + 1 + round % (chk.size > 1 ? chk.size - 1 : 1)) % chk.size;
    int from = (2 * chk.size + chk.rank - (to - chk.rank)) % chk.size;
    unsigned char *in[WINDOW], *out[WINDOW];
    MPI_Request requests[2 * WINDOW];
    size_t in_size[WINDOW], out_size[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        in_size[i] = size_of(from, chk.rank, w->number, round, i);
        in[i] = chk_alloc(in_size[i]);
        MPI_Irecv(in[i], (int)in_size[i], MPI_BYTE, round % 3 ? from : MPI_ANY_SOURCE, w->number,
                  round % 3 ? MPI_COMM_WORLD : w->comm, &requests[i]);
    }
    for (int i = 0; i < WINDOW; i++) {
        out_size[i] = size_of(chk.rank, to, w->number, round, i);
        out[i] = chk_alloc(out_size[i]);
        chk_fill(out[i], out_size[i], key_of(chk.rank, to, w->number, round, i));
        MPI_Isend(out[i], (int)out_size[i], MPI_BYTE, to, w->number,
                  round % 3 ? MPI_COMM_WORLD : w->comm, &requests[WINDOW + i]);
    }
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; i++) {
        verify(w, in[i], in_size[i], from, round, i);
        chk_free(in[i], in_size[i]);
        chk_free(out[i], out_size[i]);
    }
    if (round % 3 == 0) {
        MPI_Barrier(w->comm); /* any source must not take a message of the next round */
    }
}

/* A message whose size only the probe tells. */
static void probed(struct worker *w, int round)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    size_t out_size = size_of(chk.rank, to, w->number, round, 0);
    size_t want = size_of(from, chk.rank, w->number, round, 0);
    unsigned char *out = chk_alloc(out_size), *in;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int size = -1;

    chk_fill(out, out_size, key_of(chk.rank, to, w->number, round, 0));
    MPI_Isend(out, (int)out_size, MPI_BYTE, to, 1000 + w->number, MPI_COMM_WORLD, &request);
    MPI_Mprobe(from, 1000 + w->number, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &size);
    if ((size_t)size != want) {
        chk_fail("thread %d: the probe saw %d bytes, not %zu", w->number, size, want);
    }
    in = chk_alloc(want);
    MPI_Mrecv(in, size, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    verify(w, in, want, from, round, 0);
    chk_free(in, want);
    chk_free(out, out_size);
}

static void collective(struct worker *w, int round)
{
    int64_t mine = (int64_t)chk.rank * round + w->number, all = -1;
    int64_t want = (int64_t)chk.size * (chk.size - 1) / 2 * round + (int64_t)w->number * chk.size;

    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, w->comm);
    if (all != want) {
        chk_fail("thread %d: the sum is %lld, not %lld", w->number, (long long)all,
                 (long long)want);
    }
}

/* Each thread has a window of its own: cell 0 counts, the others are written and read. */
static void one_sided(struct worker *w, int round)
{
    int target = (chk.rank + round) % chk.size;
    uint64_t one = 1, old = 0, back[3] = {0};
    uint64_t mine[3] = {(uint64_t)round, (uint64_t)chk.rank, ~(uint64_t)round};
    MPI_Aint at = 1 + 3 * chk.rank;

    MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, target, 0, MPI_SUM, w->win);
    MPI_Put(mine, 3, MPI_UINT64_T, target, at, 3, MPI_UINT64_T, w->win);
    MPI_Win_flush(target, w->win);
    MPI_Get(back, 3, MPI_UINT64_T, target, at, 3, MPI_UINT64_T, w->win);
    MPI_Win_flush(target, w->win);
    if (memcmp(mine, back, sizeof(mine)) != 0) {
        chk_fail("thread %d, round %d: a window gave back something else", w->number, round);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int round = 0; round < (int)chk.iterations; round++) {
        exchange(w, round);
        on();
        if (round % 2) {
            probed(w, round);
        }
        if (round % 5 == 0) {
            collective(w, round);
        }
        if (w->win != MPI_WIN_NULL) {
            one_sided(w, round);
        }
        on();
    }
    return NULL;
}

static void check_counts(struct worker *w)
{
    uint64_t mine = w->cells[0], all = 0;

    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all != chk.iterations * (uint64_t)chk.size) {
        chk_fail("thread %d: %llu additions of %llu", w->number, (unsigned long long)all,
                 (unsigned long long)chk.iterations * (unsigned)chk.size);
    }
}

int main(int argc, char **argv)
{
    uint64_t windows = 0;
    const struct chk_option options[] = {
        {"--threads", "threads of each rank", &threads, 0},
        {"--windows", "one-sided operations, too", &windows, 1},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "threads",
                            .about = "Several threads of each rank use MPI at once.",
                            .options = options,
                            .thread_level = MPI_THREAD_MULTIPLE,
                            .iterations = 60,
                            .max_size = 1 << 20});
    if (threads < 1 || threads > MAX_THREADS) {
        chk_fail("--threads is 1 to %d", MAX_THREADS);
    }
    for (int t = 0; t < (int)threads; t++) {
        struct worker *w = &workers[t];

        w->number = t;
        w->win = MPI_WIN_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
        if (windows) {
            MPI_Win_allocate((MPI_Aint)((1 + 3 * (size_t)chk.size) * sizeof(*w->cells)),
                             sizeof(*w->cells), MPI_INFO_NULL, w->comm, &w->cells, &w->win);
            memset(w->cells, 0, (1 + 3 * (size_t)chk.size) * sizeof(*w->cells));
            MPI_Win_lock_all(0, w->win);
        }
    }
    chk_step("%d threads at work", (int)threads);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int t = 0; t < (int)threads; t++) {
        if (pthread_create(&workers[t].id, NULL, work, &workers[t]) != 0) {
            chk_fail("no more threads");
        }
    }
    for (int t = 0; t < (int)threads; t++) {
        pthread_join(workers[t].id, NULL);
        chk.messages += workers[t].messages;
        chk.bytes += workers[t].bytes;
    }
    chk_step("after the threads");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int t = 0; t < (int)threads; t++) {
        if (windows) {
            MPI_Win_unlock_all(workers[t].win);
            check_counts(&workers[t]);
            MPI_Win_free(&workers[t].win);
        }
        MPI_Comm_free(&workers[t].comm);
    }
    return chk_end();
}
