/* One-sided operations: every byte, every ticket and every lock is checked; windows of all kinds.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank is a target of each, itself included, at odd offsets and with sizes around every limit.
 */
#include <stdatomic.h>
#include <time.h>

#include "check.h"

#define SLACK 128U      /* bytes of a window around what is put */
#define CELLS 4096U     /* 64-bit cells of the window of numbers */
#define OUTSTANDING 300 /* requests at a time: more than a send queue holds */

static unsigned char *memory; /* what this rank's window is on */
static size_t memory_bytes;

static int neighbour(int shift)
{
    return ((chk.rank + shift) % chk.size + chk.size) % chk.size;
}

/* Everybody has done what comes before, and the window's memory is what RDMA left there. */
static void meet(MPI_Win win)
{
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
}

/* ---- bytes: put and get ---- */

static void put_and_get(MPI_Win win, MPI_Aint base, size_t size, int shift, uint64_t *random)
{
    int target = neighbour(shift), writer = neighbour(-shift);
    /* Both ends know the writer's choices. */
    uint64_t choice = chk_mix((uint64_t)shift * 977 + size + chk.seed);
    size_t offset = SLACK / 2 + choice % 17;
    size_t skew = chk_random_below(random, 9);
    unsigned char *out = chk_alloc(size + skew), *in = chk_alloc(size + skew);

    chk_poison(memory, size + SLACK);
    chk_fill(out + skew, size, chk_key(chk.rank, target, shift, size));
    meet(win);
    MPI_Put(out + skew, (int)size, MPI_BYTE, target, base + (MPI_Aint)offset, (int)size, MPI_BYTE,
            win);
    MPI_Win_flush(target, win);
    meet(win);
    chk_verify_from(memory + offset, size, writer, shift, size);
    chk_untouched(memory, offset, CHK_POISON_BYTE, "window before what was put");
    chk_untouched(memory + offset + size, SLACK - offset, CHK_POISON_BYTE,
                  "window after what was put");
    MPI_Get(in + skew, (int)size, MPI_BYTE, target, base + (MPI_Aint)offset, (int)size, MPI_BYTE,
            win);
    MPI_Win_flush(target, win);
    chk_verify_at(in + skew, size, target, shift, chk_key(chk.rank, target, shift, size), 0);
    chk_untouched(in, skew, CHK_POISON_BYTE, "before what was read");
    chk_free(out, size + skew);
    chk_free(in, size + skew);
    meet(win);
}

static void bytes(MPI_Win win, MPI_Aint base, size_t most, const char *what)
{
    static const size_t sizes[] = {0,     1,     3,     7,      8,      9,      64,   200,
                                   255,   256,   257,   1000,   4095,   8192,   8193, 32767,
                                   32769, 65536, 70001, 131072, 262145, 1048577};
    uint64_t random = chk.seed + (uint64_t)chk.rank;
    size_t n = sizeof(sizes) / sizeof(sizes[0]);

    MPI_Win_lock_all(0, win);
    for (int shift = 0; shift < chk.size; shift++) {
        for (size_t i = 0; i < n + 1; i++) {
            size_t size = i == n ? most : sizes[i];

            if (size <= most) {
                chk_step("%s: put and get of %zu bytes, %d ranks further", what, size, shift);
                put_and_get(win, base, size, shift, &random);
            }
        }
    }
    MPI_Win_unlock_all(win);
}

/* Every third byte of a block is left alone. */
static void holes(MPI_Win win, MPI_Aint base)
{
    enum { PIECES = 5000 };
    int target = neighbour(1), writer = neighbour(-1);
    unsigned char *out = chk_alloc(2 * PIECES);
    MPI_Datatype type;

    chk_step("put with holes");
    MPI_Type_vector(PIECES, 2, 3, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    chk_fill_to(out, 2 * PIECES, target, 1, 0);
    MPI_Win_fence(0, win);
    chk_poison(memory, 3 * PIECES);
    MPI_Win_fence(0, win);
    MPI_Put(out, 2 * PIECES, MPI_BYTE, target, base, 1, type, win);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < PIECES; i++) {
        chk_verify_at(memory + 3 * i, 2, writer, 1, chk_key(writer, chk.rank, 1, 0), 2 * i);
        chk_untouched(memory + 3 * i + 2, i + 1 < PIECES, CHK_POISON_BYTE, "hole");
    }
    MPI_Win_fence(0, win);
    MPI_Type_free(&type);
    chk_free(out, 2 * PIECES);
}

