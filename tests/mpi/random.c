/* Random traffic: all sizes, send modes and ways to receive, mixed over several communicators.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All ranks draw the same batches of messages from the same seed, and each carries out its part in
 * an order of its own. A tag is used once between two barriers, so that a receive from any source
 * has one message that it can match: ranks run ahead of each other by up to BATCHES_AHEAD batches,
 * and a long message of the next batch that met a short receive of this one would be written past
 * its end (ob1 does not check the length of what it reads by RDMA).
 */
#include "check.h"
#include "sizes.h"

#define BATCH_MAX 1024
#define COMMS 3
#define BATCHES_AHEAD 4 /* batches between two barriers */

enum send_mode { SEND_NORMAL, SEND_SYNC, SEND_BUFFERED, SEND_PERSISTENT, SEND_MODES };
enum recv_mode { RECV_NAMED, RECV_ANY_SOURCE, RECV_PROBED, RECV_MODES };

struct message {
    int from, to; /* ranks in MPI_COMM_WORLD */
    int comm;
    size_t size;
    enum send_mode send_mode;
    enum recv_mode recv_mode;
    int post_late; /* the receive is posted after this rank's sends */
};

struct part {
    unsigned char *buffer;
    MPI_Request request;
};

static struct sizes edges;
static MPI_Comm comms[COMMS];
static int to_local[COMMS][4096]; /* rank in MPI_COMM_WORLD -> rank in the communicator */

/* World; world in reverse order; world rotated */
static void make_comms(void)
{
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_split(MPI_COMM_WORLD, 0, chk.size - chk.rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, (chk.rank + 1) % chk.size, &comms[2]);
    for (int c = 0; c < COMMS; c++) {
        int mine = 0;
        MPI_Comm_rank(comms[c], &mine);
        MPI_Allgather(&mine, 1, MPI_INT, to_local[c], 1, MPI_INT, MPI_COMM_WORLD);
    }
}

static size_t draw_size(uint64_t *state)
{
    uint64_t kind = chk_random_below(state, 10);
    size_t max = (size_t)chk.max_size;
    if (kind < 3) {
        return (size_t)chk_random_below(state, max < 256 ? max + 1 : 256);
    }
    if (kind < 7) {
        /* the largest sizes are rare, or they would take all the time */
        size_t size = edges.list[chk_random_below(state, edges.count)];
        return size <= 1 << 18 || chk_random_below(state, 16) == 0 ? size : size >> 6;
    }
    if (kind < 9) {
        return (size_t)chk_random_below(state, max < 32768 ? max + 1 : 32768);
    }
    return (size_t)chk_random_below(state, max < 300000 ? max + 1 : 300000);
}

static void draw(struct message *m, uint64_t *state)
{
    m->from = (int)chk_random_below(state, (uint64_t)chk.size);
    m->to = (int)chk_random_below(state, (uint64_t)chk.size);
    m->comm = (int)chk_random_below(state, COMMS);
    m->size = draw_size(state);
    m->send_mode = (enum send_mode)chk_random_below(state, SEND_MODES);
    if (m->send_mode == SEND_BUFFERED && m->size > 16384) {
        m->send_mode = SEND_NORMAL;
    }
    m->recv_mode = (enum recv_mode)chk_random_below(state, RECV_MODES);
    m->post_late = (int)chk_random_below(state, 2);
}

