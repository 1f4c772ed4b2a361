#!/bin/bash
# Checks the style rules of CONTRIBUTING.md on every tracked file, one named check per rule.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tools/check-style.sh             all checks; exit status 1 if one finds something
#   tools/check-style.sh --list      names them: NAME, then what it checks
#   tools/check-style.sh --files     the files that are looked at
#   tools/check-style.sh NAME...     these checks; status 77 if a check's tool is not installed
set -u

cd "$(dirname "$0")/.." || exit 1
MAX_LINES=800
CLANG_FORMAT=${CLANG_FORMAT:-clang-format}
CLANG_FORMAT_VERSION=14 # others lay out some constructs differently

# Tracked files that exist, one a line; in a release tarball, every file that is not generated.
files() { # files [GREP-PATTERN-ON-NAME]
    {
        # git refuses to look at a checkout of another user's.
        if ! { [ -e .git ] && git ls-files 2>/dev/null; }; then
            find . -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.mk' -o -name '*.md' \
                -o -name 'vrb_*.m4' -o -name Makefile.am -o -name configure.ac -o -name runtests \
                -o -name quickstart -o -path './.ci/run' -o -name vrbrun -o -name fakessh \
                -o -name packages.txt \) ! -path './_*' ! -path './build-aux/*' | sed 's|^\./||'
        fi
    } | grep -E -- "${1:-.}" | while IFS= read -r file; do [ -f "$file" ] && echo "$file"; done
}

c_files() { files '\.[ch]$'; }

scripts() {
    # shellcheck disable=SC2016
    files . | xargs -r awk 'FNR == 1 {
        if (FILENAME ~ /\.sh$/ || /^#!.*[\/ ](ba)?sh( |$)/) print FILENAME
        nextfile }'
}

needs() {
    command -v "$1" >/dev/null && return
    echo "$1 is not installed"
    exit 77
}

# Each check_NAME prints what is wrong, and nothing if all is well.

check_format() { # C files are laid out as .clang-format says
    needs "$CLANG_FORMAT"
    "$CLANG_FORMAT" --version | grep -qE "version $CLANG_FORMAT_VERSION\\." || {
        echo "clang-format is not version $CLANG_FORMAT_VERSION"
        exit 77
    }
    c_files | xargs -r "$CLANG_FORMAT" --style=file --dry-run -Werror 2>&1 |
        grep -E '^[^ ].*error:' | sed 's/ \[-W.*//' | head -n 30
}

check_length() { # no file is longer than 800 lines
    files '\.([ch]|sh|py|mk|am|ac|m4|md)$|^(quickstart|runtests)$' | xargs -r wc -l |
        awk -v max="$MAX_LINES" '$2 != "total" && $1 > max { print $2 ": " $1 " lines" }'
}

check_columns() { # no line of a C file is wider than 100 columns
    # Characters, not bytes: comments may hold arrows and the like.
    c_files | LC_ALL=C.UTF-8 xargs -r grep -nHE '^.{101,}$' | sed 's/^\([^:]*:[0-9]*\):.*/\1/'
}

check_whitespace() { # no trailing blanks, carriage returns, or missing last newline; no tabs in C
    local list file
    list=$(files '\.([ch]|sh|py|mk|am|ac|m4|md|txt|ini)$|^(quickstart|runtests|\.ci/run)$')
    xargs -r grep -nHE $'[ \t\r]$' <<<"$list" | sed 's/$/  <- blank at the end/'
    for file in $list; do
        [ -z "$(tail -c 1 "$file")" ] || echo "$file: no newline at the end"
    done
    c_files | xargs -r grep -nH $'\t'
}

check_spdx() { # every source file says what it is for and names its licence
    files '\.([ch]|sh|py|mk|am|ac|m4)$|^(quickstart|runtests|\.ci/run)$' |
        xargs -r grep -L 'SPDX-License-Identifier: BSD-3-Clause' |
        sed 's/$/: no SPDX-License-Identifier: BSD-3-Clause/'
    # shellcheck disable=SC2016
    c_files | xargs -r awk 'FNR == 1 {
        if (!/^\/[*\/]/) print FILENAME ": does not begin with a comment"
        nextfile }'
}

check_leftovers() { # nothing is left "to be done" in the text
    files . | grep -v '^tools/check-style\.sh$' |
        xargs -r grep -nHIE '\b(TODO|FIXME|XXX|HACK)\b'
}

check_shellcheck() { # the tool shellcheck has nothing to say on the scripts
    needs shellcheck
    scripts | xargs -r -n 6 -P 2 shellcheck --format=gcc
}

check_scripts() { # scripts that are run, not sourced, are executable
    scripts | while IFS= read -r file; do
        [ -x "$file" ] || ! head -c 2 "$file" | grep -q '#!' || echo "$file: not executable"
    done
}

check_layers() { # shared/ and the software HCA include no Open MPI header
    files '^(shared|tests/softhca)/.*\.[ch]$' | xargs -r grep -nHE \
        '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](opal|ompi|orte|mpi|pmix|component)[/._]'
}

check_config() { # what configure found is read from config.h, which fits beside Open MPI's headers
    c_files | xargs -r grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]autoconf\.h'
}

# The engines take time and packets as arguments, so that a test can drive them with a virtual
# clock. They are the folders below and every file whose first comment says "Pure".
check_pure() { # the protocol engines call neither verbs nor a clock
    files '^shared/.*\.[ch]$' | while IFS= read -r file; do
        case $file in
        shared/wire/* | shared/wireup/* | shared/reliable/*) ;;
        *) sed -n '1,30{/^ \* Pure[:. ]/p}' "$file" | grep -q . || continue ;;
        esac
        grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<(infiniband/|sys/time|time\.h)' "$file"
        grep -nHE '\b(clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|rdtsc|__rdtsc|ibv_[a-z_]+)[[:space:]]*\(' \
            "$file" | grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)'
    done
}

checks() {
    sed -n 's/^check_\([a-z]*\)() { # \(.*\)/\1 \2/p' tools/check-style.sh
}

case ${1-} in
--list)
    checks
    exit 0
    ;;
--files)
    files .
    exit 0
    ;;
-*)
    echo "usage: tools/check-style.sh [--list | --files | NAME...]" >&2
    exit 2
    ;;
esac
[ $# -gt 0 ] || read -r -d '' -a names < <(checks | cut -d' ' -f1)
[ $# -gt 0 ] && names=("$@")
result=0
for name in "${names[@]}"; do
    if ! declare -F "check_$name" >/dev/null; then
        echo "check-style.sh: no check named $name" >&2
        exit 2
    fi
    found=$("check_$name")
    status=$?
    [ -n "$found" ] && printf '%s\n' "$found"
    if [ $status -eq 77 ]; then
        [ $# -eq 1 ] && exit 77
    elif [ -n "$found" ]; then
        result=1
    fi
done
exit $result