/* More requests than fit into any queue; the reads of each rank overlap those of the others. */
static void many(MPI_Win win, MPI_Aint base, size_t piece)
{
    MPI_Request requests[OUTSTANDING];
    int target = neighbour(1), writer = neighbour(-1);
    unsigned char *out = chk_alloc(piece * OUTSTANDING), *in = chk_alloc(piece * OUTSTANDING);

    if (piece * OUTSTANDING > memory_bytes) {
        chk_fail("the window is too small for this test");
    }
    chk_step("%d requests of %zu bytes", OUTSTANDING, piece);
    chk_fill_to(out, piece * OUTSTANDING, target, 2, piece);
    meet(win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < OUTSTANDING; i++) {
        MPI_Rput(out + piece * (size_t)i, (int)piece, MPI_BYTE, target,
                 base + (MPI_Aint)(piece * (size_t)i), (int)piece, MPI_BYTE, win, &requests[i]);
    }
    MPI_Waitall(OUTSTANDING, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(win);
    meet(win);
    chk_verify_from(memory, piece * OUTSTANDING, writer, 2, piece);
    for (int i = 0; i < OUTSTANDING; i++) {
        int from = i % 3 == 0 ? chk.rank : i % 3 == 1 ? 0 : target;

        MPI_Rget(in + piece * (size_t)i, (int)piece, MPI_BYTE, from,
                 base + (MPI_Aint)(piece * (size_t)i), (int)piece, MPI_BYTE, win, &requests[i]);
    }
    MPI_Waitall(OUTSTANDING, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < OUTSTANDING; i++) {
        int from = i % 3 == 0 ? chk.rank : i % 3 == 1 ? 0 : target;
        int wrote = (from + chk.size - 1) % chk.size;

        chk_verify_at(in + piece * (size_t)i, piece, from, 2, chk_key(wrote, from, 2, piece),
                      piece * (size_t)i);
    }
    MPI_Win_unlock_all(win);
    chk_free(out, piece * OUTSTANDING);
    chk_free(in, piece * OUTSTANDING);
    meet(win);
}

static void post_start(MPI_Win win, MPI_Aint base)
{
    int to = neighbour(1), from = neighbour(-1);
    unsigned char *out = chk_alloc(5000);
    MPI_Group world, source, sink;

    chk_step("post, start, complete, wait");
    chk_fill_to(out, 5000, to, 3, 0);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &from, &source);
    MPI_Group_incl(world, 1, &to, &sink);
    MPI_Win_post(source, 0, win);
    MPI_Win_start(sink, 0, win);
    MPI_Put(out, 5000, MPI_BYTE, to, base + 11, 5000, MPI_BYTE, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    chk_verify_from(memory + 11, 5000, from, 3, 0);
    MPI_Group_free(&source);
    MPI_Group_free(&sink);
    MPI_Group_free(&world);
    chk_free(out, 5000);
}

/* ---- numbers: atomics and accumulates ---- */

/* Everybody draws from everybody's counter: no number may come twice. */
static void tickets(MPI_Win win, int64_t *cells, int draws)
{
    size_t total = (size_t)draws * (size_t)chk.size;
    int64_t *mine = chk_malloc((size_t)draws * sizeof(*mine));
    int64_t *all = chk_malloc(total * sizeof(*all));
    unsigned char *seen = chk_malloc(total);

    for (int owner = 0; owner < chk.size; owner++) {
        chk_step("drawing numbers from rank %d", owner);
        cells[1] = 7;
        meet(win);
        MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, win);
        for (int i = 0; i < draws; i++) {
            int64_t one = 1;

            MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, owner, 1, MPI_SUM, win);
            MPI_Win_flush(owner, win);
            if (i > 0 && mine[i] <= mine[i - 1]) {
                chk_fail("number %lld after %lld", (long long)mine[i], (long long)mine[i - 1]);
            }
        }
        MPI_Win_unlock(owner, win);
        MPI_Allgather(mine, draws, MPI_INT64_T, all, draws, MPI_INT64_T, MPI_COMM_WORLD);
        memset(seen, 0, total);
        for (size_t i = 0; i < total; i++) {
            int64_t number = all[i] - 7;

            if (number < 0 || (size_t)number >= total || seen[number]++) {
                chk_fail("number %lld of %zu is out of range or came twice", (long long)number,
                         total);
            }
        }
        chk.messages += total;
        meet(win);
    }
    free(mine);
    free(all);
    free(seen);
}

