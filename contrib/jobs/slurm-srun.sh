#!/bin/bash
# Slurm: the same with srun instead of mpirun. Needs a Slurm with PMIx (srun --mpi=list shows it).
# SPDX-License-Identifier: BSD-3-Clause
#
#   sbatch --nodes=4 --ntasks-per-node=32 slurm-srun.sh ./program its arguments
#
#SBATCH --job-name=verbs-srun
#SBATCH --time=00:10:00
#SBATCH --exclusive

set -eu
[ $# -gt 0 ] || { echo "usage: sbatch [OPTION...] slurm-srun.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

# srun hands the job's environment on, and the module's settings with it. Parameters that mpirun takes
# as --mca NAME VALUE are environment variables here: OMPI_MCA_btl_verbs_show_map=1
exec srun --mpi="${VERBS_SRUN_MPI:-pmix}" "$@"
