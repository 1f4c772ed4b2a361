#!/bin/bash
# group: MPI jobs under faults: registration, connection, dead peers, bad parameters, and silence
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong killed
component=(--mca mca_base_component_path "SYS_DEFAULT:$PREFIX/lib/openmpi")

# Lines of our transport in the output of the last job
our_lines() {
    grep -ci 'verbs' "$TAP_OUT"
}

# --- memory registration ----------------------------------------------------------------------

# Regions as long as the messages; the component's own pools have other lengths. A rule that meets
# one of them stops the job at its start, and the test with it.
for link in ib roce; do
    mpi_pass "registration of user buffers always fails, $link: messages are copied" --link $link \
        --fault 'reg_mr.fail min=68k max=240k' -- pingpong --max-size 230K --iterations 1 \
        --kinds 0x0a --counters
    mpi_counted registrations_refused "registration always fails, $link: it did fail"
    mpi_pass "registration of large buffers always fails, $link" --link $link \
        --fault 'reg_mr.fail min=600k max=6m' -- pingpong --size 4M --iterations 4 --kinds 0x0b \
        --timeout 20 --counters
    mpi_counted registrations_refused "registration of large buffers always fails, $link: it did"
    mpi_pass "registration fails every third time, $link: each message finds a way" --link $link \
        --fault 'reg_mr.fail min=68k max=240k every=3; reg_mr.fail min=600k max=6m every=3' \
        -- random --iterations 6 --max-size 2M --timeout 20
done
mpi_pass "registration fails, incast of 80 KiB" --ranks 4 --fault 'reg_mr.fail min=70k max=100k' \
    -- incast --size 80K --iterations 3
mpi_pass "registration fails now and then, read-only pages" \
    --fault 'reg_mr.fail min=600k max=5m every=2' -- readonly --iterations 2 --timeout 20
mpi_pass "registration fails now and then, remapped memory" \
    --fault 'reg_mr.fail min=600k max=5m prob=0.3' -- remap --iterations 4 --timeout 20

# --- limits of the device and of locked memory ------------------------------------------------

mpi_fails "no completion queue" 'verbs.*(CQ|completion queue).*(ENOMEM|[Mm]emory)' \
    --fault 'create_cq.fail' --ranks 4 -- pingpong --size 8
tap_is "$(grep -c 'cannot be used' "$TAP_OUT")" 2 "no completion queue: each host says so once"
mpi_fails "no queue pair at all" 'verbs.*(QP|queue pair).*(ENOMEM|[Mm]emory)' \
    --fault 'create_qp.fail' -- pingpong --size 8
mpi_fails "no RC queue pair" '(QP|queue pair).*(ENOMEM|[Mm]emory)' \
    --fault 'create_qp.fail type=rc' -- pingpong --size 8
mpi_fails "an RC queue pair that cannot be connected" '(EINVAL|Invalid argument)' \
    --fault 'modify_qp.fail type=rc' -- pingpong --size 8
mpi_pass "no shared receive queue to be had: each peer has its own" --fault 'create_srq.fail' \
    -- pingpong --iterations 1 --max-size 100K
printf '[limits]\nmax_srq = 0\n' >"$TAP_TMP/no-srq.ini"
mpi_pass "a device without shared receive queues" --conf "$TAP_TMP/no-srq.ini" --ranks 4 \
    -- random --iterations 4 --max-size 300K
printf '[limits]\nmax_inline = 0\nmax_qp_wr = 16\nmax_sge = 1\nmax_cqe = 256\n' >"$TAP_TMP/small.ini"
mpi_pass "a small device: no inline, short queues, one element" --conf "$TAP_TMP/small.ini" \
    --ranks 4 -- random --iterations 4 --max-size 300K
printf '[limits]\nmax_cqe = 200\n' >"$TAP_TMP/short-cq.ini"
mpi_pass "the send queue refuses now and then" --fault 'post_send.fail type=rc prob=0.02' --ranks 4 \
    -- random --iterations 4 --max-size 300K
# The first rule of each pair strikes while the queues are filled, too; the second only in the middle
# of traffic.
for rule in 'ib 23' 'roce 197'; do
    read -r link every <<<"$rule"
    mpi_pass "the shared receive queue refuses one of $every, $link" --link "$link" --ranks 4 \
        --mca btl_verbs_recv_buffers 64 --fault "post_recv.fail every=$every" \
        -- random --iterations 20 --max-size 64K --timeout 25
done
for rule in 'ib 351' 'roce 23'; do
    read -r link every <<<"$rule"
    mpi_pass "each peer's receive queue refuses one of $every, $link" --link "$link" --ranks 4 \
        --fault "post_recv.fail every=$every" --mca btl_verbs_use_srq 0 \
        -- random --iterations 20 --max-size 64K --timeout 25
done
mpi_pass "the queue of the datagrams refuses one of 23" --ranks 4 --mca btl_verbs_mode ud \
    --fault 'post_recv.fail every=23' -- random --iterations 4 --max-size 64K --timeout 25
