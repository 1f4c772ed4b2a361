#!/usr/bin/env bash
# group: perftest (send, write, read, atomic; RC and UD; latency, bandwidth, events) on the software HCA
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"

tap_have ib_send_lat ib_write_bw || tap_skip_all "perftest is not installed"

counters=$TAP_TMP/counters

# perf NAME LINK COUNTER LEAST PROGRAM ARGS...: the run succeeds, prints a row of figures, and the
# devices counted at least LEAST operations of kind COUNTER (so it went where it says).
perf() {
    local name=$1 link=$2 counter=$3 least=$4 gid=() total
    shift 4
    [ "$link" = ib ] || gid=(-x 3)
    : >"$counters"
    tap_run "$name ($link)" 30 vrb_pair --link "$link" --counters "$counters" 25 \
        "$@" -F -p @PORT "${gid[@]}" -- "$@" -F -p @PORT "${gid[@]}" @SERVER || return
    tap_like "$TAP_OUT" '^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+' "$name ($link): figures"
    total=$(vrb_counter "$counters" "$counter")
    if [ "$total" -ge "$least" ]; then
        tap_ok "$name ($link): $counter counted"
    else
        tap_notok "$name ($link): $counter counted" "$total operations, wanted $least" \
            "$(cat "$counters")"
    fi
}

for link in ib roce; do
    perf "ib_send_lat RC 8 B" $link send 600 ib_send_lat -s 8 -n 300
    perf "ib_send_lat RC 64 KiB" $link send 200 ib_send_lat -s 65536 -n 100
    perf "ib_send_lat RC events" $link send 200 ib_send_lat -s 8 -n 100 -e
    perf "ib_send_lat UD" $link ud_send 600 ib_send_lat -c UD -s 8 -n 300
    perf "ib_send_bw RC" $link send 200 ib_send_bw -s 65536 -n 200
    perf "ib_send_bw RC, SRQ" $link send 200 ib_send_bw -s 4096 -n 200 --use-srq
    perf "ib_send_bw UD" $link ud_send 300 ib_send_bw -c UD -s 1024 -n 300
    perf "ib_write_lat" $link write 600 ib_write_lat -s 8 -n 300
    perf "ib_write_bw 1 MiB" $link write 50 ib_write_bw -s 1048576 -n 50
    perf "ib_write_bw, 4 QPs, both ways" $link write 400 ib_write_bw -s 8192 -n 50 -q 4 -b
    perf "ib_read_lat" $link read 300 ib_read_lat -s 8 -n 300
    perf "ib_read_bw" $link read 100 ib_read_bw -s 65536 -n 100
    perf "ib_atomic_lat fetch and add" $link atomic 200 ib_atomic_lat -n 200
    perf "ib_atomic_lat compare and swap" $link atomic 200 ib_atomic_lat -n 200 -A CMP_AND_SWAP
done
tap_done
