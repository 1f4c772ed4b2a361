# shellcheck shell=bash
# vrb_mpirun: an MPI job on several simulated hosts with software HCAs, in a fabric of its own.
# SPDX-License-Identifier: BSD-3-Clause
#
#   vrb_mpirun [options] -- PROGRAM [ARGS...]
#
#   --ranks N          number of ranks (2), given to the hosts in turn
#   --slots N          ranks that a host has room for (what --ranks needs): more for MPI_Comm_spawn
#   --hosts N          number of simulated hosts (2), named node0, node1, ...
#   --link ib|roce|all which devices a host has: shca0 (ib), shca1 (roce) or both (ib)
#   --btl LIST         BTLs (self,verbs); "openib" gets the parameters it needs on our device
#   --pml NAME         ob1 (default), ucx, cm; none: no transport is named, so that the environment
#                      (a loaded module) decides, and --btl is not used
#   --ucx-tls LIST     transports of UCX with --pml ucx (rc_verbs,ud_verbs,self)
#   --mca NAME VALUE   one more MCA parameter
#   --env NAME=VALUE   one more environment variable of the ranks
#   --fault RULE       fault rule of the software HCA (SOFTHCA_FAULTS)
#   --conf FILE        its configuration (SOFTHCA_CONF)
#   --exec sync|deferred  its execution mode (SOFTHCA_EXEC)
#   --fabric NAME      name of the fabric (a private one)
#   --counters FILE    what softhca-ctl counters says after the run
#   --timeout SECONDS  limit of the whole run (120); status 124 if it is hit
#   --no-softhca       the machine's own devices, all ranks on this machine
#   --bed NAME         softhca-ib, softhca-roce: as --link ib and --link roce; kernel: a guest with
#                      the kernel's soft-RoCE, see bed-kernel.sh for the options of this bed
#   --arg ARG          one more argument of mpirun itself
#   --verbose          print the command
#
# Status: that of mpirun; 124 for the time limit; 125 if the job left processes or shared memory
# behind; 2 for a usage error. Environment: TOP, BUILD, PREFIX as in the test groups; MPIRUN names
# another mpirun; VRB_PRELOAD_FIRST is put before the software HCA in LD_PRELOAD (libasan);
# VRB_CORES overrides the number of cores (with more ranks than cores - 1, ranks yield when idle).
#
# The function runs in a subshell: it changes nothing in its caller. Every process of a run carries
# VRB_RUN=<id> in its environment, which is how those of this run, and no others, are found and
# ended when the limit is hit.

VRB_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=counters.sh
. "$VRB_LIB/counters.sh"
: "${TOP:=$(cd "$VRB_LIB/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
: "${PREFIX:=$TOP/_inst}"

# shellcheck source=bed-kernel.sh
. "$VRB_LIB/bed-kernel.sh"

_vrb_die() {
    echo "vrb_mpirun: $*" >&2
    exit 2
}

# Pids of the living processes of run $1.
_vrb_run_pids() {
    grep -lzs -e "^VRB_RUN=$1\$" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||'
}

# Ends what is left of run $1; prints how many processes there were.
_vrb_run_kill() {
    local pids count=0 round
    for round in 1 2 3 4 5; do
        pids=$(_vrb_run_pids "$1")
        [ -n "$pids" ] || break
        [ "$round" -eq 1 ] && count=$(wc -w <<<"$pids")
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null
        sleep 0.2
    done
    echo "$count"
}

_vrb_number() {
    case $2 in
    '' | *[!0-9]*) _vrb_die "$1 needs a number, not '$2'" ;;
    esac
}

_vrb_mpi_major() {
    "$1" --version 2>/dev/null | sed -n 's/^mpirun (Open MPI) \([0-9]*\)\..*/\1/p' | head -n 1
}

