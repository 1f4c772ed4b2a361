#!/bin/bash
# group: the tool verbs_info: listings and explanations for each situation of addresses, checks
# timeout: 180
# SPDX-License-Identifier: BSD-3-Clause
#
# After a change of wording: VRB_GOLDEN_WRITE=1 ./runtests verbs-info, then read the difference as a
# user would.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/situations.sh
. "$TOP/tests/lib/situations.sh"

info=$BUILD/tools/verbs_info

# Everything that a user would ask about one situation.
listing() {
    local name=$1 host
    echo "# $(situation_text "$name")"
    for host in 0 1; do
        situation_info "$name" $host --no-checks
        echo
    done
    situation_info "$name" 1 --json --no-checks >"$TAP_TMP/$name.json"
    (cd "$TAP_TMP" && situation_info "$name" 0 --peer "$name.json")
    echo "status $?"
}

for name in $(situation_names); do
    golden=$SITUATIONS/$name.golden
    listing "$name" 2>&1 | sed 's/verbs_info [0-9][0-9.]*/verbs_info VERSION/' >"$TAP_TMP/$name"
    [ -z "${VRB_GOLDEN_WRITE:-}" ] || cp "$TAP_TMP/$name" "$golden"
    tap_run "$name: $(situation_text "$name")" 10 diff "$golden" "$TAP_TMP/$name"
    tap_run "$name: the JSON is JSON" 20 python3 -m json.tool "$TAP_TMP/$name.json"
done

# ---- no device, no rights, odd input

# status N WHAT COMMAND...: ends in time with that status; what it says goes to $TAP_OUT
status() {
    local want=$1 what=$2
    shift 2
    tap_limit 20 "$@" >"$TAP_OUT" 2>&1
    tap_is $? "$want" "$what"
}
# valid WHAT: $TAP_OUT is JSON
valid() {
    cp "$TAP_OUT" "$TAP_TMP/valid.json"
    tap_run "$1" 10 python3 -m json.tool "$TAP_TMP/valid.json"
}

status 1 "no device: status 1" "$info"
tap_like "$TAP_OUT" 'No RDMA device was found' "no device: the first line says so"
status 1 "no device: JSON, status 1" "$info" --json
valid "no device: the JSON is JSON"
SOFTHCA_HOSTNAME=$'n\xff"\x1b' LD_PRELOAD=$BUILD/.libs/libsofthca.so SOFTHCA_FABRIC=info-name-$$ \
    timeout 10 "$info" --json >"$TAP_OUT" 2>&1
valid "a host name of odd bytes: the JSON is JSON"
status 1 "without any privilege" setpriv --reuid=65534 --regid=65534 --clear-groups \
    --no-new-privs "$info" --no-checks
# A container as launchers make them: namespaces of its own, and no /sys of the host's.
cat >"$TAP_TMP/box.sh" <<'EOF'
mount -t tmpfs none /sys && exec "$@"
EOF
if unshare -rmnpf true 2>/dev/null; then
    status 1 "in a container" unshare -rmnpf bash "$TAP_TMP/box.sh" "$info"
    tap_like "$TAP_OUT" 'No RDMA device was found' "in a container: says that it sees no device"
    status 1 "in a container: JSON" unshare -rmnpf bash "$TAP_TMP/box.sh" "$info" --json
    valid "in a container: the JSON is JSON"
    SOFTHCA_FABRIC=info-box-$$ SOFTHCA_DEVS=roce SOFTHCA_HOST=node0 SOFTHCA_HOSTNAME=node0 timeout 20 \
        unshare -rmn env LD_PRELOAD="$BUILD/.libs/libsofthca.so" "$info" >"$TAP_OUT" 2>&1
    tap_like "$TAP_OUT" 'shca1 port 1' "in a container with a device: it is listed"
    tap_unlike "$TAP_OUT" 'room for MTU' "... and nothing is made up of devices that it cannot see"
else
    tap_skip "in a container" "no user namespaces here"
fi
status 1 "no port is let through: status 1" situation_info vlan 0 --include nothere --no-checks
tap_like "$TAP_OUT" "'nothere' is not here" "an unknown device is named"
tap_like "$TAP_OUT" 'no: --include does not name it' "and why the other is not used"
for wrong in '--peer /nonexistent' '--sl 16' '--pkey x' 'word' '--include a --exclude b' '--nope'; do
    # shellcheck disable=SC2086
    "$info" $wrong >"$TAP_OUT" 2>&1
    tap_is $? 2 "wrong option: $wrong"
