/* MPI sessions: one after the other in one process, without MPI_Init.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * sessions [ROUNDS [keep]]: with "keep", one more session is open all the time, so that the library
 * does not end and start in between.
 */
#include "check.h"

/* Open MPI 5.0 has sessions, and says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
static void cycle(int round)
{
    static const size_t sizes[] = {8, 20000, 600000};
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    char tag[32];

    snprintf(tag, sizeof(tag), "vrb.sessions.%d", round);
    chk_step("session %d", round);
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS) {
        printf("FAIL sessions: MPI_Session_init\n");
        exit(1);
    }
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &chk.rank);
    MPI_Comm_size(comm, &chk.size);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t size = sizes[s];
        int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
        unsigned char *out = malloc(size), *in = malloc(size);

        chk_fill(out, size, chk_key(chk.rank, to, round, size));
        memset(in, 0, size);
        MPI_Sendrecv(out, (int)size, MPI_BYTE, to, round, in, (int)size, MPI_BYTE, from, round,
                     comm, MPI_STATUS_IGNORE);
        if (chk_first_difference(in, size, chk_key(from, chk.rank, round, size), 0) < size) {
            printf("FAIL sessions: rank %d: wrong bytes in session %d\n", chk.rank, round);
            exit(1);
        }
        chk.messages++;
        free(out);
        free(in);
    }
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 4;
    int keep = argc > 2 && strcmp(argv[2], "keep") == 0;
    MPI_Session outer;

    chk.name = "sessions";
    chk.timeout = 60;
    chk.seed = 1;
    signal(SIGALRM, chk_on_alarm);
    if (keep) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &outer);
    }
    for (int i = 0; i < rounds; i++) {
        cycle(i);
    }
    if (keep) {
        MPI_Session_finalize(&outer);
    }
    if (chk.rank == 0) {
        printf("PASS sessions: %d sessions, %llu messages\n", rounds,
               (unsigned long long)chk.messages);
    }
    return 0;
}
#else
int main(void)
{
    printf("SKIP sessions: this MPI has none\n");
    return 77;
}
#endif
