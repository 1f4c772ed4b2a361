/* Ping-pong between all pairs of ranks, in every send mode, at every protocol boundary.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"
#include "sizes.h"

enum kind {
    KIND_BLOCKING,
    KIND_NONBLOCKING,
    KIND_SENDRECV,
    KIND_SSEND,
    KIND_PERSISTENT,
    KIND_TEST_LOOP, /* completion only through MPI_Test: no call that blocks inside MPI */
    KIND_COUNT
};

static const char *const kind_names[KIND_COUNT] = {"blocking", "nonblocking", "sendrecv",
                                                   "ssend",    "persistent",  "test loop"};

/* Both directions at once */
static void exchange(enum kind kind, unsigned char *out, unsigned char *in, size_t size, int peer,
                     int tag)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int count = (int)size;
    if (kind == KIND_SENDRECV) {
        MPI_Sendrecv(out, count, MPI_BYTE, peer, tag, in, count, MPI_BYTE, peer, tag,
                     MPI_COMM_WORLD, &statuses[0]);
    } else if (kind == KIND_PERSISTENT) {
        MPI_Recv_init(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Send_init(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    } else {
        MPI_Irecv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]);
        if (kind == KIND_TEST_LOOP) {
            int done = 0;
            while (!done) {
                MPI_Testall(2, requests, &done, statuses);
            }
        } else {
            MPI_Waitall(2, requests, statuses);
        }
    }
    chk_verify_status(&statuses[0], peer, tag, size);
}

/* One direction after the other; the lower rank begins */
static void one_by_one(enum kind kind, unsigned char *out, unsigned char *in, size_t size, int peer,
                       int tag)
{
    int count = (int)size;
    MPI_Status status;
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == (chk.rank < peer)) {
            if (kind == KIND_SSEND) {
                MPI_Ssend(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
            } else {
                MPI_Send(out, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
            }
        } else {
            MPI_Recv(in, count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
            chk_verify_status(&status, peer, tag, size);
        }
    }
}

/* The buffers begin at an odd place in the odd rounds, as real ones do. */
static void one_size(enum kind kind, int peer, size_t size, uint64_t rounds)
{
    size_t room = size + 8;
    unsigned char *out = chk_alloc(room);
    unsigned char *in = chk_alloc(room);
    for (uint64_t i = 0; i < rounds; i++) {
        size_t shift = i % 2 == 0 ? 0 : 1 + i % 7;
        int tag = (int)(i % 1000);
        chk_step("%s with %d, size %zu, round %llu", kind_names[kind], peer, size,
                 (unsigned long long)i);
        chk_fill_to(out + shift, size, peer, tag, size);
        chk_poison(in, room);
        if (kind == KIND_BLOCKING || kind == KIND_SSEND) {
            one_by_one(kind, out + shift, in + shift, size, peer, tag);
        } else {
            exchange(kind, out + shift, in + shift, size, peer, tag);
        }
        chk_verify_from(in + shift, size, peer, tag, size);
        chk_untouched(in, shift, CHK_POISON_BYTE, "before the message");
        chk_untouched(in + shift + size, room - shift - size, CHK_POISON_BYTE, "after the message");
        /* a send that is complete may not have changed its buffer, nor look at it again */
        chk_verify_at(out + shift, size, chk.rank, tag, chk_key(chk.rank, peer, tag, size), 0);
        chk_poison(out, room);
    }
    chk_free(out, room);
    chk_free(in, room);
}

/* The partner of this rank in round `round` of a round-robin tournament of `n` (even) players;
 * player n - 1 stands still, the others rotate. */
static int partner(int rank, int round, int n)
{
    int turning = n - 1;
    if (rank == turning) {
        for (int other = 0; other < turning; other++) {
            if ((2 * other) % turning == round % turning) {
                return other;
            }
        }
    }
    int other = ((round - rank) % turning + turning) % turning;
    return other == rank ? turning : other;
}

/* True while the file that CHK_WHILE names is there: for a job that lasts as long as its caller
 * needs. */
static int once_more(void)
{
    const char *file = getenv("CHK_WHILE");
    int more;

    if (file == NULL) {
        return 0;
    }
    more = chk.rank == 0 && access(file, F_OK) == 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static void all_sizes(const struct sizes *sizes, uint64_t kinds, int peer)
{
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t s = 0; (kinds >> kind & 1) && s < sizes->count; s++) {
            one_size(kind, peer, sizes->list[s], sizes_rounds(chk.iterations, sizes->list[s]));
        }
    }
}

static void all_rounds(const struct sizes *sizes, uint64_t kinds, int all_pairs)
{
    int players = chk.size + chk.size % 2;

    for (int round = 0; round < (all_pairs ? players - 1 : 1); round++) {
        /* Without --all-pairs meet someone far away: ranks are often placed host by host. */
        int peer = all_pairs
                       ? partner(chk.rank, round, players)
                       : (chk.rank < players / 2 ? chk.rank + players / 2 : chk.rank - players / 2);
        if (peer < chk.size) {
            all_sizes(sizes, kinds, peer);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t all_pairs = 0;
    uint64_t kinds = (1U << KIND_COUNT) - 1;
    uint64_t only = UINT64_MAX;
    const struct chk_option options[] = {
        {"--all-pairs", "every pair of ranks, not only the first partner", &all_pairs, 1},
        {"--kinds", "bits: 1 blocking, 2 nonblocking, 4 sendrecv, 8 ssend, 16 persistent, 32 test",
         &kinds, 0},
        {"--size", "this size only", &only, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "pingpong",
                            .about = "Ping-pong of all sizes around the protocol boundaries.",
                            .options = options,
                            .iterations = 4,
                            .max_size = 16 << 20});
    chk_need_ranks(2);
    static struct sizes sizes;
    if (only != UINT64_MAX) {
        sizes_add(&sizes, (int64_t)only, only);
    } else {
        sizes_collect(&sizes, chk.max_size);
    }
    do {
        all_rounds(&sizes, kinds, all_pairs != 0);
    } while (once_more());
    return chk_end();
}