done
for bad in '' '{}' "$(printf '{\n  "published": "00112"\n}')" "$(printf '{\n  "published": "zz"\n}')" \
    "$(printf '{\n  "published": "56524241036c0900"\n}')"; do
    printf '%s' "$bad" >"$TAP_TMP/bad.json"
    situation_info vlan 0 --peer "$TAP_TMP/bad.json" >"$TAP_OUT" 2>&1
    tap_is $? 2 "a damaged listing is refused: '$(tr '\n' ' ' <"$TAP_TMP/bad.json")'"
done
# ---- listings as they come from other hosts: whole, rewritten, cut, and what is none

situation_info uneven 1 --json >"$TAP_TMP/good.json"
rewritten() { # rewritten HOW PYTHON
    python3 -c "import json, sys; json.dump(json.load(open(sys.argv[1])), sys.stdout, $2)" \
        "$TAP_TMP/good.json" >"$TAP_TMP/re.json"
    status 0 "a listing $1 is read" situation_info uneven 0 --peer "$TAP_TMP/re.json"
    tap_like "$TAP_OUT" 'roce1 port 1 -> roce0 port 1 of the peer' "... and names the peer's port"
}
rewritten "with other blanks" "indent=7"
rewritten "on one line, sorted" "separators=(',', ':'), sort_keys=True"
situation_info uneven 0 --peer - <"$TAP_TMP/good.json" >"$TAP_OUT" 2>&1
tap_is $? 0 "a listing from standard input"
status 0 "the explanation as JSON" situation_info uneven 0 --json --peer "$TAP_TMP/good.json"
tap_like "$TAP_OUT" '"peer_port": "roce0:1"' "... names the peer's port"
valid "... and is JSON"
status 1 "no way, as JSON" situation_info uneven 0 --json --peer 2001:db8::1
tap_like "$TAP_OUT" '"reachable": false' "... says so"
valid "... and is JSON"
head -c 300 "$TAP_TMP/good.json" >"$TAP_TMP/cut.json"
(printf '{"published": "'; tr '\0' 0 </dev/zero | head -c 2000000) >"$TAP_TMP/long.json"
head -c 5000 "$BUILD/libvrb.la" >"$TAP_TMP/other.json"
refused() { # refused PEER PATTERN
    status 2 "--peer ${1##*/} is refused" situation_info vlan 0 --peer "$1"
    tap_like "$TAP_OUT" "^verbs_info: .*$2" "... with the reason"
    tap_is "$(wc -l <"$TAP_OUT")" 1 "... in one line"
}
refused "$TAP_TMP/cut.json" 'not a listing of .*or not all of it'
refused "$TAP_TMP/other.json" 'not a listing of '
refused "$TAP_TMP/long.json" 'much longer than any listing'
refused "$TAP_TMP" 'Is a directory'
refused node2 'ssh HOST verbs_info --json'
refused 0.0.0.0 'no host is reached by 0.0.0.0: it is the unspecified'
refused ff02::1 'multicast'
# shellcheck disable=SC2016
for sink in '>/dev/full' '>&-' '--json >/dev/full' '--help >/dev/full' '--version >&-'; do
    timeout 10 bash -c '"$1" '"$sink" sh "$info" 2>"$TAP_OUT"
    tap_is $? 2 "output that goes nowhere: verbs_info $sink"
    tap_like "$TAP_OUT" 'the output cannot be written: ' "... is said"
done

situation_info vlan 0 --peer 10.100.0.7 >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'from       GID ::ffff:10.100.0.1' "--peer ADDRESS: the address of that network"
situation_info vlan 0 --peer 2001:db8::1 >"$TAP_OUT" 2>&1
tap_is $? 1 "--peer ADDRESS of another family: no way"

# ---- checks: fixtures in place of /sys

sys=$TAP_TMP/root/sys
mkdir -p "$sys/class/net/lo/qos" "$sys/class/net/lo/ecn/roce_np/enable" \
    "$sys/class/net/lo/ecn/roce_rp/enable" "$sys/class/infiniband/shca1/ports/1/hw_counters"
echo '0 0 0 1 0 0 0 0' >"$sys/class/net/lo/qos/pfc"
for priority in 0 3; do
    echo 1 >"$sys/class/net/lo/ecn/roce_np/enable/$priority"
    echo $((priority / 3)) >"$sys/class/net/lo/ecn/roce_rp/enable/$priority"
done
echo 17 >"$sys/class/infiniband/shca1/ports/1/hw_counters/out_of_sequence"
echo 0 >"$sys/class/infiniband/shca1/ports/1/hw_counters/packet_seq_err"

