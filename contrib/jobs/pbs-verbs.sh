#!/bin/bash
# PBS (OpenPBS, PBS Pro, Torque): an MPI program over verbs. SPDX-License-Identifier: BSD-3-Clause
#
#   qsub -l select=4:ncpus=32:mpiprocs=32 -v PROGRAM="./program its arguments" pbs-verbs.sh
#
#PBS -N verbs
#PBS -l walltime=00:10:00
#PBS -j oe

set -eu
cd "${PBS_O_WORKDIR:-.}"
: "${PROGRAM:?name the program: qsub -v PROGRAM=... pbs-verbs.sh}"

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

limit=$(ulimit -l)
[ "$limit" = unlimited ] ||
    echo "warning: locked memory is limited to $limit KiB: raise it for the daemon pbs_mom" >&2

# An Open MPI that was built without PBS support needs the list of nodes.
hosts=''
if ! ompi_info --parsable 2>/dev/null | grep -q '^mca:ras:tm:' && [ -r "${PBS_NODEFILE:-}" ]; then
    hosts="--hostfile $PBS_NODEFILE"
fi
# $PROGRAM holds the arguments too.
# shellcheck disable=SC2086
exec mpirun $hosts $PROGRAM
