# shellcheck shell=bash
# vrb_pair: a server and a client program on two simulated hosts, in a fabric of their own.
# SPDX-License-Identifier: BSD-3-Clause
#
#   vrb_pair [options] SECONDS SERVER [ARGS...] -- CLIENT [ARGS...]
#
#   --link ib|roce|all   which devices the hosts have (ib)
#   --port N             TCP port the server listens on: the client starts once it does
#   --fault RULE, --conf FILE, --exec sync|deferred   as vrb_mpirun
#   --env NAME=VALUE     environment of both
#   --counters FILE      what softhca-ctl counters says after the run
#
# Prints the output of both, the server's first. Status 0 if both succeed; 124 for the time limit;
# 125 if shared memory was left behind. The words @SERVER and @PORT in the arguments become the
# server's address and the port.
#
#   vrb_on_host HOST CMD [ARGS...]   one program on a simulated host, in fabric $SOFTHCA_FABRIC
#   vrb_free_port        prints a TCP port that nobody listens on

VRB_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=counters.sh
. "$VRB_LIB/counters.sh"
: "${TOP:=$(cd "$VRB_LIB/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"

_vrb_listens() {
    grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

vrb_free_port() {
    local port
    while :; do
        port=$((RANDOM % 12000 + 20000)) # below the ephemeral ports
        _vrb_listens "$port" || break
    done
    echo "$port"
}

vrb_on_host() {
    local host=$1
    shift
    env SOFTHCA_HOST="$host" SOFTHCA_HOSTNAME="$host" \
        LD_PRELOAD="${VRB_PRELOAD_FIRST:+$VRB_PRELOAD_FIRST:}$BUILD/.libs/libsofthca.so" "$@"
}

# One side of a pair, with its limit; replaces the shell.
_vrb_side() {
    local host=$1 limit=$2
    shift 2
    export SOFTHCA_HOST=$host SOFTHCA_HOSTNAME=$host
    exec timeout -k 5 "$limit" env \
        LD_PRELOAD="${VRB_PRELOAD_FIRST:+$VRB_PRELOAD_FIRST:}$BUILD/.libs/libsofthca.so" "$@" </dev/null
}

vrb_pair() (
    set -u
    link=ib port='' counters=''
    while [ $# -gt 0 ]; do
        case $1 in
        --link) link=$2 ;;
        --port) port=$2 ;;
        --fault) export SOFTHCA_FAULTS=$2 ;;
        --conf) export SOFTHCA_CONF=$2 ;;
        --exec) export SOFTHCA_EXEC=$2 ;;
        --env) export "${2?}" ;;
        --counters) counters=$2 ;;
        *) break ;;
        esac
        shift 2
    done
    limit=$1
    shift
    server=() client=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        server+=("$1")
        shift
    done
    if [ $# -lt 2 ] || [ ${#server[@]} -eq 0 ]; then
        echo "vrb_pair: usage: vrb_pair [options] SECONDS SERVER... -- CLIENT..." >&2
        exit 2
    fi
    shift
    client=("$@")
    if [ ! -e "$BUILD/.libs/libsofthca.so" ]; then
        echo "vrb_pair: no $BUILD/.libs/libsofthca.so: build first (make)" >&2
        exit 2
    fi
    port=${port:-$(vrb_free_port)}
    server=("${server[@]//@PORT/$port}")
    client=("${client[@]//@PORT/$port}")
    client=("${client[@]//@SERVER/127.0.0.1}")
    export SOFTHCA_FABRIC=pair-$$-$BASHPID-$RANDOM
    [ "$link" = all ] || export SOFTHCA_DEVS=$link
    control=("$BUILD/softhca-ctl" --fabric "$SOFTHCA_FABRIC")
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/vrbpair.XXXXXX") || exit 2
    spid='' cpid=''
    # shellcheck disable=SC2317,SC2329 # called by the trap
    finish() {
        # timeout(1) passes the signal on to the group that it made
        # shellcheck disable=SC2086
        kill -TERM $spid $cpid 2>/dev/null
        rm -rf "$tmp"
    }
    trap finish EXIT
    trap 'exit 143' INT TERM HUP

    (_vrb_side node0 "$limit" "${server[@]}") >"$tmp/server" 2>&1 &
    spid=$!
    for ((i = 0; i < limit * 20; i++)); do
        if _vrb_listens "$port" || ! kill -0 $spid 2>/dev/null; then
            break
        fi
        sleep 0.05
    done
    (_vrb_side node1 "$limit" "${client[@]}") >"$tmp/client" 2>&1 &
    cpid=$!
    if [ -n "$counters" ]; then
        for ((i = 0; i < 100; i++)); do
            "${control[@]}" keep on 2>/dev/null && break
            sleep 0.05
        done
    fi
    wait $cpid
    cstatus=$?
    # a client that failed leaves a server that waits for ever
    if [ $cstatus -ne 0 ]; then
        sleep 0.5
        kill -TERM $spid 2>/dev/null
    fi
    wait $spid
    sstatus=$?
    spid='' cpid=''
    sed 's/^/server: /' "$tmp/server"
    cat "$tmp/client"
    if [ -n "$counters" ]; then
        "${control[@]}" counters >"$counters"
        "${control[@]}" keep off
    fi
    status=$cstatus
    [ $status -ne 0 ] || status=$sstatus
    [ $status -ne 137 ] || status=124
    [ $status -eq 0 ] || echo "vrb_pair: server status $sstatus, client status $cstatus"
    [ ! -x "$BUILD/softhca-ctl" ] || "${control[@]}" reap >/dev/null 2>&1
    if [ -e "/dev/shm/softhca-$SOFTHCA_FABRIC" ]; then
        echo "vrb_pair: the run left /dev/shm/softhca-$SOFTHCA_FABRIC behind"
        rm -rf "/dev/shm/softhca-$SOFTHCA_FABRIC"
        [ $status -ne 0 ] || status=125
    fi
    exit $status
)
