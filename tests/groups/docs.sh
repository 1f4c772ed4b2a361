#!/bin/bash
# group: what the documentation says: links, paths, parameters, options, and its commands, run
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/check-docs.py finds what is not so. A block of commands after a comment "<!-- test: ... -->"
# is run as it stands there, by bash, in the source tree, and must end as the comment says:
#
#   hosts=ib|roce   verbs_info is that of node0 of two simulated hosts, "ssh node1 COMMAND" runs it on
#                   the other, and mpirun starts its program over the software HCA, with the options
#                   of the page
#   copy            in a copy of the source tree; /opt/ is a scratch folder
#   when=VARIABLE   only if it is set, since it takes minutes
#   seconds=N, status=N, match=REGEX: time limit (60), exit status (0), what a line of output is like
#
# In all of them _build/ and _inst/ are the build at hand, and ./program is tests/mpi/pingpong.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

tap_have python3 || tap_skip_all "python3 is not installed"
check=$TOP/tools/check-docs.py
mkdir "$TAP_TMP/facts" "$TAP_TMP/bin" "$TAP_TMP/bait" "$TAP_TMP/bait/docs"

# --- what is written

tap_limit 200 "$check" --facts "$TAP_TMP/facts" --blocks "$TAP_TMP/blocks" \
    links paths parameters options >"$TAP_TMP/found" 2>&1
status=$?
# findings CHECK NAME: passes if that check found nothing.
findings() {
    if grep -q "^$1: " "$TAP_TMP/found"; then
        tap_notok "$2" "$(grep "^$1: " "$TAP_TMP/found")"
    elif [ $status -gt 1 ]; then
        tap_notok "$2" "$(tail -n 5 "$TAP_TMP/found")"
    else
        tap_ok "$2"
    fi
}
findings links "links and their headings are there"
findings paths "files and folders that are named are there"
findings parameters "parameters exist, have the defaults that are told, and are all explained"
findings options "options and commands of our tools are in their help"

# The checks must be able to fail.
cat >"$TAP_TMP/bait/README.md" <<'END'
# Bait
[page](docs/nonesuch.md), [heading](docs/bait.md#nonesuch), [right](docs/bait.md#a-heading-of-it).
`tests/nonesuch.c`, `btl_verbs_nonesuch`, `verbs_info --nonesuch`.
END
cat >"$TAP_TMP/bait/docs/bait.md" <<'END'
## A heading, of `it`
| parameter | default | meaning |
|---|---|---|
| `btl_verbs_credits` | 65 | wrong |

<!-- test: status=3 match=^seen$ -->
```
./quickstart --nonesuch
tests/lib/vrbrun --link ib -- ./program --nonesuch       # --nonesuch
softhca-ctl nonesuch
```
END
tap_fails "what is wrong is found" 60 "$check" --docs "$TAP_TMP/bait" --facts "$TAP_TMP/facts" \
    --blocks "$TAP_TMP/bait/blocks" links paths parameters options
sort >"$TAP_TMP/wanted" <<'END'
links: README.md:2: no such heading: docs/bait.md#nonesuch
links: README.md:2: no such page: docs/nonesuch.md
options: README.md:3: verbs_info has no option --nonesuch
options: docs/bait.md:8: ./quickstart has no option --nonesuch
options: docs/bait.md:10: softhca-ctl has no command nonesuch
parameters: README.md:3: no such parameter or counter: btl_verbs_nonesuch
parameters: docs/bait.md:4: the default of btl_verbs_credits is 64
paths: README.md:3: no such path: tests/nonesuch.c
END
tap_is "$(sort "$TAP_OUT")" "$(cat "$TAP_TMP/wanted")" "and nothing else"

# --- what is to be typed

# mpirun of the pages: its options go on to vrbrun, which adds what the software HCA needs.
cat >"$TAP_TMP/mpirun" <<'END'
#!/bin/bash
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --mca) options+=(--mca "$2" "$3") && shift 2 ;;
    -n | -np) options+=(--ranks "$2") && shift ;;
    --map-by | --hostfile) shift ;; # the simulated hosts are given their ranks in turn
    -*) options+=(--arg "$1") ;;
    *) break ;;
    esac
    shift
done
export OMPI_MCA_mca_base_component_path=$PREFIX/lib/openmpi
case $(ompi_info --version) in *' v4.'*)
    OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$OMPI_MCA_mca_base_component_path ;;
