#!/bin/bash
# group: every program of the benchmark suite runs, prints what it promises, and finds wrong bytes
# timeout: 600
# packages: report
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

tap_have mpirun python3 || tap_skip_all "mpirun and python3 are needed"
bench=$BUILD/benchmarks
[ -x "$bench/vrb_latency" ] || tap_skip_all "built without MPI"

job() { # job RANKS LINK PROGRAM ARGS...: over verbs
    local ranks=$1 link=$2
    shift 2
    vrb_mpirun --ranks "$ranks" --link "$link" --timeout 50 -- "$@"
}

# tap_run overwrites its output, so what a job printed is kept beside it.
job_kept() {
    job "$@" | tee "$TAP_OUT.kept"
    return "${PIPESTATUS[0]}"
}

# The head of a table, and a row of numbers for each size with "Pass" behind it.
is_table() { # is_table FILE HEAD ROWS
    grep -qE "^$2" "$1" || {
        echo "no line '$2'"
        return 1
    }
    [ "$(grep -cE '^ *[0-9]+(\.[0-9]+)?( +[0-9]+(\.[0-9]+)?)+ +Pass$' "$1")" -eq "$3" ] || {
        echo "not $3 rows of numbers that passed"
        return 1
    }
}

# Prints what is wrong with a JSON result: it must hold these keys, each with a number above 0
# (an overlap may be 0), in so many rows, and no wrong byte.
# shellcheck disable=SC2016
is_json='
import json, sys
text = open(sys.argv[1]).read()
run = json.loads(text[text.index("{"):])
rows, keys = run["results"], sys.argv[4].split()
assert run["benchmark"] == sys.argv[2], run["benchmark"]
assert len(rows) == int(sys.argv[3]), "%d rows" % len(rows)
for row in rows:
    assert not row.get("wrong_bytes"), row
    for key in keys:
        assert row[key] > 0 or (key == "overlap_percent" and row[key] == 0), (key, row)
    if "p50_us" in row:
        assert row["p50_us"] <= row["p99_us"] <= row["p999_us"], row
    if "p50_mbps" in row:
        assert row["p50_mbps"] >= row["p99_mbps"] >= row["p999_mbps"], row
'

ran() { # ran NAME RANKS LINK PROGRAM KEYS ROWS ARGS...: one job, its JSON is as promised
    local name=$1 ranks=$2 link=$3 program=$4 keys=$5 rows=$6
    shift 6
    tap_run "$name: the job" 60 job_kept "$ranks" "$link" "$bench/vrb_$program" --json "$@" || return
    tap_run "$name: its figures" 10 python3 -c "$is_json" "$TAP_OUT.kept" "vrb_$program" "$rows" \
        "$keys"
}

shown() { # shown NAME RANKS LINK PROGRAM HEAD ROWS ARGS...: one job, its table is as OSU's
    local name=$1 ranks=$2 link=$3 program=$4 head=$5 rows=$6
    shift 6
    tap_run "$name: the job" 60 job_kept "$ranks" "$link" "$bench/vrb_$program" "$@" || return
    tap_run "$name: its table" 10 is_table "$TAP_OUT.kept" "$head" "$rows"
}

# Tables in the columns of OSU's programs: width 10 for the size, 18 for each figure.
shown "latency" 2 ib latency '# Size          Latency \(us\)        Validation$' 3 \
    -m 0,8,64K -i 20 -c
shown "latency in full" 2 roce latency \
    '# Size          Latency \(us\)          Min \(us\).* P50 \(us\) +P99 \(us\) +P99.9 \(us\) +Iterations' 2 \
    -m 8,1K -i 50 -c -f
shown "bandwidth" 2 ib bw '# Size      Bandwidth \(MB/s\)' 11 -m 1:1K -i 3 -W 8 -c
shown "message rate" 4 roce mbw_mr '# Size                  MB/s        Messages/s' 2 \
    -m 8,8K -i 10 -W 16 -c
shown "collective" 4 ib allreduce '# Size       Avg Latency\(us\)' 3 -m 4,1K,64K -i 5 -c
shown "overlap" 2 roce iallreduce '# Size           Overall\(us\) +Compute\(us\) +Pure Comm.\(us\) +Overlap' \
    2 -m 1K,64K -i 5 -c -t 2

percentiles='p50_us p99_us p999_us iterations'
for program in bibw put_bw get_bw put_bibw; do
    options=()
    [ $program = bibw ] || options=(-s lock)
    ran $program 2 ib $program 'bandwidth_mbps p50_mbps' 2 -m 1K,64K -i 3 -W 4 -c \
        "${options[@]+"${options[@]}"}"
done
for program in multi_lat latency_mt; do
    ran $program 2 roce $program "latency_us $percentiles" 2 -m 8,16K -i 10 -c
done
ran put_latency 3 ib put_latency "latency_us $percentiles" 2 -m 8,64K -i 5 -c -s fence
ran get_latency 2 roce get_latency "latency_us $percentiles" 2 -m 8,64K -i 5 -c -s pscw -w create
ran acc_latency 2 ib acc_latency "latency_us $percentiles" 2 -m 8,4K -i 5 -c
ran get_acc_latency 2 ib get_acc_latency "latency_us $percentiles" 2 -m 8,4K -i 5 -c -s lock
ran fop_latency 2 ib fop_latency "latency_us $percentiles" 1 -i 5 -c
ran cas_latency 2 roce cas_latency "latency_us $percentiles" 1 -i 5 -c
ran barrier 3 ib barrier "avg_latency_us $percentiles" 1 -i 5
for program in bcast reduce gather allgather scatter alltoall; do
    ran $program 3 roce $program "avg_latency_us $percentiles" 2 -m 8,16K -i 3 -c
