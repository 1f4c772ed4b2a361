#!/bin/bash
# group: the first README command: options, errors, device choice, the main job, programs of one's own
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # the programs given in single quotes expand their variables themselves
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

quickstart=$TOP/quickstart
export VRB_SYSFS=$TAP_TMP/sysfs VRB_DEVDIR=$TAP_TMP/dev # this machine's own devices play no part
mkdir -p "$VRB_SYSFS" "$VRB_DEVDIR"

# exits STATUS REGEX NAME ARGS...: it exits with STATUS and a line of its output matches REGEX.
exits() {
    local wanted=$1 regex=$2 name=$3
    shift 3
    tap_limit 240 "$quickstart" --no-install "$@" >"$TAP_OUT" 2>&1 </dev/null
    TAP_STATUS=$?
    if [ "$TAP_STATUS" -eq "$wanted" ] && grep -Eq -e "$regex" "$TAP_OUT"; then
        tap_ok "$name"
    else
        tap_notok "$name" "exit status $TAP_STATUS, wanted $wanted, and a line like: $regex" \
            "$(tail -n "$TAP_TAIL" "$TAP_OUT")"
    fi
}

# --- options ---------------------------------------------------------------------------------

exits 0 '^usage: \./quickstart' "--help explains" --help
for option in --link --ranks --hosts --mode --mca --fault --timeout --device; do
    tap_like "$TAP_OUT" "^  $option " "--help tells of $option"
done
exits 2 'unknown option --bogus' "an unknown option is named" --bogus
exits 2 "link is ib or roce, not 'eth'" "a wrong link layer" --link eth
exits 2 'link needs a value' "an option without its value" --link
exits 2 "ranks needs a number from 1 on, not 'two'" "ranks must be a number" --ranks two
exits 2 "hosts needs a number from 1 on, not '0'" "hosts start at one" --hosts 0
exits 2 '16 at most' "more hosts than the software HCA has" --hosts 17
exits 2 "not 'xrc'" "a mode that does not exist" --mode xrc
exits 2 'a name and a value' "--mca with its name alone" --mca btl_verbs_show_map
exits 2 'no program after --' "-- without a program" --
exits 2 'a program goes after --' "a program without --" "$TAP_TMP/prog"
exits 127 "cannot run '$TAP_TMP/prog'" "a program that does not exist" -- "$TAP_TMP/prog"
cp /dev/null "$TAP_TMP/text"
exits 127 'no program that may be executed' "a file that is no program" -- "$TAP_TMP/text"
exits 2 "name of a parameter, then its value, not '--'" "--mca without either" --mca -- true
exits 2 'two ranks at least' "a table of one rank" --ranks 1
exits 0 '--ranks 3 ' "--option=value" --ranks=3 --dry-run
exits 2 'needs the software HCA' "faults and a real device exclude each other" \
    --fault 'rc.rnr every=2' --device real

# --- which device ----------------------------------------------------------------------------

exits 0 'Software HCA' "without a device it takes the software HCA" --dry-run
tap_is "$(grep -oE -- '--link (ib|roce)' "$TAP_OUT" | sort | tr '\n' ' ')" \
    "--link ib --link roce " "and runs once as InfiniBand and once as RoCE"
exits 1 'no RDMA port is active' "a real device is asked for and there is none" --device real

# fake_port DEVICE NUMBER PORT STATE LINK-LAYER
fake_port() {
    mkdir -p "$VRB_SYSFS/$1/ports/$3" "$VRB_SYSFS/$1/device/infiniband_verbs/uverbs$2"
    echo "$4" >"$VRB_SYSFS/$1/ports/$3/state"
    echo "$5" >"$VRB_SYSFS/$1/ports/$3/link_layer"
}
fake_port hca0 0 1 '1: DOWN' InfiniBand
touch "$VRB_DEVDIR/uverbs0" "$VRB_DEVDIR/uverbs1"
exits 0 'Software HCA' "a port that is down is no device" --dry-run
fake_port hca1 1 1 '4: ACTIVE' InfiniBand
fake_port hca1 1 2 '4: ACTIVE' Ethernet
exits 0 'if_include hca1:1 ' "an active InfiniBand port is taken" --dry-run
tap_like "$TAP_OUT" 'if_include hca1:2 ' "an active Ethernet port is taken, in a job of its own"
tap_unlike "$TAP_OUT" 'hca0|--hosts' "the port that is down is not, and no hosts are simulated"
exits 0 'if_include hca1:2 ' "--link chooses among real ports" --dry-run --link roce
tap_unlike "$TAP_OUT" 'hca1:1' "and leaves out the others"
rm "$VRB_DEVDIR/uverbs1"
exits 0 'Software HCA' "a device that cannot be opened is not taken" --dry-run
rm -rf "$VRB_SYSFS" && mkdir "$VRB_SYSFS"

