#!/bin/bash
# group: MPI jobs on hosts whose addresses are odd, without any option; and what is said when in vain
# timeout: 400
# SPDX-License-Identifier: BSD-3-Clause
#
# The hosts are those of tests/addr/NAME.ini. Each job checks its bytes, and its map must show the
# addresses that the situation calls for.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"
# shellcheck source=../lib/situations.sh
. "$TOP/tests/lib/situations.sh"

mpi_needs pingpong

# job NAME [OPTIONS]: two ranks in that situation; the output is in $TAP_OUT.
job() {
    local name=$1
    shift
    mpi_pass "$name: $(situation_text "$name")" --link "$(situation_link "$name")" \
        --conf "$SITUATIONS/$name.ini" --mca btl_verbs_show_map 1 "$@" -- \
        pingpong --max-size 64K --kinds 1 --timeout $((MPI_TEST_LIMIT / 2))
}

# shows NAME PATTERN WHAT: the last job's map says so.
shows() {
    tap_like "$TAP_OUT" "map: host node0 rank 0 $2" "$1: $3"
}

job shifted
shows shifted 'shca1 .*GID ::ffff:172.20.0.5 \(RoCE v2\) -> .*GID ::ffff:172.20.0.9 \(RoCE v2\)' \
    "the IPv4 addresses, wherever they stand"
job ipv6
shows ipv6 'shca1 .*GID 2001:db8:1::1 .* -> .*GID 2001:db8:1::2 ' "global before link-local"
job linklocal
shows linklocal 'shca1 .*GID fe80::1 \(RoCE v2\) -> .*GID fe80::2 \(RoCE v2\)' "what there is"
job crossed
shows crossed 'roce0 .*::ffff:10.1.0.1 .* -> .*::ffff:10.1.0.2 ' "first port to the second"
shows crossed 'roce1 .*::ffff:10.2.0.1 .* -> .*::ffff:10.2.0.2 ' "second port to the first"
job vlan
shows vlan 'shca1 .*::ffff:10.100.0.1 .* -> .*::ffff:10.100.0.2 ' "the VLAN's addresses"
job v1
shows v1 'shca1 .*::ffff:10.77.1.1 \(RoCE v1\) -> .*::ffff:10.77.1.2 \(RoCE v1\)' "v1 at both ends"
job mtu
shows mtu 'shca1 .* MTU 1024 ' "the smaller one"
job mtu --mca btl_verbs_mode ud
shows mtu 'shca1 .* MTU 1024 ' "the smaller one, over datagrams"
job pkey2
shows pkey2 'shca0 .*LID 16' "connected"
job pkey2 --mca btl_verbs_pkey 0x0001
shows pkey2 'shca0 .*LID 16' "and asked for by its value"
job limited1
job partitions --mca btl_verbs_pkey 0x8002
job lmc --ranks 4
tap_unlike "$TAP_OUT" 'LID 32 .* -> .*LID 49 |LID 33 .* -> .*LID 48 ' \
    "lmc: both ends use the same path bits"
job grh
shows grh 'shca0 .*LID 16 .*GID fe80::253:48ff:fe00:1 -> .*LID 17 .*GID ' "LID and GID"
job grh --mca btl_verbs_mode ud
job noroute
shows noroute 'shca1 .*GID fe80::1 .* -> .*GID fe80::2 .*number 2 of 2 pairs' \
    "the pair without an address handle gave way"
job noroute --mca btl_verbs_mode ud
tap_like "$TAP_OUT" 'map: host node1 .*GID fe80::2 .* -> .*GID fe80::1 .*, UD' \
    "noroute: and over datagrams, where the peer follows"
job mixed
shows mixed 'roce0 .* -> ' "the rail that both have"
tap_unlike "$TAP_OUT" 'cannot be reached' "mixed: nothing is said of the other"
job uneven
shows uneven 'roce1 .*::ffff:10.2.0.1 .* -> .*::ffff:10.2.0.2 ' "the one of the peer's subnet"
job iwarp
shows iwarp 'roce0 ' "the device that is served"
job useless
shows useless 'shca1 .*GID fe80::1 .* -> .*GID fe80::2 ' "the one that reaches another host"
job late --fault 'port.up at=1s'
shows late 'shca0 .*LID 16' "waited for"

# ---- the addresses say 4096 bytes, and something on the way takes less

