#!/bin/bash
# group: a stranger on the fabric who knows the Q_Keys sends forged handshakes to a running job
# timeout: 300
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong

outsider() { # outsider PROGRAM [ARGS]: on a host of its own
    SOFTHCA_FABRIC=$theirs SOFTHCA_HOST=stranger SOFTHCA_DEVS=$via \
        LD_PRELOAD=$BUILD/.libs/libsofthca.so "$@"
}

# pid, QPN and Q_Key of each rank's UD QP
victims() {
    "$BUILD/softhca-ctl" --fabric "$theirs" queues 2>/dev/null |
        sed -n 's/^qp \(0x[0-9a-f]*\)  pid \([0-9]*\)  node.*  UD  RTS .*qkey \(0x[0-9a-f]*\).*/\2 \1 \3/p'
}

rss() { # KiB of a process
    awk '/^VmRSS/ {print $2}' "/proc/$1/status" 2>/dev/null || echo 0
}

# Where the attack goes to: the LID of a host's shca0, or the RoCE v2 entry of its shca1.
address_of() {
    "$BUILD/softhca-ctl" --fabric "$theirs" status | awk -v host="$1" -v link="$via" '
        $1 == "host" {on = $2 == host}
        on && link == "ib" && match($0, /lid (0x)?[0-9a-f]+/) {
            print "--lid", substr($0, RSTART + 4, RLENGTH - 4); exit}
        on && link == "roce" && $1 == "gid" && $2 == 3 {print "--gid", $3; exit}'
}

job() {
    mpi_job --fabric "$theirs" --link "$via" --exec "$mode" --env CHK_WHILE="$TAP_TMP/attacked" -- \
        pingpong --size 8 --iterations 100 --kinds 1 --timeout 50
}

attacked() { # attacked LINK sync|deferred
    local via=$1 mode=$2 theirs=attack-$1-$$ what="$1, $2" watched pid qpn qkey job host to before after

    # The job lasts as long as the attack does, on a slow machine and on a fast one.
    : >"$TAP_TMP/attacked"
    (
        job >"$TAP_TMP/job" 2>&1
        echo "status $?" >>"$TAP_TMP/job"
    ) &
    watched=$!
    for ((i = 0; i < 300; i++)); do
        [ "$(victims | wc -l)" -eq 2 ] && break
        sleep 0.1
    done
    victims >"$TAP_TMP/victims"
    tap_is "$(wc -l <"$TAP_TMP/victims")" 2 "$what: both ranks have a UD queue pair"
    sleep 0.5
    while read -r pid qpn qkey; do
        job=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^PMIX_NAMESPACE=//p')
        host=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^SOFTHCA_HOST=//p')
        read -r -a to <<<"$(address_of "${host:-?}")"
        before=$(rss "$pid")
        tap_run "$what: the attack on $host runs to its end" 60 outsider \
            "$BUILD/tests/transport/hello_attack" "${to[@]-}" --qpn "$qpn" --qkey "$qkey" \
            --job "${job:-0}" --ranks 2
        tap_like "$TAP_OUT" '^sent [1-9][0-9]*, answers 0$' "$what: nobody on $host answers"
        after=$(rss "$pid")
        tap_run "$what: the memory of the rank on $host does not grow ($before, $after KiB)" 5 \
            test "$after" -gt 0 -a $((after - before)) -lt 4096
    done <"$TAP_TMP/victims"
    rm "$TAP_TMP/attacked"
    wait "$watched"
    tap_like "$TAP_TMP/job" '^status 0$' "$what: the job goes on and ends"
    tap_like "$TAP_TMP/job" '^PASS ' "$what: every byte was right"
    tap_unlike "$TAP_TMP/job" 'btl:verbs|[Ww]arn|[Ee]rror' "$what: and nothing was said"
}

attacked ib sync
attacked roce deferred

tap_done
