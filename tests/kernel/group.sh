# shellcheck shell=bash
# What the test groups of the kernel bed share; sourced after tests/lib/tap.sh.
# SPDX-License-Identifier: BSD-3-Clause
#
#   kernel_on_request          ends the group with one skip unless VRB_KERNEL=1
#   kernel_needs DEBIAN...     gets kernel, roots and builds; ends the group with one skip, and the
#                              reason, where one of them cannot be had here
#   root_needs [--softhca] DEBIAN          the same for a root and a build alone, without a guest;
#                              --softhca: with the software HCA and its tools
#   in_root_group DEBIAN GROUP SECONDS [NAME=VALUE...]   a test group in a chroot of the root, with
#                              these variables, as tests of ours
#   kernel_suite DEBIAN SECONDS PART...    the parts of tests/kernel/suite in a guest, as tests of ours
#
# Environment: VRB_KERNEL=1 lets the long groups run; KERNEL_FULL=1, KERNEL_MODES and
# KERNEL_TEST_LIMIT as in tests/kernel/suite.

kernel_on_request() {
    [ "${VRB_KERNEL:-0}" = 1 ] ||
        tap_skip_all "takes long: run with VRB_KERNEL=1 (the group kernel-quick runs always)"
}

root_needs() {
    local more=()
    if [ "$1" = --softhca ]; then
        more=("$1")
        shift
    fi
    if [ "$(id -u)" -ne 0 ]; then
        tap_skip_all "roots of guests are made and entered as root only"
    fi
    if ! tap_have mmdebstrap; then
        "$TOP/tools/install-packages.sh" kernel >&2 || tap_skip_all "no mmdebstrap here"
        tap_have mmdebstrap || tap_skip_all "no mmdebstrap here"
    fi
    "$TOP/tests/kernel/get-root" "$1" >"$TAP_TMP/root" 2>&1
    case $? in
    0) ;;
    77) tap_skip_all "$(tail -n 1 "$TAP_TMP/root")" ;;
    *)
        tap_notok "root of Debian $1" "$(tail -n 20 "$TAP_TMP/root")"
        tap_done
        ;;
    esac
    if ! "$TOP/tests/kernel/build-component" "${more[@]+"${more[@]}"}" "$1" >"$TAP_TMP/build-$1" \
        2>"$TAP_TMP/build"; then
        tap_notok "the component builds for Debian $1" "$(tail -n 20 "$TAP_TMP/build")"
        tap_done
    fi
}

kernel_needs() {
    local debian reason
    if [ "$(id -u)" -ne 0 ]; then
        tap_skip_all "roots of guests are made and entered as root only"
    fi
    if ! tap_have xz; then
        "$TOP/tools/install-packages.sh" kernel >&2 || tap_skip_all "no xz here"
    fi
    reason=$("$TOP/tests/kernel/get-kernel" --no-build 2>&1 >/dev/null) || tap_skip_all "$reason"
    for debian in "$@"; do
        root_needs "$debian"
    done
}

# Lines of TAP become tests of this group, with its own numbers.
_kernel_take() {
    local line name count=0 planned=
    while IFS= read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            count=$((count + 1))
            name=${line#*ok } name=${name#* - }
            case $line in
            'not ok '*) tap_notok "$name" ;;
            *' # SKIP '*) tap_skip "${name%% # SKIP *}" "${name#* # SKIP }" ;;
            *) tap_ok "$name" ;;
            esac
            ;;
        1..*) planned=${line#1..} ;;
        *) echo "# ${line#\# }" ;;
        esac
    done <"$1"
    [ "$planned" = "$count" ]
}

kernel_suite() {
    local debian=$1 limit=$2 lines status
    shift 2
    mapfile -t lines <"$TAP_TMP/build-$debian"
    BUILD=${lines[0]} PREFIX=${lines[1]} "$TOP/tests/kernel/run" --debian "$debian" \
        --timeout "$limit" --env "KERNEL_FULL=${KERNEL_FULL:-0}" \
        --env "KERNEL_MODES=${KERNEL_MODES:-rc ud auto}" \
        --env "KERNEL_TEST_LIMIT=${KERNEL_TEST_LIMIT:-90}" \
        -- "$TOP/tests/kernel/suite" "$@" >"$TAP_TMP/suite" 2>"$TAP_TMP/suite.err"
    status=$?
    if ! _kernel_take "$TAP_TMP/suite" || [ $status -gt 1 ]; then
        tap_notok "the suite in the guest of Debian $debian ran to its end" "exit status $status" \
            "$(tail -n 20 "$TAP_TMP/suite.err")"
    fi
}

in_root_group() {
    local debian=$1 name=$2 limit=$3 lines status
    shift 3
    mapfile -t lines <"$TAP_TMP/build-$debian"
    timeout -k 10 "$limit" "$TOP/tests/kernel/in-root" --rw "${lines[0]}" "$debian" \
        /usr/bin/env "TOP=$TOP" "BUILD=${lines[0]}" "PREFIX=${lines[1]}" \
        "VRB_TEST_RUN=${VRB_TEST_RUN:-}" "$@" /bin/bash "$TOP/tests/groups/$name.sh" \
        >"$TAP_TMP/suite" 2>"$TAP_TMP/suite.err" </dev/null
    status=$?
    if ! _kernel_take "$TAP_TMP/suite" || [ $status -gt 1 ]; then
        tap_notok "the group $name ran to its end" "exit status $status" \
            "$(tail -n 20 "$TAP_TMP/suite.err")"
    fi
}
