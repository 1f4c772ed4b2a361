#!/bin/bash
# Slurm: nodes with InfiniBand and RoCE ports. SPDX-License-Identifier: BSD-3-Clause
#
#   sbatch --nodes=4 --ntasks-per-node=32 slurm-mixed.sh ./program its arguments
#
#SBATCH --job-name=verbs-mixed
#SBATCH --time=00:10:00
#SBATCH --exclusive

set -eu
[ $# -gt 0 ] || { echo "usage: sbatch [OPTION...] slurm-mixed.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

# Each port is used with those peers that it reaches: nodes with InfiniBand talk over it to each other
# and over Ethernet to the rest, with no setting. To keep MPI off the storage network, name the ports:
#   VERBS_PORTS=mlx5_0 sbatch ...
[ -z "${VERBS_PORTS:-}" ] || export OMPI_MCA_btl_verbs_if_include=$VERBS_PORTS

exec mpirun --mca btl_verbs_show_map 1 "$@"
