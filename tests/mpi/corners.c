/* Corners of MPI's semantics that a transport can get wrong: truncation, cancelled receives,
 * matched probes of long messages, ready sends, absolute addresses, communicators that come and go.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank pairs (0,1), (2,3), ...: the even one sends. Sizes lie on both sides of each protocol of ob1
 * over this transport: inline, eager, and rendezvous by RDMA read or write.
 */
#include "check.h"

#define SIZES 4
static const size_t sizes[SIZES] = {0, 100, 12000, 300000};

static int other;  /* the rank that this one is paired with */
static int sender; /* this rank sends */

static void barrier(const char *what)
{
    chk_step("%s", what);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message longer than the receive is an error of that receive alone; the next one is whole, and
 * nothing is written behind the buffer. Eager messages only: in Open MPI 4.1 the rendezvous of ob1
 * writes behind the buffer in this case, over btl/tcp and btl/vader as well. */
static void truncation(uint64_t salt)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 1; i < 4; i++) {
        for (int early = 0; early < 2; early++) {
            size_t n = 40 * (size_t)(i * i * i), half = n / 2;
            unsigned char *data = chk_alloc(n);
            MPI_Status status;
            MPI_Request request = MPI_REQUEST_NULL;

            chk_step("truncation, %zu bytes into %zu, early %d", n, half, early);
            if (sender) {
                chk_fill_to(data, n, other, i, salt);
                if (early) {
                    MPI_Barrier(comm);
                }
                MPI_Send(data, (int)n, MPI_BYTE, other, i, comm);
                MPI_Send(data, (int)n, MPI_BYTE, other, i, comm);
                if (!early) {
                    MPI_Barrier(comm);
                }
            } else {
                unsigned char *less = chk_alloc(half);
                int rc, class = 0;

                if (early) {
                    MPI_Irecv(less, (int)half, MPI_BYTE, other, i, comm, &request);
                    MPI_Barrier(comm);
                    rc = MPI_Wait(&request, &status);
                } else {
                    rc = MPI_Recv(less, (int)half, MPI_BYTE, other, i, comm, &status);
                }
                MPI_Error_class(rc, &class);
                if (class != MPI_ERR_TRUNCATE) {
                    chk_fail("%zu bytes into %zu: error class %d, expected MPI_ERR_TRUNCATE", n,
                             half, class);
                }
                chk_free(less, half);
                MPI_Recv(data, (int)n, MPI_BYTE, other, i, comm, &status);
                chk_verify_status(&status, other, i, n);
                chk_verify_from(data, n, other, i, salt);
                if (!early) {
                    MPI_Barrier(comm);
                }
            }
            chk_free(data, n);
        }
    }
    MPI_Comm_free(&comm);
}

/* A receive that nothing matched can be cancelled, and then takes nothing. */
static void cancelling(uint64_t salt)
{
    unsigned char *first = chk_alloc(sizes[3]), *second = chk_alloc(sizes[3]);
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;

    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];

        chk_step("cancelled receive, %zu bytes", n);
        if (!sender) {
            chk_poison(first, sizes[3]);
            MPI_Irecv(first, (int)n, MPI_BYTE, other, i, MPI_COMM_WORLD, &request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &cancelled);
            if (!cancelled) {
                chk_fail("a receive that nothing matched was not cancelled");
            }
        }
        barrier("cancelled");
        if (sender) {
            chk_fill_to(second, n, other, i, salt);
            MPI_Send(second, (int)n, MPI_BYTE, other, i, MPI_COMM_WORLD);
        } else {
            MPI_Recv(second, (int)n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                     &status);
            chk_verify_status(&status, other, i, n);
            chk_verify_from(second, n, other, i, salt);
            chk_untouched(first, sizes[3], CHK_POISON_BYTE, "the cancelled receive's buffer");
        }
        barrier("received");
    }
    chk_free(first, sizes[3]);
    chk_free(second, sizes[3]);
}

/* Two messages of a tag: probes tell the first; a matched one is not to be had by others. */
static void probing(uint64_t salt)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        unsigned char *data = chk_alloc(n);

        chk_step("probes, %zu bytes", n);
        if (sender) {
            MPI_Request requests[2];
            unsigned char *next = chk_alloc(n / 2);

            chk_fill_to(data, n, other, i, salt);
            chk_fill_to(next, n / 2, other, i, salt + 1);
            MPI_Isend(data, (int)n, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[0]);
            MPI_Issend(next, (int)(n / 2), MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            chk_free(next, n / 2);
        } else {
            MPI_Message message;
            MPI_Status status;
            int flag = 0;

            while (!flag) {
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
            }
            chk_verify_status(&status, other, i, n);
            MPI_Mprobe(other, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            chk_verify_status(&status, other, i, n);
            MPI_Probe(other, i, MPI_COMM_WORLD, &status);
            chk_verify_status(&status, other, i, n / 2);
            MPI_Recv(data, (int)(n / 2), MPI_BYTE, other, i, MPI_COMM_WORLD, &status);
            chk_verify_from(data, n / 2, other, i, salt + 1);
            MPI_Mrecv(data, (int)n, MPI_BYTE, &message, &status);
            chk_verify_status(&status, other, i, n);
            chk_verify_from(data, n, other, i, salt);
        }
        chk_free(data, n);
        barrier("probed");
    }
}

