#!/bin/bash
# group: the MPI programs that begin with datagrams and go over to connections where traffic is heavy
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
mode=(--mca btl_verbs_mode auto)
lossy='ud.drop prob=0.05; ud.dup prob=0.05; ud.reorder prob=0.1 window=4'

for link in ib roce; do
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --ranks 2)
    what="auto, 2 ranks, $link"
    _mpi_case "$what" 1 pingpong --counters
    mpi_counted ud_packets "$what: datagrams carried the first messages"
    mpi_counted connections "$what: a connection was made"
    mpi_counted gets "$what: large messages were read by RDMA"
    _mpi_case "$what" 1 initfini
    mpi_options[-1]=4
    what="auto, 4 ranks, $link"
    _mpi_case "$what" 2 storm
    _mpi_case "$what" 1 storm --tick 300 --size 30000
    _mpi_case "$what" 3 incast
    _mpi_case "$what" 3 incast --size 80K --window 64
    _mpi_case "$what" 1 collectives
    _mpi_case "$what" 3 unexpected
    _mpi_case "$what" 2 flood --messages 1000
    _mpi_case "$what" 1 datatypes --max-size 500K
    _mpi_case "$what" 8 random
    _mpi_case "$what" 2 remap
    _mpi_case "$what" 1 forking
    _mpi_case "$what" 50 inflight
    _mpi_case "$what" 20 inflight --quiet --size 1000 --skew 300

    # The change of path while messages are under way on both, in all its accidents.
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --mca btl_verbs_promote_after 1
        --fault "$lossy" --ranks 4)
    what="auto, promoted at once on a lossy fabric, $link"
    _mpi_case "$what" 2 storm
    _mpi_case "$what" 6 random --max-size 1M
    _mpi_case "$what" 1 flood --messages 1000
    _mpi_case "$what" 2 unexpected
    _mpi_case "$what" 20 inflight
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --mca btl_verbs_promote_after 20
        --exec deferred --env SOFTHCA_CHECK=1 --ranks 4)
    what="auto, executed late, $link"
    _mpi_case "$what" 6 random --max-size 1M
    _mpi_case "$what" 1 flood --messages 500

    # Devices without datagrams: connections only, made over TCP.
    printf '[limits]\nno_ud = 1\n' >"$TAP_TMP/no-ud.conf"
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --conf "$TAP_TMP/no-ud.conf" --ranks 4)
    what="auto, devices without datagrams, $link"
    _mpi_case "$what" 2 random --counters
    mpi_counted connections "$what: connections were made"
    _mpi_case "$what" 1 storm

    mpi_killed "auto, killed peer, $link" no --link "$link" "${mode[@]}" --mca btl_verbs_ib_timeout 12 \
        --mca btl_verbs_peer_timeout 6 -- --size 300K

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --mca btl_verbs_max_rc 1 --ranks 4)
    what="auto, one connection at the most, $link"
    _mpi_case "$what" 6 random --max-size 1M
    _mpi_case "$what" 1 collectives --max-size 100K
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault 'create_qp.fail type=rc' --ranks 4)
    what="auto, no connection to be had, $link"
    _mpi_case "$what" 4 random --max-size 1M
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault 'modify_qp.fail type=rc' --ranks 4)
    what="auto, no connection comes about, $link"
    _mpi_case "$what" 4 random --max-size 1M
    _mpi_case "$what" 2 incast --size 80K --window 16
done

# Many to many; ranks that come late and go early.
mpi_options=(--link ib --hosts 4 "${mode[@]}" --ranks 16)
_mpi_case "auto, 16 ranks, ib" 1 collectives --max-size 4K
mpi_options=(--link roce --hosts 4 "${mode[@]}" --fault "$lossy" --ranks 8)
what="auto, 8 ranks, lossy, roce"
_mpi_case "$what" 1 initfini --skew 300
_mpi_case "$what" 10 sparse

tap_done