/* A lock of the program's own, by compare and swap, that protects a number. */
static void own_lock(MPI_Win win, int64_t *cells, int rounds)
{
    int owner = chk.size - 1;

    chk_step("a lock by compare and swap");
    cells[2] = 0;
    cells[3] = 0;
    meet(win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds; i++) {
        int64_t free_lock = 0, taken = chk.rank + 1, was = -1, value = -1;

        do {
            MPI_Compare_and_swap(&taken, &free_lock, &was, MPI_INT64_T, owner, 2, win);
            MPI_Win_flush(owner, win);
        } while (was != 0);
        MPI_Get(&value, 1, MPI_INT64_T, owner, 3, 1, MPI_INT64_T, win);
        MPI_Win_flush(owner, win);
        value++;
        MPI_Put(&value, 1, MPI_INT64_T, owner, 3, 1, MPI_INT64_T, win);
        MPI_Win_flush(owner, win);
        MPI_Compare_and_swap(&free_lock, &taken, &was, MPI_INT64_T, owner, 2, win);
        MPI_Win_flush(owner, win);
        if (was != taken) {
            chk_fail("the lock was rank %lld's, not mine", (long long)was - 1);
        }
    }
    MPI_Win_unlock_all(win);
    meet(win);
    if (chk.rank == owner && cells[3] != (int64_t)rounds * chk.size) {
        chk_fail("%lld increments of %d", (long long)cells[3], rounds * chk.size);
    }
    meet(win);
}

static void exclusive(MPI_Win win, int64_t *cells, int rounds)
{
    chk_step("exclusive locks");
    cells[4] = 0;
    meet(win);
    for (int i = 0; i < rounds; i++) {
        int owner = (chk.rank + i) % chk.size;
        int64_t value = -1;

        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, owner, 0, win);
        MPI_Get(&value, 1, MPI_INT64_T, owner, 4, 1, MPI_INT64_T, win);
        MPI_Win_flush(owner, win);
        value++;
        MPI_Put(&value, 1, MPI_INT64_T, owner, 4, 1, MPI_INT64_T, win);
        MPI_Win_unlock(owner, win);
    }
    meet(win);
    int64_t mine = cells[4], all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all != (int64_t)rounds * chk.size) {
        chk_fail("%lld increments of %d", (long long)all, rounds * chk.size);
    }
    meet(win);
}

/* All ranks add to the same cells of each rank, in several widths. */
static void sums(MPI_Win win, int64_t *cells, int count, int rounds)
{
    const MPI_Datatype types[] = {MPI_INT64_T, MPI_INT32_T, MPI_DOUBLE, MPI_INT8_T};
    static const size_t widths[] = {8, 4, 8, 1};
    int64_t *out = chk_malloc((size_t)count * sizeof(*out));

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        chk_step("accumulating %d values of %zu bytes", count, widths[t]);
        memset(cells, 0, CELLS * sizeof(*cells));
        for (int i = 0; i < count; i++) {
            switch (t) {
            case 0:
                out[i] = i + 1;
                break;
            case 1:
                ((int32_t *)out)[i] = i + 1;
                break;
            case 2:
                ((double *)out)[i] = i + 1;
                break;
            default:
                ((int8_t *)out)[i] = 1;
                break;
            }
        }
        meet(win);
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < rounds; i++) {
            int target = neighbour(i);
            /* The odd widths start at a cell of their own width, not at a multiple of 8 bytes. */
            MPI_Aint at = 10;

            MPI_Accumulate(out, count, types[t], target, at, count, types[t], MPI_SUM, win);
        }
        MPI_Win_unlock_all(win);
        meet(win);
        for (int i = 0; i < count; i++) {
            int from = rounds / chk.size * chk.size == rounds ? rounds : -1;
            double want = t == 3 ? 1 : i + 1, got = 0;

            want *= from;
            switch (t) {
            case 0:
                got = (double)cells[10 + i];
                break;
            case 1:
                got = ((int32_t *)(cells + 10))[i];
                break;
            case 2:
                got = ((double *)(cells + 10))[i];
                break;
            default:
                got = ((int8_t *)(cells + 10))[i];
                break;
            }
            if (got != want) {
                chk_fail("value %d is %g, not %g", i, got, want);
            }
        }
        meet(win);
    }
    free(out);
}