# --- the main job ----------------------------------------------------------------------------

exits 0 '^8 ' "the main job runs over the software HCA" --timeout 200
cp "$TAP_OUT" "$TAP_TMP/main"
tap_like "$TAP_TMP/main" '^== InfiniBand' "it ran as InfiniBand"
tap_like "$TAP_TMP/main" '^== RoCEv2' "it ran as RoCEv2"
tap_like "$TAP_TMP/main" 'shca0.*InfiniBand.*LID.*RC' \
    "it says device, link layer, address and protocol of the InfiniBand job"
tap_like "$TAP_TMP/main" 'shca1.*RoCE.*GID.*RC' \
    "it says device, link layer, address and protocol of the RoCE job"
tap_is "$(grep -nE '^# Size|->' "$TAP_TMP/main" | sed 's/.*->.*/map/; s/.*Size.*/table/' | uniq |
    tr '\n' ' ')" "map table map table " "and says so before each table, not in it"
tap_unlike "$TAP_TMP/main" '^.{121}|btl:verbs' "in lines that fit"
tap_like "$TAP_TMP/main" '^1048576 ' "the table reaches 1 MiB"
tap_unlike "$TAP_TMP/main" '^(Configuring|Building|Installing)' "a later run builds nothing"

# --- programs of one's own -------------------------------------------------------------------

exits 0 '^node0$' "-- PROGRAM runs it on the first simulated host" --link roce -- hostname
tap_like "$TAP_OUT" '^node1$' "and on the second"
exits 0 '^node2$' "--ranks and --hosts spread it" --link ib --ranks 3 --hosts 3 -- hostname
exits 3 'exit status 3' "the program's exit status is handed on" --link ib -- sh -c 'exit 3'
exits 0 "^it's a b  c$" "arguments reach the program as they are" --link ib --ranks 1 --hosts 1 -- \
    printf '%s\n' "it's a b  c"
exits 0 '^over verbs: self,verbs param$' "the job is on verbs, and --mca reaches it" \
    --link ib --ranks 1 --hosts 1 --mca btl_verbs_nonesuch param -- sh -c \
    'echo "over verbs: $OMPI_MCA_btl $OMPI_MCA_btl_verbs_nonesuch"'
from=$SECONDS
exits 124 'time limit of 3 s' "--timeout ends a job that hangs" --link ib --timeout 3 -- sleep 200
if [ $((SECONDS - from)) -lt 60 ]; then
    tap_ok "and ends it soon"
else
    tap_notok "and ends it soon" "$((SECONDS - from)) s"
fi
"$quickstart" --no-install -- sh -c 'echo "running $OMPI_COMM_WORLD_RANK"; sleep 100; :' \
    "$TAP_TMP/marked" \
    >"$TAP_OUT" 2>&1 </dev/null &
job=$!
for _ in $(seq 300); do
    grep -q '^running' "$TAP_OUT" && break
    sleep 0.1
done
kill -TERM "$job"
wait "$job"
tap_is $? 130 "a signal ends it"
tap_like "$TAP_OUT" '^quickstart: interrupted' "as it says"
tap_unlike "$TAP_OUT" '^== RoCEv2' "and the next job is not begun"
tap_is "$(pgrep -f "$TAP_TMP/marked" | wc -l)" 0 "nor is any process of the first one left"
# A signal that comes while the folders of a run are made: mktemp sends it.
mkdir -p "$TAP_TMP/signals/tmp"
printf '%s\n' '#!/bin/sh' "$(command -v mktemp) \"\$@\"" \
    'read -r pid <"${0%/*}/pid"' 'kill -TERM "$pid"' >"$TAP_TMP/signals/mktemp"
chmod +x "$TAP_TMP/signals/mktemp"
# shellcheck disable=SC2016 # the inner shell expands them
tap_fails "a signal at the very beginning ends a run" 60 \
    env PATH="$TAP_TMP/signals:$PATH" TMPDIR="$TAP_TMP/signals/tmp" \
    sh -c '(sh -c '\''echo $PPID'\'' >"$0/pid"; exec "$@"); test $? -ne 143 || exit 3' \
    "$TAP_TMP/signals" "$TOP/tests/lib/vrbrun" -- true
tap_is "$TAP_STATUS $(ls -A "$TAP_TMP/signals/tmp")" "3 " "and leaves no folder behind"
# shellcheck disable=SC2016 # the inner shell expands them
tap_fails "an output that cannot be written is a failure" 60 \
    sh -c '"$0" --no-install --link ib --ranks 1 --hosts 1 -- true >/dev/full' "$quickstart"