mpi_fails "the shared receive queue is broken" 'shared receive queue.*Invalid argument' --ranks 4 \
    --fault 'post_recv.fail every=701 errno=22' -- random --iterations 20 --max-size 64K
mpi_pass "a short completion queue, a receive queue per peer" --conf "$TAP_TMP/short-cq.ini" \
    --ranks 4 --mca btl_verbs_use_srq 0 -- random --iterations 4 --max-size 64K
for limit in 'max_cqe = 170' 'max_qp_wr = 2'; do
    printf '[limits]\n%s\n' "$limit" >"$TAP_TMP/limit.ini"
    mpi_fails "$limit, a receive queue per peer" "cannot be used: its .*(${limit%% *})" \
        --conf "$TAP_TMP/limit.ini" --mca btl_verbs_use_srq 0 -- pingpong --size 8
done
mpi_fails "a device that cannot be opened" 'shca0: it cannot be opened: Permission denied' \
    --fault 'open_device.fail errno=13' -- pingpong --size 8
mpi_fails "no address handle" 'next: ' --fault 'create_ah.fail' -- pingpong --size 8
mpi_fails "64 KiB of locked memory" '(ulimit -l|[Ll]ocked memory|memlock)' \
    --env SOFTHCA_MEMLOCK=65536 -- pingpong --size 8
mpi_pass "64 KiB of locked memory, with btl/tcp to fall back on" --btl self,tcp,verbs \
    --env SOFTHCA_MEMLOCK=65536 -- pingpong --iterations 1 --max-size 100K
mpi_pass "24 MiB of locked memory: the component's buffers fit, large messages do not" \
    --env SOFTHCA_MEMLOCK=25165824 -- pingpong --iterations 1 --kinds 2

# --- the handshake -----------------------------------------------------------------------------

for link in ib roce; do
    mpi_pass "handshake with datagrams lost, doubled and overtaken, $link" --link $link --ranks 4 \
        --fault 'ud.drop prob=0.3; ud.dup prob=0.3; ud.reorder prob=0.3 window=3' -- storm
    mpi_pass "handshake with the first datagrams lost, both sides at once, $link" --link $link \
        --fault 'ud.drop count=3' -- storm --tick 500
    mpi_pass "handshake with datagrams damaged, $link" --link $link --ranks 4 \
        --fault 'ud.corrupt prob=0.2 index=7; ud.corrupt prob=0.2 index=60' -- storm
done
mpi_fails "no datagram arrives" '(handshake|connect)' \
    --mca btl_verbs_connect_timeout 3 --fault 'ud.drop' -- storm
mpi_pass "receiver not ready now and then" --fault 'rc.rnr prob=0.02' --ranks 4 \
    -- random --iterations 4 --max-size 300K

# --- connections that break --------------------------------------------------------------------

mpi_fails "no acknowledgement" 'RETRY_EXC' --mca btl_verbs_recover_timeout 0 \
    --fault 'rc.retry_exc nth=40' -- pingpong --max-size 10K
for fact in 'local:.*host node[01]' 'remote:.*host node[01]' 'next:'; do
    tap_like "$TAP_OUT" "$fact" "no acknowledgement: the report has a line like $fact"
done
mpi_fails "a completion with an error" 'REM_OP_ERR' \
    --fault 'wc.error status=REM_OP_ERR nth=40' -- pingpong --max-size 10K
mpi_fails "an RDMA refused by the peer" 'REM_ACCESS_ERR' \
    --fault 'wc.error status=REM_ACCESS_ERR op=read nth=2; wc.error status=REM_ACCESS_ERR op=write nth=2' \
    -- pingpong --size 1M --iterations 20

for size in 64 300K; do
    for seen in yes no; do
        mpi_killed "killed peer, $size bytes" $seen --mca btl_verbs_ib_timeout 12 -- --size $size
    done
done

# --- ports and names ---------------------------------------------------------------------------

printf '[port */shca0]\nstate = down\n' >"$TAP_TMP/down.ini"
mpi_fails "the only port is down" 'shca0 port 1: the port is down' --conf "$TAP_TMP/down.ini" \
    -- pingpong --size 8
mpi_pass "the only port is down, with btl/tcp to fall back on" --btl self,tcp,verbs \
    --conf "$TAP_TMP/down.ini" -- pingpong --iterations 1 --max-size 10K
mpi_pass "one of two ports is down" --link all --conf "$TAP_TMP/down.ini" \
    --mca btl_verbs_show_map 1 -- pingpong --iterations 1 --max-size 10K
tap_like "$TAP_OUT" 'map:.*shca1' "one of two ports is down: the other one is used"

mpi_fails "unknown device" "if_include.*'?nosuch0'?.*shca0" \
    --mca btl_verbs_if_include nosuch0 -- pingpong --size 8
