#!/usr/bin/env bash
# group: softhca-ctl and fault rules: looking into a running fabric, changing it, breaking it
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"

if [ ! -x "$BUILD/softhca-ctl" ] || [ ! -e "$BUILD/.libs/libsofthca.so" ]; then
    tap_skip_all "the software HCA is not built"
fi
tap_have ibv_devinfo ibv_rc_pingpong ibv_ud_pingpong || tap_skip_all "ibverbs-utils is not installed"

# shellcheck disable=SC2031 # vrb_pair sets its own in a subshell
export SOFTHCA_FABRIC=ctl-$$
ctl=$BUILD/softhca-ctl

on_host() {
    timeout 200 env \
        SOFTHCA_HOST="$1" SOFTHCA_HOSTNAME="$1" \
        LD_PRELOAD="${VRB_PRELOAD_FIRST:+$VRB_PRELOAD_FIRST:}$BUILD/.libs/libsofthca.so" \
        "${@:2}" </dev/null
}

# --- a fabric kept by one sleeping program (a pingpong server that nobody calls)
port=$(vrb_free_port)
on_host node0 ibv_rc_pingpong -p "$port" >"$TAP_TMP/server" 2>&1 &
keeper=$!
for ((i = 0; i < 100; i++)); do
    _vrb_listens "$port" && break
    sleep 0.05
done

tap_run "status" 10 "$ctl" status
tap_like "$TAP_OUT" "^fabric ctl-$$" "names the fabric"
tap_like "$TAP_OUT" '^process [0-9]+ +host node0 .*alive' "the process"
tap_like "$TAP_OUT" 'device shca0: 1 QPs' "its QP"
tap_like "$TAP_OUT" 'port 1 +Ethernet +ACTIVE' "the ports"
tap_like "$TAP_OUT" 'gid +3 +::ffff:10\.77\.1\.1 +RoCE v2' "the GIDs"
tap_run "inject check takes good rules" 10 "$ctl" inject check 'ud.drop prob=0.2; rc.rnr every=50'
tap_fails "inject check refuses bad ones" 10 "$ctl" inject check 'ud.drop prob=0.2; nonsense'
tap_like "$TAP_OUT" "'nonsense'" "and names them"
printf '[limits]\nmax_cqe = 200\n' >"$TAP_TMP/good.ini"
tap_run "conf check takes a good configuration" 10 "$ctl" conf check "$TAP_TMP/good.ini"
printf '[limits]\nmax_cqe = many\n' >"$TAP_TMP/bad.ini"
tap_fails "conf check refuses a bad one" 10 "$ctl" conf check "$TAP_TMP/bad.ini"
tap_like "$TAP_OUT" 'bad.ini:2: ' "... and names the line"
head -c 3000 /dev/zero >"$TAP_TMP/bad.ini"
tap_fails "conf check refuses what is not a text" 10 "$ctl" conf check "$TAP_TMP/bad.ini"
tap_run "list" 10 "$ctl" list
tap_like "$TAP_OUT" "^ctl-$$\$" "lists the fabric"

state() {
    on_host node0 ibv_devinfo -d shca0 | grep -o 'PORT_[A-Z]*'
}
tap_is "$(state)" PORT_ACTIVE "the port is active"
tap_run "port down" 10 "$ctl" port down node0 shca0
tap_is "$(state)" PORT_DOWN "the port is down"
tap_run "port up" 10 "$ctl" port up node0 shca0 1
tap_is "$(state)" PORT_ACTIVE "the port is up again"
tap_run "gid set" 10 "$ctl" gid set node0 shca1 1 7 2001:db8::7
tap_is "$(on_host node0 cat /sys/class/infiniband/shca1/ports/1/gids/7)" \
    2001:0db8:0000:0000:0000:0000:0000:0007 "the GID is set"
tap_run "gid clear" 10 "$ctl" gid clear node0 shca1 1 7
tap_is "$(on_host node0 cat /sys/class/infiniband/shca1/ports/1/gids/7)" \
    0000:0000:0000:0000:0000:0000:0000:0000 "the GID is gone"
tap_run "lid set" 10 "$ctl" lid set node0 shca0 1 0x77
tap_is "$(on_host node0 cat /sys/class/infiniband/shca0/ports/1/lid)" 0x77 "the LID is set"

tap_run "inject" 10 "$ctl" inject open_device.fail errno=EIO count=1 scope=fabric
tap_fails "the rule reaches a program" 10 on_host node0 ibv_devinfo -d shca0
tap_run "and hits once" 10 on_host node0 ibv_devinfo -d shca0
tap_run "status shows the rule" 10 "$ctl" status
tap_like "$TAP_OUT" 'fault 0 .*hits 1 .*open_device.fail' "with its hits"
tap_run "counters" 10 "$ctl" counters
tap_like "$TAP_OUT" '^fault.open_device.fail 1$' "count the hit"
tap_run "inject clear" 10 "$ctl" inject clear
"$ctl" status >"$TAP_OUT"
tap_unlike "$TAP_OUT" '^fault' "no rule is left"
tap_run "inject list" 10 "$ctl" inject list
tap_like "$TAP_OUT" '^ud.drop ' "describes the points"

