#!/bin/bash
# group: MPI programs that check every byte, over verbs on an RoCEv2 port, and with tiny queues
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong

mpi_all roce 2
mpi_all roce 4
mpi_tiny roce

# What soft-RoCE says of itself: short completion queues, small packets, a link-local GID first.
for mode in rc ud auto; do
    mpi_options=(--link roce --ranks 4 --hosts 2 --conf "$TOP/tests/softhca/soft-roce.ini"
        --env SOFTHCA_DOWN=error --mca btl_verbs_mode "$mode")
    _mpi_case "the shape of soft-RoCE, $mode" 1 pingpong --all-pairs --max-size 100K --kinds 0x1b
    _mpi_case "the shape of soft-RoCE, $mode" 2 incast --size 80K --window 16
done

tap_done
