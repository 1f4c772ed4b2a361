#!/usr/bin/env bash
# group: UCX (ucx_perftest and Open MPI's pml/ucx) over rc_verbs and ud_verbs on the software HCA
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"
# shellcheck source=tests/lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=tests/lib/ucx.sh
. "$TOP/tests/lib/ucx.sh"

tap_have ucx_perftest || tap_skip_all "ucx-utils is not installed"

# UCX registers more than an ordinary user's `ulimit -l`.
export SOFTHCA_MEMLOCK=unlimited
rc=rc_verbs,ud_verbs,self
ud=ud_verbs,self

# perf LINK TLS ARGS...: succeeds and prints a row of figures
perf() {
    local link=$1 tls=$2 name
    shift 2
    name="ucx_perftest ${tls%%,*} $link: $*"
    tap_run "$name" 40 ucx_pair "$link" "$tls" 35 "$@" || return
    grep -Eq '^ *(Final:)? *[0-9]+ +[0-9.]+ +[0-9.]+' "$TAP_OUT" ||
        tap_notok "$name: figures" "$(tail -n 20 "$TAP_OUT")"
}

for link in ib roce; do
    perf $link $rc -t tag_lat -s 8 -n 500 -w 50
    perf $link $rc -t tag_lat -s 16384 -n 200 -w 10
    perf $link $rc -t tag_bw -s 1048576 -n 50 -w 5
    perf $link $rc -t tag_sync_lat -s 8 -n 200 -w 10
    perf $link $rc -t ucp_put_lat -s 8 -n 300 -w 10
    perf $link $rc -t ucp_get -s 65536 -n 100 -w 10
    perf $link $rc -t ucp_fadd -s 8 -n 200 -w 10
    perf $link $ud -t tag_lat -s 8 -n 500 -w 50
    perf $link $ud -t tag_bw -s 65536 -n 50 -w 5
    perf $link $ud -t ucp_get -s 4096 -n 50 -w 5
done

# UCX's own reliability must carry everything over a UD that misbehaves.
faulty() {
    SOFTHCA_FAULTS=$1 ucx_pair "$2" "$ud" 40 -t tag_lat -s 2048 -n 100 -w 5
}
tap_run "ucx_perftest ud_verbs ib: 1 % loss, 1 % duplication" 45 \
    faulty 'ud.drop prob=1%;ud.dup prob=1%' ib
tap_run "ucx_perftest ud_verbs roce: datagrams reordered and late" 45 \
    faulty 'ud.reorder prob=1% window=3;ud.delay prob=1% us=300' roce

# Open MPI: MPI programs that check every byte.
mpi() {
    local link=$1 tls=$2 ranks=$3 program=$4 name
    shift 4
    name="pml/ucx ${tls%%,*} $link, $ranks ranks: $program"
    if [ ! -x "$BUILD/tests/mpi/$program" ]; then
        tap_skip "$name" "tests/mpi/$program is not built"
        return
    fi
    tap_run "$name" 70 vrb_mpirun --pml ucx --ucx-tls "$tls" --link "$link" --ranks "$ranks" \
        --env "UCX_NET_DEVICES=$(ucx_device "$link")" --timeout 60 -- "$BUILD/tests/mpi/$program" "$@"
}

if tap_have mpirun; then
    for link in ib roce; do
        mpi $link $rc 2 pingpong --iterations 1 --max-size 1M
        mpi $link $rc 4 collectives --iterations 1 --max-size 64K
        mpi $link $ud 2 pingpong --iterations 1 --max-size 128K
        mpi $link $ud 4 collectives --iterations 1 --max-size 16K
    done
else
    tap_skip "pml/ucx" "no mpirun: install openmpi-bin"
fi
tap_done
