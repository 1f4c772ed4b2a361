#!/bin/bash
# group: the MPI programs over reliable datagrams alone, on a fabric that loses, doubles and reorders
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
mode=(--mca btl_verbs_mode ud)
lossy='ud.drop prob=0.01; ud.dup prob=0.01; ud.reorder prob=0.02 window=3'
bad='ud.drop prob=0.05; ud.dup prob=0.05; ud.reorder prob=0.1 window=6; ud.delay prob=0.01 us=500'

for link in ib roce; do
    # That no RC queue pair can be connected proves that none is needed.
    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault 'modify_qp.fail type=rc' --ranks 2)
    what="datagrams, 2 ranks, $link"
    _mpi_case "$what" 1 pingpong --counters
    mpi_counted ud_packets "$what: datagrams carried it"
    mpi_options[-1]=4
    what="datagrams, 4 ranks, $link"
    mpi_pass "$what: not even a device that has no RC queue pairs left stops it" --link "$link" \
        "${mode[@]}" --ranks 4 --fault 'create_qp.fail type=rc' -- storm
    _mpi_case "$what" 2 storm
    _mpi_case "$what" 1 storm --tick 300 --size 30000
    _mpi_case "$what" 3 incast
    _mpi_case "$what" 3 incast --size 80K --window 64
    _mpi_case "$what" 1 collectives
    _mpi_case "$what" 3 unexpected
    _mpi_case "$what" 2 flood --messages 1000
    _mpi_case "$what" 1 datatypes --max-size 500K
    _mpi_case "$what" 8 random
    _mpi_case "$what" 1 readonly
    _mpi_case "$what" 2 remap
    _mpi_case "$what" 1 forking
    _mpi_case "$what" 50 inflight
    _mpi_case "$what" 20 inflight --quiet --size 1000 --skew 300

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault "$lossy" --ranks 4)
    what="1 % lost, doubled, 2 % reordered, $link"
    _mpi_case "$what" 6 random --max-size 1M --counters
    mpi_counted ud_resent "$what: datagrams were sent again"
    _mpi_case "$what" 1 flood --messages 1000
    _mpi_case "$what" 2 incast --size 80K --window 32
    _mpi_case "$what" 1 collectives --max-size 100K
    _mpi_case "$what" 50 inflight
    mpi_options[-1]=2
    _mpi_case "$what" 1 pingpong --max-size 4M --kinds 2

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault "$bad" --ranks 4)
    what="5 % lost and doubled, 10 % reordered, some late, $link"
    _mpi_case "$what" 2 storm
    _mpi_case "$what" 4 random --max-size 300K
    _mpi_case "$what" 1 flood --messages 500
    _mpi_case "$what" 1 unexpected --messages 40
    mpi_options[-1]=2
    _mpi_case "$what" 1 pingpong --max-size 300K --kinds 1

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --fault 'ud.drop at=900ms for=1s' --ranks 4)
    _mpi_case "nothing arrives for a second, $link" 60 random --max-size 300K

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --exec deferred --env SOFTHCA_CHECK=1 --ranks 4)
    what="datagrams, executed late, $link"
    _mpi_case "$what" 6 random --max-size 1M
    _mpi_case "$what" 1 flood --messages 500
    _mpi_case "$what" 2 incast --size 80K --window 32

    mpi_options=(--link "$link" --hosts 2 "${mode[@]}" --mca btl_verbs_ud_buffers 16 --ranks 4)
    what="hardly any receive buffers, $link"
    _mpi_case "$what" 2 incast --size 80K --window 32
    _mpi_case "$what" 1 flood --messages 500
    _mpi_case "$what" 3 random --max-size 300K

    mpi_killed "datagrams, killed peer, $link" no --link "$link" "${mode[@]}" \
        --mca btl_verbs_peer_timeout 6 -- --size 300K
    mpi_killed "datagrams, killed peer, $link" yes --link "$link" "${mode[@]}" -- --size 64
done

# Many to many; ranks that come late and go early.
mpi_options=(--link ib --hosts 4 "${mode[@]}" --ranks 16)
_mpi_case "datagrams, 16 ranks, ib" 1 collectives --max-size 4K
mpi_options=(--link roce --hosts 4 "${mode[@]}" --fault "$lossy" --ranks 8)
what="datagrams, 8 ranks, lossy, roce"
_mpi_case "$what" 1 initfini --skew 300
_mpi_case "$what" 10 sparse

tap_done