tap_run "inject of a port that goes down for a while" 10 \
    "$ctl" inject port.down host=node0 dev=shca0 at=300ms for=2s
seen=$(state)
for ((i = 0; i < 80; i++)); do
    now=$(state)
    [ "$now" = "${seen##* }" ] || seen="$seen $now"
    [ "$seen" = "PORT_ACTIVE PORT_DOWN PORT_ACTIVE" ] && break
    sleep 0.05
done
tap_is "$seen" "PORT_ACTIVE PORT_DOWN PORT_ACTIVE" "goes down and comes up by itself"

tap_run "queues" 10 "$ctl" queues
tap_like "$TAP_OUT" '^qp 0x[0-9a-f]+ +pid [0-9]+ +node0 +RC +INIT' "show the QP and its state"
tap_like "$TAP_OUT" '^cq [0-9]+ .*entries 0 of' "and its CQ"

# --- refusals name what they do not understand
refused() {
    local word=$1 name=$2
    shift 2
    tap_fails "$name" 10 "$ctl" "$@"
    tap_like "$TAP_OUT" "$word" "$name: says what is wrong"
}
refused 'ud.dorp' "an unknown fault point" inject ud.dorp
refused 'nht=3' "an unknown word of a rule" inject ud.drop nht=3
refused 'nosuch' "an unknown device" port down node0 nosuch
refused 'node9' "an unknown host" port down node9 shca0
refused 'no port 2' "an unknown port" port down node0 shca0 2
refused 'abc' "a bad address" gid set node0 shca1 1 7 abc
refused '9999' "a GID index out of range" gid set node0 shca1 1 9999 fe80::1
refused 'usage' "an unknown command" explode
refused 'no such fabric' "an unknown fabric" --fabric "nosuch-$$" status
refused 'in use' "reset of a fabric in use" reset

tap_run "dev fatal" 10 "$ctl" dev fatal node0 shca0
"$ctl" status >"$TAP_OUT"
tap_like "$TAP_OUT" 'device shca0 \(FATAL\)' "status shows it"

# --- a killed process is reaped
# the program is the child of timeout(1), which is a child of the subshell
parents=$keeper,$(pgrep -d , -P "$keeper")
kill -KILL "$(pgrep -P "${parents%,}" -x ibv_rc_pingpong)"
wait "$keeper" 2>/dev/null
tap_run "reap after a kill" 10 "$ctl" reap
tap_is "$(find /dev/shm -maxdepth 1 -name "softhca-$SOFTHCA_FABRIC*")" "" \
    "nothing is left in shared memory"

# --- faults in third-party programs
bad_rule() {
    SOFTHCA_FAULTS='ud.drop prob=2' on_host node0 ibv_devinfo
}
tap_fails "a bad rule in SOFTHCA_FAULTS ends the program" 10 bad_rule
tap_like "$TAP_OUT" 'prob=2' "and is named"

pingpong() {
    local link=$1 rule=$2 program=$3
    shift 3
    vrb_pair --link "$link" --fault "$rule" 15 "$program" -p @PORT "$@" -- \
        "$program" -p @PORT "$@" @SERVER
}
tap_fails "retry exceeded" 20 pingpong ib 'rc.retry_exc host=node1 nth=50' ibv_rc_pingpong -n 200
tap_like "$TAP_OUT" '(status|retry).*(12|retry exceeded)' "is what the program reports"
tap_fails "completion in error" 20 pingpong roce 'wc.error status=REM_OP_ERR host=node1 nth=20' \
    ibv_rc_pingpong -g 3 -n 200
tap_like "$TAP_OUT" 'remote operation error' "with the status that the rule says"
tap_fails "QP creation fails" 20 pingpong ib 'create_qp.fail host=node1' ibv_rc_pingpong -n 10
tap_fails "registration fails" 20 pingpong ib 'reg_mr.fail host=node1' ibv_rc_pingpong -n 10
tap_run "duplicated completions do not come from a rule that never hits" 20 \
    pingpong ib 'rc.retry_exc nth=100000' ibv_rc_pingpong -n 100
tap_run "delay only delays" 20 pingpong ib 'rc.delay us=500 every=10' ibv_rc_pingpong -c -n 100
tap_run "RNR is retried" 20 pingpong ib 'rc.rnr every=25' ibv_rc_pingpong -c -n 100

unset SOFTHCA_FABRIC
tap_done
