#!/bin/bash
# group: the instructions that a small message costs stay within what benchmarks/instructions.txt records
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

tap_have valgrind python3 || tap_skip_all "valgrind and python3 are needed"
if [ ! -x "$BUILD/benchmarks/vrb_instructions" ]; then
    tap_skip_all "built without MPI"
fi

# budget RUN NAME: every recorded path of the run is within its budget.
budget() {
    tap_limit 280 "$TOP/benchmarks/instructions" --check --runs "$1" --json "$TAP_TMP/$1.json" \
        >"$TAP_TMP/$1" 2>&1
    case $? in
    0) tap_ok "$2" ;;
    77) tap_skip "$2" "$(tail -n 1 "$TAP_TMP/$1")" ;;
    *) tap_notok "$2" "$(cat "$TAP_TMP/$1")" ;;
    esac
}

budget rc "8 B over a connection: send, receive and an idle look"
budget rc-1k "1 KiB over a connection"
budget ud "8 B as a datagram"
if [ -s "$TAP_TMP/rc.json" ]; then
    tap_like "$TAP_TMP/rc" \
        '^rc send .* component [1-9][0-9]+, transport core [1-9][0-9]+, MPI .*verbs library' \
        "what a send costs is split by who spends it"
fi

# The check must be able to fail: the same counts against budgets that a tenth more would break.
if [ -s "$TAP_TMP/rc.json" ]; then
    awk '/^rc / { $3 = int($3 * 0.9) } { print }' "$TOP/benchmarks/instructions.txt" \
        >"$TAP_TMP/budgets"
    tap_fails "a path that grew by a tenth is found" 30 "$TOP/benchmarks/instructions" --check \
        --record "$TAP_TMP/budgets" --counts "$TAP_TMP/rc.json"
    tap_like "$TAP_OUT" '^rc send .*ABOVE ITS BUDGET' "and named"
fi

tap_done
