#!/bin/bash
# group: the component inside Open MPI: parameters, counters, documentation, version guard, silence
# timeout: 300
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

tap_have ompi_info mpirun || tap_skip_all "no Open MPI here"
[ -e "$PREFIX/lib/openmpi/mca_btl_verbs.so" ] || tap_skip_all "the component is not installed"
# A folder that does not exist ends the search, so the user's own is not in it.
path=SYS_DEFAULT:$PREFIX/lib/openmpi
# From 5.0 on all of Open MPI's own components are inside its libraries.
[ "$(_vrb_mpi_major mpirun)" -lt 5 ] || path=$PREFIX/lib/openmpi
program=$BUILD/tests/mpi/initfini
talker=$BUILD/tests/mpi/pingpong

info() { # info [ENVIRONMENT...]
    env "$@" OMPI_MCA_mca_base_component_path="$path" timeout 30 \
        ompi_info --param btl verbs --level 9 --parsable
}

# --- what ompi_info shows, and what the documentation says -------------------------------------

info >"$TAP_TMP/info" 2>&1
sed -n 's/^mca:btl:verbs:param:btl_verbs_\([a-z_]*\):value:.*/\1/p' "$TAP_TMP/info" | sort -u \
    >"$TAP_TMP/params"
sed -n 's/^mca:btl:verbs:pvar:btl_verbs_\([a-z_]*\):.*/\1/p' "$TAP_TMP/info" | sort -u \
    >"$TAP_TMP/pvars"
for name in if_include if_exclude show_map show_memory summary stats_dir mode promote_after max_rc peer_timeout ud_buffers \
    keepalive connect_timeout ib_timeout ib_retry_count sl \
    traffic_class credits recv_buffers send_buffers sq_depth max_inline rd_atomic use_srq \
    eager_limit rndv_eager_limit max_send_size flags bandwidth latency exclusivity; do
    tap_like "$TAP_TMP/params" "^$name\$" "ompi_info lists btl_verbs_$name"
done
if [ -s "$TAP_TMP/pvars" ]; then
    for name in tx_packets tx_bytes rx_packets rx_bytes puts gets stalls connections \
        registered_bytes peers peer_bytes rc_bytes ud_bytes credit_stalls ud_lost ud_rtt_mean \
        ud_window_least peers_connected registration_hits; do
        tap_like "$TAP_TMP/pvars" "^$name\$" "ompi_info lists the counter btl_verbs_$name"
    done
else
    tap_notok "ompi_info lists counters" "$(grep -c . "$TAP_TMP/info") lines, none of them a pvar"
fi
# shellcheck disable=SC2016 # backquotes are Markdown's
grep -o '`btl_verbs_[a-z_]*`' "$TOP/docs/parameters.md" | tr -d '`' | sed 's/^btl_verbs_//' |
    sort -u >"$TAP_TMP/documented"
sort -u "$TAP_TMP/params" "$TAP_TMP/pvars" >"$TAP_TMP/existing"
tap_is "$(comm -23 "$TAP_TMP/existing" "$TAP_TMP/documented" | tr '\n' ' ')" "" \
    "docs/parameters.md describes every parameter and counter"
tap_is "$(comm -13 "$TAP_TMP/existing" "$TAP_TMP/documented" | grep -v '^accelerator_' |
    tr '\n' ' ')" "" \
    "docs/parameters.md describes nothing that does not exist"
# The table rows with a default of their own: | `name` | default | ...
# shellcheck disable=SC2016
sed -n 's/^| `btl_verbs_\([a-z_]*\)` | \([0-9][0-9]*\) |.*/\1 \2/p' "$TOP/docs/parameters.md" \
    >"$TAP_TMP/defaults"
wrong=
while read -r name value; do
    grep -qx "$name" "$TAP_TMP/params" || continue # another series has it
    # Parameters of the other Open MPI series are documented, and not here.
    grep -qx "$name" "$TAP_TMP/existing" || continue
    shown=$(sed -n "s/^mca:btl:verbs:param:btl_verbs_$name:value:\"*\([^\"]*\)\"*\$/\1/p" "$TAP_TMP/info")
    case $shown in
    false) shown=0 ;;
    true) shown=1 ;;
    esac
    [ "$shown" = "$value" ] || wrong="$wrong $name: documented $value, is $shown;"
