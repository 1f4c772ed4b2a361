/* A rank dies; MPI reports it as failed, and the others revoke, shrink and go on (ULFM, Open
 * MPI 5.0). SPDX-License-Identifier: BSD-3-Clause
 *
 * Needs mpirun --with-ft ulfm. What the survivors send each other afterwards is checked byte by
 * byte.
 */
#include <time.h>

#include "check.h"

#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5
#include <mpi-ext.h>
#endif

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

/* Messages under way to and from each peer. */
#define WINDOW 8

static const char *class_name(int code)
{
    int class = code;

    MPI_Error_class(code, &class);
    return class == MPI_SUCCESS                    ? "success"
           : class == MPIX_ERR_PROC_FAILED         ? "a process failed"
           : class == MPIX_ERR_PROC_FAILED_PENDING ? "a process failed, pending"
           : class == MPIX_ERR_REVOKED             ? "revoked"
                                                   : "another error";
}

static int is(int code, int class)
{
    int got = code;

    MPI_Error_class(code, &got);
    return got == class;
}

static void must(int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        chk_fail("%s: %s (%d)", what, class_name(code), code);
    }
}

struct lanes {
    unsigned char *out, *in;
    MPI_Request *requests;
    MPI_Status *statuses;
    int *peers; /* of each request */
    size_t n, size;
};

/* Everybody to everybody. Patterns are those of the ranks in MPI_COMM_WORLD, in `world`. */
static void start(MPI_Comm comm, struct lanes *l, const int *world, uint64_t round)
{
    int me = 0, size = 0;
    size_t at = 0;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    l->n = 0;
    for (int w = 0; w < WINDOW; w++) {
        for (int peer = 0; peer < size; peer++) {
            int rc;

            if (peer == me) {
                continue;
            }
            chk_fill_to(l->out + at, l->size, world[peer], w, round);
            for (int i = 0; i < 2; i++) {
                l->peers[l->n] = world[peer];
                l->requests[l->n] = MPI_REQUEST_NULL;
                rc = i == 0 ? MPI_Irecv(l->in + at, (int)l->size, MPI_BYTE, peer, w, comm,
                                        &l->requests[l->n])
                            : MPI_Isend(l->out + at, (int)l->size, MPI_BYTE, peer, w, comm,
                                        &l->requests[l->n]);
                /* A process whose failure is known already is refused here. */
                if (rc != MPI_SUCCESS && !is(rc, MPIX_ERR_PROC_FAILED) &&
                    !is(rc, MPIX_ERR_REVOKED)) {
                    chk_fail("posting to rank %d: %s (%d)", world[peer], class_name(rc), rc);
                }
                l->n += rc == MPI_SUCCESS;
            }
            at += l->size;
        }
    }
}

static void verify(MPI_Comm comm, const struct lanes *l, const int *world, uint64_t round)
{
    int me = 0, size = 0;
    size_t at = 0;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    for (int w = 0; w < WINDOW; w++) {
        for (int peer = 0; peer < size; peer++) {
            if (peer != me) {
                chk_verify_from(l->in + at, l->size, world[peer], w, round);
                at += l->size;
            }
        }
    }
}

static void lanes_make(struct lanes *l, int size)
{
    size_t n = (size_t)(chk.size - 1) * WINDOW;

    l->size = (size_t)size;
    l->out = chk_malloc(n * l->size);
    l->in = chk_malloc(n * l->size);
    l->requests = chk_malloc(2 * n * sizeof(*l->requests));
    l->statuses = chk_malloc(2 * n * sizeof(*l->statuses));
    l->peers = chk_malloc(2 * n * sizeof(*l->peers));
}

static void lanes_free(struct lanes *l)
{
    free(l->out);
    free(l->in);
    free(l->requests);
    free(l->statuses);
    free(l->peers);
}

