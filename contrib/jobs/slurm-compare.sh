#!/bin/bash
# Slurm: the same program over verbs, UCX and TCP in turn, for a fair comparison.
# SPDX-License-Identifier: BSD-3-Clause
#
#   sbatch --nodes=2 --ntasks-per-node=1 slurm-compare.sh ./program its arguments
#
#SBATCH --job-name=verbs-compare
#SBATCH --time=00:30:00
#SBATCH --exclusive

set -eu
[ $# -gt 0 ] || { echo "usage: sbatch [OPTION...] slurm-compare.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

# In turn, not one after the other: what changes on the machine meanwhile meets all of them.
for round in $(seq "${ROUNDS:-3}"); do
    echo "== round $round: verbs"
    mpirun --mca pml ob1 --mca btl self,verbs "$@"
    echo "== round $round: ucx"
    mpirun --mca pml ucx --mca osc ucx --mca pml_ucx_tls any \
        --mca pml_ucx_devices any "$@" || echo "== ucx does not run here"
    echo "== round $round: tcp"
    mpirun --mca pml ob1 --mca btl self,tcp "$@"
done