situation_info mtu 1 --root "$TAP_TMP/root" >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'WARN  PFC, .*priority 0, which is not lossless' "a lossy priority is told"
tap_like "$TAP_OUT" 'btl_verbs_traffic_class 104' "and the traffic class of the lossless one"
tap_like "$TAP_OUT" 'WARN  ECN, .*off for priority 0 \(answers are not obeyed\)' "ECN off is told"
tap_like "$TAP_OUT" 'WARN  counters, .*out_of_sequence = 17' "a telling counter is told"
tap_unlike "$TAP_OUT" 'packet_seq_err' "a silent one is not"
tap_like "$TAP_OUT" 'note  MTU, .*1024 bytes' "a small MTU is told"
situation_info mtu 1 --root "$TAP_TMP/root" --traffic-class 104 >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'ok    PFC, .*\(DSCP 26\).*priority 3, which is lossless' "a lossless one is fine"
tap_like "$TAP_OUT" 'ok    ECN, .*on for priority 3' "ECN on is fine"
echo '0 0 0 0 0 0 0 0' >"$sys/class/net/lo/qos/pfc"
situation_info mtu 1 --root "$TAP_TMP/root" >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'note  PFC' "no lossless priority at all is a note"
rm -r "$sys/class/net"
situation_info mtu 1 --root "$TAP_TMP/root" >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'note  PFC, .*does not tell' "a driver that tells nothing is a note"
(ulimit -l 64 && situation_info mtu 1) >"$TAP_OUT" 2>&1
tap_like "$TAP_OUT" 'WARN  locked memory: this shell may lock 64 KiB' "a small limit of locked memory"

# ---- real network devices, in a network namespace of our own

cat >"$TAP_TMP/net.ini" <<EOF
[port */shca1]
gid.* = empty
gid.0 = v2 ::ffff:10.0.0.1 dev d0
gid.1 = v2 2001:db8::1 dev d0
gid.2 = v2 ::ffff:10.100.0.1 dev d0.100
gid.3 = v2 ::ffff:10.9.0.1 dev d2
gid.4 = v2 ::ffff:10.8.0.1 dev nosuch
EOF
cat >"$TAP_TMP/net.sh" <<'EOF'
ip link add d0 mtu 9000 type veth peer name d1 mtu 9000 && ip link set d0 up && ip link set d1 up &&
    ip link add d2 type veth peer name d3 && ip address add 10.0.0.1/20 dev d0 &&
    ip address add 2001:db8::1/64 dev d0 nodad && ip address add 10.9.0.1/24 dev d2 &&
    ip route add default via 10.0.0.254 table 77 || exit 77
if ip link add link d0 name d0.100 mtu 1500 type vlan id 100; then
    ip link set d0.100 up && ip address add 10.100.0.1/24 dev d0.100
fi
LD_PRELOAD=$1/.libs/libsofthca.so exec "$1/tools/verbs_info" --no-checks
EOF
SOFTHCA_FABRIC=info-net-$$ SOFTHCA_CONF=$TAP_TMP/net.ini SOFTHCA_DEVS=roce SOFTHCA_HOST=node0 \
    SOFTHCA_HOSTNAME=node0 timeout 20 unshare -rn bash "$TAP_TMP/net.sh" "$BUILD" >"$TAP_OUT" 2>&1
status=$?
if [ $status -ne 0 ] && ! grep -q '^host node0' "$TAP_OUT"; then
    tap_skip "facts of network devices" "no network namespaces, or no veth, here"
else
    tap_is $status 0 "facts of network devices"
    tap_like "$TAP_OUT" 'GID +0 +v2 +10.0.0.1/20 +d0 +room for MTU 4096 +gateway' "mask, MTU, gateway"
    tap_like "$TAP_OUT" 'GID +1 +v2 +2001:db8::1/64 +d0' "an IPv6 mask"
    tap_like "$TAP_OUT" 'GID +3 .*not used: its network device is down' "a device that is down"
    tap_like "$TAP_OUT" 'GID +4 +v2 +10.8.0.1$' "a device that is not visible"
    if grep -q 'Unknown device type' "$TAP_OUT"; then
        tap_skip "a VLAN device" "this kernel has none"
    else
        tap_like "$TAP_OUT" 'GID +2 +v2 +10.100.0.1/24 +d0.100 +VLAN 100 +room for MTU 1024$' \
            "a VLAN device"
    fi
fi

tap_done
