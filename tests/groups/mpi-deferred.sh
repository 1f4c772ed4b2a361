#!/bin/bash
# group: the same programs on a software HCA that executes late and watches the buffers
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
#
# Executing a work request at once hides every buffer that is changed before its completion, and
# every assumption that a posted message has arrived. Deferred execution shows them; with
# SOFTHCA_CHECK=1 a source that changed between posting and execution ends the job.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong

for link in ib roce; do
    for ranks in 2 4; do
        mpi_options=(--link "$link" --ranks "$ranks" --hosts 2 --exec deferred --env SOFTHCA_CHECK=1)
        what="deferred, $ranks ranks, $link"
        _mpi_case "$what" 2 storm
        if [ $ranks -eq 2 ]; then
            _mpi_case "$what" 1 pingpong --max-size 4M
        else
            _mpi_case "$what" 4 incast --size 80K --window 32
            _mpi_case "$what" 1 collectives --max-size 300K
        fi
        _mpi_case "$what" 1 flood
        _mpi_case "$what" 2 unexpected
        _mpi_case "$what" 8 random
        _mpi_case "$what" 2 remap
        _mpi_case "$what" 1 readonly
        _mpi_case "$what" 20 inflight
    done
    mpi_options+=(--mca btl_verbs_recv_buffers 8 --mca btl_verbs_credits 2
        --mca btl_verbs_sq_depth 4 --mca btl_verbs_max_inline 0)
    _mpi_case "deferred, tiny queues, $link" 1 flood --messages 500
    _mpi_case "deferred, tiny queues, $link" 4 random --max-size 1M
done

tap_done
