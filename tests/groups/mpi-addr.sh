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
job late --fault 'port.up at=1s'
shows late 'shca0 .*LID 16' "waited for"

# ---- an address goes while messages do

# The first host's IPv4 address becomes another, unknown to its peers: the next pair takes over.
# changed NAME MODE
changed() {
    mpi_pass "$1: an address changes between messages, mode $2" --link roce \
        --mca btl_verbs_mode "$2" --mca btl_base_verbose 20 \
        --fault 'gid.set host=node0 dev=shca1 nth=2000 index=3 gid=::ffff:10.77.1.99' -- \
        pingpong --max-size 16K --kinds 3 --iterations 10 --timeout $((MPI_TEST_LIMIT - 10))
    tap_like "$TAP_OUT" 'address ::ffff:10.77.1.1 .* is gone' "$1: it was noticed in time"
    tap_like "$TAP_OUT" 'next: GID fe80::' "$1: the next pair took over"
}
changed gidchange ud
changed gidchange rc

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

# ---- asked for, and not there

mpi_job --link ib --conf "$SITUATIONS/pkey2.ini" --mca btl_verbs_pkey 0x8077 --btl self,tcp,verbs -- \
    pingpong --max-size 1K --timeout 20 >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'not a member of partition 0x8077.* 0x7fff, 0x8001' "a partition that is not there"

tap_done