mpi_pass "unknown device, with btl/tcp to fall back on" --btl self,tcp,verbs \
    --mca btl_verbs_if_include nosuch0 -- pingpong --iterations 1 --max-size 10K
tap_like "$TAP_OUT" "if_include.*'?nosuch0'?.*shca0" "unknown device: the warning lists what exists"
tap_like "$TAP_OUT" 'btl_verbs_if_include leaves none of its ports' "unknown device: which parameter"
tap_unlike "$TAP_OUT" 'kernel driver|No RDMA device' "unknown device: it is not the driver's fault"
mpi_pass "an unknown device beside a known one" --mca btl_verbs_if_include nosuch0,shca0 \
    -- pingpong --iterations 1 --max-size 10K
tap_like "$TAP_OUT" "if_include.*'?nosuch0'?.*shca0" "an unknown device beside a known one: a warning"
mpi_fails "unknown port" "if_include.*shca0:7.*shca0" \
    --mca btl_verbs_if_include shca0:7 -- pingpong --size 8
mpi_fails "both lists" 'btl_verbs_if_include or btl_verbs_if_exclude: .*give one of the two' --mca btl_verbs_if_include shca0 \
    --mca btl_verbs_if_exclude shca1 -- pingpong --size 8
mpi_pass "one of two devices excluded" --link all --mca btl_verbs_if_exclude shca0 \
    --mca btl_verbs_show_map 1 -- pingpong --iterations 1 --max-size 10K
tap_unlike "$TAP_OUT" 'shca0' "one of two devices excluded: it is not used"
mpi_pass "two devices, both used" --link all --ranks 4 -- random --iterations 4

# --- absurd parameters -------------------------------------------------------------------------

# absurd NAME PARAMETER=VALUE...: the job runs, and each host says once for each parameter what it
# uses instead
absurd() {
    local name=$1 options=() pair
    shift
    for pair in "$@"; do
        options+=(--mca "btl_verbs_${pair%%=*}" "${pair#*=}")
    done
    mpi_pass "$name: the job runs" "${options[@]}" -- pingpong --iterations 1 --max-size 100K \
        --kinds 3
    for pair in "$@"; do
        tap_is "$(grep -cE "btl_verbs_${pair%%=*} = .*using" "$TAP_OUT")" 2 \
            "btl_verbs_$pair: one line on each host says what is used instead"
    done
}
absurd "parameters far too small" credits=0 recv_buffers=1 sq_depth=0 connect_timeout=0 \
    eager_limit=1 max_send_size=3 send_buffers=0 rd_atomic=0
huge=4000000000
absurd "parameters far too large" credits=$huge sq_depth=$huge max_inline=$huge ib_timeout=99 \
    ib_retry_count=99 use_srq=7 eager_limit=$huge max_send_size=$huge send_buffers=$huge \
    connect_timeout=$huge sl=99 rd_atomic=$huge
mpi_pass "recv_buffers far too large: the job runs, or says what it could not have" \
    --btl self,tcp,verbs --mca btl_verbs_recv_buffers $huge -- pingpong --iterations 1 \
    --max-size 100K --kinds 3

# --- mistakes in what the software HCA is told -------------------------------------------------

mpi_fails "a fault rule that does not exist" "'nonsense': no such fault point" --fault nonsense \
    -- pingpong --size 8
mpi_fails "a configuration that is not there" 'cannot read the configuration' --conf /nonexistent \
    -- pingpong --size 8
printf '[limits\nmax_qp = many\n' >"$TAP_TMP/garbage.ini"
mpi_fails "a configuration that is garbage" 'garbage.ini:1: a section needs' \
    --conf "$TAP_TMP/garbage.ini" -- pingpong --size 8
# By hand nothing looks at it before the launcher's daemons, whose words are lost.
mpi_pass "the same, past the check: the job says so" --env SOFTHCA_CONF="$TAP_TMP/garbage.ini" \
    -- pingpong --iterations 1 --max-size 10K
tap_is "$(grep -c 'garbage.ini:1: a section needs' "$TAP_OUT")" 1 "the same, past the check: once"

# --- silence -----------------------------------------------------------------------------------

# silent NAME [OPTIONS]: the job passes and nobody hears of us
silent() {
    local name=$1
    shift
    mpi_pass "$name" "$@" "${component[@]}" -- pingpong --iterations 1 --max-size 10K
    tap_is "$(our_lines)" 0 "$name: nothing is said"
}
silent "no device" --btl '^openib' --env SOFTHCA_DEVS=none
silent "another PML" --pml ucx
silent "used without being asked for" --btl '^openib,vader'
silent "too little locked memory, not asked for" --btl '^openib' --env SOFTHCA_MEMLOCK=65536
silent "the port is down, not asked for" --btl '^openib' --conf "$TAP_TMP/down.ini"
mpi_pass "a job that uses it says nothing" -- collectives --iterations 1 --max-size 100K
tap_is "$(our_lines)" 0 "a job that uses it says nothing: no line"

tap_done