done <"$TAP_TMP/defaults"
tap_is "$wrong" "" "docs/parameters.md gives the defaults in force"
tap_run "docs/parameters.md gives defaults at all" 5 test "$(wc -l <"$TAP_TMP/defaults")" -ge 15

# --- the guard against another series of Open MPI -----------------------------------------------

if tap_have "${CC:-cc}"; then
    echo 'const char opal_version_string[] = "9.8.7";' |
        "${CC:-cc}" -shared -fPIC -x c -o "$TAP_TMP/libversion.so" -
    # ompi_info prints its own version from elsewhere; the component sees the one above.
    info LD_PRELOAD="$TAP_TMP/libversion.so" >"$TAP_TMP/guard" 2>&1
    tap_unlike "$TAP_TMP/guard" 'verbs' "another Open MPI at run time: not loaded, not a word"
    info LD_PRELOAD="$TAP_TMP/libversion.so" OMPI_MCA_btl=self,verbs >"$TAP_TMP/guard" 2>&1
    tap_like "$TAP_TMP/guard" 'btl:verbs: built for Open MPI [0-9.]*, but this is 9\.8\.7' \
        "another Open MPI at run time, verbs asked for: one line says so"
    tap_unlike "$TAP_TMP/guard" 'btl_verbs_if_include' "and it is not used"
else
    tap_skip "another Open MPI at run time" "no C compiler"
fi

# --- probe points -----------------------------------------------------------------------------

if ! grep -q '^#define VRB_HAVE_SDT 1' "$BUILD/config.h" 2>/dev/null; then
    tap_skip "probe points" "built without sys/sdt.h"
elif ! tap_have readelf; then
    tap_skip "probe points" "no readelf"
else
    readelf -n "$PREFIX/lib/openmpi/mca_btl_verbs.so" >"$TAP_TMP/notes" 2>&1
    sed -n 's/^ *Name: //p' "$TAP_TMP/notes" | sort -u >"$TAP_TMP/probes"
    tap_like "$TAP_TMP/notes" '^ *Provider: verbs$' "the component has probe points"
    # shellcheck disable=SC2016 # backquotes are Markdown's
    sed -n '/^| probe |/,/^$/s/^| \(`[^|]*\) |.*/\1/p' "$TOP/docs/observing.md" | grep -o '[a-z_]*' |
        sort -u >"$TAP_TMP/documented"
    tap_is "$(tr '\n' ' ' <"$TAP_TMP/probes")" "$(tr '\n' ' ' <"$TAP_TMP/documented")" \
        "they are those that docs/observing.md describes"
fi

# --- no device: silence, or one message ---------------------------------------------------------

[ -x "$program" ] || {
    tap_skip "silence without a device" "tests/mpi/initfini is not built"
    tap_done
}
root=()
[ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)

here() { # here ARGS...: two ranks on this machine, with the component in the path
    timeout 60 mpirun "${root[@]}" -n 2 --bind-to none --oversubscribe \
        --mca mpi_yield_when_idle 1 --mca btl_tcp_if_include lo \
        --mca mca_base_component_path "$path" "$@" "$program"
}
said() { # all but the program's own line, and what PMIx and the launcher say for themselves
    grep -Ev '^PASS |plm:ssh: Warning: setpgid|has bad prefix - expected:|^[[:space:]]*(lib)?pmix_mca_$|^or$' "$TAP_OUT"
}

if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    tap_skip "silence without a device" "this machine has RDMA devices"
else
    tap_run "no device, nothing asked: the job runs" 90 here
    tap_is "$(said)" "" "no device, nothing asked: not a word"
    tap_run "no device, ob1 chosen: the job runs" 90 here --mca pml ob1
    tap_is "$(said)" "" "no device, ob1 chosen: not a word"
    tap_run "no device, other BTLs named: the job runs" 90 here --mca btl self,vader
    tap_is "$(said)" "" "no device, other BTLs named: not a word"
    tap_run "no device, an exclusion list: the job runs" 90 here --mca btl ^tcp
    tap_is "$(said)" "" "no device, an exclusion list: not a word"
    tap_run "no device, verbs named beside others: the job runs" 90 here --mca btl self,vader,verbs
    tap_is "$(grep -c 'The verbs BTL was asked for' "$TAP_OUT")" 1 \
        "no device, verbs named beside others: one message for both ranks"
    tap_like "$TAP_OUT" 'No RDMA device' "it names the cause"
    tap_like "$TAP_OUT" 'What to do: ' "and the next step"
    tap_fails "no device, nothing but verbs: the job ends" 90 here --mca btl self,verbs
    tap_is "$(grep -c 'The verbs BTL was asked for' "$TAP_OUT")" 1 \
        "no device, nothing but verbs: one message"
