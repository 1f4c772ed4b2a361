/* Processes that come and go: MPI_Comm_spawn, connect and accept.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The newcomers speak first, so that a process is contacted by peers which it does not know yet.
 */
#include "check.h"

static int parents; /* in a spawned process: how many processes spawned it */

/* Everybody of one group talks to everybody of the other; `first`: our group sends first. */
static void talk(MPI_Comm inter, int first, const char *what)
{
    static const size_t sizes[] = {1, 300, 20000, 300000, 1048577};
    int here = 0, there = 0;

    MPI_Comm_rank(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && sizes[s] <= chk.max_size; s++) {
        size_t size = sizes[s];
        unsigned char *out = chk_alloc(size), *in = chk_alloc(size);

        chk_step("%s, %zu bytes", what, size);
        for (int turn = 0; turn < 2; turn++) {
            for (int other = 0; other < there; other++) {
                if ((turn == 0) == (first != 0)) {
                    chk_fill(out, size, chk_key(here, other, turn, size));
                    MPI_Send(out, (int)size, MPI_BYTE, other, turn, inter);
                } else {
                    MPI_Recv(in, (int)size, MPI_BYTE, other, turn, inter, MPI_STATUS_IGNORE);
                    chk_verify_at(in, size, other, turn, chk_key(other, here, turn, size), 0);
                    chk.messages++;
                }
            }
        }
        chk_free(out, size);
        chk_free(in, size);
    }
}

/* Both groups as one: a ring through all of it. */
static void ring(MPI_Comm inter, int high)
{
    MPI_Comm all;
    int rank, size, got = -1;

    chk_step("the merged ring");
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 0, all, MPI_STATUS_IGNORE);
    if (got != (rank + size - 1) % size) {
        chk_fail("the ring brought %d", got);
    }
    MPI_Barrier(all);
    MPI_Comm_free(&all);
}

static int child(MPI_Comm parent)
{
    MPI_Comm_remote_size(parent, &parents);
    talk(parent, 1, "child and parents");
    ring(parent, 1);
    chk_step("child: disconnect");
    MPI_Comm_disconnect(&parent);
    chk_step("child: MPI_Finalize");
    MPI_Finalize();
    return 0;
}

static void spawn(char **argv, int children, int round)
{
    int codes[64];
    MPI_Comm inter;

    chk_step("MPI_Comm_spawn of %d, round %d", children, round);
    MPI_Comm_spawn(argv[0], argv + 1, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    talk(inter, 0, "parents and children");
    ring(inter, 0);
    chk_step("disconnect");
    MPI_Comm_disconnect(&inter);
}

/* The world falls into two halves that find each other by a port. */
static void meet(int round)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int half = chk.rank % 2;
    MPI_Comm mine, inter;

    chk_step("connect and accept, round %d", round);
    MPI_Comm_split(MPI_COMM_WORLD, half, chk.rank, &mine);
    if (chk.rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (half == 0) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, mine, &inter);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, mine, &inter);
    }
    talk(inter, half, "halves");
    ring(inter, half);
    MPI_Comm_disconnect(&inter);
    if (chk.rank == 0) {
        MPI_Close_port(port);
    }
    MPI_Comm_free(&mine);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    uint64_t children = 2, only_meet = 0;
    const struct chk_option options[] = {
        {"--children", "processes to spawn at a time (0: none)", &children, 0},
        {"--meet-only", "connect and accept only", &only_meet, 1},
        {NULL, NULL, NULL, 0},
    };
    char **arguments = argv;
    MPI_Comm parent;

    chk_begin(&argc, &argv,
              &(struct chk){.name = "spawn",
                            .about = "MPI_Comm_spawn, MPI_Comm_connect, MPI_Comm_accept.",
                            .options = options,
                            .iterations = 2,
                            .max_size = 1048577});
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return child(parent);
    }
    for (int i = 0; i < (int)chk.iterations; i++) {
        if (children > 0 && !only_meet) {
            spawn(arguments, (int)(children < 64 ? children : 64), i);
        }
        if (chk.size > 1) {
            meet(i);
        }
    }
    return chk_end();
}
