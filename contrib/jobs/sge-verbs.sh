#!/bin/bash
# Grid Engine: an MPI program over verbs. SPDX-License-Identifier: BSD-3-Clause
#
#   qsub -pe mpi 128 sge-verbs.sh ./program its arguments
#
# "mpi" is the site's parallel environment for Open MPI (control_slaves TRUE, job_is_first_task FALSE).
#$ -N verbs
#$ -cwd
#$ -j y
#$ -l h_rt=00:10:00

set -eu
[ $# -gt 0 ] || { echo "usage: qsub -pe mpi SLOTS sge-verbs.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

limit=$(ulimit -l)
[ "$limit" = unlimited ] ||
    echo "warning: locked memory is limited to $limit KiB: H_MEMORYLOCKED=infinity in execd_params" >&2

exec mpirun -n "${NSLOTS:-1}" "$@"
