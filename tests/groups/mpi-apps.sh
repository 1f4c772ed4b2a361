#!/bin/bash
# group: programs that nobody here wrote, over verbs: NetPIPE and the HPC Challenge
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
#
# Both check their own results: NetPIPE -i verifies every byte it moves, the HPC Challenge computes
# residues and counts failures. Both are Debian packages (netpipe-openmpi, hpcc).
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong
MPI_TEST_LIMIT=150

# in_folder DIR OPTIONS -- PROGRAM ARGS: both programs write their results where they run
in_folder() {
    cd "$1" || return 1
    shift
    mpi_job "$@"
}

netpipe=$(command -v NPopenmpi)
for link in ib roce; do
    work=$TAP_TMP/netpipe-$link
    mkdir -p "$work"
    if [ -z "$netpipe" ]; then
        tap_skip "NetPIPE over $link" "no NPopenmpi: install netpipe-openmpi"
        continue
    fi
    # 1 B to 4 MiB with neighbours of each size; -p 3 perturbs by 3 bytes
    tap_run "NetPIPE, $link: runs to the largest size" 170 \
        in_folder "$work" --link $link --timeout 150 -- "$netpipe" -u 4194304 -p 3 -n 5 -o np.out
    cp "$TAP_OUT" "$work/log"
    sizes=$(grep -c '^ *[0-9]' "$work/np.out" 2>/dev/null)
    largest=$(awk 'END { print $1 + 0 }' "$work/np.out" 2>/dev/null)
    tap_run "NetPIPE, $link: figures for every size ($sizes, up to $largest bytes)" 5 \
        test "${sizes:-0}" -ge 50 -a "${largest:-0}" -ge 4194304
    tap_run "NetPIPE, $link: integrity check of every byte" 170 \
        in_folder "$work" --link $link --timeout 150 -- "$netpipe" -i -u 1048576 -n 10 -o npi.out
    tap_like "$TAP_OUT" 'Integrity check passed' "NetPIPE, $link: says that the integrity held"
    tap_unlike "$TAP_OUT" 'Integrity check failed|[Ee]rror' "NetPIPE, $link: and nothing else"
done

# A problem that takes seconds: N = 400 in blocks of 40 on a 2 x 2 grid, the other tests small too
hpcc_input() {
    cat <<'END'
HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
400          Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0                               Number of additional problem sizes for PTRANS
1200 10000 30000                values of N
0                               number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64        values of NB
END
}

for link in ib roce; do
    work=$TAP_TMP/hpcc-$link
    mkdir -p "$work"
    if ! tap_have hpcc; then
        tap_skip "HPC Challenge over $link" "no hpcc: install hpcc"
        continue
    fi
    hpcc_input >"$work/hpccinf.txt"
    tap_run "HPC Challenge, $link: 4 ranks run to the end" 170 \
        in_folder "$work" --link $link --ranks 4 --timeout 150 -- "$(command -v hpcc)"
    out=$work/hpccoutf.txt
    [ -e "$out" ] || : >"$out"
    tap_like "$out" 'End of HPC Challenge tests' "HPC Challenge, $link: the report is complete"
    tap_like "$out" '^ *1 tests completed and passed residual checks' \
        "HPC Challenge, $link: Linpack passed its residual checks"
    tap_like "$out" '^Success=1' "HPC Challenge, $link: its own verdict is success"
    tap_unlike "$out" 'FAILED|failed\)|^ *[1-9][0-9]* tests completed and failed|with error [1-9]' \
        "HPC Challenge, $link: no check failed"
    tap_like "$out" '^ *5 tests completed and passed residual checks' \
        "HPC Challenge, $link: the matrix transpose passed its residual checks"
    tap_unlike "$out" '^MPIRandomAccess[A-Z_]*_Errors=[^0]' \
        "HPC Challenge, $link: no update of MPI random access was lost"
done

tap_done
