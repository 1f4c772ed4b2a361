#!/usr/bin/env bash
# group: the transport core without MPI: two rails of one process over the software HCA
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"

pair() {
    SOFTHCA_FABRIC=transport-$$ SOFTHCA_HOST=node0 LD_PRELOAD=$BUILD/.libs/libsofthca.so \
        "$BUILD/tests/transport/core_pair" "$@"
}

deferred() {
    SOFTHCA_EXEC=deferred SOFTHCA_CHECK=1 pair "$@"
}

lossy() {
    SOFTHCA_FAULTS='ud.drop prob=0.3; ud.dup prob=0.2' SOFTHCA_SEED=7 pair "$@"
}

lives() {
    SOFTHCA_FABRIC=transport-$$ SOFTHCA_HOST=node0 LD_PRELOAD=$BUILD/.libs/libsofthca.so \
        "$BUILD/tests/transport/core_lives" --ctl "$BUILD/softhca-ctl" "$@"
}

# A device like soft-RoCE: what is sent into a link that is down breaks the queue pair.
breaking() {
    SOFTHCA_DOWN=error lives "$@"
}

unruly() {
    SOFTHCA_FAULTS='ud.drop prob=0.1; ud.dup prob=0.1; ud.delay prob=0.1 us=3000' SOFTHCA_SEED=5 \
        lives "$@"
}

short_queues() {
    printf '[limits]\nmax_qp_wr = 16\n' >"$TAP_TMP/short.conf"
    SOFTHCA_CONF=$TAP_TMP/short.conf pair "$@"
}

no_ud() {
    printf '[limits]\nno_ud = 1\n' >"$TAP_TMP/no-ud.conf"
    SOFTHCA_CONF=$TAP_TMP/no-ud.conf pair "$@"
}

for link in ib roce; do
    tap_run "defaults ($link)" 60 pair --link $link
    tap_run "a receive queue per peer ($link)" 60 pair --link $link --no-srq
    tap_run "no inline data ($link)" 60 pair --link $link --inline 0
    tap_run "tiny queues ($link)" 60 pair --link $link --sq 4 --credits 2 --recv 16
    tap_run "tiny queues of its own, no inline ($link)" 60 \
        pair --link $link --no-srq --sq 4 --credits 2 --inline 0
    tap_run "deferred execution with checked buffers ($link)" 60 deferred --link $link
    tap_run "handshake over TCP ($link)" 60 pair --link $link --tcp
    tap_run "a device without datagrams ($link)" 60 no_ud --link $link
    tap_run "a device without datagrams, mode auto ($link)" 60 no_ud --link $link --mode auto
    tap_run "handshake under loss and duplication ($link)" 60 lossy --link $link
    for mode in ud auto; do
        tap_run "mode $mode ($link)" 60 pair --link $link --mode $mode
        tap_run "mode $mode, queues of 16 ($link)" 60 short_queues --link $link --mode $mode
    done
    tap_run "mode ud, executed late ($link)" 60 deferred --link $link --mode ud
    tap_run "a link that goes down breaks the datagram queue pair ($link)" 60 \
        breaking --link $link down
    tap_run "a link that goes down loses datagrams ($link)" 60 lives --link $link down
    tap_run "datagram peers dropped and made again ($link)" 90 unruly --link $link again cut
    tap_run "processes that start anew ($link)" 60 unruly --link $link restart
done
tap_run "a peer that stops while we only wait" 60 lives silent
tap_run "a port that stays down" 60 lives port
tap_run "a peer that leaves, and one that is just gone" 60 lives --mode rc left
tap_run "a port that stays down, and breaks what sends" 60 breaking port

# Both ports say 4096, and something between them takes less.
narrow() {
    local bytes=$1
    shift
    SOFTHCA_FAULTS="path.mtu bytes=$bytes" pair "$@"
}
for bytes in 2048 1024 512 256; do
    tap_run "a path that takes $bytes bytes" 60 narrow $bytes --link ib
done
tap_run "... with a receive queue per peer" 60 narrow 1024 --link ib --no-srq
for mode in ud auto; do
    for bytes in 2048 1024; do
        tap_run "a path that takes $bytes bytes, mode $mode" 60 narrow $bytes --link ib --mode $mode
    done
done
tap_run "a peer that is slow to answer" 60 lives --link ib slow
tap_run "a path that gets narrower" 60 lives --link ib --mode rc narrow
narrow_lossy() {
    SOFTHCA_SEED=7 narrow '1024; ud.drop prob=0.3' "$@"
}
tap_run "a path that takes 1024 bytes, handshake under loss" 60 narrow_lossy --link ib
crowd() {
    SOFTHCA_FABRIC=transport-$$ SOFTHCA_HOST=node0 LD_PRELOAD=$BUILD/.libs/libsofthca.so \
        SOFTHCA_FAULTS='rc.retry_exc min=4000' "$BUILD/tests/transport/core_crowd"
}
tap_run "96 connections break at once while nobody polls" 60 crowd

peers() {
    SOFTHCA_FABRIC=transport-$$ SOFTHCA_HOST=node0 LD_PRELOAD=$BUILD/.libs/libsofthca.so \
        "$BUILD/benchmarks/vrb_peers" "$@" >"$TAP_TMP/peers"
}
tap_run "16384 peers are made" 60 peers
# Columns: peers, idle, active, RC, registered.
# shellcheck disable=SC2016 # $ is awk's
tap_run "... each takes less than 2 KiB, 4 KiB when active, and registers nothing" 5 awk '
    NR == 2 { registered = $5 }
    $1 ~ /^[0-9]+$/ { n++; if ($2 > 2048 || $3 > 4096) bad = 1; if ($NF != registered) bad = 1 }
    END { exit bad || n != 4 }' "$TAP_TMP/peers"

tap_done
