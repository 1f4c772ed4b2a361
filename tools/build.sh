#!/bin/bash
# Configures, builds and installs the project where something changed; quiet unless it fails.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tools/build.sh [--check-programs]
#
# Environment: BUILD (default TOP/_build), PREFIX (default TOP/_inst), VRB_CONFIGURE_ARGS (further
# arguments of ./configure, separated by blanks). --check-programs builds the test programs too.
# What the tools said is in $BUILD/build.log.
set -u

TOP=$(cd "$(dirname "$0")/.." && pwd) || exit 1
BUILD=${BUILD:-$TOP/_build}
PREFIX=${PREFIX:-$TOP/_inst}
want_check=0
case ${1-} in
'') ;;
--check-programs) want_check=1 ;;
*)
    echo "usage: tools/build.sh [--check-programs]" >&2
    exit 2
    ;;
esac

# Neither configure nor make can work in such a place, and what they say of it helps nobody.
case $TOP$BUILD$PREFIX in
*[[:space:]]*)
    echo "A path has a blank in it, which make and libtool cannot handle. Move the sources, or set" \
        "BUILD and PREFIX to other folders:" >&2
    printf '    %-8s %s\n' sources "$TOP" BUILD "$BUILD" PREFIX "$PREFIX" >&2
    exit 1
    ;;
esac

# A read-only tree can be built elsewhere, but configure has to be made in the tree itself.
if ! mkdir -p "$BUILD" 2>/dev/null || [ ! -w "$BUILD" ]; then
    echo "Cannot write to the build folder $BUILD. Set BUILD and PREFIX to folders of your own:" >&2
    echo "    export BUILD=\$HOME/verbs-build PREFIX=\$HOME/verbs" >&2
    exit 1
fi
prepared() { [ -x "$TOP/configure" ] && [ -e "$TOP/Makefile.in" ]; }
if ! prepared && [ ! -w "$TOP" ]; then
    echo "Cannot write to $TOP, where ./autogen.sh has to make the script configure. Copy the" \
        "sources to a folder of your own, or let their owner run ./autogen.sh there once." >&2
    exit 1
fi
log=$BUILD/build.log
stamp=$BUILD/.vrb-installed
recorded=$BUILD/.vrb-configured
jobs=${VRB_JOBS:-$(nproc 2>/dev/null || echo 2)}

# One build at a time in a build folder, and one run of autoreconf in a source tree.
exec 8>"$BUILD/.vrb-lock" 9<"$TOP/autogen.sh" || exit 1
flock 8

# run TITLE COMMAND...: the configure error line is the message that matters, so it is shown alone.
run() {
    local title=$1
    shift
    echo "== $title: $*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null 8>&- 9>&- && return 0
    echo "$title failed. The last lines of $log:" >&2
    if ! grep -E '^configure: error:' "$log" >&2; then
        tail -n 30 "$log" >&2
    fi
    exit 1
}

: >"$log" || exit 1
cd "$BUILD" || exit 1

flock 9
if ! prepared; then
    echo "Preparing configure ..."
    run autogen.sh "$TOP/autogen.sh"
fi
read -r -a extra <<<"${VRB_CONFIGURE_ARGS-}"
arguments=("--prefix=$PREFIX" "${extra[@]+"${extra[@]}"}")
if [ ! -x config.status ] || [ ! -e Makefile ] ||
    [ "$(cat "$recorded" 2>/dev/null)" != "${arguments[*]}" ]; then
    echo "Configuring ..."
    run configure "$TOP/configure" -q "${arguments[@]}"
    echo "${arguments[*]}" >"$recorded"
    rm -f "$stamp"
fi
# make may rerun automake in the source tree, so the lock is held until it is done with that.
run make make -s Makefile
flock -u 9

if make -n all-am 2>/dev/null 8>&- 9>&- | grep -qE "^echo .* (CC|CCLD|AR|GEN) "; then
    echo "Building ..."
fi
run make make -s "-j$jobs" all
if [ "$want_check" -eq 1 ]; then
    run "make check" make -s "-j$jobs" check TESTS=
fi
if [ ! -e "$stamp" ] || [ -n "$(find . "$TOP/contrib/modules" -newer "$stamp" \( -name '*.la' -o -name '*.so' -o \
    -name '*.txt' -o -name '*.in' -o -name Makefile \) -print -quit)" ]; then
    run "make install" make -s install
    : >"$stamp"
fi
