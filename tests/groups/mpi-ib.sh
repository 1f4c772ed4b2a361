#!/bin/bash
# group: MPI programs that check every byte, over verbs on an InfiniBand port, and with tiny queues
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

mpi_all ib 2
mpi_all ib 4
mpi_tiny ib

tap_done
