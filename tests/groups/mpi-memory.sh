#!/bin/bash
# group: all kinds of memory, what programs do to it between transfers, and limits on registration
# timeout: 400
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs memory

# at_most WHAT BYTES: what the last job's ranks had registered together at the end
at_most() {
    local held
    case $MPI_TEST_BTL in
    *verbs*) ;;
    *) tap_skip "$1" "the BTL under test is $MPI_TEST_BTL" && return ;;
    esac
    held=$(sed -n 's/^counter btl_verbs_registered_bytes //p' "$TAP_OUT")
    tap_run "$1: ${held:-no} bytes registered" 5 test "${held:-0}" -gt 0 -a "${held:-0}" -le "$2"
}

for link in ib roce; do
    mpi_options=(--link "$link" --ranks 2)
    _mpi_case "memory, $link" 2 memory --buffers 10
done
mpi_options=(--ranks 2 --mca btl_verbs_flags "send,put")
_mpi_case "memory, by RDMA write" 2 memory --buffers 10
mpi_options=(--ranks 2 --mca mpi_leave_pinned 0)
_mpi_case "memory that does not stay registered" 2 memory --buffers 10
mpi_options=(--ranks 2 --link roce --mca btl_verbs_mode ud)
_mpi_case "memory, over datagrams" 1 memory --buffers 4

# 40 buffers of 1 MiB where a process may lock 30 million bytes: the oldest have to go.
mpi_options=(--ranks 2 --env SOFTHCA_MEMLOCK=30000000)
_mpi_case "more buffers than memory may be locked" 2 memory --counters
mpi_counted registrations_refused "more buffers than may be locked: the limit was hit"
at_most "more buffers than may be locked" 60000000
# The same by a limit of ours, before the system has to refuse anything. The buffers of the
# component itself (below 9 MiB for a process) do not count.
mpi_options=(--ranks 2 --mca btl_verbs_registered_max 8)
_mpi_case "at most 8 MiB kept registered" 2 memory --counters
at_most "at most 8 MiB kept registered" $((2 * (8 + 10) * 1048576))
# A single message above the limit cannot be registered at all, and is copied.
mpi_options=(--ranks 2 --mca btl_verbs_registered_max 1)
_mpi_case "messages longer than what may be registered" 2 pingpong --size 4M --kinds 0x0b
# It runs out in the middle, for ever and for a while (600k: more than the component asks for).
mpi_options=(--ranks 2 --fault 'reg_mr.fail min=600k at=1s')
_mpi_case "no more registrations after a second" 4 memory --buffers 10
mpi_options=(--ranks 2 --fault 'reg_mr.fail min=600k at=500ms for=700ms')
_mpi_case "no registrations for a while" 4 memory --buffers 10

# Shared memory of the software HCA for a fabric, but for no queue of a rank.
# shellcheck disable=SC2016 # the inner shell expands it
if unshare -m mount -t tmpfs -o size=1m tmpfs /dev/shm 2>/dev/null; then
    tap_fails "a /dev/shm of 1 MiB: the job ends by itself" $((MPI_TEST_LIMIT + 30)) \
        unshare -m sh -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"' sh \
        "$TOP/tests/lib/vrbrun" --timeout $MPI_TEST_LIMIT -- "$BUILD/tests/mpi/pingpong"
    tap_like "$TAP_OUT" 'no room for [0-9]* KiB more of shared memory' \
        "a /dev/shm of 1 MiB: the software HCA says why"
    tap_unlike "$TAP_OUT" 'Bus error|signal 7|left .* behind|had not ended' \
        "a /dev/shm of 1 MiB: no crash, nothing left behind"
else
    tap_skip "a /dev/shm of 1 MiB" "no mount namespace here (needs root)"
fi

tap_done