# narrow NAME BYTES RULE [OPTIONS]
narrow() {
    local name=$1 bytes=$2 rule=$3
    shift 3
    mpi_pass "$name: $bytes bytes pass" --link ib --mca btl_verbs_show_map 1 --fault "$rule" \
        --counters "$TAP_TMP/$name" "$@" -- pingpong --max-size 64K --kinds 3 \
        --timeout $((MPI_TEST_LIMIT / 2))
    tap_like "$TAP_OUT" "small packets arrive, those with 4096 bytes do not: the MTU differs along" \
        "$name: the verdict in words"
    tap_like "$TAP_OUT" "Packets of $bytes bytes are used" "$name: and what is done"
}
narrow narrow 1024 'path.mtu bytes=1024'
tap_like "$TAP_OUT" 'MTU 1024, longer packets do not arrive' "narrow: the map says so"
tap_is "$(grep -c 'small packets arrive' "$TAP_OUT")" 1 "narrow: said once"
narrow narrow-ud 2048 'path.mtu bytes=2048' --mca btl_verbs_mode ud
narrow narrow-auto 1024 'path.mtu bytes=1024' --mca btl_verbs_mode auto
narrow narrow-oneway 2048 'path.mtu bytes=2048 host=node0'
narrow narrow-otherway 2048 'path.mtu bytes=2048 host=node1'

# ---- an address changes while messages do

# changed NAME MODE LINK RULE [OPTIONS]
changed() {
    local name=$1 mode=$2 link=$3 rule=$4
    shift 4
    mpi_pass "$name, mode $mode" --link "$link" --mca btl_verbs_mode "$mode" \
        --mca btl_base_verbose 20 --fault "$rule" "$@" -- \
        pingpong --max-size 16K --kinds 3 --iterations 10 --timeout $((MPI_TEST_LIMIT - 10))
}
cat >"$TAP_TMP/one.ini" <<EOF
[port 0/shca1]
gid.* = empty
gid.3 = v2 ::ffff:10.77.1.1/24
[port 1/shca1]
gid.* = empty
gid.3 = v2 ::ffff:10.77.1.2/24
EOF
for mode in rc ud auto; do
    # The only address becomes another one, unknown to the peer.
    changed "another address" $mode roce \
        'gid.set host=node0 dev=shca1 nth=2000 index=3 gid=::ffff:10.77.1.99' \
        --conf "$TAP_TMP/one.ini"
    tap_like "$TAP_OUT" 'address ::ffff:10.77.1.1 .*has become ::ffff:10.77.1.99' \
        "another address: it was noticed, mode $mode"
    tap_like "$TAP_OUT" 'host node0: its address is now ::ffff:10.77.1.99' \
        "another address: the peer learnt it, mode $mode"
    changed "another LID" $mode ib 'lid.set host=node0 dev=shca0 nth=2000 lid=0x77'
    tap_like "$TAP_OUT" 'changed its LID from 16 to 119' "another LID: it was noticed, mode $mode"
    tap_like "$TAP_OUT" 'host node0: its LID has changed from 16 to 119' \
        "another LID: the peer learnt it, mode $mode"
done
for mode in rc ud; do
    # It goes, and nothing is in its place: the next pair takes over.
    changed "no address any more" $mode roce 'gid.clear host=node0 dev=shca1 nth=2000 index=3'
    tap_like "$TAP_OUT" 'address ::ffff:10.77.1.1 .* is gone' "no address: noticed, mode $mode"
    tap_like "$TAP_OUT" 'next: GID fe80::' "no address: the next pair took over, mode $mode"
done

# Two processes on one port: both ends change at once, and neither can tell the other.
changed "the LID of a port that two ranks share" rc ib \
    'lid.set host=node0 dev=shca0 nth=2000 lid=0x77' --hosts 1
tap_like "$TAP_OUT" 'changed its LID from 16 to 119' "a shared port's LID: it was noticed"
changed "the address of a port that two ranks share" ud roce \
    'gid.set host=node0 dev=shca1 nth=2000 index=3 gid=::ffff:10.77.1.99' --hosts 1 \
    --conf "$TAP_TMP/one.ini"
tap_like "$TAP_OUT" 'address ::ffff:10.77.1.1 .*has become ::ffff:10.77.1.99' \
    "a shared port's address: it was noticed"

