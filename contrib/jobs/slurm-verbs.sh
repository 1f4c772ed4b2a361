#!/bin/bash
# Slurm: an MPI program over verbs. SPDX-License-Identifier: BSD-3-Clause
#
#   sbatch --nodes=4 --ntasks-per-node=32 slurm-verbs.sh ./program its arguments
#
#SBATCH --job-name=verbs
#SBATCH --time=00:10:00
#SBATCH --exclusive

set -eu
[ $# -gt 0 ] || { echo "usage: sbatch [OPTION...] slurm-verbs.sh PROGRAM [ARGUMENT...]" >&2; exit 2; }

# Loads the Open MPI that the module was built for first, where the site has several.
[ -z "${VERBS_MODULE_PATH:-}" ] || module use "$VERBS_MODULE_PATH"
module load "${VERBS_MODULE:-verbs}"

# Registered memory is locked memory. This is the limit of jobs, not that of a login shell.
limit=$(ulimit -l)
[ "$limit" = unlimited ] ||
    echo "warning: locked memory is limited to $limit KiB: LimitMEMLOCK=infinity for slurmd" >&2

# The ranks come from the allocation. Nothing of the transport has to be said; worth trying:
#   --mca btl_verbs_show_map 1             which port and protocol carry what
#   --mca btl_verbs_if_include mlx5_0      these ports only
#   --mca btl_verbs_mode auto              datagrams first, connections for busy peers
exec mpirun "$@"
