#!/bin/bash
# group: programs that nobody here wrote, with the same results as over TCP (VRB_APPS=1)
# timeout: 3600
# SPDX-License-Identifier: BSD-3-Clause
#
# LAMMPS, ScaLAPACK's checks, and the tests of mpi4py. Asked for with VRB_APPS=1, since they take
# minutes. mpi4py's tests are in its source only: MPI4PY_TESTS names the folder `test` of the version
# that is installed.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

[ "${VRB_APPS:-0}" = 1 ] || tap_skip_all "takes minutes: asked for with VRB_APPS=1 only"
tap_have mpirun || tap_skip_all "no mpirun: install openmpi-bin"
tap_have lmp || "$TOP/tools/install-packages.sh" apps >&2 ||
    echo "# the packages of section apps cannot be installed here"
limit=${APPS_LIMIT:-300}

# What a job is started with; the parts below change it.
ranks=4 link=roce job_options=()

# job BTL OUT COMMAND...: one run in a folder of its own
job() {
    local btl=$1 out=$2 osc=()
    shift 2
    # One-sided operations over TCP need what Debian leaves out of Open MPI 4.1's defaults.
    [ "$btl" != tcp ] || osc=(--mca osc ^ucx)
    # shellcheck disable=SC2016 # the shell that runs it expands them
    vrb_mpirun --link "$link" --ranks "$ranks" --hosts 2 --btl "self,$btl" --timeout "$limit" \
        "${osc[@]+"${osc[@]}"}" "${job_options[@]+"${job_options[@]}"}" -- \
        bash -c 'cd "$1" && shift && exec "$@"' job "$TAP_TMP" "$@" >"$out" 2>&1
}

# same NAME FILTER COMMAND...: over verbs and over TCP; what FILTER leaves of the output must agree
same() {
    local name=$1 filter=$2 tcp verbs
    shift 2
    job tcp "$TAP_TMP/tcp.out" "$@"
    tcp=$?
    job verbs "$TAP_TMP/verbs.out" "$@"
    verbs=$?
    "$filter" <"$TAP_TMP/tcp.out" >"$TAP_TMP/tcp.result"
    "$filter" <"$TAP_TMP/verbs.out" >"$TAP_TMP/verbs.result"
    if [ $tcp -ne 0 ]; then
        tap_skip "$name" "fails over TCP, too (status $tcp): $(tail -n 1 "$TAP_TMP/tcp.result")"
        return
    fi
    tap_is "$verbs" 0 "$name: it ends well"
    tap_run "$name: there is a result ($(wc -l <"$TAP_TMP/tcp.result") lines)" 5 \
        test -s "$TAP_TMP/tcp.result"
    tap_run "$name: the same as over TCP" 5 diff "$TAP_TMP/tcp.result" "$TAP_TMP/verbs.result"
}

# --- LAMMPS: a Lennard-Jones melt, to twelve digits -------------------------------------------------

thermo() {
    sed -n '/^ *Step/,/^Loop/p' | grep -v '^Loop'
}
cat >"$TAP_TMP/melt.in" <<'END'
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 8 0 8 0 8
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 1.44 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    delay 0 every 20 check no
fix             1 all nve
thermo          20
thermo_modify   norm no format float %20.12g
run             200
END
if tap_have lmp; then
    same "LAMMPS" thermo lmp -in melt.in -log none
else
    tap_skip "LAMMPS" "no lmp here"
fi

# --- ScaLAPACK: its own residual checks ---------------------------------------------------------------

residuals() {
    grep -E '^Finished|tests (completed|skipped)' # not the lines with times
}
checks=$(find /usr/lib -path '*scalapack/openmpi-tests/xdqr' 2>/dev/null | head -n 1)
if [ -n "$checks" ] && cp /usr/share/scalapack/*.dat "$TAP_TMP/" 2>/dev/null; then
    for check in xdqr xdtrd; do
        same "ScaLAPACK, $check" residuals "${checks%/*}/$check"
        tap_like "$TAP_TMP/verbs.result" ' 0 tests completed and failed' \
            "ScaLAPACK, $check: no residual is too large"
    done
else
    tap_skip "ScaLAPACK" "no scalapack-mpi-test here"
fi

# --- mpi4py: its tests ---------------------------------------------------------------------------------

verdicts() {
    grep -aE '^(FAIL|ERROR): |^Ran [0-9]+ tests' | sed 's/ in [0-9.]*s$//' | sort -u
}
# mpi4py WHAT OPTIONS...: its tests over TCP and over verbs. One that fails over TCP, too, is listed.
mpi4py() {
    local what="mpi4py, $1" btl
    shift
    for btl in tcp verbs; do
        job "$btl" "$TAP_TMP/$btl.out" /usr/bin/python3 test/runtests.py --no-builddir "$@"
        verdicts <"$TAP_TMP/$btl.out" >"$TAP_TMP/$btl.result"
        echo "# $what, $btl: $(paste -sd';' "$TAP_TMP/$btl.result")"
    done
    tap_is "$(grep -cE '^Ran [0-9]+ tests' "$TAP_TMP/verbs.result")" 1 "$what: the tests ran"
    tap_is "$(grep -vxFf "$TAP_TMP/tcp.result" "$TAP_TMP/verbs.result" | grep -v '^Ran' |
        paste -sd';')" "" "$what: nothing fails that does not fail over TCP"
}

if ! /usr/bin/python3 -c 'import mpi4py' 2>/dev/null; then
    tap_skip "mpi4py" "no python3-mpi4py here"
elif [ ! -e "${MPI4PY_TESTS:-}/runtests.py" ]; then
    tap_skip "mpi4py" "its tests are not here: MPI4PY_TESTS names their folder"
else
    cp -r "$MPI4PY_TESTS" "$TAP_TMP/test"
    for ranks in ${MPI4PY_RANKS:-1 2 4}; do
        [ "$link" = ib ] && link=roce || link=ib
        mpi4py "$ranks ranks, $link" -e spawn -e dynproc
    done
    # Children need slots that the job has not.
    ranks=2 job_options=(--arg --oversubscribe)
    mpi4py "2 ranks, $link, spawn, connect, accept" -i spawn -i dynproc
fi

tap_done
