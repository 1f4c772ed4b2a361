#!/bin/bash
# group: site-wide installation: environment modules (Tcl, Lua), no options, versions side by side
# timeout: 240
# packages: site
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

[ -e "$PREFIX/lib/openmpi/mca_btl_verbs.so" ] || tap_skip_all "the component is not installed"
series=$(ompi_info --version | sed -n 's/^Open MPI v*\([0-9]*\.[0-9]*\).*/\1/p')
site=$TAP_TMP/site
modules=$site/modulefiles

# install VERSION: the build at hand, as if it were that version, beside others.
install() {
    make -C "$BUILD" -s install prefix="$site/verbs/$1" modulefilesdir="$modules" \
        PACKAGE_VERSION="$1"
}

# --- make install, twice

tap_run "make install into a prefix with its version" 60 install 1.0
strictly() (
    umask 077
    install 1.1
)
tap_run "another version beside it, by a root with umask 077" 60 strictly
tap_is "$(find "$modules" ! -perm -o=r)" "" "modules are for all to read"
find "$site" ! -type d | sort >"$TAP_TMP/all"
for file in verbs/1.0/lib/openmpi/mca_btl_verbs.so verbs/1.0/etc/verbs-mca-params.conf \
    "modulefiles/verbs/1.0-ompi$series" "modulefiles/verbs/1.1-ompi$series.lua"; do
    tap_like "$TAP_TMP/all" "^$site/$file\$" "$file is installed"
done
tap_is "$(grep -rl '@[A-Za-z_]*@' "$modules" "$site"/verbs/*/etc)" "" \
    "no place-holder is left in what is installed"

# --- what a user sees, in both module systems. init.sh defines "module".

if [ -r /usr/share/modules/init/bash ]; then
    echo ". /usr/share/modules/init/bash" >"$TAP_TMP/tcl.sh"
fi
# Debian's packages of the two module systems exclude each other; Lmod runs unpacked as well.
lmod=/usr/share/lmod/lmod
if [ ! -e $lmod ] && tap_have apt-get dpkg-deb; then
    (cd "$TAP_TMP" && timeout 60 apt-get -q download lmod && dpkg-deb -x lmod_*.deb lmod) \
        >"$TAP_TMP/lmod.log" 2>&1
    lmod=$(cd "$TAP_TMP/lmod/usr/share/lmod/lmod" 2>/dev/null && pwd -P)
fi
if [ -n "$lmod" ] && [ -x "$lmod/libexec/lmod" ]; then
    cat >"$TAP_TMP/lua.sh" <<END
