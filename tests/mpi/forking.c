/* Child processes between and during transfers: fork, fork and exec, system.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A child shares the pages of registered buffers until one of both writes to them; with a careless
 * transport the parent then writes to a copy that the device does not see.
 */
#include <sys/wait.h>

#include "check.h"

enum way { WAY_FORK, WAY_SYSTEM, WAY_COUNT };

/* The child touches what it inherited, so that pages are copied, and leaves without MPI. */
static pid_t start_child(unsigned char *buffer, size_t size)
{
    pid_t child = fork();
    if (child == 0) {
        memset(buffer, 0, size);
        usleep(5000);
        _exit(0);
    }
    if (child < 0) {
        chk_fail("fork: %s", strerror(errno));
    }
    return child;
}

static void one_round(enum way way, size_t size, int round)
{
    int to = (chk.rank + 1) % chk.size, from = (chk.rank + chk.size - 1) % chk.size;
    unsigned char *out = chk_alloc(size);
    unsigned char *in = chk_alloc(size);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    pid_t child = -1;
    /* twice with the same buffers: the second transfer finds them registered already */
    for (int turn = 0; turn < 2; turn++) {
        int tag = 2 * round + turn;
        chk_step("%s, size %zu, round %d", way == WAY_FORK ? "fork" : "system", size, round);
        chk_fill_to(out, size, to, tag, size);
        chk_poison(in, size);
        MPI_Irecv(in, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[0]);
        if (way == WAY_FORK) {
            child = start_child(in, size);
        } else if (system("true") != 0) {
            chk_fail("system(\"true\") failed");
        }
        MPI_Isend(out, (int)size, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        chk_verify_status(&statuses[0], from, tag, size);
        chk_verify_from(in, size, from, tag, size);
        if (way == WAY_FORK) {
            int status = 0;
            if (waitpid(child, &status, 0) != child || status != 0) {
                chk_fail("the child ended with status 0x%x", (unsigned)status);
            }
        }
    }
    chk_free(out, size);
    chk_free(in, size);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "forking",
                            .about = "Forks and runs programs between transfers.",
                            .iterations = 3,
                            .max_size = 1 << 20});
    static const size_t sizes[] = {8, 4096, 65536, 300001, 1 << 20};
    for (int i = 0; i < (int)chk.iterations; i++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            for (enum way way = 0; way < WAY_COUNT && sizes[s] <= chk.max_size; way++) {
                one_round(way, sizes[s], i);
            }
        }
    }
    return chk_end();
}
