/* Thousands of small non-blocking sends to every peer at once, with receivers that stay away.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Meant for coalescing, for credits that run out and for send queues that fill up.
 */
#include "check.h"

#define FLOOD_ROOM 72U /* bytes of buffer for each message; sizes are below */

static size_t size_of(int i)
{
    static const size_t sizes[] = {0, 1, 4, 8, 8, 8, 16, 33, 64, 72};
    return sizes[(size_t)i % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* For each peer `messages` receives, then `messages` sends, or the other way round */
static void flood(int messages, int sends_first, uint64_t round)
{
    size_t peers = (size_t)chk.size - 1, count = (size_t)messages;
    size_t bytes = peers * count * FLOOD_ROOM;
    unsigned char *out = chk_alloc(bytes);
    unsigned char *in = chk_alloc(bytes);
    MPI_Request *requests = chk_malloc(2 * peers * count * sizeof(*requests));
    size_t n = 0;
    for (int part = 0; part < 2; part++) {
        size_t at = 0;
        for (int i = 0; i < messages; i++) {
            for (int peer = 0; peer < chk.size; peer++) {
                if (peer == chk.rank) {
                    continue;
                }
                int size = (int)size_of(i);
                if ((part == 0) == (sends_first != 0)) {
                    chk_fill_to(out + at, (size_t)size, peer, i, round);
                    MPI_Isend(out + at, size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[n]);
                } else {
                    MPI_Irecv(in + at, size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[n]);
                }
                n++;
                at += FLOOD_ROOM;
            }
        }
        if (part == 0 && sends_first && chk.rank % 2 == 0) {
            usleep(10000); /* nobody returns credits meanwhile */
        }
    }
    MPI_Waitall((int)n, requests, MPI_STATUSES_IGNORE);
    size_t at = 0;
    for (int i = 0; i < messages; i++) {
        for (int peer = 0; peer < chk.size; peer++) {
            if (peer != chk.rank) {
                size_t size = size_of(i);
                chk_verify_from(in + at, size, peer, i, round);
                chk_untouched(in + at + size, FLOOD_ROOM - size, CHK_POISON_BYTE,
                              "after the message");
                at += FLOOD_ROOM;
            }
        }
    }
    free(requests);
    chk_free(out, bytes);
    chk_free(in, bytes);
}

/* One way only, no receive posted before the last message has left: the far end hears of credits
 * only through its own progress. */
static void one_way(int messages, int from, int to, uint64_t round)
{
    unsigned char buffer[FLOOD_ROOM];
    for (int i = 0; i < messages; i++) {
        size_t size = size_of(i);
        if (chk.rank == from) {
            chk_fill_to(buffer, size, to, i, round);
            MPI_Send(buffer, (int)size, MPI_BYTE, to, i, MPI_COMM_WORLD);
        } else if (chk.rank == to) {
            MPI_Status status;
            chk_poison(buffer, sizeof(buffer));
            MPI_Recv(buffer, (int)size, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
            chk_verify_status(&status, from, i, size);
            chk_verify_from(buffer, size, from, i, round);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t messages = 2000;
    const struct chk_option options[] = {
        {"--messages", "messages for each peer in a round", &messages, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "flood",
                            .about = "Thousands of small sends to every peer at once.",
                            .options = options,
                            .iterations = 4,
                            .max_size = FLOOD_ROOM});
    chk_need_ranks(2);
    for (uint64_t round = 0; round < chk.iterations; round++) {
        chk_step("flood, %llu messages, round %llu", (unsigned long long)messages,
                 (unsigned long long)round);
        flood((int)messages, round % 2 == 0, round);
        for (int peer = 1; peer < chk.size; peer++) {
            chk_step("one way from 0 to %d, round %llu", peer, (unsigned long long)round);
            one_way((int)messages, 0, peer, round);
            chk_step("one way from %d to 0, round %llu", peer, (unsigned long long)round);
            one_way((int)messages, peer, 0, round);
        }
    }
    return chk_end();
}
