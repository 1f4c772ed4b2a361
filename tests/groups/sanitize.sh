#!/bin/bash
# group: MPI jobs with the component under the address and undefined sanitizers
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs random
MPI_TEST_LIMIT=150 # the sanitizer's allocator makes MPI_Init slow

flags=(-std=gnu11 -g1 -O0 "-fsanitize=address,undefined" -fno-sanitize-recover=undefined)
runtime=$(gcc -print-file-name=libasan.so 2>/dev/null)
echo 'int main(void) { return 0; }' >"$TAP_TMP/probe.c"
gcc "${flags[@]}" "$TAP_TMP/probe.c" -o "$TAP_TMP/probe" 2>/dev/null ||
    tap_skip_all "gcc has no sanitizer runtime (package libasan)"

compile() {
    local include libraries
    read -r -a include <<<"$(make -s -C "$BUILD" print-OMPI_CPPFLAGS)"
    read -r -a libraries <<<"$(make -s -C "$BUILD" print-OMPI_LIBS)"
    mkdir "$TAP_TMP/objects" && cd "$TAP_TMP/objects" || return 1
    find "$TOP/shared" "$TOP/component" -name '*.c' -print0 |
        xargs -0 -n 6 -P "$(nproc)" gcc "${flags[@]}" -D_GNU_SOURCE -fPIC -c -I"$TOP/shared" \
            -I"$TOP" -I"$BUILD" "${include[@]}" &&
        gcc "${flags[@]}" -shared -o "$TAP_TMP/mca_btl_verbs.so" ./*.o "${libraries[@]}" \
            -libverbs -lpthread
}

# The ranks alone load the runtime, after the launcher: its daemons take half a minute under it. What
# Open MPI never frees is no leak of ours.
sanitized() {
    local what=$1
    shift
    mpi_pass "sanitized, $what" --mca mca_base_component_path "SYS_DEFAULT:$TAP_TMP" \
        --env ASAN_OPTIONS=detect_leaks=0 --env UBSAN_OPTIONS=print_stacktrace=1 "$@" -- \
        /usr/bin/env LD_PRELOAD="$runtime:$BUILD/.libs/libsofthca.so" \
        "$BUILD/tests/mpi/random" --iterations 3 --seed "$MPI_TEST_SEED" --timeout 120
    tap_unlike "$TAP_OUT" 'AddressSanitizer|runtime error' "sanitized, $what: nothing found"
}

if tap_run "the component builds with the sanitizers" 200 compile; then
    sanitized "connections on InfiniBand, breaking" --link ib \
        --fault 'rc.rnr every=50; rc.retry_exc nth=200'
    sanitized "datagrams, then connections, on RoCE, with losses" --link roce \
        --mca btl_verbs_mode auto --mca btl_verbs_promote_after 4 \
        --fault 'ud.drop prob=0.05; ud.dup prob=0.05; ud.reorder prob=0.05'
fi
tap_done
