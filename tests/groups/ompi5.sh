#!/bin/bash
# group: Open MPI 5.0 on the software HCA: a dead rank that the others outlive, and more on request
# timeout: 1800
# SPDX-License-Identifier: BSD-3-Clause
#
# Where this machine has Open MPI 4.1, that of Debian 13 runs in a chroot of its root file system
# (tests/kernel/get-root), and our test groups run there as they are. VRB_OMPI5=1 runs those that
# are about one-sided operations, threads, memory and processes that come and go, too, and makes the
# root where there is none. OMPI5_GROUPS names others.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

if [ "${VRB_OMPI5:-0}" = 1 ]; then
    groups=${OMPI5_GROUPS:-mpi-ulfm mpi-dynamic mpi-memory mpi-osc threads} all=1
else
    groups=${OMPI5_GROUPS:-mpi-ulfm} all=0
    "$TOP/tests/kernel/get-root" --no-make 13 >"$TAP_TMP/root" 2>&1 ||
        tap_skip_all "$(tail -n 1 "$TAP_TMP/root"), VRB_OMPI5=1 lets this group make it"
fi
[ "$(_vrb_mpi_major mpirun)" != 5 ] ||
    tap_skip_all "Open MPI 5 is what is installed here: the groups themselves run with it"
root_needs --softhca 13
for name in $groups; do
    in_root_group 13 "$name" 900 "ULFM_ALL=$all"
done
tap_done