fi

# --- a device -------------------------------------------------------------------------------------

[ -e "$BUILD/.libs/libsofthca.so" ] || {
    tap_skip "counters of a job" "no software HCA"
    tap_done
}
cat >"$TAP_TMP/count.c" <<'END'
/* Prints counters of the verbs BTL after a ping-pong that must have moved them. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#define MAX 128
static char buf[1 << 20], names[MAX][256];
int main(int argc, char **argv)
{
    int rank, provided, n, used = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle[MAX];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&n);
    /* A counter counts from when its handle is made. */
    for (int i = 0; i < n && used < MAX; i++) {
        int len = sizeof(names[0]), verbosity, class, bind, readonly, continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum kind;
        if (MPI_T_pvar_get_info(i, names[used], &len, &verbosity, &class, &type, &kind, NULL, NULL,
                                &bind, &readonly, &continuous, &atomic) == MPI_SUCCESS &&
            strncmp(names[used], "btl_verbs_", 10) == 0) {
            MPI_T_pvar_handle_alloc(session, i, NULL, &handle[used++], &count);
        }
    }
    for (int i = 0; i < 10; i++) {
        int size = i % 2 ? (int)sizeof(buf) : 8;
        MPI_Sendrecv_replace(buf, size, MPI_BYTE, !rank, 0, !rank, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    }
    for (int i = 0; rank == 0 && i < used; i++) {
        unsigned long long value = 0;
        MPI_T_pvar_read(session, handle[i], &value);
        printf("%s %llu\n", names[i], value);
    }
    for (int i = 0; i < used; i++) {
        MPI_T_pvar_handle_free(session, &handle[i]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
END
if tap_have mpicc && mpicc -o "$TAP_TMP/count" "$TAP_TMP/count.c" 2>"$TAP_TMP/cc"; then
    tap_run "a job that reads its counters" 90 vrb_mpirun --timeout 60 -- "$TAP_TMP/count"
    for pair in 'tx_packets [1-9]' 'rx_packets [1-9]' 'gets [1-9]' 'connections 1$' \
        'lost_connections 0$' 'registered_bytes [1-9]' 'registrations_refused 0$' \
        'rc_packets [1-9]' 'tx_inline [1-9]' 'ud_messages 0$' 'ud_rtt_mean 0$' 'peers_connected 1$' \
        'peers_lost 0$' 'registrations [1-9]' 'registration_hits [1-9]'; do
        tap_like "$TAP_OUT" "^btl_verbs_$pair" "counter btl_verbs_${pair%\$}"
    done
    moved=$(sed -n 's/^btl_verbs_get_bytes //p' "$TAP_OUT")
    tap_run "long messages came by RDMA read: ${moved:-no} bytes" 5 test "${moved:-0}" -ge 5242880
    tap_run "the same with RDMA write" 90 vrb_mpirun --timeout 60 --mca btl_verbs_flags send,put -- \
        "$TAP_TMP/count"
    tap_like "$TAP_OUT" '^btl_verbs_puts [1-9]' "the counter of RDMA writes moved"
    tap_like "$TAP_OUT" '^btl_verbs_gets 0$' "the counter of RDMA reads did not"
    tap_run "the same by datagrams, some of which are lost" 90 vrb_mpirun --timeout 60 \
        --fault 'ud.drop every=20' --mca btl_verbs_mode ud -- "$TAP_TMP/count"
    for pair in 'rc_packets 0$' 'ud_messages [1-9]' 'ud_bytes [1-9]' 'ud_puts [1-9]' 'ud_lost [1-9]' \
        'ud_rtt_least [1-9]' 'ud_rtt_mean [1-9]' 'ud_window_most [1-9]' 'peers_datagrams 1$' \
        'peers_connected 0$'; do
        tap_like "$TAP_OUT" "^btl_verbs_$pair" "counter btl_verbs_${pair%\$}, by datagrams"
    done
else
    tap_skip "counters of a job" "mpicc cannot build a program"
fi

tap_run "btl_verbs_show_map" 90 vrb_mpirun --timeout 60 --mca btl_verbs_show_map 1 -- \
    "$talker" --size 8 --iterations 1
tap_like "$TAP_OUT" \
    'map: host node0 rank 0 shca0 port 1 InfiniBand, LID .* -> host node1 rank 1, .*RC, MTU' \
    "show_map names device, port, link layer, addresses, both ends and protocol"
tap_like "$TAP_OUT" 'map: .*eager to [0-9]+, then RDMA read' "show_map tells the sizes"
tap_run "btl_verbs_show_map, RoCE" 90 vrb_mpirun --link roce --timeout 60 \
    --mca btl_verbs_show_map 1 -- \
    "$talker" --size 8 --iterations 1
tap_like "$TAP_OUT" 'map: .*shca1 port 1 RoCE, GID .*RoCE v2' "and the GID with its type on RoCE"

tap_run "btl_verbs_show_memory" 90 vrb_mpirun --timeout 60 --mca btl_verbs_show_memory 1 \
    --mca btl_verbs_use_srq 0 -- "$talker" --size 300000 --iterations 1
tap_like "$TAP_OUT" \
    'memory: host node0 rank 0, for host node1 rank 1, connected: .*receive queue [1-9]' \
    "show_memory tells what a peer costs"
tap_like "$TAP_OUT" 'memory: host node0 rank 0, shca0 port 1: registered [1-9].* [1-9][0-9.]* KiB of the program' \
    "show_memory tells what is registered"

tap_run "btl_verbs_summary" 90 vrb_mpirun --ranks 4 --timeout 60 --mca btl_verbs_summary 1 -- \
    "$BUILD/tests/mpi/initfini" --skew 300
tap_is "$(grep -c 'summary of host node[01], 2 ranks$' "$TAP_OUT")" 2 "one table for each host"
tap_run "btl_verbs_summary, with messages" 90 vrb_mpirun --timeout 60 --mca btl_verbs_summary 1 -- \
    "$talker" --size 300000 --iterations 2
tap_like "$TAP_OUT" '^  packets over connections +[1-9][0-9]* +[1-9][0-9]*  0$' "it has packets"
tap_like "$TAP_OUT" '^  RDMA reads +[1-9]' "RDMA reads"
tap_like "$TAP_OUT" '^  bytes registered at the end +[1-9]' "and registered bytes"
# A rank that ends without a word is not waited for.
cat >"$TAP_TMP/mute.c" <<'END'
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        _exit(0);
    }
    sleep(1);
    exit(MPI_Finalize());
}
END
if tap_have mpicc && mpicc -o "$TAP_TMP/mute" "$TAP_TMP/mute.c" 2>"$TAP_TMP/cc"; then
    vrb_mpirun --hosts 1 --timeout 30 --mca btl_verbs_summary 1 -- "$TAP_TMP/mute" >"$TAP_OUT" 2>&1
    tap_run "a rank that ends without a word: the job is not held up (status $?)" 5 \
        test $? -ne 124
else
    tap_skip "a rank that ends without a word" "mpicc cannot build a program"
fi

tap_run "a job over the device without asking" 90 vrb_mpirun --btl ^tcp,openib --timeout 60 \
    --mca mca_base_component_path "$path" -- "$talker" --size 8 --iterations 1
tap_is "$(said)" "" "a device, nothing asked: not a word"
# vrb_mpirun --pml ucx would leave only btl/self; here Open MPI finds ours and opens it for nothing.
over_ucx() {
    local fabric=component-$$ status
    SOFTHCA_FABRIC=$fabric UCX_TLS=rc_verbs,ud_verbs,self UCX_WARN_UNUSED_ENV_VARS=n \
        here --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ^ucx \
        -x LD_PRELOAD="$BUILD/.libs/libsofthca.so"
    status=$?
    "$BUILD/softhca-ctl" --fabric "$fabric" reap >/dev/null 2>&1
    return "$status"
}
tap_run "a job over UCX with the component present" 90 over_ucx
tap_is "$(said)" "" "another PML in use: not a word"
tap_done
