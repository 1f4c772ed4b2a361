#!/bin/bash
# Slurm: an MPI program over verbs on RoCE, with the traffic class of a lossless network.
# SPDX-License-Identifier: BSD-3-Clause
#
#   sbatch --nodes=4 --ntasks-per-node=32 slurm-roce.sh ./program its arguments
#
#SBATCH --job-name=verbs-roce
#SBATCH --time=00:10:00
#SBATCH --exclusive

set -eu
[ $# -gt 0 ] || { echo "usage: sbatch [OPTION...] slurm-roce.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

# The DSCP that switches keep lossless (26 by custom): traffic class = DSCP * 4. A site sets this once
# in its openmpi-mca-params.conf.
export OMPI_MCA_btl_verbs_traffic_class=$((${ROCE_DSCP:-26} * 4))

# A network that drops packets (no PFC): datagrams, which repeat only what was lost.
[ "${ROCE_LOSSLESS:-1}" = 1 ] || export OMPI_MCA_btl_verbs_mode=ud

exec mpirun "$@"
