/* The message sizes where a protocol changes, read from the running library's own limits.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * ob1 compares sizes with a BTL's limits after adding its header, and a BTL compares them with its
 * inline limit and buffer sizes, so each limit is tried with every header size taken off, and with
 * one byte less and more. Limits come from MPI_T, so that they follow --mca options.
 */
#ifndef VRB_TESTS_MPI_SIZES_H
#define VRB_TESTS_MPI_SIZES_H

#include "check.h"

#define SIZES_MAX 4096

struct sizes {
    size_t count;
    size_t list[SIZES_MAX]; /* ascending, each once */
};

static inline int sizes_compare(const void *a, const void *b)
{
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static inline void sizes_add(struct sizes *sizes, int64_t size, size_t max)
{
    if (size >= 0 && (uint64_t)size <= max && sizes->count < SIZES_MAX) {
        sizes->list[sizes->count++] = (size_t)size;
    }
}

/* Around one limit: ob1's headers are 14 (match), 24 (fin), 32 (rndv, frag), 40 (ack), 48 + handle
 * (rget) and 56 + handle (put) bytes; sizeof(mca_pml_ob1_hdr_t) is 56 in Open MPI 4.1, 80 in 5.0;
 * a transport header of 8 to 24 bytes may come before them. */
static inline void sizes_around(struct sizes *sizes, int64_t limit, size_t max)
{
    static const int64_t headers[] = {0, 8, 14, 16, 22, 24, 30, 32, 38, 40, 48, 56, 64, 72, 80};
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        for (int64_t d = -1; d <= 1; d++) {
            sizes_add(sizes, limit - headers[i] + d, max);
        }
    }
}

static inline void sizes_finish(struct sizes *sizes)
{
    qsort(sizes->list, sizes->count, sizeof(sizes->list[0]), sizes_compare);
    size_t kept = 0;
    for (size_t i = 0; i < sizes->count; i++) {
        if (kept == 0 || sizes->list[kept - 1] != sizes->list[i]) {
            sizes->list[kept++] = sizes->list[i];
        }
    }
    sizes->count = kept;
}

static inline int sizes_is_limit(const char *name)
{
    static const char *const endings[] = {"_eager_limit",
                                          "_rndv_eager_limit",
                                          "_max_send_size",
                                          "_max_inline",
                                          "_rdma_pipeline_send_length",
                                          "_rdma_pipeline_frag_size",
                                          "_min_rdma_pipeline_size"};
    if (strncmp(name, "btl_", 4) != 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t length = strlen(name);
        size_t tail = strlen(endings[i]);
        if (length >= tail && strcmp(name + length - tail, endings[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Reads control variable `index`; -1 if it is no limit of a BTL or cannot be read. */
static inline int64_t sizes_read_limit(int index)
{
    char name[128];
    int name_length = (int)sizeof(name);
    int verbosity, bind, scope;
    MPI_Datatype type;
    if (MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, NULL, NULL, NULL, &bind,
                            &scope) != MPI_SUCCESS ||
        !sizes_is_limit(name)) {
        return -1;
    }
    MPI_T_cvar_handle handle;
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) {
        return -1;
    }
    int64_t value = -1;
    int bytes = 0;
    MPI_Type_size(type, &bytes);
    if (count == 1 && bytes == 8) {
        uint64_t wide = 0;
        MPI_T_cvar_read(handle, &wide);
        value = wide <= INT64_MAX ? (int64_t)wide : -1;
    } else if (count == 1 && bytes == 4) {
        uint32_t narrow = 0;
        MPI_T_cvar_read(handle, &narrow);
        value = narrow;
    }
    MPI_T_cvar_handle_free(&handle);
    return value;
}

/* Powers of two and their neighbours, plus all sizes around every limit of every loaded BTL.
 * Identical on all ranks: rank 0's list is broadcast. */
static inline void sizes_collect(struct sizes *sizes, size_t max)
{
    sizes->count = 0;
    for (int64_t size = 0; size <= 24; size++) {
        sizes_add(sizes, size, max);
    }
    for (int64_t power = 32; power <= (int64_t)max; power *= 2) {
        for (int64_t d = -1; d <= 1; d++) {
            sizes_add(sizes, power + d, max);
        }
    }
    sizes_add(sizes, (int64_t)max, max);
    int provided, count = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS) {
        MPI_T_cvar_get_num(&count);
        for (int i = 0; i < count; i++) {
            int64_t limit = sizes_read_limit(i);
            if (limit > 0) {
                sizes_around(sizes, limit, max);
            }
        }
        MPI_T_finalize();
    }
    sizes_finish(sizes);
    MPI_Bcast(sizes, sizeof(*sizes), MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* How often a size is worth repeating: fewer rounds for large messages, at least one. */
static inline uint64_t sizes_rounds(uint64_t iterations, size_t size)
{
    uint64_t divide = size <= 4096 ? 1 : size <= 65536 ? 2 : size <= 1048576 ? 8 : 32;
    return iterations / divide > 0 ? iterations / divide : 1;
}

#endif