# Both ends of two ports at once cannot be mended, but it is said.
mpi_fails "both ends change at once" 'if the peer.s did at the same time, neither can tell' --link ib \
    --mca btl_verbs_recover_timeout 2 --fault "port.down host=node0 dev=shca0 nth=1000;
        port.down host=node1 dev=shca0 nth=1001; lid.set host=node0 dev=shca0 at=1500ms lid=0x77;
        lid.set host=node1 dev=shca0 at=1500ms lid=0x88; port.up host=node0 at=1600ms;
        port.up host=node1 at=1600ms" -- \
    pingpong --max-size 16K --kinds 3 --iterations 10 --timeout $((MPI_TEST_LIMIT - 10))

# ---- quality of service: what connections and datagrams of both ends really carry

# queues LINK [OPTIONS]: the queue pairs of a running job of two ranks go to $TAP_TMP/queues.
queues() {
    local link=$1 job
    shift
    : >"$TAP_TMP/queues"
    mpi_job --link "$link" --fabric "qos-$$" --mca btl_verbs_mode auto "$@" -- \
        pingpong --max-size 64K --kinds 3 --iterations 20 --timeout $((MPI_TEST_LIMIT / 2)) \
        >"$TAP_OUT" 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null; do
        "$BUILD/softhca-ctl" --fabric "qos-$$" queues >"$TAP_TMP/now" 2>/dev/null
        if [ "$(grep -c 'RC  RTS' "$TAP_TMP/now")" -ge 2 ]; then
            mv "$TAP_TMP/now" "$TAP_TMP/queues"
            break
        fi
        sleep 0.05
    done
    wait $job
    tap_is $? 0 "quality of service, $link: the job ends well"
}
carried() { # carried KIND PATTERN WHAT: both queue pairs of that kind do
    tap_is "$(grep -cE "^qp .* $1  RTS .*$2" "$TAP_TMP/queues")" 2 "quality of service: $3"
}
queues roce --mca btl_verbs_traffic_class 104 --mca btl_verbs_sl 3
for kind in RC UD; do
    carried $kind 'sl 3 .*tclass 104 hop 64 flow 0x' "$kind, both ways: priority, class, hop limit"
done
tap_is "$(grep -o 'flow 0x[0-9a-f]*' "$TAP_TMP/queues" | sort -u | grep -vc '0x00000')" 1 \
    "quality of service: one flow label, on which the UDP source port depends"
queues ib --mca btl_verbs_sl 5
for kind in RC UD; do
    carried $kind 'sl 5 lid 0x1[01]' "$kind, both ways: service level"
done

# ---- in vain over verbs: another BTL carries the messages, and the reason is said once a process

refused() {
    local name=$1 pattern=$2 next=$3
    shift 3
    job "$name" --btl self,tcp,verbs "$@"
    tap_like "$TAP_OUT" "cannot be reached over verbs: $pattern" "$name: the reason"
    tap_like "$TAP_OUT" "next: .*$next" "$name: what to do"
    tap_like "$TAP_OUT" 'local: ' "$name: this end's addresses"
}

refused apart 'one end is InfiniBand, the other RoCE' 'use ports of one kind'
refused families '.*one has IPv4, the other IPv6' 'addresses of one family'
refused limited2 'both ends are limited members' 'full member'
refused partitions 'the ends use different partitions' 'partition 0x8002: choose it'

mpi_fails "router: $(situation_text router)" 'different +InfiniBand +subnets' --link ib \
    --conf "$SITUATIONS/router.ini" --mca btl_verbs_connect_timeout 2 -- \
    pingpong --max-size 1K --kinds 1 --timeout $((MPI_TEST_LIMIT / 2))

# ---- asked for, and not there

mpi_job --link ib --conf "$SITUATIONS/pkey2.ini" --mca btl_verbs_pkey 0x8077 --btl self,tcp,verbs -- \
    pingpong --max-size 1K --timeout 20 >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'not a member of partition 0x8077.* 0x7fff, 0x8001' "a partition that is not there"

# An active port that lacks something else: the advice is not about cables.
printf '[port */shca1]\ngid.* = empty\n' >"$TAP_TMP/nogid.ini"
mpi_job --link roce --conf "$TAP_TMP/nogid.ini" --btl self,tcp,verbs -- \
    pingpong --max-size 1K --timeout 20 >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'shca1 port 1: the port has no GID: ' "no GID at all: the reason"
# shellcheck disable=SC2016 # the backticks are text
tap_like "$TAP_OUT" 'What to do: .verbs_info' "no GID at all: what to look at"
tap_unlike "$TAP_OUT" 'check *its cable|PORT_ACTIVE' "no GID at all: the port is active"

tap_done