# mpirun refuses a parameter that is named twice. Of those in cmd the last one counts, so that --mca
# of the caller prevails over what is set here.
_vrb_last_mca() {
    local -A last=()
    local kept=() i
    for ((i = 0; i < ${#cmd[@]}; i++)); do
        [ "${cmd[i]}" != --mca ] || last[${cmd[i + 1]}]=$i
    done
    for ((i = 0; i < ${#cmd[@]}; i++)); do
        if [ "${cmd[i]}" = --mca ] && [ "${last[${cmd[i + 1]}]}" -ne $i ]; then
            i=$((i + 2))
        else
            kept+=("${cmd[i]}")
        fi
    done
    cmd=("${kept[@]}")
}

vrb_mpirun() (
    _vrb_mpirun "$@"
)

# The same in the calling shell, which it ends: a signal to that shell then reaches the traps below.
_vrb_mpirun() {
    set -u
    ranks=2 hosts=2 link=ib btl=self,verbs pml=ob1 ucx_tls=rc_verbs,ud_verbs,self
    slots='' limit=120 softhca=1 verbose=0 fabric='' conf='' fault='' exec_mode=''
    counters='' extra=() environment=() kernel=0 kernel_option='' arguments=("$@")
    [ -z "${VRB_IN_GUEST:-}" ] || kernel=1
    while [ $# -gt 0 ]; do
        case $1 in
        --ranks | --hosts | --slots | --link | --btl | --pml | --ucx-tls | --env | --fault | --conf | --exec | \
            --fabric | --counters | --timeout | --arg)
            [ $# -ge 2 ] || _vrb_die "$1 needs a value"
            ;;
        --mca) [ $# -ge 3 ] || _vrb_die "--mca needs a name and a value" ;;
        esac
        case $1 in
        --ranks) ranks=$2 && shift ;;
        --hosts) hosts=$2 && shift ;;
        --slots) slots=$2 && shift ;;
        --link) link=$2 && shift ;;
        --btl) btl=$2 && shift ;;
        --pml) pml=$2 && shift ;;
        --ucx-tls) ucx_tls=$2 && shift ;;
        --env) environment+=("$2") && shift ;;
        --fault) fault=$2 && shift ;;
        --conf) conf=$2 && shift ;;
        --exec) exec_mode=$2 && shift ;;
        --fabric) fabric=$2 && shift ;;
        --counters) counters=$2 && shift ;;
        --timeout) limit=$2 && shift ;;
        --arg) extra+=("$2") && shift ;;
        --mca) extra+=(--mca "$2" "$3") && shift 2 ;;
        --no-softhca) softhca=0 ;;
        --bed)
            case $2 in
            softhca-ib | softhca-roce) link=${2#softhca-} ;;
            kernel) kernel=1 ;;
            *) _vrb_die "--bed is softhca-ib, softhca-roce or kernel, not '$2'" ;;
            esac
            shift
            ;;
        --debian | --netem | --event | --mtu) kernel_option=$1 && shift ;;
        --verbose) verbose=1 ;;
        --)
            shift
            break
            ;;
        *) _vrb_die "unknown option '$1'" ;;
        esac
        shift
    done
    [ $# -gt 0 ] || _vrb_die "no program given (after --)"
    _vrb_number --ranks "$ranks"
    _vrb_number --hosts "$hosts"
    _vrb_number --timeout "$limit"
    _vrb_number --slots "${slots:-1}"
    if [ "$ranks" -lt 1 ] || [ "$hosts" -lt 1 ]; then
        _vrb_die "--ranks and --hosts start at 1"
    fi
    case $link in
    ib | roce | all) ;;
    *) _vrb_die "--link is ib, roce or all, not '$link'" ;;
    esac

    if [ $kernel -eq 1 ]; then
        [ -z "$fault$conf$exec_mode" ] ||
            _vrb_die "--fault, --conf and --exec are of the software HCA, not of --bed kernel"
        [ -n "${VRB_IN_GUEST:-}" ] || _vrb_kernel_outer "${arguments[@]}"
        softhca=0
    elif [ -n "$kernel_option" ]; then
        _vrb_die "$kernel_option needs --bed kernel"
    fi

    mpirun=${MPIRUN:-mpirun}
    major=$(_vrb_mpi_major "$mpirun")
    [ -n "$major" ] || _vrb_die "no Open MPI here ($mpirun --version says nothing of it)"
    lib=$BUILD/.libs/libsofthca.so
    ctl=$BUILD/softhca-ctl
    [ $softhca -eq 0 ] || [ -e "$lib" ] || _vrb_die "no $lib: build first (make)"
    # The launcher's daemons meet a mistake first, and nobody reads what they say of it.
    [ -z "$conf" ] || [ -r "$conf" ] || _vrb_die "cannot read the configuration $conf"
    [ -z "$conf" ] || [ ! -x "$ctl" ] || "$ctl" conf check "$conf" || exit 2
    [ -z "$fault" ] || [ ! -x "$ctl" ] || "$ctl" inject check "$fault" || exit 2

    run=vrb-$$-$BASHPID-$RANDOM
    # Before anything is made: a signal may come at any time.
    stopped=0 job='' sleeper='' tmp='' shm=''
    trap 'stopped=1; [ -z "$job" ] || kill -TERM "$job" 2>/dev/null' INT TERM HUP
    # shellcheck disable=SC2317,SC2329 # called by the trap
    _vrb_cleanup() {
        [ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null
        [ -z "$tmp$shm" ] || rm -rf ${tmp:+"$tmp"} ${shm:+"$shm"}
    }
    trap _vrb_cleanup EXIT
    tmp=$(mktemp -d "${TMPDIR:-/tmp}/vrbrun.XXXXXX") ||
        _vrb_die "no folder for temporary files: set TMPDIR to one that can be written to"
    # Backing files of Open MPI's own shared-memory transport, so that none is left in /dev/shm.
    shm=$(mktemp -d /dev/shm/vrbrun.XXXXXX) || shm=$tmp

    cmd=("$mpirun" -n "$ranks" --bind-to none)
    [ "$(id -u)" -ne 0 ] || cmd+=(--allow-run-as-root)
    cores=${VRB_CORES:-$(nproc)}
    [ "$ranks" -le $((cores - 1)) ] || cmd+=(--mca mpi_yield_when_idle 1)

    # --- the machine: simulated hosts, or this one
    if [ $softhca -eq 1 ] || [ $kernel -eq 1 ]; then
        slots=${slots:-$(((ranks + hosts - 1) / hosts))}
        for ((i = 0; i < hosts; i++)); do
            echo "node$i slots=$slots"
        done >"$tmp/hostfile"
        cmd+=(--hostfile "$tmp/hostfile" --map-by node)
        if [ "$major" -lt 5 ]; then
            cmd+=(--mca plm rsh --mca plm_rsh_no_tree_spawn 1 --mca orte_tmpdir_base "$tmp")
            cmd+=(--mca btl_vader_backing_directory "$shm")
        else
            cmd+=(--mca plm ssh --mca plm_ssh_no_tree_spawn 1 --mca prte_tmpdir_base "$tmp")
            cmd+=(--mca btl_sm_backing_directory "$shm")
        fi
    fi
    if [ $kernel -eq 1 ]; then
        _vrb_kernel_hosts
    elif [ $softhca -eq 1 ]; then
        if [ "$major" -lt 5 ]; then
            # All simulated hosts are this machine: the loopback device always joins them.
            cmd+=(--mca plm_rsh_agent "$VRB_LIB/rsh-agent" --mca oob_tcp_if_include lo)
        else
            cmd+=(--mca plm_ssh_agent "$VRB_LIB/rsh-agent")
        fi
        cmd+=(--mca btl_tcp_if_include lo)
        fabric=${fabric:-$run}
        export SOFTHCA_FABRIC=$fabric
        export VRB_PRELOAD=${VRB_PRELOAD_FIRST:+$VRB_PRELOAD_FIRST:}$lib
        case $link in
        all) unset SOFTHCA_DEVS ;;
        *) export SOFTHCA_DEVS=$link ;;
        esac
        [ -z "$conf" ] || export SOFTHCA_CONF=$conf
        [ -z "$fault" ] || export SOFTHCA_FAULTS=$fault
        [ -z "$exec_mode" ] || export SOFTHCA_EXEC=$exec_mode
    else
        cmd+=(--oversubscribe)
    fi

    # --- the transport
    [ "$pml" = none ] || cmd+=(--mca pml "$pml")
    if [ "$pml" = ob1 ]; then
        cmd+=(--mca btl "$btl")
        case ,$btl, in
        *,verbs,*)
            component=$PREFIX/lib/openmpi
            [ -e "$component/mca_btl_verbs.so" ] ||
                _vrb_die "no $component/mca_btl_verbs.so: install first (make install)"
            # 4.1 replaces its default path by ours unless we name it; 5.0 needs no default
            [ "$major" -ge 5 ] || component=SYS_DEFAULT:$component
            cmd+=(--mca mca_base_component_path "$component")
            ;;
        *,openib,*)
            # openib shuns InfiniBand by default, and warns of devices it has no parameters for
            cmd+=(--mca btl_openib_allow_ib 1 --mca btl_openib_warn_no_device_params_found 0)
            # Its connection manager polls, then arms, and never looks again: it counts on adapters
            # that tell of what came in between.
            export SOFTHCA_ARM=${SOFTHCA_ARM:-pending}
            ;;
        esac
    elif [ "$pml" = ucx ]; then
        # pml/ucx steps back unless it knows the device
        cmd+=(--mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ucx --mca btl self)
        export UCX_TLS=$ucx_tls
        export UCX_WARN_UNUSED_ENV_VARS=n
    fi
    cmd+=(${extra[@]+"${extra[@]}"})
    _vrb_last_mca
    for pair in ${environment[@]+"${environment[@]}"}; do
        case $pair in
        [A-Za-z_]*=*) export "${pair?}" ;;
        *) _vrb_die "--env needs NAME=VALUE, not '$pair'" ;;
        esac
        [ $((softhca + kernel)) -gt 0 ] || cmd+=(-x "${pair%%=*}")
    done
    cmd+=("$@")

    [ $verbose -eq 0 ] || printf '%q ' "${cmd[@]}" | sed 's/ $/\n/' >&2

    # --- run
    [ $stopped -eq 0 ] || exit 143
    VRB_RUN=$run TMPDIR=$tmp "${cmd[@]}" </dev/null &
    job=$!
    [ $stopped -eq 0 ] || kill -TERM "$job" 2>/dev/null
    sleep "$limit" >/dev/null 2>&1 &
    sleeper=$!
    ended=''
    if [ -n "$counters" ] && [ $softhca -eq 1 ]; then
        # the fabric is made by its first process and goes with its last, unless it is kept
        until "$ctl" --fabric "$fabric" keep on 2>/dev/null || ! kill -0 "$job" 2>/dev/null; do
            sleep 0.05
        done
    fi
    wait -n -p ended "$job" "$sleeper"
    status=$?
    if [ "${ended:-}" != "$job" ]; then
        [ $stopped -eq 1 ] || echo "vrb_mpirun: time limit of $limit s: ending the run" >&2
        status=$((stopped ? 143 : 124))
        kill -TERM "$job" 2>/dev/null
        for ((i = 0; i < 50; i++)); do
            kill -0 "$job" 2>/dev/null || break
            sleep 0.1
        done
        _vrb_run_kill "$run" >/dev/null
        wait "$job" 2>/dev/null
    fi
    kill "$sleeper" 2>/dev/null
    sleeper='' # its number may soon be another process's

    # --- nothing may be left
    for ((i = 0; i < 20; i++)); do
        [ -n "$(_vrb_run_pids "$run")" ] || break
        sleep 0.1
    done
    left=$(_vrb_run_kill "$run")
    if [ "$left" -ne 0 ]; then
        echo "vrb_mpirun: $left processes of the run had not ended by themselves" >&2
        [ $status -ne 0 ] || status=125
    fi
    if [ $softhca -eq 1 ]; then
        if [ -n "$counters" ]; then
            "$ctl" --fabric "$fabric" counters >"$counters"
            "$ctl" --fabric "$fabric" keep off
        fi
        [ ! -x "$ctl" ] || "$ctl" --fabric "$fabric" reap >/dev/null 2>&1
        for file in /dev/shm/softhca-"$fabric" /dev/shm/softhca-"$fabric".*; do
            [ -e "$file" ] || continue
            echo "vrb_mpirun: the run left $file behind" >&2
            rm -rf "$file"
            [ $status -ne 0 ] || status=125
        done
    fi
    exit $status
}
