#!/usr/bin/env bash
# group: what programs see of a simulated host: device files, sysfs, host name
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${TOP:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/pair.sh
. "$TOP/tests/lib/pair.sh"

[ -e "$BUILD/.libs/libsofthca.so" ] || tap_skip_all "libsofthca.so is not built"

ib=/sys/class/infiniband
fabric=env-$$

# Runs an ordinary program on simulated host node0.
on_host() {
    SOFTHCA_FABRIC=$fabric vrb_on_host node0 timeout 20 "$@" </dev/null 2>&1
}

# is WANTED NAME COMMAND...
is() {
    local wanted=$1 name=$2
    shift 2
    tap_is "$(on_host "$@")" "$wanted" "$name"
}

like() {
    local regex=$1 name=$2
    shift 2
    on_host "$@" >"$TAP_OUT"
    tap_like "$TAP_OUT" "$regex" "$name"
}

is "shca0 shca1" "the devices are listed" sh -c "echo \$(ls $ib)"
is "uverbs0 uverbs1" "the device files are listed" sh -c "echo \$(ls /dev/infiniband)"
is "character special file" "a device file is a character device" stat -c %F /dev/infiniband/uverbs0
is "shca1" "uverbs1 belongs to shca1" cat /sys/class/infiniband_verbs/uverbs1/ibdev
is "directory" "a device is a directory" stat -c %F $ib/shca0
is "regular file" "an attribute is a file" stat -c %F $ib/shca0/node_guid
like '^[0-9a-f]{4}(:[0-9a-f]{4}){3}$' "node GUID" cat $ib/shca0/node_guid
is "1: CA" "node type" cat $ib/shca0/node_type
is "4: ACTIVE" "port state" cat $ib/shca0/ports/1/state
is "InfiniBand" "link layer of shca0" cat $ib/shca0/ports/1/link_layer
is "Ethernet" "link layer of shca1" cat $ib/shca1/ports/1/link_layer
like '^0x[0-9a-f]+$' "LID" cat $ib/shca0/ports/1/lid
is "100 Gb/sec (4X EDR)" "rate" cat $ib/shca0/ports/1/rate
is "0xffff" "P_Key" cat $ib/shca0/ports/1/pkeys/0
is "RoCE v2" "GID type of a RoCE v2 entry" cat $ib/shca1/ports/1/gid_attrs/types/3
is "IB/RoCE v1" "GID type of a RoCE v1 entry" cat $ib/shca1/ports/1/gid_attrs/types/2
is "IB/RoCE v1" "GID type on an InfiniBand port" cat $ib/shca0/ports/1/gid_attrs/types/0
is "lo" "network device of a GID" cat $ib/shca1/ports/1/gid_attrs/ndevs/3
is "0000:0000:0000:0000:0000:ffff:0a4d:0101" "an IPv4-mapped GID" cat $ib/shca1/ports/1/gids/3
is "0000:0000:0000:0000:0000:0000:0000:0000" "an empty GID" cat $ib/shca1/ports/1/gids/9
like 'Invalid argument' "the type of an empty GID slot cannot be read" \
    cat $ib/shca1/ports/1/gid_attrs/types/9
like 'No such file' "there is no port 3" cat $ib/shca0/ports/3/state
like 'No such file' "there is no device nosuch" ls $ib/nosuch
like 'No such file' "there is no GID 99" cat $ib/shca1/ports/1/gids/99
like 'ermission denied' "attributes cannot be written" sh -c "echo 1 >>$ib/shca0/node_desc"
like '^[0-9a-f,]+$' "CPUs near the device" cat $ib/shca0/device/local_cpus
is "$ib/shca0" "the path is real" realpath $ib/shca0
is "16" "the GID table has 16 entries" sh -c "ls $ib/shca1/ports/1/gids | wc -l"
like "$ib/shca1/ports/1/gid_attrs/ndevs/15" "find(1) sees the whole tree" \
    sh -c "cd / && for f in $ib/*/ports/*/*/*/*; do echo \$f; done"
is "node0" "gethostname" hostname
is "node0" "uname" uname -n
is "$(cat /proc/sys/kernel/ostype)" "other files are themselves" cat /proc/sys/kernel/ostype
is "$(find /usr -maxdepth 1 | sort)" "other directories, too" sh -c 'find /usr -maxdepth 1 | sort'

only_ib() {
    SOFTHCA_DEVS=ib on_host ls $ib
}
tap_is "$(only_ib)" shca0 "SOFTHCA_DEVS restricts the devices"

# small_shm SIZE COMMAND...: on node0, with a /dev/shm of its own
small_shm() {
    # shellcheck disable=SC2016 # the inner shell expands them
    on_host unshare -m sh -c 'mount -t tmpfs -o size="$0" tmpfs /dev/shm || exit; "$@"; status=$?
        ls /dev/shm; exit $status' "$@"
}
# Touching a page that is not to be had ended programs and the launcher's daemons with SIGBUS.
if small_shm 4k true >/dev/null; then
    tap_fails "a program on a /dev/shm of 4 KiB ends by itself" 20 \
        small_shm 4k ibv_devinfo
    tap_like "$TAP_OUT" 'no room for [0-9]* KiB more of shared memory: /dev/shm has 4 KiB left' \
        "and says why"
    tap_unlike "$TAP_OUT" '^softhca-' "and leaves nothing"
else
    tap_skip "a program on a /dev/shm of 4 KiB" "no mount namespace here (needs root)"
fi

# shellcheck disable=SC2016 # the inner shell expands it
like '8 GiB of address space: ulimit -v' "too little address space is said" \
    sh -c 'ulimit -v 400000 && exec ibv_devinfo'

left=$(find /dev/shm -maxdepth 1 -name "softhca-$fabric*")
tap_is "$left" "" "nothing is left in shared memory"
tap_done
