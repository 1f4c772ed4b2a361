#!/bin/bash
# group: configure, gcc and clang without warnings, tarball, what configure says when it lacks something
# timeout: 1500
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

jobs=$(nproc)
unset MAKEFLAGS MFLAGS

# configure_in DIR ARGS...: in a folder of its own, out of the source tree.
configure_in() {
    mkdir -p "$1" && cd "$1" || return 1
    shift
    "$TOP/configure" -q "$@"
}

# A cache of what does not depend on Open MPI makes the many runs of configure short.
cache=$TAP_TMP/cache
fresh_cache() {
    grep -vE 'ac_cv_path_(OMPI|MPI)|vrb_cv_' "$TAP_TMP/first.cache" >"$cache" 2>/dev/null
}

# --- what is built and installed -------------------------------------------------------------

component=$BUILD/.libs/mca_btl_verbs.so
tap_is "$(nm -D --defined-only "$component" | awk '{ print $NF }' | sort | tr '\n' ' ')" \
    "mca_btl_verbs_component " "the component exports its own descriptor and nothing else"
readelf -d "$component" >"$TAP_TMP/dynamic"
tap_like "$TAP_TMP/dynamic" 'NEEDED.*libopen-pal\.so\.[0-9]' \
    "the component is tied to Open MPI's series by libopen-pal's soname"
tap_like "$TAP_TMP/dynamic" 'NEEDED.*libibverbs\.so\.1' "the component needs libibverbs"
ldd -r "$component" 2>&1 | grep 'undefined symbol' >"$TAP_TMP/undefined"
tap_unlike "$TAP_TMP/undefined" . "no symbol of the component is left unresolved"
tap_run "the component is installed where the prefix says" 10 \
    cmp "$component" "$PREFIX/lib/openmpi/mca_btl_verbs.so"
make -s -C "$BUILD" all >"$TAP_TMP/again" 2>&1 </dev/null
tap_unlike "$TAP_TMP/again" . "nothing is left to build after a build"
OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$PREFIX/lib/openmpi timeout 30 \
    ompi_info --param btl verbs --level 9 >"$TAP_TMP/params" 2>&1
tap_like "$TAP_TMP/params" 'MCA btl verbs: parameter "btl_verbs_if_include"' \
    "ompi_info loads the component and lists its parameters"

# --- compilers and the tarball ---------------------------------------------------------------

distcheck() {
    configure_in "$TAP_TMP/dist" --cache-file="$TAP_TMP/first.cache" &&
        make -s "-j$jobs" distcheck AM_DISTCHECK_CONFIGURE_FLAGS="--enable-werror CFLAGS=-O1"
}
tap_run "make distcheck: tarball, gcc -Werror, check, install, uninstall, clean" 900 distcheck
chmod -R u+w "$TAP_TMP/dist" 2>/dev/null # distcheck leaves a read-only tree when it fails

if [ -e "$TOP/.git" ] && tap_have git; then
    tarball=$(find "$TAP_TMP/dist" -maxdepth 1 -name 'verbs-*.tar.gz')
    tar -tzf "${tarball:-/dev/null}" 2>/dev/null | sed 's|^[^/]*/||' | sort >"$TAP_TMP/packed"
    git -C "$TOP" ls-files | sort >"$TAP_TMP/tracked"
    tap_is "$(comm -23 "$TAP_TMP/tracked" "$TAP_TMP/packed" | tr '\n' ' ')" "" \
        "every tracked file is in the tarball"
else
    tap_skip "every tracked file is in the tarball" "not a git checkout"
fi

if tap_have clang; then
    clang_build() {
        configure_in "$TAP_TMP/clang" --enable-werror --prefix="$TAP_TMP/inst" CC=clang \
            CFLAGS=-O0 && make -s "-j$jobs" all && make -s "-j$jobs" check TESTS=
    }
    tap_run "clang -Werror builds all, test programs too" 600 clang_build
else
    tap_skip "clang -Werror builds all, test programs too" "clang is not installed"
fi

# --- what configure says ---------------------------------------------------------------------

