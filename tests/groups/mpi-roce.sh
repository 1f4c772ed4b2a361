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

tap_done
