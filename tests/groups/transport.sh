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

for link in ib roce; do
    tap_run "defaults ($link)" 60 pair --link $link
    tap_run "a receive queue per peer ($link)" 60 pair --link $link --no-srq
    tap_run "no inline data ($link)" 60 pair --link $link --inline 0
    tap_run "tiny queues ($link)" 60 pair --link $link --sq 4 --credits 2 --recv 16
    tap_run "tiny queues of its own, no inline ($link)" 60 \
        pair --link $link --no-srq --sq 4 --credits 2 --inline 0
    tap_run "deferred execution with checked buffers ($link)" 60 deferred --link $link
    tap_run "handshake under loss and duplication ($link)" 60 lossy --link $link
done

tap_done
