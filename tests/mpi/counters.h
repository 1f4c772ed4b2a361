/* The transport's own counters (MPI_T performance variables of BTLs), summed over all ranks.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A test of a rare path passes as well when the path was never taken; the counters tell.
 */
#ifndef VRB_TESTS_MPI_COUNTERS_H
#define VRB_TESTS_MPI_COUNTERS_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COUNTERS_MAX 128

/* Counter variables count from the moment their handle is made, so that is done at the start. */
struct counters {
    int count;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[COUNTERS_MAX];
    char names[COUNTERS_MAX][64];
};

static struct counters counters;

static inline void counters_add(int index)
{
    char name[64];
    int length = (int)sizeof(name), verbosity, class, bind, readonly, continuous, atomic, count = 0;
    MPI_Datatype type;
    if (MPI_T_pvar_get_info(index, name, &length, &verbosity, &class, &type, NULL, NULL, NULL,
                            &bind, &readonly, &continuous, &atomic) != MPI_SUCCESS ||
        strncmp(name, "btl_", 4) != 0 || bind != MPI_T_BIND_NO_OBJECT ||
        type != MPI_UNSIGNED_LONG_LONG || counters.count == COUNTERS_MAX) {
        return;
    }
    MPI_T_pvar_handle *handle = &counters.handles[counters.count];
    if (MPI_T_pvar_handle_alloc(counters.session, index, NULL, handle, &count) == MPI_SUCCESS &&
        count == 1) {
        memcpy(counters.names[counters.count++], name, sizeof(name));
    }
}

/* After MPI_Init, before any message */
static inline void counters_start(void)
{
    int provided, number = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
        return;
    }
    MPI_T_pvar_session_create(&counters.session);
    MPI_T_pvar_get_num(&number);
    for (int i = 0; i < number; i++) {
        counters_add(i);
    }
}

/* Collective over comm, whose rank 0 prints a line "counter NAME SUM" for each. All ranks load the
 * same BTLs. */
static inline void counters_print(int rank, MPI_Comm comm)
{
    uint64_t mine[COUNTERS_MAX] = {0}, sums[COUNTERS_MAX] = {0};
    for (int i = 0; i < counters.count; i++) {
        unsigned long long value = 0;
        MPI_T_pvar_read(counters.session, counters.handles[i], &value);
        mine[i] = value;
    }
    MPI_Reduce(mine, sums, COUNTERS_MAX, MPI_UINT64_T, MPI_SUM, 0, comm);
    for (int i = 0; rank == 0 && i < counters.count; i++) {
        printf("counter %s %llu\n", counters.names[i], (unsigned long long)sums[i]);
    }
    MPI_T_pvar_session_free(&counters.session);
    MPI_T_finalize();
}

#endif
