# shellcheck shell=bash
# The parts of shared/ that call neither verbs nor a clock: what unit tests and fuzzers are built of.
# SPDX-License-Identifier: BSD-3-Clause
#
#   pure_sources                        names them, one a line, from the top of the tree
#   pure_build DIR CC FLAGS...          compiles what changed into DIR/libpure.a
#   pure_link DIR "SOURCE..." CC FLAGS... -- LIBS...
#                                       makes the program DIR/<first source's base name> with it,
#                                       unless that is up to date
# Both return the compiler's status and leave what it says on stderr.

PURE_FLAGS=(-std=gnu11 -g -O1 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wpointer-arith -Werror
    -D_GNU_SOURCE "-I$TOP/shared" "-I$TOP")

pure_sources() {
    (cd "$TOP" && grep -LE '#include ("(rail|peer|ud|mem|rc/vrb_rc)|<infiniband/)' \
        shared/{address,device,reliable,util,wire,wireup}/*.c 2>/dev/null)
    # Of the other folders, whose names are among those above, these.
    printf 'shared/%s.c\n' dgram/vrb_reasm rail/vrb_fit rc/vrb_replay tcp/vrb_tcp_address
}

# _pure_stale FILE PLACE...: true if FILE is missing or something below a PLACE is newer.
_pure_stale() {
    local file=$1
    shift
    [ ! -e "$file" ] || [ -n "$(find "$@" -newer "$file" -type f -print -quit)" ]
}

pure_build() {
    local dir=$1 compiler=$2 source object headers objects=()
    shift 2
    mkdir -p "$dir" || return 1
    mapfile -t headers < <(find "$TOP/shared" -name '*.h')
    for source in $(pure_sources); do
        object=$dir/$(basename "$source" .c).o
        objects+=("$object")
        _pure_stale "$object" "$TOP/$source" "$TOP/tests/lib/pure.sh" "${headers[@]}" || continue
        rm -f "$dir/libpure.a"
        "$compiler" "${PURE_FLAGS[@]}" "$@" -c "$TOP/$source" -o "$object" || return 1
    done
    [ -e "$dir/libpure.a" ] || ar cr "$dir/libpure.a" "${objects[@]}"
}

pure_link() {
    local dir=$1 compiler=$3 program flags=() source list
    read -r -a list <<<"$2"
    shift 3
    program=$dir/$(basename "${list[0]}" .c)
    while [ "${1---}" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    source=$TOP/$(dirname "${list[0]}")
    _pure_stale "$program" "$dir/libpure.a" "$source"/*.[ch] || return 0
    "$compiler" "${PURE_FLAGS[@]}" "${flags[@]}" "${list[@]/#/$TOP/}" "$dir/libpure.a" "$@" \
        -o "$program"
}
