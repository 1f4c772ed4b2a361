#!/bin/bash
# group: unit tests of the transport core, as built and under the address and undefined sanitizers
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/pure.sh
. "$TOP/tests/lib/pure.sh"

export UNIT_SRCDIR=$TOP/tests/unit
LIMIT=300

# Runs one cmocka program and passes its results on, each with the program's name in front.
run_program() { # run_program LABEL PROGRAM
    local label=$1 program=$2 line seen=0 status
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 5 "$LIMIT" "$program" >"$TAP_OUT" 2>&1 </dev/null
    status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*' - '*)
            tap_ok "$label: ${line#* - }"
            seen=$((seen + 1))
            ;;
        'not ok '*' - '*)
            tap_notok "$label: ${line#* - }"
            seen=$((seen + 1))
            ;;
        '1..'* | 'TAP version'*) ;;
        '# ok - '* | '') ;;
        *) tap_diag "${line#\# }" ;;
        esac
    done <"$TAP_OUT"
    # A crash shows in no line of the program's own.
    if [ $status -ne 0 ] || [ $seen -eq 0 ]; then
        tap_notok "$label: the program ends well" "exit status $status after $seen tests"
    fi
}

programs=$(make -s -C "$BUILD" print-check_PROGRAMS 2>/dev/null | tr ' ' '\n' |
    sed -n 's|^tests/unit/\(test_[a-z0-9_]*\).*|\1|p' | sort)
if [ -z "$programs" ]; then
    tap_skip "unit tests" "not built: cmocka is missing (package libcmocka-dev)"
else
    for program in $programs; do
        run_program "${program#test_}" "$BUILD/tests/unit/$program"
    done
fi

# The same under sanitizers, compiled on their own: no other flags, no other libraries.
san=("-fsanitize=address,undefined" -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
echo 'int main(void) { return 0; }' >"$TAP_TMP/probe.c"
if [ -z "$programs" ]; then
    tap_skip "unit tests with sanitizers" "cmocka is missing (package libcmocka-dev)"
elif ! gcc "${san[@]}" "$TAP_TMP/probe.c" -o "$TAP_TMP/probe" 2>/dev/null; then
    tap_skip "unit tests with sanitizers" "gcc has no sanitizer runtime (package libasan)"
elif tap_run "compile for the sanitizers" 300 pure_build "$BUILD/asan" gcc "${san[@]}"; then
    for program in $programs; do
        files=$(make -s -C "$BUILD" "print-tests_unit_${program}_SOURCES" | tr ' ' '\n' |
            grep '\.c$' | tr '\n' ' ')
        if tap_run "sanitized ${program#test_}: compiles" 120 pure_link "$BUILD/asan" \
            "$files" gcc "${san[@]}" -- -lcmocka -lm; then
            run_program "sanitized ${program#test_}" "$BUILD/asan/$program"
        fi
    done
fi
tap_done
