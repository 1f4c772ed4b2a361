/* MPI_PROC_NULL, messages of a rank to itself, and communicators of one rank.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

static void null_peer(size_t size)
{
    unsigned char *buffer = chk_alloc(size);
    MPI_Status status;
    MPI_Request requests[2];
    int flag = 0;
    chk_step("MPI_PROC_NULL, size %zu", size);
    MPI_Send(buffer, (int)size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(buffer, (int)size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(buffer, (int)size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    chk_verify_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Isend(buffer, (int)size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(buffer, (int)size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status);
    chk_verify_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    chk_untouched(buffer, size, CHK_POISON_BYTE, "buffer of MPI_PROC_NULL");
    chk_free(buffer, size);
    chk.messages++;
}

/* The ends of a chain have no neighbour on one side. */
static void shift_with_ends(size_t size, int tag)
{
    int up = chk.rank + 1 < chk.size ? chk.rank + 1 : MPI_PROC_NULL;
    int down = chk.rank > 0 ? chk.rank - 1 : MPI_PROC_NULL;
    unsigned char *out = chk_alloc(size);
    unsigned char *in = chk_alloc(size);
    MPI_Status status;
    chk_step("shift along a chain, size %zu", size);
    chk_fill_to(out, size, up, tag, size);
    MPI_Sendrecv(out, (int)size, MPI_BYTE, up, tag, in, (int)size, MPI_BYTE, down, tag,
                 MPI_COMM_WORLD, &status);
    if (down == MPI_PROC_NULL) {
        chk_untouched(in, size, CHK_POISON_BYTE, "buffer of MPI_PROC_NULL");
    } else {
        chk_verify_status(&status, down, tag, size);
        chk_verify_from(in, size, down, tag, size);
    }
    chk_free(out, size);
    chk_free(in, size);
}

static void to_self(MPI_Comm comm, int me, size_t size, int tag)
{
    unsigned char *out = chk_alloc(size);
    unsigned char *in = chk_alloc(size);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    chk_step("to itself, size %zu", size);
    for (int turn = 0; turn < 3; turn++) {
        chk_fill_to(out, size, chk.rank, tag + turn, size);
        chk_poison(in, size);
        if (turn == 0) { /* posted first */
            MPI_Irecv(in, (int)size, MPI_BYTE, me, tag, comm, &requests[0]);
            MPI_Send(out, (int)size, MPI_BYTE, me, tag, comm);
            MPI_Wait(&requests[0], &statuses[0]);
        } else if (turn == 1) { /* unexpected */
            MPI_Isend(out, (int)size, MPI_BYTE, me, tag + 1, comm, &requests[1]);
            MPI_Irecv(in, (int)size, MPI_BYTE, MPI_ANY_SOURCE, tag + 1, comm, &requests[0]);
            MPI_Waitall(2, requests, statuses);
        } else {
            MPI_Sendrecv(out, (int)size, MPI_BYTE, me, tag + 2, in, (int)size, MPI_BYTE, me,
                         tag + 2, comm, &statuses[0]);
        }
        chk_verify_status(&statuses[0], me, tag + turn, size);
        chk_verify_from(in, size, chk.rank, tag + turn, size);
    }
    chk_free(out, size);
    chk_free(in, size);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "nullself",
                            .about = "MPI_PROC_NULL, and messages of a rank to itself.",
                            .iterations = 2,
                            .max_size = 4 << 20});
    for (int i = 0; i < (int)chk.iterations; i++) {
        for (size_t size = 0; size <= chk.max_size; size = size == 0 ? 1 : size * 4) {
            null_peer(size);
            shift_with_ends(size, 10 + i);
            to_self(MPI_COMM_WORLD, chk.rank, size, 20 + i);
            to_self(MPI_COMM_SELF, 0, size, 30 + i);
        }
    }
    return chk_end();
}