/* The same batch in another order at each rank, so that nothing relies on lockstep */
static void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int i = count - 1; i > 0; i--) {
        int j = (int)chk_random_below(state, (uint64_t)i + 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static void start_send(const struct message *m, int tag, struct part *part, uint64_t salt)
{
    int to = to_local[m->comm][m->to], size = (int)m->size;
    part->buffer = chk_alloc(m->size);
    chk_fill_to(part->buffer, m->size, m->to, tag, salt);
    switch (m->send_mode) {
    case SEND_SYNC:
        MPI_Issend(part->buffer, size, MPI_BYTE, to, tag, comms[m->comm], &part->request);
        break;
    case SEND_BUFFERED:
        MPI_Ibsend(part->buffer, size, MPI_BYTE, to, tag, comms[m->comm], &part->request);
        break;
    case SEND_PERSISTENT:
        MPI_Send_init(part->buffer, size, MPI_BYTE, to, tag, comms[m->comm], &part->request);
        MPI_Start(&part->request);
        break;
    default:
        MPI_Isend(part->buffer, size, MPI_BYTE, to, tag, comms[m->comm], &part->request);
        break;
    }
}

static void start_receive(const struct message *m, int tag, struct part *part)
{
    int source = m->recv_mode == RECV_ANY_SOURCE ? MPI_ANY_SOURCE : to_local[m->comm][m->from];
    part->buffer = chk_alloc(m->size);
    MPI_Irecv(part->buffer, (int)m->size, MPI_BYTE, source, tag, comms[m->comm], &part->request);
}

static void verify(const struct message *m, int tag, struct part *part, MPI_Status *status,
                   uint64_t salt)
{
    chk_verify_status(status, to_local[m->comm][m->from], tag, m->size);
    chk_verify_from(part->buffer, m->size, m->from, tag, salt);
    chk_free(part->buffer, m->size);
}

/* Probe first, then receive; all sends of this rank are under way. */
static void receive_probed(const struct message *m, int tag, uint64_t salt)
{
    struct part part;
    MPI_Status status;
    MPI_Probe(to_local[m->comm][m->from], tag, comms[m->comm], &status);
    chk_verify_status(&status, to_local[m->comm][m->from], tag, m->size);
    start_receive(m, tag, &part);
    MPI_Wait(&part.request, &status);
    verify(m, tag, &part, &status, salt);
}

static int tag_of(int message, uint64_t round)
{
    return (int)(round % BATCHES_AHEAD) * BATCH_MAX + message;
}

static void run_batch(struct message *batch, int count, uint64_t *mine, uint64_t round)
{
    static int order[BATCH_MAX];
    static struct part sends[BATCH_MAX], receives[BATCH_MAX];
    shuffle(order, count, mine);
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < count; i++) {
            const struct message *m = &batch[order[i]];
            if (m->to == chk.rank && m->recv_mode != RECV_PROBED && m->post_late == late) {
                start_receive(m, tag_of(order[i], round), &receives[order[i]]);
            }
        }
        for (int i = 0; late == 0 && i < count; i++) {
            if (batch[order[i]].from == chk.rank) {
                start_send(&batch[order[i]], tag_of(order[i], round), &sends[order[i]], round);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        if (batch[order[i]].to == chk.rank && batch[order[i]].recv_mode == RECV_PROBED) {
            receive_probed(&batch[order[i]], tag_of(order[i], round), round);
        }
    }
    for (int i = 0; i < count; i++) {
        const struct message *m = &batch[order[i]];
        if (m->to == chk.rank && m->recv_mode != RECV_PROBED) {
            MPI_Status status;
            MPI_Wait(&receives[order[i]].request, &status);
            verify(m, tag_of(order[i], round), &receives[order[i]], &status, round);
        }
    }
    for (int i = 0; i < count; i++) {
        const struct message *m = &batch[order[i]];
        if (m->from == chk.rank) {
            MPI_Wait(&sends[order[i]].request, MPI_STATUS_IGNORE);
            if (m->send_mode == SEND_PERSISTENT) {
                MPI_Request_free(&sends[order[i]].request);
            }
            chk_free(sends[order[i]].buffer, m->size);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t count = 128;
    const struct chk_option options[] = {
        {"--batch", "messages in a round, at most 1024", &count, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "random",
                            .about = "Seeded random traffic of all sizes and kinds.",
                            .options = options,
                            .iterations = 20,
                            .max_size = 4 << 20});
    if (count > BATCH_MAX || chk.size > 4096) {
        chk_fail("at most %d messages in a batch and 4096 ranks", BATCH_MAX);
    }
    sizes_collect(&edges, (size_t)chk.max_size);
    make_comms();
    size_t room = BATCH_MAX * (16384 + MPI_BSEND_OVERHEAD);
    void *attached = chk_malloc(room);
    MPI_Buffer_attach(attached, (int)room);
    static struct message batch[BATCH_MAX];
    uint64_t shared = chk_mix(chk.seed), mine = chk_mix(chk.seed + (uint64_t)chk.rank + 1);
    for (uint64_t round = 0; round < chk.iterations; round++) {
        chk_step("seed %llu, batch %llu", (unsigned long long)chk.seed, (unsigned long long)round);
        for (uint64_t i = 0; i < count; i++) {
            draw(&batch[i], &shared);
        }
        run_batch(batch, (int)count, &mine, round);
        if (round % BATCHES_AHEAD == BATCHES_AHEAD - 1) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    int size = 0;
    MPI_Buffer_detach(&attached, &size);
    free(attached);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    return chk_end();
}