/* Traffic until one of them reports a failure. Nobody may be blamed but the victim. */
static void until_failure(struct lanes *l, const int *world, int victim, uint64_t step)
{
    for (uint64_t round = 0;; round++) {
        int rc;

        chk_step("round %llu", (unsigned long long)round);
        start(MPI_COMM_WORLD, l, world, round);
        if (round == step && chk.rank == victim) {
            printf("rank %d dies in round %llu at %lld\n", chk.rank, (unsigned long long)round,
                   (long long)time(NULL));
            fflush(stdout);
            kill(getpid(), SIGKILL);
        }
        /* Waitall waits for the living, too, and some of them may have left their round: ask one
         * after the other for what tells of a failure. */
        for (size_t i = 0; i < l->n; i++) {
            rc = MPI_Wait(&l->requests[i], &l->statuses[i]);
            if (rc == MPI_SUCCESS) {
                continue;
            }
            if (is(rc, MPIX_ERR_PROC_FAILED) && l->peers[i] != victim) {
                chk_fail("rank %d is said to have failed, and lives", l->peers[i]);
            }
            if (!is(rc, MPIX_ERR_PROC_FAILED) && !is(rc, MPIX_ERR_REVOKED)) {
                chk_fail("waiting for rank %d: %s (%d)", l->peers[i], class_name(rc), rc);
            }
            if (round < step) {
                chk_fail("%s before anybody died", class_name(rc));
            }
            printf("rank %d: %s, at %lld\n", chk.rank, class_name(rc), (long long)time(NULL));
            fflush(stdout);
            /* The others learn of it by this; all that is still pending ends. */
            chk_step("revoke");
            must(MPIX_Comm_revoke(MPI_COMM_WORLD), "MPIX_Comm_revoke");
            for (size_t j = 0; j < l->n; j++) {
                if (l->requests[j] != MPI_REQUEST_NULL) {
                    chk_step("request %zu of %zu, after the revocation", j, l->n);
                    (void)MPI_Wait(&l->requests[j], &l->statuses[j]);
                }
            }
            return;
        }
        if (l->n < 2 * (size_t)(chk.size - 1) * WINDOW) {
            chk_step("posting was refused");
            must(MPIX_Comm_revoke(MPI_COMM_WORLD), "MPIX_Comm_revoke");
            return;
        }
        verify(MPI_COMM_WORLD, l, world, round);
    }
}

/* The victim, nobody else, is in the list of the failed. */
static void check_failed(int victim)
{
    MPI_Group failed, all;
    int n = 0, zero = 0, who = -1;

    chk_step("the list of failed processes");
    must(MPIX_Comm_failure_ack(MPI_COMM_WORLD), "MPIX_Comm_failure_ack");
    must(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed), "MPIX_Comm_failure_get_acked");
    MPI_Group_size(failed, &n);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (n == 1) {
        MPI_Group_translate_ranks(failed, 1, &zero, all, &who);
    }
    if (n != 1 || who != victim) {
        chk_fail("%d processes failed, the first is %d", n, who);
    }
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
}

int main(int argc, char **argv)
{
    uint64_t size = 20000, step = 20, victim = 1;
    const struct chk_option options[] = {
        {"--size", "bytes of each message until the victim dies", &size, 0},
        {"--step", "the victim dies in this round", &step, 0},
        {"--victim", "the rank that dies", &victim, 0},
        {NULL, NULL, NULL, 0},
    };
    static const int sizes[] = {1, 300, 9000, 70000, 1048577};
    struct lanes l;
    MPI_Comm rest;
    int *world, flag = 1, me = 0, n = 0;
    uint64_t mine[2], all[2] = {0, 0};

    chk_begin(&argc, &argv,
              &(struct chk){.name = "ulfm",
                            .about = "A rank dies; the others shrink and go on. Open MPI 5.0.",
                            .options = options,
                            .iterations = 3,
                            .max_size = 1048577});
    chk_need_ranks(3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    world = chk_malloc((size_t)chk.size * sizeof(*world));
    for (int i = 0; i < chk.size; i++) {
        world[i] = i;
    }
    lanes_make(&l, (int)size);
    until_failure(&l, world, (int)victim, step);
    lanes_free(&l);

    chk_step("shrink");
    must(MPIX_Comm_shrink(MPI_COMM_WORLD, &rest), "MPIX_Comm_shrink");
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    check_failed((int)victim);
    MPI_Comm_size(rest, &n);
    MPI_Comm_rank(rest, &me);
    if (n != chk.size - 1) {
        chk_fail("%d of %d ranks are left", n, chk.size);
    }
    for (int i = 0, next = 0; i < chk.size; i++) {
        if (i != (int)victim) {
            world[next++] = i;
        }
    }
    chk_step("agree");
    must(MPIX_Comm_agree(rest, &flag), "MPIX_Comm_agree");
    for (uint64_t round = 0; round < chk.iterations; round++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            if ((uint64_t)sizes[s] > chk.max_size) {
                continue;
            }
            chk_step("survivors: round %llu, %d bytes", (unsigned long long)round, sizes[s]);
            lanes_make(&l, sizes[s]);
            start(rest, &l, world, round);
            must(MPI_Waitall((int)l.n, l.requests, l.statuses), "MPI_Waitall of the survivors");
            verify(rest, &l, world, round);
            lanes_free(&l);
        }
    }
    chk_step("final reduction");
    mine[0] = chk.messages;
    mine[1] = chk.bytes;
    must(MPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, rest), "MPI_Reduce");
    if (chk.counters) {
        counters_print(me, rest);
    }
    MPI_Comm_free(&rest);
    free(world);
    chk_step("MPI_Finalize");
    MPI_Finalize();
    alarm(0);
    if (me == 0) {
        printf("PASS ulfm: %d of %d ranks went on, %llu messages, %llu bytes verified\n", n,
               chk.size, (unsigned long long)all[0], (unsigned long long)all[1]);
        fflush(stdout);
    }
    return 0;
}
#else
int main(void)
{
    printf("SKIP ulfm: this MPI has no fault tolerance\n");
    return 77;
}
#endif
