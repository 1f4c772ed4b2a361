#!/usr/bin/env bash
# group: Open MPI 4.1's openib BTL on the InfiniBand device of the software HCA
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

tap_have mpirun ompi_info || tap_skip_all "no mpirun: install openmpi-bin"
ompi_info 2>/dev/null | grep -q 'MCA btl: openib' || tap_skip_all "this Open MPI has no openib BTL"

# openib wires up with its UD connection manager; the RoCE device would need rdma_cm.
mpi() {
    local name=$1 ranks=$2 program=$3
    shift 3
    local options=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    name="openib, $ranks ranks: $program $name"
    tap_run "$name" 70 vrb_mpirun --btl self,openib --link ib --ranks "$ranks" --timeout 60 \
        --counters "$TAP_TMP/counters" \
        "${options[@]}" -- "$BUILD/tests/mpi/$program" "$@"
}

for program in pingpong collectives; do
    [ -x "$BUILD/tests/mpi/$program" ] || tap_skip_all "tests/mpi/$program is not built"
done

# openib registers more than an ordinary user's `ulimit -l`, and waits for ever when it may not.
export SOFTHCA_MEMLOCK=unlimited

# counted COUNTER NAME: the run before used this operation
counted() {
    local total
    total=$(vrb_counter "$TAP_TMP/counters" "$1")
    if [ "$total" -gt 0 ]; then
        tap_ok "$2"
    else
        tap_notok "$2" "$(cat "$TAP_TMP/counters")"
    fi
}

mpi "" 2 pingpong -- --iterations 1 --max-size 1M
counted read "large messages by RDMA read"
mpi "" 4 collectives -- --iterations 1 --max-size 64K
mpi "(RDMA write)" 2 pingpong --mca btl_openib_flags 3 -- --iterations 1 --max-size 1M
counted write "large messages by RDMA write"
mpi "(eager RDMA)" 2 pingpong --mca btl_openib_use_eager_rdma 1 -- --iterations 1 --max-size 64K
mpi "(SRQ only)" 4 collectives --mca btl_openib_receive_queues S,65536,128,64,32 -- \
    --iterations 1 --max-size 64K
# Doubled datagrams only: openib never resends the last message of its handshake once it is connected
# itself (udcm_send_timeout), so losing that one hangs it on any device.
mpi "(doubled datagrams)" 4 collectives --fault 'ud.dup every=5' -- --iterations 1 --max-size 16K
counted fault.ud.dup "datagrams were doubled"
tap_done
