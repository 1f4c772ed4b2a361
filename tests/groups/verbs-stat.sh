#!/bin/bash
# group: the tool verbs_stat: counters of a running job, odd files, ports before and after a command
# timeout: 180
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

stat=$BUILD/tools/verbs_stat
dir=$TAP_TMP/stats

# status N WHAT COMMAND...: ends with that status; what it says goes to $TAP_OUT
status() {
    local want=$1 what=$2
    shift 2
    "$@" >"$TAP_OUT" 2>&1
    tap_is $? "$want" "$what"
}
valid() { # valid WHAT: $TAP_OUT is JSON, line by line
    cp "$TAP_OUT" "$TAP_TMP/valid.json"
    tap_run "$1" 10 python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$TAP_TMP/valid.json"
}

# ---- nothing to show, and wrong use

status 2 "no folder named" env -u OMPI_MCA_btl_verbs_stats_dir "$stat"
tap_like "$TAP_OUT" 'btl_verbs_stats_dir' "it says which one is meant"
status 2 "a folder that is not there" "$stat" "$dir"
tap_like "$TAP_OUT" 'stats: No such file' "and why it cannot be read"
mkdir "$dir"
status 1 "an empty folder" "$stat" "$dir"
tap_like "$TAP_OUT" 'no process shows' "it says so"
status 1 "an empty folder, from the environment, JSON" env OMPI_MCA_btl_verbs_stats_dir="$dir" \
    "$stat" --json
valid "that is JSON"
status 2 "a wrong option" "$stat" --nosuch
status 2 "a wrong number" "$stat" --watch soon "$dir"
status 2 "two folders" "$stat" "$dir" "$dir"
"$stat" --help >/dev/full 2>"$TAP_OUT"
tap_is $? 2 "a full device: status 2"
status 0 "--version" "$stat" --version

# ---- ports before and after a command

port=$TAP_TMP/root/sys/class/infiniband/mlx5_0/ports/1
mkdir -p "$port/counters" "$port/hw_counters"
echo 100 >"$port/counters/port_rcv_data"
echo 7 >"$port/counters/port_rcv_errors"
echo 3 >"$port/hw_counters/out_of_sequence"
echo 10 >"$port/hw_counters/lifespan"
echo junk >"$port/hw_counters/odd"
echo 9 >"$port/hw_counters/rx_read_requests"
change="echo 1100 >$port/counters/port_rcv_data; echo 5 >$port/hw_counters/out_of_sequence"
status 3 "hw passes on the command's status" \
    "$stat" hw --root "$TAP_TMP/root" -- sh -c "$change; echo 4 >$port/hw_counters/rx_read_requests; exit 3"
tap_like "$TAP_OUT" '^mlx5_0:1 +port_rcv_data +\+1000 +1100  in units of 4 bytes' "what changed"
tap_like "$TAP_OUT" 'WARN mlx5_0:1 out_of_sequence \+2: .* What to do: ' "and what betrays trouble"
tap_like "$TAP_OUT" 'rx_read_requests +-5 +4  was set back' "a counter that was set back"
tap_unlike "$TAP_OUT" 'port_rcv_errors|lifespan|odd' "nothing else"
status 0 "hw, JSON" "$stat" hw --json --all --root "$TAP_TMP/root" -- true
valid "that is JSON"
status 0 "hw, nothing changed" "$stat" hw --root "$TAP_TMP/root" -- true
tap_like "$TAP_OUT" '^none of 4 counters changed' "it says so"
status 0 "hw, no device" "$stat" hw --root "$TAP_TMP/nosuch" -- true
tap_like "$TAP_OUT" 'no RDMA port' "it says so"
status 127 "hw, no such command" "$stat" hw -- /nonexistent/command
status 137 "hw, a command that is killed" "$stat" hw -- sh -c 'kill -9 $$'
status 2 "hw, no command" "$stat" hw
"$stat" hw --output "$TAP_TMP/hw" --root "$TAP_TMP/root" -- echo said >"$TAP_OUT" 2>&1
tap_is "$(cat "$TAP_OUT")" said "hw, with a file for the table: the command's output is as it was"

# ---- a running job

if [ ! -e "$BUILD/.libs/libsofthca.so" ] || ! tap_have mpirun mpicc; then
    tap_skip "a running job" "no software HCA, or no mpicc"
    tap_done
