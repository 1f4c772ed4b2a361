#!/bin/bash
# group: one-sided operations: natively over RDMA, with every limit, and where there is no RDMA
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs onesided
series=$(mpirun --version | sed -n 's/^mpirun (Open MPI) \([0-9.]*\).*/\1/p')

# Open MPI 4.1.1 to 4.1.4 wait for themselves in a dynamic window that spans hosts: osc/rdma locks
# the list of regions, and then once more to read it.
windows=7
case $series in
4.1.[1-4]) windows=3 ;;
esac

# What is native is proven by the device's counters, and by a target that is outside of MPI.
for link in ib roce; do
    mpi_options=(--link "$link" --ranks 2 --hosts 2 --counters "$TAP_TMP/$link")
    what="one-sided, 2 ranks, $link"
    _mpi_case "$what" 1 onesided --counters --passive 20 --windows "$windows"
    mpi_counted atomics "$what: locks and sums were atomic operations of the device"
    mpi_counted puts "$what: data was written by RDMA"
    mpi_counted gets "$what: data was read by RDMA"
    tap_run "$what: the device counted them: $(vrb_counter "$TAP_TMP/$link" atomic)" 5 \
        test "$(vrb_counter "$TAP_TMP/$link" atomic)" -ge 500
done
mpi_options=(--ranks 4 --hosts 2)
_mpi_case "one-sided, 4 ranks" 1 onesided --draws 40 --max-size 100K --passive 20 --windows "$windows"
mpi_options=(--ranks 4 --hosts 2 --link roce --btl "self,vader,verbs")
_mpi_case "one-sided beside shared memory" 1 onesided --draws 20 --max-size 100K \
    --windows "$windows"
mpi_options=(--ranks 2 --mca btl_verbs_put_limit 60000 --mca btl_verbs_get_limit 50001)
_mpi_case "longer than one RDMA operation may be" 1 onesided --draws 5 --windows "$windows"
mpi_options=(--ranks 3 --link roce --mca btl_verbs_use_srq 0 --mca btl_verbs_sq_depth 4
    --mca btl_verbs_credits 2 --mca btl_verbs_max_inline 0 --mca btl_verbs_rd_atomic 1)
_mpi_case "tiny queues, one read or atomic at a time" 1 onesided --draws 20 --max-size 100K \
    --windows "$windows"
mpi_options=(--ranks 3 --exec deferred --env SOFTHCA_CHECK=1)
_mpi_case "executed late, buffers checked" 1 onesided --draws 10 --max-size 100K --windows "$windows"
mpi_options=(--ranks 2 --fault 'post_send.fail prob=0.02 errno=ENOMEM')
_mpi_case "the provider refuses now and then" 1 onesided --draws 10 --max-size 70K \
    --windows "$windows"

# Datagrams first, one connection at the most: operations that need one get it nevertheless.
mpi_options=(--ranks 3 --mca btl_verbs_mode auto --mca btl_verbs_max_rc 1)
_mpi_case "mode auto with a cap of one connection" 1 onesided --draws 20 --max-size 100K --counters \
    --windows "$windows"
mpi_counted atomics "mode auto: atomic operations of the device"
mpi_job --ranks 2 --mca btl_verbs_mode auto --fault 'modify_qp.fail type=rc' -- \
    onesided --windows 1 --timeout 20 >"$TAP_TMP/refused" 2>&1
status=$?
tap_like "$TAP_TMP/refused" 'one-sided operation .* needs|needs a reliable connection' \
    "mode auto where no connection can be made: a message says so"
tap_run "and the job ends (status $status)" 5 test $status -ne 0 -a $status -ne 124

# No RDMA at all: what Open MPI makes of messages.
cat >"$TAP_TMP/plain.conf" <<'END'
[limits]
atomic_cap = none
END
if [ "${series%%.*}" -ge 5 ]; then
    without=()
else
    without=(--mca osc pt2pt)
    for mode in "--mca btl_verbs_mode ud" "--conf $TAP_TMP/plain.conf"; do
        # shellcheck disable=SC2086 # two or three words
        mpi_job --ranks 2 $mode -- onesided --windows 1 --timeout 20 >"$TAP_TMP/refused" 2>&1
        status=$?
        tap_like "$TAP_TMP/refused" 'MPI_Win_create' "${mode##*/}: MPI_Win_create is refused"
        tap_run "${mode##*/}: and the job ends (status $status)" 5 \
            test $status -ne 0 -a $status -ne 124
    done
fi
mpi_options=(--ranks 2 --mca btl_verbs_mode ud "${without[@]}")
_mpi_case "over datagrams alone" 1 onesided --draws 20 --max-size 100K --windows 7 --counters
mpi_counted ud_packets "over datagrams alone: they carried it"
mpi_options=(--ranks 2 --conf "$TAP_TMP/plain.conf" "${without[@]}")
_mpi_case "a device without atomics" 1 onesided --draws 20 --max-size 100K --windows 7

tap_done
