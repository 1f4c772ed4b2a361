# shellcheck shell=bash
# TAP helpers for the test groups: numbered results, commands with a time limit, kept output.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tap_ok NAME                     one passed test
#   tap_notok NAME [DIAG...]        one failed test; each DIAG becomes "# " lines
#   tap_skip NAME REASON            one test that cannot run here
#   tap_is GOT WANTED NAME          passes if both strings are equal
#   tap_like FILE REGEX NAME        passes if a line of FILE matches the extended REGEX
#   tap_unlike FILE REGEX NAME      passes if no line of FILE matches
#   tap_run NAME SECONDS CMD...     passes if CMD (program or shell function) exits 0 in time
#   tap_fails NAME SECONDS CMD...   passes if CMD exits non-zero by itself, in time, unkilled
#   tap_limit SECONDS CMD...        runs CMD with a limit; status 124 if the limit was hit
#   tap_diag TEXT...                "# " lines
#   tap_have PROGRAM...             true if all programs are installed
#   tap_skip_all REASON             ends the group here with one skip
#   tap_done                        prints the plan and ends the group (1 if a test failed)
#
# The output of the last tap_run/tap_fails is in the file $TAP_OUT, its exit status in $TAP_STATUS.
# A failing command's last 40 lines are printed as diagnostics. $TAP_TMP is a private directory,
# removed at the end.

TAP_COUNT=0
TAP_FAILED=0
TAP_STATUS=0
TAP_TAIL=40
TAP_TMP=$(mktemp -d "${TMPDIR:-/tmp}/vrbtap.XXXXXX") || exit 1
TAP_OUT=$TAP_TMP/output
: >"$TAP_OUT"

TAP_JOB='' # process group of the shell function that tap_limit runs

_tap_exit() {
    [ -z "$TAP_JOB" ] || kill -TERM -- "-$TAP_JOB" 2>/dev/null
    rm -rf "$TAP_TMP"
}

# A group that stops half-way prints no plan, so runtests counts it as failed.
trap _tap_exit EXIT
_tap_stopped() {
    echo "Bail out! stopped by SIG$1 after $TAP_COUNT results"
    exit "$2"
}
trap '_tap_stopped HUP 129' HUP
trap '_tap_stopped INT 130' INT
trap '_tap_stopped TERM 143' TERM

tap_diag() {
    printf '%s\n' "$@" | sed 's/^/# /'
}

# A "#" in a name would read as a TAP directive.
_tap_line() {
    TAP_COUNT=$((TAP_COUNT + 1))
    printf '%s %d - %s\n' "$1" "$TAP_COUNT" "${2//#/}"
}

tap_ok() {
    _tap_line ok "$1"
}

tap_notok() {
    TAP_FAILED=$((TAP_FAILED + 1))
    _tap_line 'not ok' "$1"
    shift
    [ $# -eq 0 ] || tap_diag "$@"
}

tap_skip() {
    TAP_COUNT=$((TAP_COUNT + 1))
    printf 'ok %d - %s # SKIP %s\n' "$TAP_COUNT" "${1//#/}" "$2"
}

tap_is() {
    if [ "$1" = "$2" ]; then
        tap_ok "$3"
    else
        tap_notok "$3" "got:    $1" "wanted: $2"
    fi
}

tap_like() {
    if grep -Eq -e "$2" "$1"; then
        tap_ok "$3"
    else
        tap_notok "$3" "no line matches: $2"
        tail -n "$TAP_TAIL" "$1" | sed 's/^/# /'
    fi
}

tap_unlike() {
    if grep -Eq -e "$2" "$1"; then
        tap_notok "$3" "lines match: $2"
        grep -E -e "$2" "$1" | head -n "$TAP_TAIL" | sed 's/^/# /'
    else
        tap_ok "$3"
    fi
}

tap_have() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
}

# A program gets a process group of its own from timeout(1), a shell function one from job control.
# Functions that start other groups must clean up on SIGTERM.
tap_limit() {
    local seconds=$1 pid watch status
    shift
    if [ "$(type -t "$1")" != function ]; then
        timeout -k 5 "$seconds" "$@"
        status=$?
        [ $status -eq 137 ] && status=124
        return $status
    fi
    rm -f "$TAP_TMP/limit"
    set -m
    (
        trap - EXIT HUP INT TERM
        "$@"
    ) &
    pid=$!
    set +m
    TAP_JOB=$pid
    (
        trap - EXIT HUP INT
        trap 'kill "$sleeper" 2>/dev/null; exit 0' TERM
        sleep "$seconds" &
        sleeper=$!
        wait "$sleeper"
        : >"$TAP_TMP/limit"
        kill -TERM -- "-$pid" 2>/dev/null
        sleep 10 &
        sleeper=$!
        wait "$sleeper"
        kill -KILL -- "-$pid" 2>/dev/null
    ) >/dev/null 2>&1 &
    watch=$!
    wait "$pid" 2>/dev/null
    status=$?
    TAP_JOB=''
    kill -TERM "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    [ -e "$TAP_TMP/limit" ] && status=124
    return $status
}

_tap_keep() {
    local seconds=$1
    shift
    tap_limit "$seconds" "$@" >"$TAP_OUT" 2>&1 </dev/null
    TAP_STATUS=$?
}

_tap_command_failed() {
    local name=$1 seconds=$2 why
    shift 2
    case $TAP_STATUS in
    124) why="time limit of $seconds s" ;;
    *) why="exit status $TAP_STATUS" ;;
    esac
    tap_notok "$name" "$why: $*"
    tail -n "$TAP_TAIL" "$TAP_OUT" | sed 's/^/# /'
}

tap_run() {
    local name=$1 seconds=$2
    shift 2
    _tap_keep "$seconds" "$@"
    if [ "$TAP_STATUS" -eq 0 ]; then
        tap_ok "$name"
        return 0
    fi
    _tap_command_failed "$name" "$seconds" "$@"
    return 1
}

tap_fails() {
    local name=$1 seconds=$2
    shift 2
    _tap_keep "$seconds" "$@"
    case $TAP_STATUS in
    0 | 12[4-9] | 1[3-5][0-9]) ;; # no failure, the limit, no such program, a signal
    *)
        tap_ok "$name"
        return 0
        ;;
    esac
    _tap_command_failed "$name" "$seconds" "$@"
    return 1
}

tap_skip_all() {
    TAP_COUNT=0
    tap_skip "whole group" "$1"
    tap_done
}

tap_done() {
    printf '1..%d\n' "$TAP_COUNT"
    [ "$TAP_FAILED" -eq 0 ]
    exit
}
