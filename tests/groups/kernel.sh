#!/bin/bash
# group: every MPI test program over the kernel's soft-RoCE, with Open MPI 4.1 and 5.0
# timeout: 2400
# SPDX-License-Identifier: BSD-3-Clause
#
# Two simulated hosts in a guest kernel, 2 and 4 ranks. The first run on a machine makes the guests'
# root file systems, which takes some minutes; docs/kernel-bed.md tells more.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

kernel_on_request
kernel_needs 12 13
kernel_suite 12 900 programs
kernel_suite 13 900 programs
tap_done