esac
exec "$TOP/tests/lib/vrbrun" --pml none --link "$DOCS_LINK" --timeout 50 "${options[@]}" -- "$@"
END
cat >"$TAP_TMP/ssh" <<'END'
#!/bin/bash
export SOFTHCA_HOST=${1#node} SOFTHCA_HOSTNAME=$1
shift
exec "$@"
END
cat >"$TAP_TMP/verbs_info" <<'END'
#!/bin/bash
export LD_PRELOAD=$BUILD/.libs/libsofthca.so
exec "$PREFIX/bin/verbs_info" "$@"
END
chmod +x "$TAP_TMP"/{mpirun,ssh,verbs_info}

# run_block FILE: the commands of a page.
run_block() {
    local hosts='' folder=$TOP
    hosts=$(sed -n 's/^hosts //p' "$1")
    if grep -q '^copy' "$1"; then
        folder=$TAP_TMP/copy
        mkdir -p "$folder" && git -C "$TOP" ls-files -z | tar -C "$TOP" --null -T - -cf - |
            tar -C "$folder" -xf - || return 1
    else
        export BUILD PREFIX
    fi
    export DOCS_LINK=$hosts
    if [ -n "$hosts" ]; then
        MPIRUN=$(command -v "${MPIRUN:-mpirun}") # vrbrun's, which is not that of the page
        export MPIRUN
        export SOFTHCA_FABRIC=docs$$ SOFTHCA_HOST=0 SOFTHCA_HOSTNAME=node0 SOFTHCA_DEVS=$hosts
        cp "$TAP_TMP"/{mpirun,ssh,verbs_info} "$TAP_TMP/bin"
        PATH=$TAP_TMP/bin:$PATH
    else
        rm -f "$TAP_TMP/bin"/*
    fi
    sed "s|\(^\|[ =]\)\(\$PWD/\)\{0,1\}_build/|\1$BUILD/|g; s|\(^\|[ =:]\)\(\$PWD/\)\{0,1\}_inst/|\1$PREFIX/|g
        s|FABRIC=mine|FABRIC=docs$$|
        s|\./program|$BUILD/tests/mpi/pingpong|g; s|/opt/|$TAP_TMP/opt/|g" "$1.sh" >"$TAP_TMP/block.sh"
    cd "$folder" || return 1
    bash -e -o pipefail "$TAP_TMP/block.sh"
}

# test_block FILE: sets block_fault, empty if it ended as the page says.
test_block() {
    local seconds status match
    seconds=$(sed -n 's/^seconds //p' "$1") status=$(sed -n 's/^status //p' "$1")
    match=$(sed -n 's/^match //p' "$1")
    tap_limit "${seconds:-60}" run_block "$1" >"$TAP_OUT" 2>&1 </dev/null
    TAP_STATUS=$?
    block_fault=
    [ "$TAP_STATUS" -eq "${status:-0}" ] || block_fault="exit status $TAP_STATUS"
    [ -z "$match" ] || grep -Eq -e "$match" "$TAP_OUT" ||
        block_fault="$block_fault, no line is like: $match"
}

printf 'echo seen; exit 3\n' >"$TAP_TMP/bait/blocks/01.sh"
test_block "$TAP_TMP/bait/blocks/01"
tap_is "$block_fault" "" "a command that ends as its page says"
printf 'false | cat\necho seen; exit 3\n' >"$TAP_TMP/bait/blocks/01.sh"
test_block "$TAP_TMP/bait/blocks/01"
tap_is "$block_fault" "exit status 1, no line is like: ^seen$" "one that does not is found"

for block in "$TAP_TMP"/blocks/[0-9][0-9]; do
    where=$(sed -n 's/^where //p' "$block")
    name="$where: $(grep -v '^ *$' "$block.sh" | head -n 1 | cut -c 1-50)"
    when=$(sed -n 's/^when //p' "$block")
    if [ -n "$when" ] && [ -z "${!when:-}" ]; then
        tap_skip "$name" "takes minutes: run with $when=1"
        continue
    fi
    test_block "$block"
    if [ -z "$block_fault" ]; then
        tap_ok "$name"
    else
        tap_notok "$name" "$block_fault" "$(tail -n "$TAP_TAIL" "$TAP_OUT")"
    fi
done
tap_done