done
ran ibarrier 3 roce ibarrier "overall_us pure_us overlap_percent" 1 -i 5
for program in ibcast ireduce igather iallgather iscatter ialltoall isend; do
    ran $program 3 ib $program "overall_us pure_us overlap_percent" 2 -m 8,16K -i 3 -c
done
ran init 3 ib init "avg_ms min_ms max_ms" 1
ran first_message 3 roce first_message "first_us second_us" 1 -c

# Validation must be able to fail: one byte is spoilt now and then on its way.
wrong() { # wrong PROGRAM ARGS...: the job ends with 1 and says so
    local program=$1
    shift
    tap_fails "$program finds a wrong byte" 60 vrb_mpirun --ranks 2 --timeout 50 \
        --env VRB_CORRUPT=7 -- "$bench/vrb_bench_corrupted" "$program" -i 10 -c "$@"
    tap_like "$TAP_OUT" 'validation FAILED: [1-9][0-9]* wrong bytes' "$program says so"
}
for program in latency bw put_latency acc_latency bcast allreduce ialltoall; do
    wrong $program -m 1K
done

# Options: what a program does not have, and wrong values, are refused before the job starts.
tap_fails "an option of another program is refused" 10 "$bench/vrb_latency" -W 4
tap_like "$TAP_OUT" 'vrb_latency has no option -W' "and named"
tap_fails "a wrong range is refused" 10 "$bench/vrb_bw" -m 8:4
tap_run "--help tells the options" 10 "$bench/vrb_mbw_mr" --help
tap_like "$TAP_OUT" '-W, --window-size' "and the long ones"

# The comparison: an interrupted run goes on where it stopped, and the reports are made of it.
compare=$TOP/benchmarks/compare
few=(--no-rt --no-extras --rounds 2 --budget 1 --link ib --peers tcp --tests mr
    --out "$TAP_TMP/report.md" --html "$TAP_TMP/report.html" --json "$TAP_TMP/report.json")
# A build folder of its own holds the record of the run, so that none of the user's is touched.
mkdir -p "$TAP_TMP/build"
ln -s "$BUILD"/* "$BUILD/.libs" "$TAP_TMP/build/"

# shellcheck disable=SC2317,SC2329 # called by tap_run
interrupted() { # the first step is done, and the second is under way
    local pid status
    BUILD=$TAP_TMP/build "$compare" "${few[@]}" &
    pid=$!
    for _ in $(seq 300); do
        grep -qs '"done": \["0 ' "$TAP_TMP/build/compare-run.json" && break
        sleep 0.1
    done
    kill -TERM "$pid" # as a batch system does; a shell's background jobs ignore SIGINT
    wait "$pid"
    status=$?
    [ "$status" -eq 130 ] || return 1
}
tap_run "an interrupted comparison ends with a report" 90 interrupted
tap_like "$TAP_OUT" 'interrupted; the report is made of what there is' "it says so"
tap_like "$TAP_TMP/report.md" 'The run was interrupted' "and so does the report"
tap_run "the same command goes on" 90 env BUILD="$TAP_TMP/build" "$compare" "${few[@]}"
tap_like "$TAP_OUT" 'going on with an interrupted run' "it says so"
tap_like "$TAP_TMP/report.md" '^\| rounds \| 2 of 2' "both rounds are in the report"
tap_fails "no record is left" 5 test -e "$TAP_TMP/build/compare-run.json"

# Programs under OSU's names in a folder of theirs.
mkdir -p "$TAP_TMP/osu/mpi/pt2pt"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$bench/vrb_latency" >"$TAP_TMP/osu/mpi/pt2pt/osu_latency"
chmod +x "$TAP_TMP/osu/mpi/pt2pt/osu_latency"
tap_run "a comparison with OSU's own programs" 90 env BUILD="$TAP_TMP/build" "$compare" --no-rt \
    --no-extras --rounds 1 --link roce --peers tcp --tests lat --osu "$TAP_TMP/osu" \
    --out "$TAP_TMP/osu.md" --html "$TAP_TMP/report.html"
tap_like "$TAP_TMP/osu.md" '^\| 1 MiB \| [0-9. ]+ \|' "their figures are in the report"

# shellcheck disable=SC2016
is_page='
import html.parser, sys
class Page(html.parser.HTMLParser):
    void, open, plots = {"meta", "br"}, [], 0
    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            assert name not in ("src", "href", "xlink:href") or value.startswith("#"), value
        self.plots += tag == "svg"
        if tag not in self.void:
            self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
page = Page()
text = open(sys.argv[1], encoding="utf-8").read()
page.feed(text)
assert not page.open and "prefers-color-scheme: dark" in text and "width=device-width" in text
assert page.plots == int(sys.argv[2]), page.plots
'
plots=0
tap_have gnuplot && plots=1
tap_run "the page is well-formed, needs nothing from elsewhere, and has its plot" 10 \
    python3 -c "$is_page" "$TAP_TMP/report.html" $plots

# In a Slurm allocation it takes the hosts of that, and not the software HCA.
tap_run "in a Slurm allocation" 20 env SLURM_JOB_ID=1 "$compare" --dry-run --peers verbs,ucx
tap_like "$TAP_OUT" 'vrbrun .*--no-softhca --arg --map-by --arg node --btl self,verbs' \
    "ranks are spread over its hosts"
tap_unlike "$TAP_OUT" '--hosts|chrt' "and nothing of the software HCA is used"

tap_done
