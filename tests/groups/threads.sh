#!/bin/bash
# group: several threads at once: the core under ThreadSanitizer, and MPI_THREAD_MULTIPLE
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

# --- the core, instrumented -----------------------------------------------------------------------

export TSAN_OPTIONS="suppressions=$TAP_TMP/suppressions"
# The software HCA is not instrumented, and publishes completions by atomics that the sanitizer
# does not see; what is called from it, memcpy() above all, must not count as a race of ours.
echo 'called_from_lib:libsofthca.so' >"$TAP_TMP/suppressions"
instrumented=$TAP_TMP/core_threads

compile() {
    # shellcheck disable=SC2046 # names of source files
    "${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=thread -I"$TOP/shared" -I"$BUILD" \
        -o "$instrumented" "$TOP/tests/transport/core_threads.c" \
        $(find "$TOP/shared" -name '*.c') -libverbs -lpthread
}
core() {
    SOFTHCA_FABRIC=threads-$$ SOFTHCA_HOST=node0 LD_PRELOAD=$BUILD/.libs/libsofthca.so \
        timeout 100 "$instrumented" "$@"
}

echo 'int main(void) { return 0; }' >"$TAP_TMP/try.c"
if ! "${CC:-gcc}" -fsanitize=thread -o "$TAP_TMP/try" "$TAP_TMP/try.c" >/dev/null 2>&1 ||
    ! "$TAP_TMP/try" >"$TAP_TMP/try.out" 2>&1; then
    tap_skip "the core under ThreadSanitizer" "the compiler's ThreadSanitizer does not work here"
elif tap_run "the core builds with ThreadSanitizer" 300 compile; then
    for mode in rc ud auto; do
        tap_run "four threads, mode $mode" 120 core --mode $mode --rounds 150
        tap_unlike "$TAP_OUT" 'WARNING: ThreadSanitizer' "four threads, mode $mode: no race"
    done
    tap_run "four threads, RoCE" 120 core --link roce --rounds 100
    # That the sanitizer sees the core at all: without locks it must find something.
    core --unlocked --rounds 50 >"$TAP_TMP/unlocked" 2>&1
    tap_like "$TAP_TMP/unlocked" 'WARNING: ThreadSanitizer' \
        "without locks there would be races, and they would be seen"
fi

# --- MPI ------------------------------------------------------------------------------------------

mpi_needs threads
for link in ib roce; do
    mpi_options=(--link "$link" --ranks 2)
    _mpi_case "4 threads of 2 ranks, $link" 20 threads
done
mpi_options=(--ranks 3 --link roce --mca btl_verbs_recv_buffers 8 --mca btl_verbs_credits 2
    --mca btl_verbs_sq_depth 4)
_mpi_case "4 threads of 3 ranks, tiny queues" 10 threads --max-size 200K
mpi_options=(--ranks 2 --exec deferred --env SOFTHCA_CHECK=1)
_mpi_case "executed late, buffers checked" 10 threads --max-size 200K
mpi_options=(--ranks 2 --fault 'rc.rnr every=50; reg_mr.fail min=64k every=3; post_send.fail prob=0.01')
_mpi_case "with faults" 10 threads --max-size 200K
mpi_options=(--ranks 2 --mca btl_verbs_mode auto --fault 'ud.drop prob=0.01')
_mpi_case "datagrams first, some lost" 10 threads --max-size 200K

tap_done