/* What the device has no operation for. */
static void others(MPI_Win win, int64_t *cells)
{
    int owner = 0;
    int64_t mine = 100 + chk.rank, was = 0;
    int32_t small = 1, small_was = -1;

    chk_step("max, exchange, 32 bits");
    cells[5] = cells[6] = cells[7] = cells[8] = 0;
    meet(win);
    MPI_Win_lock_all(0, win);
    MPI_Accumulate(&mine, 1, MPI_INT64_T, owner, 5, 1, MPI_INT64_T, MPI_MAX, win);
    MPI_Fetch_and_op(&mine, &was, MPI_INT64_T, owner, 6, MPI_REPLACE, win);
    MPI_Win_flush(owner, win);
    if (was != 0 && (was < 100 || was >= 100 + chk.size)) {
        chk_fail("exchange fetched %lld", (long long)was);
    }
    MPI_Fetch_and_op(&small, &small_was, MPI_INT32_T, owner, 7, MPI_SUM, win);
    MPI_Win_flush(owner, win);
    if (small_was < 0 || small_was >= chk.size) {
        chk_fail("32-bit fetch gave %d", small_was);
    }
    MPI_Fetch_and_op(NULL, &was, MPI_INT64_T, owner, 9, MPI_NO_OP, win);
    MPI_Get_accumulate(&mine, 1, MPI_INT64_T, &was, 1, MPI_INT64_T, owner, 8, 1, MPI_INT64_T,
                       MPI_SUM, win);
    MPI_Win_unlock_all(win);
    meet(win);
    if (chk.rank == owner) {
        int64_t sum = 100 * (int64_t)chk.size + (int64_t)chk.size * (chk.size - 1) / 2;

        if (cells[5] != 99 + chk.size || cells[6] < 100 || ((int32_t *)cells)[14] != chk.size ||
            cells[8] != sum) {
            chk_fail("max %lld, exchanged %lld, 32-bit sum %d, sum %lld", (long long)cells[5],
                     (long long)cells[6], ((int32_t *)cells)[14], (long long)cells[8]);
        }
    }
    meet(win);
}

/* ---- a target that computes ---- */

/* The target makes no MPI call until it sees what the last operation wrote. */
static void passive(MPI_Win win, int64_t *cells, int seconds)
{
    int target = 0;
    volatile int64_t *flag = &cells[20];
    int64_t value = 42, sum = 0, one = 1;

    chk_step("passive target that computes");
    cells[20] = cells[21] = 0;
    meet(win);
    if (chk.rank == target) {
        struct timespec begin, now;

        clock_gettime(CLOCK_MONOTONIC, &begin);
        do {
            clock_gettime(CLOCK_MONOTONIC, &now);
            usleep(100); /* the other ranks may need this core */
            atomic_thread_fence(memory_order_seq_cst);
        } while (*flag == 0 && now.tv_sec - begin.tv_sec < seconds);
        if (*flag != 42) {
            chk_fail("nothing was written within %d s while this rank was outside MPI", seconds);
        }
    } else {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Fetch_and_op(&one, &sum, MPI_INT64_T, target, 21, MPI_SUM, win);
        MPI_Win_flush(target, win);
        if (chk.rank == chk.size - 1) {
            MPI_Put(&value, 1, MPI_INT64_T, target, 20, 1, MPI_INT64_T, win);
        }
        MPI_Win_unlock(target, win);
    }
    meet(win);
    if (chk.rank == target && cells[21] != chk.size - 1) {
        chk_fail("%lld of %d additions", (long long)cells[21], chk.size - 1);
    }
    meet(win);
}

/* ---- windows ---- */