tap_like "$TAP_OUT" '^quickstart: standard output cannot be written' "as it says"
tap_fails "a TMPDIR that is not there" 60 env TMPDIR="$TAP_TMP/nowhere" "$TOP/tests/lib/vrbrun" -- true
tap_like "$TAP_OUT" 'set TMPDIR to one that can be written to' "is named with what to do"
exits 0 'btl:verbs: map: host node0' "--verbose shows the component's lines in full" --link ib \
    --verbose -- "$BUILD/benchmarks/vrb_pingpong" -t lat -m 1 -i 100
exits 0 'rule-text' "--fault reaches the software HCA" --link ib --ranks 1 --hosts 1 \
    --fault 'ud.drop prob=0.01' -- sh -c 'echo "rule-text: $SOFTHCA_FAULTS"'
tap_like "$TAP_OUT" '^rule-text: ud\.drop prob=0\.01$' "word for word"
exits 2 "'nonesuch': no such fault point" "a bad rule is refused before the job" --link ib \
    --fault nonesuch -- true
exits 0 "no parameter 'btl_verbs_nonesuch'" "a misspelt parameter is told of" --dry-run \
    --mca btl_verbs_nonesuch 1
exits 0 '^map: 0$' "--mca prevails over what quickstart sets" --link ib --ranks 1 --hosts 1 \
    --mca btl_verbs_show_map 0 -- sh -c 'echo "map: $OMPI_MCA_btl_verbs_show_map"'

# --- where nothing can be built --------------------------------------------------------------

tap_fails "a build folder that cannot be written" 30 env BUILD=/proc/verbs "$TOP/tools/build.sh"
tap_like "$TAP_OUT" 'Set BUILD and PREFIX' "is named, with what to do"
tap_fails "a path with a blank" 30 env BUILD="$TAP_TMP/a b" "$TOP/tools/build.sh"
tap_like "$TAP_OUT" 'Move the sources, or set BUILD' "is named, with what to do"
# A link hides it, from the launcher too.
mkdir -p "$TAP_TMP/c d/tests"
cp -r "$TOP/tests/lib" "$TAP_TMP/c d/tests"
ln -s "$TAP_TMP/c d" "$TAP_TMP/link"
tap_run "a path with a blank, by a link without" 60 env BUILD="$BUILD" PREFIX="$PREFIX" \
    "$TAP_TMP/link/tests/lib/vrbrun" -- "$BUILD/tests/mpi/pingpong" --size 8

# --- packages --------------------------------------------------------------------------------

# An imitation of Debian's tools in which every package but make is installed, and apt-get records
# what it is asked to do.
imitation=$TAP_TMP/imitation
mkdir -p "$imitation"
printf '#!/bin/sh\nfor last; do :; done\n[ "$last" = make ] && exit 1\nprintf installed\n' \
    >"$imitation/dpkg-query"
printf '#!/bin/sh\necho "$@" >>%s/asked\n' "$TAP_TMP" >"$imitation/apt-get"
chmod +x "$imitation"/*
packages=$TOP/tools/install-packages.sh
tap_is "$(PATH=$imitation:$PATH "$packages" --check build)" make "missing packages are found"
if [ "$(id -u)" -eq 0 ]; then
    tap_run "missing packages are installed" 30 env PATH="$imitation:$PATH" "$packages" build
    tap_is "$(sed -n 's/.* install .*recommends //p' "$TAP_TMP/asked")" make \
        "only those that are missing are installed"
fi
printf '#!/bin/sh\nprintf installed\n' >"$imitation/dpkg-query"
rm -f "$TAP_TMP/asked"
tap_run "nothing is asked of apt-get when all is there" 30 \
    env PATH="$imitation:$PATH" "$packages" build test
[ ! -e "$TAP_TMP/asked" ] || tap_notok "apt-get is left alone" "$(cat "$TAP_TMP/asked")"
printf '#!/bin/sh\nexit 1\n' >"$imitation/dpkg-query"
printf '#!/bin/sh\necho 1000\n' >"$imitation/id"
printf '#!/bin/sh\nexit 1\n' >"$imitation/sudo"
chmod +x "$imitation"/*
tap_fails "an ordinary user without sudo" 30 env PATH="$imitation:$PATH" "$packages" build
tap_like "$TAP_OUT" 'apt-get install .*libibverbs-dev.*libopenmpi-dev' \
    "is told the command that root has to run"

# benchmarks/compare without perftest
mkdir -p "$TAP_TMP/empty"
python=$(python3 -c 'import sys; print(sys.executable)')
tap_fails "compare without the raw device's programs has nothing to do" 30 \
    env PATH="$TAP_TMP/empty" "$python" "$TOP/benchmarks/compare" --peers raw --no-extras --out -
tap_is "$(grep -c 'ib_send_lat.*package perftest' "$TAP_OUT")" 1 "and names the package once"
tap_done
