/* An MPI that spoils data: calls of the program go through here (PMPI) and lose a byte's worth.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For the test that validation finds wrong bytes. VRB_CORRUPT=N: every Nth call with data.
 */
#include <mpi.h>
#include <stdlib.h>

static int is_due(void)
{
    static int every = -1, calls;
    if (every < 0) {
        const char *text = getenv("VRB_CORRUPT");
        every = text != NULL ? atoi(text) : 0;
    }
    return every > 0 && ++calls % every == 0;
}

static void spoil(void *buffer, int count)
{
    if (count > 0 && is_due()) {
        ((unsigned char *)buffer)[count / 2] ^= 0x10;
    }
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    int rc = PMPI_Recv(buf, count, type, source, tag, comm, status);
    spoil(buf, count);
    return rc;
}

/* What is sent asynchronously is spoilt before it leaves: the buffers are this program's own. */
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    spoil((void *)(size_t)buf, count);
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Put(const void *buf, int count, MPI_Datatype type, int target, MPI_Aint disp, int tcount,
            MPI_Datatype ttype, MPI_Win win)
{
    spoil((void *)(size_t)buf, count);
    return PMPI_Put(buf, count, type, target, disp, tcount, ttype, win);
}

int MPI_Accumulate(const void *buf, int count, MPI_Datatype type, int target, MPI_Aint disp,
                   int tcount, MPI_Datatype ttype, MPI_Op op, MPI_Win win)
{
    spoil((void *)(size_t)buf, count);
    return PMPI_Accumulate(buf, count, type, target, disp, tcount, ttype, op, win);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rc = PMPI_Bcast(buf, count, type, root, comm);
    if (type == MPI_BYTE) {
        spoil(buf, count);
    }
    return rc;
}

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int rc = PMPI_Allreduce(out, in, count, type, op, comm);
    if (type == MPI_INT) {
        spoil(in, count);
    }
    return rc;
}

int MPI_Ialltoall(const void *out, int count, MPI_Datatype type, void *in, int icount,
                  MPI_Datatype itype, MPI_Comm comm, MPI_Request *request)
{
    spoil((void *)(size_t)out, count);
    return PMPI_Ialltoall(out, count, type, in, icount, itype, comm, request);
}
