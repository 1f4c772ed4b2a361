#!/bin/bash
# group: soft-RoCE on a wire that loses, delays, reorders, goes and comes back; every kind of address
# timeout: 1800
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

kernel_on_request
kernel_needs 12 13
kernel_suite 12 900 wire
kernel_suite 13 600 addresses
tap_done
