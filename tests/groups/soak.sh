#!/bin/bash
# group: random MPI jobs with random faults for 20 s (SOAK_SECONDS=N for longer)
# timeout: 300
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

tap_have mpirun || tap_skip_all "no mpirun: install openmpi-bin"
[ -x "$BUILD/tests/mpi/onesided" ] || tap_skip_all "the MPI programs are not built"

seconds=${SOAK_SECONDS:-20}
tap_run "random jobs for $seconds s" $((seconds + 240)) \
    "$TOP/tests/lib/soak" --seconds "$seconds" --seed "${SOAK_SEED:-1}"
tap_like "$TAP_OUT" 'PASS soak: [1-9]' "jobs were run"
tap_done