# Everything in PATH but Open MPI.
bare=$TAP_TMP/bare
mkdir -p "$bare"
IFS=: read -r -a dirs <<<"$PATH"
for dir in "${dirs[@]}"; do
    ln -s "$dir"/* "$bare/" 2>/dev/null
done
rm -f "$bare"/ompi* "$bare"/opal* "$bare"/orte* "$bare"/mpi* "$bare"/shmem*

# says NAME REGEX ARGS...: configure must fail with exactly one error line, which matches REGEX.
says() {
    local name=$1 regex=$2
    shift 2
    rm -rf "$TAP_TMP/missing"
    fresh_cache
    (configure_in "$TAP_TMP/missing" --cache-file="$cache" "$@") >"$TAP_TMP/said" 2>&1 </dev/null
    local status=$?
    local lines
    lines=$(grep -cE '^configure: error: ' "$TAP_TMP/said")
    if [ $status -ne 0 ] && [ "$lines" -eq 1 ] &&
        grep -E '^configure: error: ' "$TAP_TMP/said" | grep -Eq "$regex"; then
        tap_ok "$name"
    else
        tap_notok "$name" "status $status, $lines error lines; wanted: $regex" \
            "$(tail -n 5 "$TAP_TMP/said")"
    fi
}

PATH=$bare says "no Open MPI: one line names its packages" \
    'Open MPI.*no ompi_info in PATH.*openmpi-bin libopenmpi-dev.*openmpi-devel'
PATH=$bare vrb_cv_ibverbs=no says "no Open MPI and no libibverbs: one line names both" \
    'libibverbs.*libibverbs-dev.*rdma-core-devel.*Open MPI.*openmpi-bin'
says "a wrong --with-ompi is named" "no ompi_info in $TAP_TMP/nowhere/bin" \
    --with-ompi="$TAP_TMP/nowhere"
says "--with-ompi without a directory" 'with-ompi needs a directory' --with-ompi

# fake_ompi VERSION: an installation that has ompi_info but no headers.
fake_ompi() {
    mkdir -p "$TAP_TMP/fake/bin"
    cat >"$TAP_TMP/fake/bin/ompi_info" <<EOF
#!/bin/sh
case "\$*" in
*--version*) echo "Open MPI v$1" ;;
*--path*) for last in "\$@"; do :; done; echo "path:\$last:$TAP_TMP/fake/\$last" ;;
esac
EOF
    printf '#!/bin/sh\necho -lmpi\n' >"$TAP_TMP/fake/bin/mpicc"
    chmod +x "$TAP_TMP/fake/bin/"*
}
fake_ompi 3.1.6
says "an Open MPI that is too old" '4\.1 or newer.*3\.1\.6' --with-ompi="$TAP_TMP/fake"
fake_ompi 5.0.3
says "an Open MPI without its component headers" 'headers of Open MPI 5\.0\.3.*libopenmpi-dev' \
    --with-ompi="$TAP_TMP/fake"
fake_ompi "of nobody"
says "an ompi_info that tells no version" 'does not tell its version' --with-ompi="$TAP_TMP/fake"

# --- where things go -------------------------------------------------------------------------

directory_of() { # directory_of VARIABLE CONFIGURE-ARGS...
    local variable=$1
    shift
    rm -rf "$TAP_TMP/where"
    fresh_cache
    (configure_in "$TAP_TMP/where" --cache-file="$cache" "$@" >/dev/null 2>&1)
    make -s -C "$TAP_TMP/where" "print-$variable" 2>&1
}
tap_is "$(directory_of componentdir)" "$(ompi_info --parsable --path pkglibdir | sed 's/^path:pkglibdir://')" \
    "without --prefix the component goes to Open MPI's own directory"
tap_is "$(directory_of componentdir --prefix=/opt/x)" "/opt/x/lib/openmpi" \
    "with --prefix nothing is installed outside of it"
tap_is "$(directory_of componentdir --with-component-dir=/opt/y)" "/opt/y" \
    "--with-component-dir decides"
tap_is "$(sed -n 's/^#define VRB_OMPI_VERSION "\(.*\)"/\1/p' "$BUILD/config.h")" \
    "$(ompi_info --version | sed -n 's/^Open MPI v//p')" "config.h records Open MPI's version"

core_only() {
    (PATH=$bare configure_in "$TAP_TMP/core" --disable-mpi-component --enable-werror \
        CFLAGS=-O0) && make -s "-j$jobs" -C "$TAP_TMP/core" libsofthca.la softhca-ctl libvrb.la &&
        [ -e "$TAP_TMP/core/.libs/libsofthca.so" ] && [ ! -e "$TAP_TMP/core/mca_btl_verbs.la" ]
}
tap_run "core and software HCA build without Open MPI" 600 core_only
tap_done