/* Ready sends find their receive posted; absolute addresses; a persistent ready send. */
static void ready_and_bottom(uint64_t salt)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i], hole = 37;
        unsigned char *one = chk_alloc(n), *two = chk_alloc(n + hole);
        int lengths[3] = {(int)n, (int)(n / 2), (int)(n - n / 2)};
        MPI_Aint places[3];
        MPI_Datatype type;
        MPI_Request request;
        MPI_Status status;

        chk_step("ready sends from MPI_BOTTOM, %zu bytes", n);
        MPI_Get_address(one, &places[0]);
        MPI_Get_address(two, &places[1]);
        places[2] = MPI_Aint_add(places[1], (MPI_Aint)(n / 2 + hole));
        MPI_Type_create_hindexed(3, lengths, places, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        if (sender) {
            chk_fill_to(one, n, other, i, salt);
            chk_fill_to(two, n / 2, other, i, salt + 1);
            chk_fill_to(two + n / 2 + hole, n - n / 2, other, i, salt + 2);
            MPI_Rsend_init(MPI_BOTTOM, 1, type, other, i, MPI_COMM_WORLD, &request);
        }
        for (int round = 0; round < 2; round++) {
            if (!sender) {
                chk_poison(one, n);
                chk_poison(two, n + hole);
                MPI_Irecv(MPI_BOTTOM, 1, type, other, i, MPI_COMM_WORLD, &request);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            if (sender) {
                MPI_Start(&request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                continue;
            }
            MPI_Wait(&request, &status);
            chk_verify_status(&status, other, i, 2 * n);
            chk_verify_from(one, n, other, i, salt);
            chk_verify_from(two, n / 2, other, i, salt + 1);
            chk_untouched(two + n / 2, hole, CHK_POISON_BYTE, "the hole");
            chk_verify_from(two + n / 2 + hole, n - n / 2, other, i, salt + 2);
        }
        if (sender) {
            MPI_Request_free(&request);
        }
        MPI_Type_free(&type);
        chk_free(one, n);
        chk_free(two, n + hole);
    }
}

/* Many communicators, the same tag in each, freed while their messages are under way. */
static void communicators(uint64_t salt)
{
    enum { COMMS = 24 };
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    unsigned char *data[COMMS];

    chk_step("%d communicators", (int)COMMS);
    for (int c = 0; c < COMMS; c++) {
        size_t n = sizes[c % SIZES];

        MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
        data[c] = chk_alloc(n);
        if (sender) {
            chk_fill_to(data[c], n, other, c, salt);
        }
    }
    for (int k = 0; k < COMMS; k++) {
        int c = sender ? k : COMMS - 1 - k;
        size_t n = sizes[c % SIZES];

        if (sender) {
            MPI_Isend(data[c], (int)n, MPI_BYTE, other, 5, comms[c], &requests[c]);
        } else {
            MPI_Irecv(data[c], (int)n, MPI_BYTE, other, 5, comms[c], &requests[c]);
        }
    }
    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_free(&comms[c]);
    }
    MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
    for (int c = 0; c < COMMS; c++) {
        size_t n = sizes[c % SIZES];

        if (!sender) {
            chk_verify_from(data[c], n, other, c, salt);
        }
        chk_free(data[c], n);
    }
}

/* Even ranks and odd ranks as the two sides. */
static void intercommunicator(uint64_t salt)
{
    MPI_Comm side, inter;
    int there = chk.rank / 2; /* the partner's rank in its group */
    size_t n = sizes[3];
    unsigned char *out = chk_alloc(n), *in = chk_alloc(n);
    MPI_Status status;

    chk_step("intercommunicator");
    MPI_Comm_split(MPI_COMM_WORLD, sender, chk.rank, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, sender ? 1 : 0, 9, &inter);
    chk_fill_to(out, n, other, 0, salt);
    MPI_Sendrecv(out, (int)n, MPI_BYTE, there, 0, in, (int)n, MPI_BYTE, there, 0, inter, &status);
    chk_verify_from(in, n, other, 0, salt);
    MPI_Comm_free(&side);
    MPI_Comm_free(&inter);
    chk_free(out, n);
    chk_free(in, n);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "corners",
                            .about = "Truncation, cancelling, probes, ready sends, communicators.",
                            .iterations = 2});
    chk_need_ranks(2);
    if (chk.size % 2 != 0) {
        chk_fail("needs an even number of ranks");
    }
    other = chk.rank ^ 1;
    sender = chk.rank % 2 == 0;
    for (uint64_t round = 0; round < chk.iterations; round++) {
        truncation(10 * round);
        cancelling(10 * round);
        probing(10 * round);
        ready_and_bottom(10 * round);
        communicators(10 * round);
        intercommunicator(10 * round);
    }
    return chk_end();
}
