#!/bin/bash
# group: the kernel's soft-RoCE in a minute: every mode, loss, every kind of address
# timeout: 1200
# SPDX-License-Identifier: BSD-3-Clause
#
# The part of the kernel bed that belongs to every run: real verbs and real packets, where a kernel for
# the guest is at hand. The first run on a machine makes one root file system, a minute and a half.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

kernel_needs 12
kernel_suite 12 900 quick
tap_done
