/* One operation per call, so that callgrind can count the instructions of a send, a receive, and a
 * look for messages that finds none.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Run by benchmarks/instruction_count.py under callgrind with --toggle-collect=measured_send (and
 * the others) and --dump-before=after_send (and the others): one dump for each call. A rank that
 * waits polls, and polls cost instructions that no message is to blame for; so each message is
 * given time to arrive before its receive is counted, and the count that most dumps share is taken.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP 20
#define GAP_US 5000 /* callgrind makes a rank some 50 times slower, other load more so */

static char buffer[65536];

/* External names that stay whole functions: callgrind toggles on entry and exit. */
void measured_send(int size, int peer);
void measured_receive(int size, int peer);
void measured_idle(int peer);
void measured_alone(int peer);
void after_send(void);
void after_receive(void);
void after_idle(void);
void after_alone(void);

__attribute__((noinline)) void measured_send(int size, int peer)
{
    MPI_Send(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
}

__attribute__((noinline)) void measured_receive(int size, int peer)
{
    MPI_Recv(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Progress is made once, and there is nothing to be found. */
__attribute__((noinline)) void measured_idle(int peer)
{
    int flag = 0;

    MPI_Iprobe(peer, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* The same before any message: what a job pays that uses shared memory alone. */
__attribute__((noinline)) void measured_alone(int peer)
{
    int flag = 0;

    MPI_Iprobe(peer, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* callgrind writes its counts and starts anew when these are entered. */
__attribute__((noinline)) void after_send(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void after_receive(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void after_idle(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void after_alone(void)
{
    __asm__ volatile("");
}

/* The same calls under names that are not counted */
static void other_send(int size, int peer)
{
    MPI_Send(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
}

static void other_receive(int size, int peer)
{
    MPI_Recv(buffer, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: mpirun -n 2 ... vrb_instructions [MESSAGES [SIZE]]\n"
               "Sends and receives MESSAGES (100) messages of SIZE (8) bytes, one at a time.\n"
               "benchmarks/instructions runs it under callgrind.\n");
        return 0;
    }
    int count = argc > 1 ? atoi(argv[1]) : 100;
    int size = argc > 2 ? atoi(argv[2]) : 8;
    int rank = 0, ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || count < 1 || size < 0 || size > (int)sizeof(buffer)) {
        fprintf(stderr, "vrb_instructions: needs 2 ranks; see --help\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < count; i++) {
        measured_alone(1 - rank);
        after_alone();
    }
    for (int i = 0; i < WARM_UP + count; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (rank == turn) {
                if (i < WARM_UP) {
                    other_send(size, 1 - rank);
                } else {
                    usleep(GAP_US); /* the peer has left its MPI_Recv of the last answer */
                    measured_send(size, 1 - rank);
                    after_send();
                }
                MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                if (i < WARM_UP) {
                    other_receive(size, 1 - rank);
                } else {
                    usleep(3 * GAP_US);
                    measured_receive(size, 1 - rank);
                    after_receive();
                }
                MPI_Send(NULL, 0, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        measured_idle(1 - rank);
        after_idle();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
