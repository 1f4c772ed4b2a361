#!/bin/bash
# group: the kernel bed itself: verbs programs, UCX, statuses, time limits, and nothing left behind
# timeout: 1800
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # expanded by the inner shells
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

kernel_on_request
kernel_needs 12 13
run=$TOP/tests/kernel/run
export TMPDIR=$TAP_TMP/tmp
mkdir "$TMPDIR" || exit 1
before=$(cat /proc/mounts; ls /sys/class/net)

# --- a command's output and status are those of the run
"$run" -- bash -c 'echo to stdout; echo to stderr >&2; exit 42' >"$TAP_TMP/out" 2>"$TAP_TMP/err"
tap_is $? 42 "the command's status comes out"
tap_is "$(cat "$TAP_TMP/out")" "to stdout" "its standard output, and nothing else"
tap_is "$(cat "$TAP_TMP/err")" "to stderr" "its standard error, and nothing else"
tap_run "much output is complete" 60 \
    bash -c '[ "$("$1" -- seq 1 200000 | sha256sum)" = "$(seq 1 200000 | sha256sum)" ]' - "$run"
tap_fails "no command is a usage error" 20 "$run" --debian 13
tap_fails "so is an unknown option" 20 "$run" --hosts 2 --what 3 -- true
tap_run "the source tree cannot be written in a guest" 60 \
    "$run" -- bash -c '! touch "$TOP/x" 2>/dev/null'
mkdir "$TAP_TMP/shared" || exit 1
tap_run "a folder shared for writing can" 60 \
    "$run" --share "$TAP_TMP/shared:rw" -- touch "$TAP_TMP/shared/made"
tap_run "and what was written is there" 5 test -e "$TAP_TMP/shared/made"

# --- limits
begin=$SECONDS
BUILD=$TAP_TMP/kept "$run" --timeout 8 -- sleep 600 >"$TAP_TMP/out" 2>&1
tap_is $? 124 "a hung guest is ended at its time limit"
tap_run "within seconds of it ($((SECONDS - begin)) s)" 5 test $((SECONDS - begin)) -le 20
tap_run "and its console is kept" 5 bash -c 'ls "$1"/kept/kernel-logs/*.log' - "$TAP_TMP"
BUILD=$TAP_TMP/kept "$run" --timeout 60 -- bash -c 'echo c >/proc/sysrq-trigger; sleep 60' \
    >"$TAP_TMP/out" 2>&1
tap_is $? 125 "a guest that panics is told from a command that fails"
tap_like "$TAP_TMP/out" 'panic|sysrq' "and what it said last is shown"

# --- verbs without MPI, between two hosts
pair() { # pair DEBIAN SERVER CLIENT: shell lines of node0 and node1
    "$run" --debian "$1" --timeout 90 -- bash -c '
        host-exec node0 timeout 60 sh -c "$1" >/tmp/server 2>&1 &
        sleep 0.5
        host-exec node1 timeout 60 sh -c "$2"
        status=$?
        wait $! || { cat /tmp/server; status=1; }
        exit $status' - "$2" "$3"
}
for debian in 12 13; do
    for gid in 0 1 2; do
        tap_run "Debian $debian, GID $gid: ibv_rc_pingpong, ibv_ud_pingpong" 120 pair $debian \
            "ibv_rc_pingpong -d rxe0 -g $gid -n 100 && ibv_ud_pingpong -d rxe0 -g $gid -n 100" \
            "ibv_rc_pingpong -d rxe1 -g $gid -n 100 10.1.0.1 && sleep 0.5 &&
             ibv_ud_pingpong -d rxe1 -g $gid -n 100 10.1.0.1"
    done
    tap_run "Debian $debian: perftest write, read and send" 120 pair $debian \
        "ib_write_lat -d rxe0 -x 1 -F -n 100 && ib_read_lat -d rxe0 -x 1 -F -n 100 &&
         ib_send_bw -d rxe0 -x 1 -F -n 100 -s 8192" \
        "ib_write_lat -d rxe1 -x 1 -F -n 100 10.1.0.1 && sleep 0.5 &&
         ib_read_lat -d rxe1 -x 1 -F -n 100 10.1.0.1 && sleep 0.5 &&
         ib_send_bw -d rxe1 -x 1 -F -n 100 -s 8192 10.1.0.1"
    for tls in rc_v ud_v; do
        tap_run "Debian $debian: Open MPI over UCX $tls" 150 "$TOP/tests/lib/vrbrun" --bed kernel \
            --debian $debian --pml ucx --ucx-tls $tls,self --timeout 60 -- \
            "$BUILD/tests/mpi/pingpong" --size 1000 --kinds 0x1 --iterations 20
    done
done

# --- what soft-RoCE itself does to RDMA reads; on a wire that reorders, a figure and no test, since
# a later kernel may do better (docs/kernel-bed.md)
reads() { # reads NETEM ARGUMENTS...: in a guest of Debian 12, which has a compiler
    local netem=$1
    shift
    "$run" --timeout 120 ${netem:+--netem "$netem"} -- bash -c '
        gcc -O2 -o /tmp/rxe_read "$TOP/tests/kernel/rxe_read.c" -libverbs && /tmp/rxe_read "$@"' - "$@"
}
tap_run "verbs alone: RDMA reads bring what they say, behind a message each" 150 reads '' --reads 200
reads 'delay 2ms reorder 25% 50%' --reads 200 >"$TAP_TMP/out" 2>&1
tap_diag "on a wire that reorders: $(tail -n 1 "$TAP_TMP/out")"

# --- hosts and the wire
tap_run "three hosts reach each other over a bridge" 60 "$run" --hosts 3 -- bash -c '
    host-exec node0 ping -qc 1 10.1.0.3 && host-exec node2 ping -qc 1 2001:db8:1::2 &&
        [ "$(host-exec node2 hostname)" = node2 ]'
tap_run "netem loses what it is told to" 90 "$run" --loss 100 -- bash -c '
    ! host-exec node0 ping -qc 2 -W 1 10.1.0.2 && wire clean && host-exec node0 ping -qc 1 10.1.0.2'
tap_run "events: the link goes down and comes back by itself" 90 \
    "$run" --event '1 down' --event '4 up' -- bash -c '
    for ((i = 0; i < 60; i++)); do
        state=$(host-exec node1 cat /sys/class/net/wire/operstate)
        [ $state = down ] && seen=1
        [ "${seen-}" = 1 ] && [ $state = up ] && exit 0
        sleep 0.2
    done
    exit 1'
tap_run "an MTU of 4200 makes an active MTU of 4096" 60 "$run" --mtu 4200 -- bash -c \
    'host-exec node0 ibv_devinfo -d rxe0 | grep -q "active_mtu:.*4096"'

# --- nothing is left
tap_is "$(cat /proc/mounts; ls /sys/class/net)" "$before" "no mount and no network device is left"
tap_is "$(ls "$TMPDIR")" "" "no file of a guest is left"
tap_done
