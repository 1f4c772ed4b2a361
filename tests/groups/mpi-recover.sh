#!/bin/bash
# group: MPI jobs whose RC connections break and are made again
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong random flood killed

# A request that never arrived, and one that did although nobody said so: what is lost in the first
# case would be doubled in the second.
lost='rc.retry_exc prob=0.01'
unsaid='rc.ack_lost prob=0.01'

# survives NAME FAULT [OPTIONS] -- PROGRAM [ARGS]: the bytes are right, and connections did break
survives() {
    local name=$1 fault=$2
    shift 2
    mpi_pass "$name" --fault "$fault" "$@" --counters
    mpi_counted recovered_connections "$name: connections were made again"
}

for link in ib roce; do
    for srq in 1 0; do
        what="$link, SRQ $srq"
        survives "$what: requests get lost" "$lost" --link $link --ranks 4 \
            --mca btl_verbs_use_srq $srq -- random --iterations 5 --max-size 1M
        survives "$what: acknowledgements get lost" "$unsaid" --link $link --ranks 4 \
            --mca btl_verbs_use_srq $srq -- random --iterations 5 --max-size 1M
        survives "$what: in a stream of small messages" "$lost; $unsaid" --link $link \
            --mca btl_verbs_use_srq $srq -- flood --iterations 2 --messages 3000
        mpi_counted replayed "$what: packets were sent again"
    done
done
survives "long messages by RDMA write" "$lost; $unsaid" --ranks 4 \
    --mca btl_verbs_flags send,put -- random --iterations 5 --max-size 1M
survives "tiny queues, nothing inline" "$lost; $unsaid" --ranks 4 --mca btl_verbs_recv_buffers 8 \
    --mca btl_verbs_credits 2 --mca btl_verbs_sq_depth 4 --mca btl_verbs_max_inline 0 \
    -- random --iterations 5 --max-size 300K
survives "requests executed later than posted" "$lost; $unsaid" --ranks 4 \
    --env SOFTHCA_EXEC=deferred -- random --iterations 5 --max-size 300K
survives "mode auto" "$lost; $unsaid" --ranks 4 --mca btl_verbs_mode auto \
    -- random --iterations 8 --max-size 300K
survives "half of the handshake messages get lost, too" "$lost; ud.drop prob=0.5; ud.dup prob=0.3" \
    -- random --iterations 4 --max-size 300K
survives "the new queue pair cannot be made at once" \
    'rc.retry_exc nth=60; create_qp.fail type=rc nth=3 count=2' -- pingpong --max-size 10K
survives "the device fails a request" 'wc.error status=GENERAL_ERR nth=40' -- pingpong --max-size 10K

# --- soft-RoCE, which says that a read has succeeded and breaks in the middle of it -------------

rxe=(--conf "$TOP/tests/softhca/soft-roce.ini" --link roce)
survives "reads that end early" 'rc.read_short prob=0.1' --ranks 4 "${rxe[@]}" \
    -- random --iterations 5 --max-size 300K
survives "the same with tiny queues" 'rc.read_short prob=0.05' "${rxe[@]}" \
    --mca btl_verbs_recv_buffers 8 --mca btl_verbs_credits 2 --mca btl_verbs_sq_depth 4 \
    -- random --iterations 5 --max-size 300K

# --- links that go down for a while ------------------------------------------------------------

# error: sending meanwhile breaks the datagram queue pair, which carries the handshake, too
for mode in rc auto; do
    for down in drop error; do
        survives "$mode, $down: a link goes down for 2 s" \
            'port.down nth=300 type=rc host=node0 for=2s' --ranks 4 --env SOFTHCA_DOWN=$down \
            --mca btl_verbs_mode $mode --mca btl_verbs_ib_timeout 12 \
            -- random --iterations 20 --max-size 300K
    done
done

# --- and those that do not come back -----------------------------------------------------------

mpi_fails "the link stays down" 'RETRY_EXC.*no new connection in 2 s' \
    --mca btl_verbs_recover_timeout 2 --mca btl_verbs_ib_timeout 12 \
    --fault 'port.down nth=300 type=rc host=node0' -- pingpong --max-size 10K
mpi_fails "every connection breaks" 'RETRY_EXC.*in a row broke' \
    --fault 'rc.retry_exc min=5000' -- pingpong --max-size 10K

tap_done
