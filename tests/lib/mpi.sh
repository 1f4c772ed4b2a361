# shellcheck shell=bash
# Runs of the MPI test programs, shared by the test groups mpi-*.
# SPDX-License-Identifier: BSD-3-Clause
#
#   mpi_needs PROGRAM...            ends the group with one skip without a launcher, or one of these
#                                   test programs
#   mpi_pass NAME [OPTIONS] -- PROGRAM [ARGS]    passes if the job ends with 0 and prints PASS
#   mpi_fails NAME REGEX [OPTIONS] -- PROGRAM [ARGS]   passes if the job ends by itself, non-zero,
#                                   one of its lines matches, and nothing crashed or is left
#   mpi_job [OPTIONS] -- PROGRAM [ARGS]          one run; PROGRAM without / is one of tests/mpi
#   mpi_all LINK RANKS [OPTIONS]    every program, with the work of a CI run
#   mpi_tiny LINK [OPTIONS]         the programs that fill queues, with queues that fill at once
#   mpi_killed WHAT yes|no [OPTIONS] -- [ARGS]   rank 1 of 4 dies in mid-transfer: the job ends within
#                                   seconds, says why and leaves nothing; "no": the launcher is kept
#                                   from seeing the death, so the transport itself must notice
#   mpi_counted COUNTER NAME        passes if the last job's programs, run with --counters, counted
#                                   at least one COUNTER of the transport (btl_verbs_COUNTER)
#
# OPTIONS are those of vrb_mpirun. Environment: MPI_TEST_BTL (self,verbs): the BTLs to test, e.g.
# self,tcp to try the programs themselves; MPI_TEST_SCALE (1): factor on all iterations;
# MPI_TEST_SEED (1).

: "${MPI_TEST_BTL:=self,verbs}"
: "${MPI_TEST_SCALE:=1}"
: "${MPI_TEST_SEED:=1}"
MPI_TEST_LIMIT=60 # seconds for one job; each takes one to three on an idle machine

mpi_needs() {
    local program
    tap_have mpirun || tap_skip_all "no mpirun: install openmpi-bin"
    for program in "$@"; do
        [ -x "$BUILD/tests/mpi/$program" ] || tap_skip_all "tests/mpi/$program is not built"
    done
}

