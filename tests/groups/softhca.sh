#!/usr/bin/env bash
# group: conformance of the software HCA: semantics, errors, death of peers, who reaches whom
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"

[ -x "$BUILD/softhca_t_semantics" ] || tap_skip_all "the conformance programs are not built"

LIB=$BUILD/.libs/libsofthca.so
export SOFTHCA_FABRIC=conf-$$
DIR=/dev/shm/softhca-$SOFTHCA_FABRIC

# Runs a command on simulated host `a`; NAME=VALUE words before it are its environment.
on_hca() {
    timeout -k 2 "${LIMIT:-60}" env SOFTHCA_HOST=a SOFTHCA_STRICT=1 \
        LD_PRELOAD="${VRB_PRELOAD_FIRST:+$VRB_PRELOAD_FIRST:}$LIB" "$@"
}

# The results of a program that prints TAP become results of this group.
program() {
    local name=$1 status line count=0
    shift
    on_hca "$@" >"$TAP_TMP/tap" 2>"$TAP_TMP/err" </dev/null
    status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*)
            count=$((count + 1))
            tap_ok "$name: ${line#ok * - }"
            ;;
        'not ok '*)
            count=$((count + 1))
            tap_notok "$name: ${line#not ok * - }"
            ;;
        '#'*) echo "$line" ;;
        esac
    done <"$TAP_TMP/tap"
    if ! grep -qx "1..$count" "$TAP_TMP/tap" || { [ $status -ne 0 ] && [ $status -ne 1 ]; }; then
        tap_notok "$name runs to its end" "exit status $status after $count results"
        tail -n 20 "$TAP_TMP/tap" "$TAP_TMP/err" | sed 's/^/# /'
    fi
    [ ! -e "$DIR" ] || tap_notok "$name leaves nothing in shared memory" "$(ls "$DIR")"
}

for dev in shca0 shca1; do
    for mode in sync deferred; do
        for what in semantics control ud; do
            program "$what, $dev, $mode" T_DEV=$dev SOFTHCA_EXEC=$mode "$BUILD/softhca_t_$what"
        done
    done
    program "semantics, $dev, no bounce slots" T_DEV=$dev SOFTHCA_BOUNCE=0 "$BUILD/softhca_t_semantics"
    program "peers, $dev" T_DEV=$dev "$BUILD/softhca_t_peers"
done
program "semantics, RoCE v1" T_DEV=shca1 T_GID=2 "$BUILD/softhca_t_semantics"
program "UD, RoCE v1" T_DEV=shca1 T_GID=2 "$BUILD/softhca_t_ud"
program "UD, RoCE v2 link-local" T_DEV=shca1 T_GID=1 "$BUILD/softhca_t_ud"
program "semantics, checked" SOFTHCA_EXEC=deferred SOFTHCA_CHECK=1 "$BUILD/softhca_t_semantics"
program "peers, deferred" SOFTHCA_EXEC=deferred "$BUILD/softhca_t_peers"
program "threads" "$BUILD/softhca_t_threads"
program "threads, deferred" SOFTHCA_EXEC=deferred "$BUILD/softhca_t_threads"
program "fork" "$BUILD/softhca_t_fork"
program "memory lock limit" SOFTHCA_MEMLOCK=65536 "$BUILD/softhca_t_control" memlock
program "arming with entries" SOFTHCA_ARM=pending "$BUILD/softhca_t_control" pending

# ---- misuse that only deferred execution shows ----

early() {
    on_hca SOFTHCA_EXEC=deferred SOFTHCA_CHECK=1 "$BUILD/softhca_t_early" "$1"
}
tap_run "a buffer changed after its completion is fine" 30 early wait
early send >"$TAP_OUT" 2>&1
tap_is $? 134 "a send buffer changed too early aborts the program"
tap_like "$TAP_OUT" 'softhca: check: the source buffer .* changed before' "... and says which"
early recv >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" '^found 0xdb$' "a posted receive buffer is poisoned"
on_hca SOFTHCA_STRICT=2 "$BUILD/softhca_t_control" >"$TAP_OUT" 2>&1
tap_is $? 134 "SOFTHCA_STRICT=2 aborts at the first misuse"
on_hca SOFTHCA_STRICT=0 "$BUILD/softhca_t_control" >"$TAP_OUT" 2>&1
tap_unlike "$TAP_OUT" 'softhca: strict' "SOFTHCA_STRICT=0 keeps quiet"

