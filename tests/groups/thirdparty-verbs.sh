#!/usr/bin/env bash
# group: rdma-core's own programs (ibv_devinfo, ibv_*_pingpong) on the software HCA
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"

tap_have ibv_devinfo ibv_rc_pingpong || tap_skip_all "ibverbs-utils is not installed"

devinfo() {
    SOFTHCA_FABRIC=devinfo-$$ vrb_on_host node0 ibv_devinfo -v "$@"
}

tap_run "ibv_devinfo -v" 20 devinfo
cp "$TAP_OUT" "$TAP_TMP/devinfo"
tap_like "$TAP_TMP/devinfo" 'hca_id:.*shca0' "shows the InfiniBand device"
tap_like "$TAP_TMP/devinfo" 'link_layer:.*InfiniBand' "its link layer"
tap_like "$TAP_TMP/devinfo" 'hca_id:.*shca1' "shows the Ethernet device"
tap_like "$TAP_TMP/devinfo" 'link_layer:.*Ethernet' "its link layer, too"
tap_like "$TAP_TMP/devinfo" 'GID\[.*RoCE v2' "RoCE v2 entries of the GID table"
tap_is "$(grep -c 'state:.*PORT_ACTIVE (4)' "$TAP_TMP/devinfo")" 2 "both ports are active"
tap_fails "an unknown device is refused" 20 devinfo -d nosuch

# The programs check what they received (-c). The Ethernet device needs a GID index (3: RoCE v2).
pingpong() {
    local name=$1 link=$2 program=$3 gid=()
    shift 3
    [ "$link" = ib ] || gid=(-g 3)
    tap_run "$name" 30 vrb_pair --link "$link" 25 \
        "$program" -p @PORT "${gid[@]}" "$@" -- "$program" -p @PORT "${gid[@]}" "$@" @SERVER
}

for link in ib roce; do
    for kind in rc srq ud; do
        iters=(-n 300)
        [ $kind = srq ] && iters=(-n 50)
        pingpong "ibv_${kind}_pingpong ($link)" $link ibv_${kind}_pingpong -c "${iters[@]}"
        pingpong "ibv_${kind}_pingpong with events ($link)" $link ibv_${kind}_pingpong -c -e \
            "${iters[@]}"
    done
    pingpong "ibv_rc_pingpong, extended post ($link)" $link ibv_rc_pingpong -c -N -n 300
    pingpong "ibv_rc_pingpong, extended post, events ($link)" $link ibv_rc_pingpong -c -N -e -n 300
    pingpong "ibv_rc_pingpong, 1 MiB ($link)" $link ibv_rc_pingpong -c -s 1048576 -n 20
    pingpong "ibv_rc_pingpong, 1 byte ($link)" $link ibv_rc_pingpong -c -s 1 -n 300
done

# Work requests that run later than they are posted.
for kind in rc srq ud; do
    tap_run "ibv_${kind}_pingpong, deferred execution" 30 vrb_pair --exec deferred 25 \
        ibv_${kind}_pingpong -c -n 100 -p @PORT -- ibv_${kind}_pingpong -c -n 100 -p @PORT @SERVER
done

# Strictness that a user of real hardware would meet.
no_grh() {
    vrb_pair --link roce 15 ibv_rc_pingpong -p @PORT -n 10 -- ibv_rc_pingpong -p @PORT -n 10 @SERVER
}
tap_fails "RoCE without a GID index is refused" 20 no_grh
tap_like "$TAP_OUT" 'Failed to modify QP to RTR' "by ibv_modify_qp"
too_long() {
    vrb_pair --link roce 15 ibv_ud_pingpong -p @PORT -g 3 -s 1025 -n 10 -- \
        ibv_ud_pingpong -p @PORT -g 3 -s 1025 -n 10 @SERVER
}
tap_fails "UD beyond the MTU is refused" 20 too_long
tap_done
