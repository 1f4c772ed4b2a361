#!/bin/bash
# group: a rank dies, MPI says so, and the others go on over verbs (ULFM, Open MPI 5.0)
# timeout: 400
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs ulfm
series=$(_vrb_mpi_major mpirun)
[ "$series" -ge 5 ] ||
    tap_skip_all "Open MPI $series has no fault tolerance; the group ompi5 has a newer one"

# The launcher keeps the job when a rank dies, and tells the survivors. Where it must not, so that
# the transport has to find out by itself, a shell stays behind in the victim's place.
mpi_survivor 8

# goes_on WHAT yes|no [OPTIONS] -- [ARGS]: "no": the launcher is kept from seeing the death
goes_on() {
    local what="$1, the launcher sees it: $2" seen=$2 options=(--ranks 4 --arg --with-ft --arg ulfm)
    local command=("$BUILD/tests/mpi/ulfm")
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    if [ "$seen" = no ]; then
        options+=(--mca btl_verbs_recover_timeout 3 --mca btl_verbs_keepalive 1)
        command=("$TAP_TMP/survivor" "${command[@]}")
    fi
    mpi_job "${options[@]}" -- "${command[@]}" --timeout 25 --counters "$@" >"$TAP_TMP/ulfm" 2>&1
    tap_like "$TAP_TMP/ulfm" 'dies in round' "$what: a rank died in mid-transfer"
    tap_like "$TAP_TMP/ulfm" '^rank [0-9]*: a process failed' "$what: it is reported as failed"
    tap_like "$TAP_TMP/ulfm" '^PASS ulfm: 3 of 4 ranks went on' "$what: the others go on"
    case $MPI_TEST_BTL in
    *verbs*)
        tap_like "$TAP_TMP/ulfm" '^counter btl_verbs_tx_packets [1-9]' "$what: over verbs"
        ;;
    esac
    tap_unlike "$TAP_TMP/ulfm" 'FAIL|had not ended|left .* behind|Segmentation|[Aa]ssert' \
        "$what: no rank hung, nothing is left"
}

goes_on "rc, InfiniBand" yes --link ib --
goes_on "rc, RoCE" no --link roce --mca btl_verbs_ib_timeout 12 --
if [ "${ULFM_ALL:-1}" = 1 ]; then
    goes_on "rc, RoCE, long messages" yes --link roce -- --size 300000 --step 5
    goes_on "rc, InfiniBand, long messages" no --link ib --mca btl_verbs_ib_timeout 12 -- \
        --size 300000 --step 5
    goes_on "ud" yes --link ib --mca btl_verbs_mode ud --
    goes_on "ud" no --link roce --mca btl_verbs_mode ud --mca btl_verbs_peer_timeout 3 --
    goes_on "auto" yes --link roce --mca btl_verbs_mode auto --
fi

tap_done