# ---- fault rules ----

faults() {
    local rules=$1
    shift
    program "$*, $dev" T_DEV="$dev" SOFTHCA_FAULTS="$rules" "$BUILD/softhca_t_faults" "$@"
}
for dev in shca0 shca1; do
    faults "port.down dev=$dev at=100ms for=300ms" port
    program "port down, $dev" T_DEV=$dev SOFTHCA_DOWN=error \
        SOFTHCA_FAULTS="port.down dev=$dev at=100ms for=300ms" "$BUILD/softhca_t_faults" down
    faults "dev.fatal dev=$dev at=100ms" fatal
    faults "gid.set dev=$dev at=50ms index=5 gid=::ffff:10.9.9.9; lid.set dev=$dev at=150ms lid=0x99" \
        addresses
    faults "rc.rnr count=2" rc rnr
    faults "rc.rnr" rc rnr-exceeded
    faults "rc.retry_exc nth=1" rc retry
    faults "rc.ack_lost nth=1" rc ack
    faults "rc.delay us=100000 nth=1" rc delay
    faults "rc.read_short bytes=1000" read-short
    faults "wc.error status=rem_op_err nth=2" rc wc
    faults "ud.drop every=2" ud drop
    faults "ud.dup every=2" ud dup
    faults "ud.reorder every=5 window=1" ud reorder
    faults "ud.delay nth=1 us=50000" ud delay
    faults "ud.corrupt nth=7 index=3" ud corrupt
    faults "ud.drop dev=other" ud none
    faults "path.mtu bytes=499" ud toolong
    faults "path.mtu bytes=500" ud none
    faults "path.mtu bytes=200" narrow
    program "different path MTUs, $dev" T_DEV=$dev SOFTHCA_STRICT=0 "$BUILD/softhca_t_faults" cut
    faults "cq.overrun nth=3; srq.limit nth=2" queues
    faults "create_cq.fail nth=1; create_qp.fail nth=1 errno=ENOSPC; reg_mr.fail nth=1
        create_ah.fail nth=1; post_send.fail nth=1; post_recv.fail nth=1; reg_mr.limit bytes=100k" \
        control
done

# ---- who reaches whom ----

cat >"$TAP_TMP/reach.ini" <<'INI'
[fabric]
defaults = no
[device a]
link = ib
[device b]
link = ib
ports = 2
[port b:1]
lmc = 2
[port b:2]
prefix = fec0:0:0:1::
[device c]
link = ib
[port c]
pkeys = 0x7fff, 0x8001
[device r]
link = roce
[device s]
link = roce
ports = 2
[port s:1]
gid.5 = v2 ::ffff:10.77.3.200/24
gid.6 = v1 ::ffff:10.77.3.201/24
gid.7 = v2 2001:db8::%H/64
[port r]
gid.7 = v2 2001:db8::4%H/64
gid.8 = v2 2001:db8:0:9::4%H/64
[device t]
link = roce
[port t]
net = other
[device d]
link = ib
[port d]
state = down
INI

