/* Registered memory of a process: after MPI_Init, with one connected peer, with all of them.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The figures are the transport's own count, read through MPI_T.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "btl_verbs_registered_bytes"
#define ROUNDS 100 /* small messages with each peer: enough for all buffers it ever needs */

static int find_variable(void)
{
    int count = 0;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[128];
        int length = (int)sizeof(name), verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        if (MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, NULL, NULL, NULL,
                                &bind, &readonly, &continuous, &atomic) == MPI_SUCCESS &&
            strcmp(name, VARIABLE) == 0) {
            return i;
        }
    }
    return -1;
}

/* Small messages in both directions between this rank and all ranks up to `last` */
static void talk(int rank, int last)
{
    char out[64] = {0}, in[64];
    for (int i = 0; i < ROUNDS; i++) {
        for (int peer = 1; peer <= last; peer++) {
            if (rank == 0) {
                MPI_Sendrecv(out, sizeof(out), MPI_BYTE, peer, 1, in, sizeof(in), MPI_BYTE, peer, 1,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == peer) {
                MPI_Sendrecv(out, sizeof(out), MPI_BYTE, 0, 1, in, sizeof(in), MPI_BYTE, 0, 1,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int json = 0, rank = 0, ranks = 0, provided = 0;
    for (int i = 1; i < argc; i++) {
        json |= strcmp(argv[i], "--json") == 0;
        if (strcmp(argv[i], "--help") == 0) {
            printf("Usage: mpirun -n 3 ... vrb_memory [--json]\n"
                   "Prints the memory that rank 0 has registered (" VARIABLE "), and how\n"
                   "much more it is for each further connected peer.\n");
            return 0;
        }
    }
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 3) {
        fprintf(stderr, "vrb_memory: needs at least 3 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank != 0) {
        /* the first message waits for its receive, so rank 0 connects to one peer after the other
         */
        talk(rank, 1);
        talk(rank, ranks - 1);
        MPI_T_finalize();
        MPI_Finalize();
        return 0;
    }
    int index = find_variable(), count = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    if (index < 0) {
        fprintf(stderr,
                "vrb_memory: no performance variable " VARIABLE ": the job does not use verbs\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned long long start = 0, one = 0, all = 0;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
    MPI_T_pvar_read(session, handle, &start);
    talk(rank, 1);
    MPI_T_pvar_read(session, handle, &one);
    talk(rank, ranks - 1);
    MPI_T_pvar_read(session, handle, &all);
    unsigned long long each = all > one ? (all - one) / (unsigned)(ranks - 2) : 0;
    if (json) {
        printf("{\"start_bytes\": %llu, \"first_peer_bytes\": %llu, \"peer_bytes\": %llu, "
               "\"peers\": %d}\n",
               start, one - start, each, ranks - 1);
    } else {
        printf("after MPI_Init %llu bytes, %llu more with the first peer, %llu more for each of "
               "the other %d\n",
               start, one - start, each, ranks - 2);
    }
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
