#!/usr/bin/env bash
# group: soak of ucx_perftest tag_lat over rc_verbs: many short runs, none of which may stall
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
#
# A prototype of the software HCA once stalled in this case. UCX_SOAK_RUNS (30) sets how many runs.
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"
# shellcheck source=tests/lib/ucx.sh
. "$TOP/tests/lib/ucx.sh"

tap_have ucx_perftest || tap_skip_all "ucx-utils is not installed"

runs=${UCX_SOAK_RUNS:-30}
stalls=0 failures=0 slowest=0
for ((run = 1; run <= runs; run++)); do
    links=(ib roce)
    start=$(date +%s%N)
    tap_limit 25 ucx_pair "${links[run % 2]}" rc_verbs,ud_verbs,self 20 -t tag_lat -s 8 -n 1000 \
        -w 100 >"$TAP_OUT" 2>&1
    status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ $took -le $slowest ] || slowest=$took
    if [ $status -eq 124 ]; then
        stalls=$((stalls + 1))
        tap_diag "run $run stalled" "$(tail -n 10 "$TAP_OUT")"
    elif [ $status -ne 0 ]; then
        failures=$((failures + 1))
        tap_diag "run $run failed, status $status" "$(tail -n 10 "$TAP_OUT")"
    fi
done
tap_diag "$runs runs, slowest $slowest ms"
tap_is "$stalls" 0 "no run of $runs stalled"
tap_is "$failures" 0 "no run of $runs failed"
tap_done
