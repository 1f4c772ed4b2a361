/* Messages that nobody waits for yet: taken in another order, by wildcard, by probe.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

enum { ORDER_FORWARD, ORDER_BACKWARD, ORDER_WILDCARD, ORDER_PROBE, ORDER_MPROBE, ORDER_COUNT };

static const char *const order_names[ORDER_COUNT] = {"in order", "backwards", "wildcard",
                                                     "probe and receive", "matched probe"};

/* Sizes mix eager and rendezvous, known to both ends */
static size_t size_of(int from, int tag)
{
    static const size_t sizes[] = {0,    1,    13,   64,    200,   256,   1000,  4000,
                                   4096, 8000, 8192, 12000, 12288, 30000, 65536, 200000};
    size_t size = sizes[(size_t)(from * 7 + tag) % (sizeof(sizes) / sizeof(sizes[0]))];
    return size <= chk.max_size ? size : (size_t)chk.max_size;
}

static void receive_one(int from, int tag, uint64_t salt)
{
    size_t size = size_of(from, tag);
    unsigned char *buffer = chk_alloc(size);
    MPI_Status status;
    MPI_Recv(buffer, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
    chk_verify_status(&status, from, tag, size);
    chk_verify_from(buffer, size, from, tag, salt);
    chk_free(buffer, size);
}

/* A message that is found by a (matched) probe; its size is taken from the status. */
static void receive_probed(int matched, uint64_t salt)
{
    MPI_Status status, after;
    MPI_Message message = MPI_MESSAGE_NULL;
    int found = 0;
    while (!found) {
        if (matched) {
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &message, &status);
        } else {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
        }
    }
    int from = status.MPI_SOURCE, tag = status.MPI_TAG, count = 0;
    size_t size = size_of(from, tag);
    chk_verify_status(&status, from, tag, size);
    MPI_Get_count(&status, MPI_BYTE, &count);
    unsigned char *buffer = chk_alloc(size);
    if (matched) {
        MPI_Mrecv(buffer, count, MPI_BYTE, &message, &after);
    } else {
        MPI_Recv(buffer, count, MPI_BYTE, from, tag, MPI_COMM_WORLD, &after);
    }
    chk_verify_status(&after, from, tag, size);
    chk_verify_from(buffer, size, from, tag, salt);
    chk_free(buffer, size);
}

static void receive_wildcard(uint64_t salt)
{
    size_t room = (size_t)chk.max_size;
    unsigned char *buffer = chk_alloc(room);
    MPI_Status status;
    MPI_Recv(buffer, (int)room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    size_t size = size_of(status.MPI_SOURCE, status.MPI_TAG);
    chk_verify_status(&status, status.MPI_SOURCE, status.MPI_TAG, size);
    chk_verify_from(buffer, size, status.MPI_SOURCE, status.MPI_TAG, salt);
    chk_untouched(buffer + size, room - size, CHK_POISON_BYTE, "after the message");
    chk_free(buffer, room);
}

static void receive_all(int order, int messages, uint64_t salt)
{
    for (int i = 0; i < messages; i++) {
        for (int peer = 0; peer < chk.size; peer++) {
            if (peer == chk.rank) {
                continue;
            }
            if (order == ORDER_FORWARD) {
                receive_one(peer, i, salt);
            } else if (order == ORDER_BACKWARD) {
                receive_one(peer, messages - 1 - i, salt);
            } else if (order == ORDER_WILDCARD) {
                receive_wildcard(salt);
            } else {
                receive_probed(order == ORDER_MPROBE, salt);
            }
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t messages = 100;
    uint64_t sleep_ms = 20;
    const struct chk_option options[] = {
        {"--messages", "unexpected messages for each peer", &messages, 0},
        {"--sleep", "milliseconds that the receivers stay away", &sleep_ms, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "unexpected",
                            .about = "Many messages arrive before their receives are posted.",
                            .options = options,
                            .iterations = ORDER_COUNT,
                            .max_size = 200000});
    chk_need_ranks(2);
    size_t total = (size_t)messages * (size_t)(chk.size - 1);
    MPI_Request *requests = chk_malloc(total * sizeof(*requests));
    unsigned char **buffers = chk_malloc(total * sizeof(*buffers));
    for (uint64_t round = 0; round < chk.iterations; round++) {
        int order = (int)(round % ORDER_COUNT);
        size_t n = 0;
        chk_step("%s, round %llu", order_names[order], (unsigned long long)round);
        for (int i = 0; i < (int)messages; i++) {
            for (int peer = 0; peer < chk.size; peer++) {
                if (peer != chk.rank) {
                    size_t size = size_of(chk.rank, i);
                    buffers[n] = chk_alloc(size);
                    chk_fill_to(buffers[n], size, peer, i, round);
                    MPI_Isend(buffers[n], (int)size, MPI_BYTE, peer, i, MPI_COMM_WORLD,
                              &requests[n]);
                    n++;
                }
            }
        }
        usleep((useconds_t)sleep_ms * 1000);
        receive_all(order, (int)messages, round);
        MPI_Waitall((int)n, requests, MPI_STATUSES_IGNORE);
        n = 0;
        for (int i = 0; i < (int)messages; i++) {
            for (int peer = 0; peer < chk.size; peer++) {
                if (peer != chk.rank) {
                    chk_free(buffers[n++], size_of(chk.rank, i));
                }
            }
        }
        chk_step("MPI_Barrier, round %llu", (unsigned long long)round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(buffers);
    free(requests);
    return chk_end();
}