reach() {
    local want=$1 from=$2 to=$3 what=$4
    on_hca SOFTHCA_CONF="$TAP_TMP/reach.ini" "$BUILD/softhca_t_reach" "$from" "$to" >"$TAP_OUT" 2>&1
    tap_is "$(grep -v ^softhca "$TAP_OUT" | tr '\n' ' ')" "rc $want ud $want " "$what: $want"
}
reach ok a:1:-1 b:1:-1 "InfiniBand, one subnet"
reach ok a:1:0 b:1:0 "... with a GRH"
reach silence a:1:-1 b:2:-1 "another subnet prefix"
reach silence a:1:0 b:2:0 "... with a GRH, no router"
reach silence a:1:-1 d:1:-1 "a port that is down"
reach silence d:1:-1 a:1:-1 "... from there"
reach ok a:1:-1 c:1:-1 "full and limited member of one partition"
reach silence c:1:-1 c:1:-1 "two limited members"
reach silence a:1:-1 c:1:-1:1 "another partition"
reach ok r:1:1 s:1:1 "RoCE v2 link-local"
reach ok r:1:0 s:1:0 "RoCE v1"
reach ok r:1:7 s:1:7 "RoCE v2 IPv6"
reach EHOSTUNREACH r:1:8 s:1:7 "IPv6 of another subnet"
reach EHOSTUNREACH r:1:3 s:1:3 "IPv4 of another subnet"
reach EHOSTUNREACH r:1:7 s:1:3 "IPv6 to IPv4"
reach EHOSTUNREACH r:1:1 s:1:3 "link-local to IPv4"
reach ok r:1:3 r:1:3 "IPv4 to itself"
reach ok s:1:5 s:1:5 "any index of the table"
reach ok s:1:6 s:1:6 "RoCE v1 over IPv4"
reach silence r:1:1 t:1:1 "another wire"
reach EINVAL r:1:9 s:1:1 "an empty source entry"

# ---- attaching, leftovers, bad input ----

storm() {
    local i pids=() rc=0
    for ((i = 0; i < 20; i++)); do
        on_hca SOFTHCA_HOST=node$((i % 8)) ibv_devinfo -l >"$TAP_TMP/storm.$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i" || rc=1
    done
    for ((i = 0; i < 20; i++)); do
        grep -q '2 HCAs found' "$TAP_TMP/storm.$i" || {
            rc=1
            cat "$TAP_TMP/storm.$i"
        }
    done
    [ "$rc" -eq 0 ] && [ ! -e "$DIR" ]
}
tap_run "20 processes attach and leave at once, and nothing stays" 60 storm

# A process killed while it is attached; leaves its pid in $victim once it is attached.
attach_and_wait() {
    on_hca "$BUILD/softhca_t_early" hold >"$TAP_TMP/hold" 2>&1 &
    victim=$!
    for _ in $(seq 100); do
        grep -q holding "$TAP_TMP/hold" && return 0
        sleep 0.05
    done
    return 1
}
attach_and_wait || tap_notok "a process attaches" "$(cat "$TAP_TMP/hold")"
pid=$(awk '/holding/ { print $2 }' "$TAP_TMP/hold")
kill -KILL "$pid"
wait "$victim" 2>/dev/null
[ -e "$DIR/seg" ]
tap_is $? 0 "a killed job leaves its segment"
program "... the next one starts clean" "$BUILD/softhca_t_ud"

attach_and_wait || tap_notok "a process attaches" "$(cat "$TAP_TMP/hold")"
kill -KILL "$(awk '/holding/ { print $2 }' "$TAP_TMP/hold")"
wait "$victim" 2>/dev/null
on_hca SOFTHCA_FABRIC=other-$$ ibv_devinfo -l >"$TAP_OUT" 2>&1
[ -e "$DIR" ]
tap_is $? 1 "... or one of another fabric cleans up"

mkdir -m 700 "$DIR"
head -c 100000 /dev/urandom >"$DIR/seg"
program "a damaged segment that nobody uses is made anew" "$BUILD/softhca_t_ud"

on_hca SOFTHCA_FABRIC=../x ibv_devinfo -l >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'softhca: SOFTHCA_FABRIC: bad name' "a bad fabric name is refused"
printf '[limits]\nmax_qp = many\n[port shca0]\nlid = 0\ngid.99 = ::1\nfoo = 1\n[nonsense]\nx\n[device ]\n' \
    >"$TAP_TMP/bad.ini"
on_hca SOFTHCA_CONF="$TAP_TMP/bad.ini" ibv_devinfo -l >"$TAP_OUT" 2>&1
tap_is "$(grep -c "^softhca: $TAP_TMP/bad.ini:[0-9]*: " "$TAP_OUT")" 7 \
    "each bad line of a configuration is named"
tap_like "$TAP_OUT" '2 HCAs found' "... and the rest works"
head -c 60000 /dev/urandom >"$TAP_TMP/noise.ini"
on_hca SOFTHCA_CONF="$TAP_TMP/noise.ini" ibv_devinfo -l >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" '2 HCAs found' "noise as a configuration does no harm"

tap_done