fi
cat >"$TAP_TMP/until.c" <<'END'
/* Exchanges messages until a file is there. */
#include <mpi.h>
#include <unistd.h>
static char small[8], large[100000];
int main(int argc, char **argv)
{
    int rank, end = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!end) {
        MPI_Sendrecv_replace(small, 8, MPI_BYTE, !rank, 0, !rank, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace(large, sizeof(large), MPI_BYTE, !rank, 0, !rank, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        end = access(argv[1], F_OK) == 0;
        MPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
END
mpicc -o "$TAP_TMP/until" "$TAP_TMP/until.c" >"$TAP_OUT" 2>&1 || {
    tap_skip "a running job" "mpicc cannot build a program"
    tap_done
}
vrb_mpirun --timeout 60 --mca btl_verbs_stats_dir "$dir" -- "$TAP_TMP/until" "$TAP_TMP/end" \
    >"$TAP_TMP/job" 2>&1 &
job=$!
for _ in $(seq 150); do
    "$stat" "$dir" >"$TAP_OUT" 2>&1
    grep -Eq '^  gets +[1-9][0-9]* +[1-9][0-9]* +[1-9]' "$TAP_OUT" && break # both ranks
    sleep 0.2
done
tap_like "$TAP_OUT" '^job [0-9a-f]+, 2 ranks' "a running job is shown"
tap_like "$TAP_OUT" 'rank 1 +host node1 +pid [0-9]+ +running, [0-9.]+ s ago' "its ranks are named"
tap_like "$TAP_OUT" '^  gets +[1-9][0-9]* +[1-9][0-9]* +[1-9]' "counters, together and for each rank"
tap_unlike "$TAP_OUT" 'ud_messages' "those that are 0 are left out"
# shellcheck disable=SC2012
tap_is "$(ls "$dir" | wc -l)" 2 "a file for each rank, and nothing else"
status 0 "the same as JSON" "$stat" --json "$dir"
valid "that is JSON"
tap_run "the sum is that of the ranks" 10 python3 -c 'import json, sys
s = json.load(open(sys.argv[1]))
assert s["sum"]["gets"] == sum(p["figures"]["gets"] for p in s["processes"]) > 0, s
assert [p["rank"] for p in s["processes"]] == [0, 1], s' "$TAP_TMP/valid.json"
status 0 "--watch, two rounds" "$stat" --watch 1.5 --rounds 2 "$dir"
tap_like "$TAP_OUT" '^  tx_packets +[0-9]+ +[1-9][0-9.]+ ' "the second one has rates"

# What else may lie there: garbage, a piece of a good file, another version, one of a dead process.
good=$(find "$dir" -name '*-0.verbs-stat')
echo garbage >"$dir/1-1.verbs-stat"
head -c 300 "$good" >"$dir/1-2.verbs-stat"
: >"$dir/1-3.verbs-stat"
{ head -c 8 "$good" && printf '\x09' && tail -c +10 "$good"; } >"$dir/1-4.verbs-stat"
mkfifo "$dir/1-5.verbs-stat"
mkdir "$dir/1-6.verbs-stat"
: >"$dir/unrelated"
# pid is at byte 24: 4 bytes. The highest there may be is hardly in use.
{ head -c 24 "$good" && printf '\xff\xff\x3f\x00' && tail -c +29 "$good"; } >"$dir/1-7.verbs-stat"
timeout 10 "$stat" "$dir" >"$TAP_OUT" 2>"$TAP_TMP/err"
tap_is $? 0 "odd files beside the good ones do not disturb"
tap_like "$TAP_OUT" '^job [0-9a-f]+, 2 ranks' "which are shown"
tap_like "$TAP_OUT" '^1 file of processes that have ended' "a dead process is told"
tap_is "$(grep -c '1-[1-6]' "$TAP_TMP/err")" 6 "each odd one is named"
tap_like "$TAP_TMP/err" '1-4.verbs-stat: layout 9, and this program reads 1' "with its reason"
status 0 "--stale" "$stat" --stale "$dir"
tap_like "$TAP_OUT" 'ended, ' "shows the dead"
status 0 "--clean" "$stat" --clean "$dir"
tap_run "removes what it left" 5 test ! -e "$dir/1-7.verbs-stat"
tap_run "and nothing else" 5 test -e "$dir/1-1.verbs-stat"
rm -rf "$dir"/1-* "$dir/unrelated"

: >"$TAP_TMP/end"
wait "$job"
tap_is $? 0 "the job ends well"
status 1 "then there is nothing to show" "$stat" "$dir"
tap_is "$(ls "$dir")" "" "and nothing is left"
tap_run "a folder that cannot be made does not stop a job" 60 vrb_mpirun --timeout 50 \
    --mca btl_verbs_stats_dir /proc/nosuch/x -- "$TAP_TMP/until" "$TAP_TMP/end"
tap_like "$TAP_OUT" 'btl_verbs_stats_dir, host node0: /proc/nosuch/x: No such file' "but is told"
tap_done
