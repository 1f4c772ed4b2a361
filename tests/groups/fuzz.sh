#!/bin/bash
# group: fuzzers of everything that arrives from a peer or a parameter, some seconds each
# SPDX-License-Identifier: BSD-3-Clause
#
# FUZZ_SECONDS (default 5) sets how long each runs. What makes one fail is kept in
# $BUILD/fuzz/crashes, and tests/fuzz/seeds is the place for it once it is understood.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/pure.sh
. "$TOP/tests/lib/pure.sh"

SECONDS_EACH=${FUZZ_SECONDS:-5}
dir=$BUILD/fuzz
san=("-fsanitize=fuzzer-no-link,address,undefined" -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)

tap_have clang || tap_skip_all "clang is not installed"
echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return d && n ? 0 : 0; }' \
    >"$TAP_TMP/probe.c"
clang -fsanitize=fuzzer,address,undefined "$TAP_TMP/probe.c" -o "$TAP_TMP/probe" 2>/dev/null ||
    tap_skip_all "clang has no fuzzer runtime (package libclang-rt-dev)"

mkdir -p "$dir/crashes" || exit 1
tap_run "compile for the fuzzers" 300 pure_build "$dir" clang "${san[@]}" || tap_done
for source in "$TOP"/tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    seeds=$TOP/tests/fuzz/seeds/${name#fuzz_}
    tap_run "$name: compiles" 120 pure_link "$dir" "tests/fuzz/$name.c" clang \
        "-fsanitize=fuzzer,address,undefined" -fno-sanitize-recover=undefined -- || continue
    # Each seed alone first: a regression shows without luck.
    tap_run "$name: seeds" 60 "$dir/$name" "$seeds"/*
    mkdir -p "$TAP_TMP/$name"
    tap_run "$name: $SECONDS_EACH s of random input" $((SECONDS_EACH + 60)) "$dir/$name" \
        -max_total_time="$SECONDS_EACH" -max_len=1024 -timeout=5 -rss_limit_mb=1024 \
        -artifact_prefix="$dir/crashes/$name-" "$TAP_TMP/$name" "$seeds"
    tap_diag "$(grep -E '^(Done|#[0-9]+.DONE)' "$TAP_OUT" | tail -n 1)"
done
tap_done