export LMOD_DIR=$lmod/libexec LMOD_CMD=$lmod/libexec/lmod LMOD_ROOT=${lmod%/*}
module() { eval "\$(\$LMOD_CMD bash "\$@")"; }
END
fi

# modular COMMANDS: a shell with the module system of $kind and our folder in use, and nothing else.
modular() {
    # Without entries that are there twice, of which Lmod keeps one.
    env -u MODULEPATH -u LOADEDMODULES -u _LMFILES_ PATH=/usr/local/bin:/usr/bin:/bin bash -c ". '$TAP_TMP/$kind.sh'
        module use '$modules'
        $1" 2>&1
}

shown='env | grep -E "OMPI_MCA|VERBS_ROOT|PMIX_MCA|^PATH=" | grep -v REF_COUNT | sort'
for kind in tcl lua; do
    if [ ! -e "$TAP_TMP/$kind.sh" ]; then
        tap_skip "$kind modules" "no module system for them ($(tail -n 1 "$TAP_TMP/lmod.log" 2>/dev/null))"
        continue
    fi
    modular 'module avail verbs' >"$TAP_TMP/avail"
    tap_like "$TAP_TMP/avail" "verbs/1.0-ompi$series" "$kind: module avail lists one version"
    tap_like "$TAP_TMP/avail" "1.1-ompi$series" "$kind: and the other"
    modular "module whatis verbs/1.0-ompi$series" >"$TAP_TMP/whatis"
    tap_like "$TAP_TMP/whatis" "libibverbs" "$kind: module whatis"
    modular "module help verbs/1.0-ompi$series" >"$TAP_TMP/help"
    tap_like "$TAP_TMP/help" "^Installed in $site/verbs/1.0" "$kind: module help says where it is"
    tap_like "$TAP_TMP/help" "btl_verbs_show_map" "$kind: module help says how to look"

    modular "module load verbs/1.0-ompi$series; echo \$?; $shown" >"$TAP_TMP/loaded"
    tap_is "$(head -n 1 "$TAP_TMP/loaded")" 0 "$kind: module load is silent and succeeds"
    tap_like "$TAP_TMP/loaded" "component_path=.*$site/verbs/1.0/lib/openmpi" \
        "$kind: the component's folder is in Open MPI's path"
    modular "module load verbs/1.0-ompi$series && ompi_info --param pml all --level 9 --parsable &&
        ompi_info --param osc rdma --level 9 --parsable" >"$TAP_TMP/info"
    tap_like "$TAP_TMP/info" "pml:base:param:pml:value:ob1" "$kind: pml ob1 is the default"
    tap_like "$TAP_TMP/info" "osc_rdma_btls:value:verbs" "$kind: one-sided operations use verbs"
    modular "module load verbs/1.0-ompi$series; OMPI_MCA_pml=cm \
        ompi_info --param pml all --level 9 --parsable" >"$TAP_TMP/info"
    tap_like "$TAP_TMP/info" "pml:base:param:pml:value:cm" "$kind: the user's own choice comes first"

    modular "module load verbs/1.0-ompi$series; module load verbs/1.1-ompi$series; \
        $shown; module list" >"$TAP_TMP/both"
    tap_is "$(grep -c "component_path=.*verbs/1.0.*verbs/1.1" "$TAP_TMP/both")" 0 \
        "$kind: two versions are never loaded at once"
    modular "$shown" >"$TAP_TMP/before"
    modular "module load verbs/1.0-ompi$series; module unload verbs; $shown" >"$TAP_TMP/after"
    tap_is "$(cat "$TAP_TMP/after")" "$(cat "$TAP_TMP/before")" "$kind: module unload leaves nothing"

    mkdir -p "$TAP_TMP/other"
    printf '#!/bin/sh\necho "mpirun (Open MPI) 9.9.1"; echo "Open MPI v9.9.1"\n' \
        >"$TAP_TMP/other/ompi_info"
    chmod +x "$TAP_TMP/other/ompi_info"
    modular "PATH=$TAP_TMP/other:\$PATH; module load verbs/1.0-ompi$series" >"$TAP_TMP/other.out"
    tap_like "$TAP_TMP/other.out" "for Open MPI $series, but PATH has Open MPI 9.9" \
        "$kind: an Open MPI of another series is pointed out"

    # shellcheck disable=SC2317,SC2329 # called by tap_run
    job() {
        modular "module load verbs/1.0-ompi$series
            '$TOP/tests/lib/vrbrun' --pml none --link $1 --timeout 60 \
            --mca btl_verbs_show_map 1 -- '$BUILD/tests/mpi/pingpong'"
    }
    link=ib
    [ $kind = tcl ] || link=roce
    tap_run "$kind: a job without any option, $link" 90 job $link
    tap_like "$TAP_OUT" "map: host node0 rank 0 .* MTU" "$kind: goes over verbs, $link"
done

# --- uninstall

uninstall() {
    make -C "$BUILD" -s uninstall prefix="$site/verbs/$1" modulefilesdir="$modules" \
        PACKAGE_VERSION="$1"
}
tap_run "make uninstall" 60 uninstall 1.0
tap_is "$(find "$site" -mindepth 3 | grep -F 1.0)" "" "nothing of it is left"
tap_is "$(find "$modules" -name "1.1-ompi$series*" | wc -l)" 2 "the other version is still there"
tap_run "make uninstall of the last version" 60 uninstall 1.1
tap_is "$(find "$site" -mindepth 1 -not -path "$site/verbs" -not -path "$site/verbs/1.[01]")" "" \
    "nothing is left but the prefixes"
tap_done