mpi_job() {
    local options=() program
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    program=$1
    shift
    case $program in
    */*) ;;
    *) program=$BUILD/tests/mpi/$program ;;
    esac
    vrb_mpirun --btl "$MPI_TEST_BTL" --timeout $MPI_TEST_LIMIT ${options[@]+"${options[@]}"} -- \
        "$program" "$@"
}

_mpi_checked_job() {
    local status
    mpi_job "$@" >"$TAP_TMP/job"
    status=$?
    cat "$TAP_TMP/job"
    [ $status -eq 0 ] && grep -q '^PASS ' "$TAP_TMP/job"
}

mpi_fails() {
    local name=$1 regex=$2
    shift 2
    tap_fails "$name: the job ends by itself" $((MPI_TEST_LIMIT + 30)) mpi_job "$@"
    tap_like "$TAP_OUT" "$regex" "$name: the message says why"
    tap_unlike "$TAP_OUT" 'Segmentation|signal 11|signal 6|[Aa]ssert|left .* behind' \
        "$name: no crash, nothing left behind"
}

mpi_pass() {
    local name=$1
    shift
    tap_run "$name" $((MPI_TEST_LIMIT + 30)) _mpi_checked_job "$@"
}

# Without it, a test of a rare path passes as well when that path is never taken.
mpi_counted() {
    case $MPI_TEST_BTL in
    *verbs*) tap_like "$TAP_OUT" "^counter btl_verbs_$1 [1-9]" "$2" ;;
    *) tap_skip "$2" "the BTL under test is $MPI_TEST_BTL" ;;
    esac
}

# _mpi_case WHAT ITERATIONS PROGRAM [ARGS], with the options in mpi_options
_mpi_case() {
    local what=$1 iterations=$(($2 * MPI_TEST_SCALE)) program=$3
    shift 3
    mpi_pass "$what: $program${*:+ $*}" "${mpi_options[@]}" -- "$program" \
        --iterations "$iterations" --seed "$MPI_TEST_SEED" --timeout $((MPI_TEST_LIMIT / 2)) "$@"
}

mpi_all() {
    local link=$1 ranks=$2 what=$2
    local mpi_options=(--link "$1" --ranks "$2" --hosts 2)
    shift 2
    mpi_options+=("$@")
    what="$ranks ranks, $link"
    _mpi_case "$what" 1 initfini
    _mpi_case "$what" 1 initfini --skew 300
    _mpi_case "$what" 3 storm
    _mpi_case "$what" 2 storm --tick 500 --size 100000
    _mpi_case "$what" 2 storm --one-way
    if [ "$ranks" -eq 2 ]; then
        _mpi_case "$what" 2 pingpong --counters
        mpi_counted gets "$what: large messages were read by RDMA"
        mpi_counted tx_inline "$what: small messages left inline"
    else
        _mpi_case "$what" 1 pingpong --all-pairs --max-size 2M --kinds 0x1b
        _mpi_case "$what" 30 sparse
    fi
    _mpi_case "$what" 3 incast
    _mpi_case "$what" 6 incast --size 80K --window 64
    _mpi_case "$what" 2 collectives
    _mpi_case "$what" 5 unexpected
    _mpi_case "$what" 2 flood --counters
    mpi_counted tx_coalesced "$what: small messages to a busy queue shared packets"
    _mpi_case "$what" 1 datatypes
    _mpi_case "$what" 1 nullself
    _mpi_case "$what" 1 corners
    _mpi_case "$what" 12 random
    _mpi_case "$what" 1 readonly
    _mpi_case "$what" 4 remap
    _mpi_case "$what" 1 forking
    _mpi_case "$what" 50 inflight
    _mpi_case "$what" 20 inflight --quiet --size 1000 --skew 300
}

# The smallest queues that the parameters allow, then shared and private receive queues apart.
mpi_tiny() {
    local link=$1 queue what
    local small=(--mca btl_verbs_recv_buffers 8 --mca btl_verbs_credits 2
        --mca btl_verbs_sq_depth 4 --mca btl_verbs_max_inline 0)
    shift
    for queue in 1 0; do
        local mpi_options=(--link "$link" --ranks 4 --hosts 2 "${small[@]}"
            --mca btl_verbs_use_srq "$queue" "$@")
        what="tiny queues, $link, SRQ $queue"
        _mpi_case "$what" 1 flood --messages 1000 --counters
        mpi_counted stalls "$what: queues were full"
        _mpi_case "$what" 3 incast --max-size 100K
        _mpi_case "$what" 6 incast --size 80K --window 64
        _mpi_case "$what" 6 random --max-size 1M
        _mpi_case "$what" 3 unexpected
        _mpi_case "$what" 1 collectives --max-size 100K
        _mpi_case "$what" 20 inflight
        mpi_options[3]=2
        _mpi_case "$what" 1 pingpong --max-size 300K
    done
}

# mpi_survivor SECONDS: makes the program $TAP_TMP/survivor, which runs its arguments and, when these
# were killed, stays behind in their place for a while, so that the launcher does not see the death.
mpi_survivor() {
    # shellcheck disable=SC2016 # the shell that runs it expands them
    printf '%s\n' '#!/bin/sh' '"$@"' 'status=$?' "[ \$status -ne 137 ] || sleep $1" \
        'exit $status' >"$TAP_TMP/survivor"
    chmod +x "$TAP_TMP/survivor"
}

mpi_killed() {
    local what="$1, the launcher sees it: $2" seen=$2 options=() out=$TAP_TMP/killed begin status took
    local command=("$BUILD/tests/mpi/killed")
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    if [ "$seen" = no ]; then
        mpi_survivor 25
        # a peer that does not answer is waited for: this long only
        options+=(--mca btl_verbs_recover_timeout 3)
        command=("$TAP_TMP/survivor" "${command[@]}")
    fi
    mpi_job --ranks 4 "${options[@]}" -- "${command[@]}" --step 50 --timeout 25 "$@" >"$out" 2>&1
    status=$?
    begin=$(sed -n 's/.*dies in round [0-9]* at \([0-9]*\).*/\1/p' "$out")
    took=$(($(date +%s) - ${begin:-0}))
    tap_like "$out" 'dies in round' "$what: it died in mid-transfer"
    tap_run "$what: the job failed (status $status)" 5 \
        test $status -ne 0 -a $status -ne 124 -a $status -ne 125
    tap_run "$what: it ended within seconds ($took s)" 5 test $took -le 20
    tap_unlike "$out" 'FAIL|had not ended|left .* behind|Segmentation|[Aa]ssert' \
        "$what: no rank hung, nothing is left"
    if [ "$seen" = no ]; then
        tap_like "$out" 'local:.*host node' "$what: a report names this end"
        tap_like "$out" 'remote:.*host node1 rank 1' "$what: and the dead peer"
    else
        # whoever is first: the launcher, or a peer whose report ends the job
        tap_like "$out" 'signal 9|the connection to rank 1 on host node1 is lost' \
            "$what: the dead rank is named"
    fi
}
