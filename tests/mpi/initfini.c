/* MPI_Init and MPI_Finalize with nothing in between, or with ranks that come late.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

int main(int argc, char **argv)
{
    uint64_t skew_ms = 0;
    const struct chk_option options[] = {
        {"--skew", "milliseconds that odd ranks wait before MPI_Finalize", &skew_ms, 0},
        {NULL, NULL, NULL, 0},
    };
    chk_begin(&argc, &argv,
              &(struct chk){.name = "initfini",
                            .about = "MPI_Init and MPI_Finalize only; sends nothing.",
                            .options = options,
                            .iterations = 1,
                            .max_size = 0});
    if (chk.rank % 2 == 1) {
        usleep((useconds_t)skew_ms * 1000);
    }
    chk_step("MPI_Finalize");
    MPI_Finalize();
    alarm(0);
    if (chk.rank == 0) {
        printf("PASS initfini: %d ranks\n", chk.size);
    }
    return 0;
}
