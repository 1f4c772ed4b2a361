#!/bin/bash
# group: the job scripts of contrib/jobs in a real Slurm of simulated nodes, from sbatch to the result
# timeout: 600
# packages: site slurm
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/slurm.sh
. "$TOP/tests/lib/slurm.sh"

if [ "${1-}" != inside ]; then
    [ -e "$PREFIX/lib/openmpi/mca_btl_verbs.so" ] || tap_skip_all "the component is not installed"
    tap_have slurmctld slurmd sbatch srun unshare ip || tap_skip_all "Slurm is not installed"
    [ -r /usr/share/modules/init/bash ] || tap_skip_all "environment-modules is not installed"
    unshare --net true 2>/dev/null || tap_skip_all "no network namespaces here (needs root)"
    rm -rf "$TAP_TMP"
    exec unshare --net "$0" inside
fi

# Slurm asks for addresses of a family that the machine has; the loopback alone does not count.
if ! ip link set lo up || ! ip link add veth0 type veth peer name veth1 ||
    ! ip addr add 192.0.2.1/24 dev veth0 || ! ip link set veth0 up; then
    tap_skip_all "this kernel has no veth interfaces"
fi
cluster=$TAP_TMP/cluster
mkdir -p "$cluster"
# shellcheck disable=SC2317,SC2329 # called by the trap
finish() {
    slurm_stop "$cluster"
    _tap_exit
}
trap finish EXIT
if ! slurm_start "$cluster" 2 >"$TAP_TMP/start" 2>&1; then
    tap_notok "slurmctld and two slurmd start" "$(cat "$TAP_TMP/start")"
    tap_done
fi
tap_ok "slurmctld and two slurmd start"

# Jobs inherit the environment of sbatch, the function module with it.
# shellcheck disable=SC1091
. /usr/share/modules/init/bash
export VERBS_MODULE_PATH=$PREFIX/share/modulefiles
export SOFTHCA_FABRIC=slurm-$$
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
program=("$BUILD/tests/mpi/pingpong" --iterations 1 --max-size 100K)

# submit SCRIPT [PROGRAM...]: waits for the job; its output is then the output.
submit() {
    local status
    rm -f "$TAP_TMP/job.out"
    sbatch --wait --nodes=2 --ntasks-per-node=1 --output="$TAP_TMP/job.out" --chdir="$TAP_TMP" \
        "$TOP/contrib/jobs/$1" "${@:2}" >"$TAP_TMP/sbatch.out" 2>&1
    status=$?
    cat "$TAP_TMP/sbatch.out" "$TAP_TMP/job.out"
    return "$status"
}

export OMPI_MCA_btl_verbs_show_map=1
for script in slurm-verbs.sh slurm-srun.sh; do
    SOFTHCA_DEVS=ib tap_run "$script on InfiniBand" 120 submit $script "${program[@]}"
    tap_like "$TAP_OUT" "^PASS pingpong: 2 ranks" "$script: the program's own check passes"
    tap_like "$TAP_OUT" "map: host node0 .*LID.* -> host node1" "$script: over verbs, node to node"
done

SOFTHCA_DEVS=roce tap_run "slurm-roce.sh on RoCE" 120 submit slurm-roce.sh "${program[@]}"
tap_like "$TAP_OUT" "map: host node0 .*RoCE v2" "slurm-roce.sh: over verbs"
SOFTHCA_DEVS=roce ROCE_LOSSLESS=0 SOFTHCA_FAULTS='ud.drop prob=0.01' \
    tap_run "slurm-roce.sh on a network that drops 1 %" 120 submit slurm-roce.sh "${program[@]}"
tap_like "$TAP_OUT" "^PASS pingpong" "the program's own check passes there"

unset OMPI_MCA_btl_verbs_show_map
tap_run "slurm-mixed.sh" 120 submit slurm-mixed.sh "${program[@]}"
tap_like "$TAP_OUT" "map: host node0" "slurm-mixed.sh shows what carried what"

ROUNDS=1 SOFTHCA_DEVS=ib tap_run "slurm-compare.sh" 120 submit slurm-compare.sh \
    "$BUILD/tests/mpi/initfini"
tap_is "$(grep -c '^== round 1' "$TAP_OUT")" 3 "slurm-compare.sh runs all three transports"
tap_is "$(grep -c '^PASS initfini' "$TAP_OUT")" 3 "and each of them passes"

# The limit that the node's daemon hands on is what a job gets, whatever the login shell has.
(ulimit -l 64 && slurm_stop "$cluster" && slurm_start "$cluster" 2) >"$TAP_TMP/start" 2>&1
SOFTHCA_DEVS=ib tap_run "a job whose nodes limit locked memory to 64 KiB" 120 submit \
    slurm-verbs.sh "${program[@]}"
tap_like "$TAP_OUT" "locked memory is limited to 64 KiB: LimitMEMLOCK=infinity" \
    "the job script says so, and where it comes from"

tap_fails "a script without a program" 60 submit slurm-verbs.sh
tap_like "$TAP_OUT" "^usage: sbatch" "says how it is used"
tap_run "the queue is empty at the end" 20 test -z "$(squeue -h)"
tap_done
