# shellcheck shell=bash
# The kernel bed of vrb_mpirun: the same job in a guest whose hosts are joined by soft-RoCE.
# SPDX-License-Identifier: BSD-3-Clause
#
# On the machine, vrb_mpirun --bed kernel boots a guest (tests/kernel/run) and calls itself inside
# it; there VRB_IN_GUEST is set, and node0, node1, ... are network namespaces. Options of this bed:
#
#   --debian 12|13     Open MPI 4.1 or 5.0 (12)
#   --netem SPEC       loss, delay, ... on the wire, as for tc: "loss 1%"
#   --event 'T CMD'    T seconds after the start: `wire CMD` (tests/kernel/guest/wire)
#   --mtu N            MTU of the wire (1500)

# Part of a run's time limit that is not the job's: booting and switching off, on a busy machine.
VRB_GUEST_OVERHEAD=40

# _vrb_kernel_build DEBIAN: sets BUILD and PREFIX to the build that fits the guest
_vrb_kernel_build() {
    local lines
    lines=$("$TOP/tests/kernel/build-component" "$1") || return
    { read -r BUILD && read -r PREFIX; } <<<"$lines"
    export BUILD PREFIX
}

# _vrb_kernel_outer ARGUMENTS OF vrb_mpirun: never returns
_vrb_kernel_outer() {
    local debian=12 hosts=2 limit=120 guest=() passed=() build=$BUILD program
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        case $1 in
        --bed) shift ;;
        --debian)
            debian=$2
            shift
            ;;
        --netem | --event | --mtu)
            guest+=("$1" "$2")
            shift
            ;;
        --hosts | --timeout)
            [ "$1" = --timeout ] && limit=$2 || hosts=$2
            passed+=("$1" "$2")
            shift
            ;;
        --mca)
            passed+=("$1" "$2" "$3")
            shift 2
            ;;
        --verbose) passed+=("$1") ;;
        *)
            passed+=("$1" "$2")
            shift
            ;;
        esac
        shift
    done
    _vrb_kernel_build "$debian" || exit
    # A program of the build is taken from the guest's build.
    program=$2
    case $program in
    "$build"/*) program=$BUILD${program#"$build"} ;;
    esac
    shift 2
    case $PWD in
    / | /tmp) ;;
    *) guest+=(--share "$PWD" --dir "$PWD") ;;
    esac
    exec "$TOP/tests/kernel/run" --debian "$debian" --hosts "$hosts" \
        --timeout $((limit + VRB_GUEST_OVERHEAD)) ${guest[@]+"${guest[@]}"} -- \
        "$TOP/tests/lib/vrbrun" --bed kernel ${passed[@]+"${passed[@]}"} -- "$program" "$@"
}

# _vrb_kernel_hosts: in the guest, adds to cmd what starts ranks on the namespaces
_vrb_kernel_hosts() {
    if [ "$hosts" -gt "${VRB_GUEST_HOSTS:-0}" ]; then
        _vrb_die "this guest has ${VRB_GUEST_HOSTS:-0} hosts, not $hosts"
    fi
    # shellcheck disable=SC2154 # vrb_mpirun's
    if [ "$major" -lt 5 ]; then
        cmd+=(--mca plm_rsh_agent /run/vrb/rsh-agent --mca oob_tcp_if_include mgmt)
    else
        cmd+=(--mca plm_ssh_agent /run/vrb/rsh-agent --mca prte_if_include mgmt)
    fi
    cmd+=(--mca btl_tcp_if_include wire)
    # UCX's UD drops what comes with the device's IPv4 GID, so it gets the link-local one.
    export UCX_IB_GID_INDEX=${UCX_IB_GID_INDEX:-0}
    # The hwloc inside Open MPI 4.1 takes a guest's processors for a broken sysfs.
    export HWLOC_HIDE_ERRORS=1
}