static void numbers(int draws, int seconds)
{
    int64_t *cells = NULL;
    MPI_Win win;

    MPI_Win_allocate(CELLS * sizeof(*cells), sizeof(*cells), MPI_INFO_NULL, MPI_COMM_WORLD, &cells,
                     &win);
    tickets(win, cells, draws);
    own_lock(win, cells, draws / 5 + 1);
    exclusive(win, cells, draws / 5 + 1);
    sums(win, cells, 1, 4 * chk.size);
    sums(win, cells, 2000, chk.size);
    others(win, cells);
    if (seconds > 0 && chk.size > 1) {
        passive(win, cells, seconds);
    }
    chk_step("freeing the window of numbers");
    MPI_Win_free(&win);
}

static void created(void)
{
    MPI_Win win;

    memory_bytes = chk.max_size + SLACK;
    memory = chk_alloc(memory_bytes);
    chk_step("MPI_Win_create");
    MPI_Win_create(memory, (MPI_Aint)memory_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    bytes(win, 0, chk.max_size, "MPI_Win_create");
    holes(win, 0);
    many(win, 0, 8);
    many(win, 0, chk.max_size / OUTSTANDING > 3000 ? 3000 : chk.max_size / OUTSTANDING);
    post_start(win, 0);
    chk_step("MPI_Win_free");
    MPI_Win_free(&win);
    chk_free(memory, memory_bytes);
}

static void allocated(void)
{
    size_t most = chk.max_size < 70001 ? chk.max_size : 70001;
    MPI_Win win;

    memory_bytes = most + SLACK;
    chk_step("MPI_Win_allocate");
    MPI_Win_allocate((MPI_Aint)memory_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    bytes(win, 0, most, "MPI_Win_allocate");
    chk_step("freeing the allocated window");
    MPI_Win_free(&win);
}

/* Memory comes, goes, and comes back in other places. */
static void dynamic(int rounds)
{
    size_t most = chk.max_size < 20000 ? chk.max_size : 20000;
    MPI_Win win;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    memory_bytes = most + SLACK;
    for (int round = 0; round < rounds; round++) {
        unsigned char *other = chk_alloc(3000);
        MPI_Aint mine, *all = chk_malloc((size_t)chk.size * sizeof(*all));
        int target = neighbour(1 + round), writer = neighbour(-1 - round);
        unsigned char *out = chk_alloc(most);

        memory = chk_alloc(memory_bytes);
        chk_step("dynamic window, round %d", round);
        MPI_Win_attach(win, other, 3000);
        MPI_Win_attach(win, memory, (MPI_Aint)memory_bytes);
        if (round % 2) {
            MPI_Win_detach(win, other);
        }
        MPI_Get_address(memory, &mine);
        MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
        for (size_t size = 1; size <= most; size = size * 7 + 2) {
            chk_fill_to(out, size, target, round, size);
            meet(win);
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            MPI_Put(out, (int)size, MPI_BYTE, target, all[target] + 5, (int)size, MPI_BYTE, win);
            MPI_Win_unlock(target, win);
            meet(win);
            chk_verify_from(memory + 5, size, writer, round, size);
        }
        meet(win);
        MPI_Win_detach(win, memory);
        if (round % 2 == 0) {
            MPI_Win_detach(win, other);
        }
        chk_free(memory, memory_bytes);
        chk_free(other, 3000);
        chk_free(out, most);
        free(all);
        meet(win);
    }
    chk_step("freeing the dynamic window");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    uint64_t draws = 100, passive_s = 0, windows = 7;
    const struct chk_option options[] = {
        {"--draws", "numbers drawn from each rank", &draws, 0},
        {"--passive", "seconds that a target outside MPI waits for its data (0: not tested)",
         &passive_s, 0},
        {"--windows", "sum of 1: created, 2: allocated, 4: dynamic", &windows, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "onesided",
                            .about = "MPI_Put, MPI_Get, accumulates, locks: all kinds of windows.",
                            .options = options,
                            .iterations = 1,
                            .max_size = 2 << 20});
    if (chk.max_size < 20000) {
        chk_fail("--max-size must be at least 20000");
    }
    for (int i = 0; i < (int)chk.iterations; i++) {
        if (windows & 1) {
            created();
        }
        if (windows & 2) {
            allocated();
            numbers((int)draws, (int)passive_s);
        }
        if (windows & 4) {
            dynamic(4);
        }
    }
    return chk_end();
}
