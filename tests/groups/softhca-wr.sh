#!/usr/bin/env bash
# group: the ibv_wr_* calls on the software HCA, both link layers and both execution modes
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"

[ -x "$BUILD/softhca_wr_test" ] || tap_skip_all "softhca_wr_test is not built"

wr_test() {
    local mode=$1
    shift
    SOFTHCA_FABRIC=wr-$$ SOFTHCA_EXEC=$mode vrb_on_host node0 "$BUILD/softhca_wr_test" "$@"
}

for mode in sync deferred; do
    tap_run "InfiniBand, $mode" 40 wr_test $mode shca0
    tap_run "RoCE v2, $mode" 40 wr_test $mode shca1 3
    tap_run "RoCE v1, $mode" 40 wr_test $mode shca1 2
done
tap_done
