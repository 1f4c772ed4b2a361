#!/bin/bash
# group: tarball and Debian package: the same twice, lintian, what is in it, a job with it; recipes
# timeout: 600
# packages: packages
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

unset MAKEFLAGS MFLAGS

# --- the tarball

# dist FOLDER: a tarball made in a build folder of its own.
dist() {
    mkdir -p "$TAP_TMP/$1" && cd "$TAP_TMP/$1" || return 1
    "$TOP/configure" -q --disable-tests --prefix="$TAP_TMP/inst" --cache-file="$TAP_TMP/cache" &&
        make -s dist
}
tap_run "make dist" 120 dist one
tap_run "make dist, elsewhere and later" 120 dist two
tarball=$(find "$TAP_TMP/one" -maxdepth 1 -name 'verbs-*.tar.gz')
tap_run "both are the same, byte for byte" 10 cmp "$tarball" "$TAP_TMP/two/${tarball##*/}"

# --- Debian

if tap_have dpkg-buildpackage dh; then
    tap_run "make deb" 400 make -s -C "$TAP_TMP/one" deb
    deb=$(find "$TAP_TMP/one/deb" -name 'openmpi-verbs_*.deb')
    root=$TAP_TMP/root
    tap_run "it unpacks" 20 dpkg-deb -x "${deb:-/dev/null}" "$root"
    series=$(ompi_info --version | sed -n 's/^Open MPI v*\([0-9]*\.[0-9]*\).*/\1/p')
    dir=$(ompi_info --parsable --path pkglibdir | sed 's/^path:pkglibdir://')
    (cd "$root" 2>/dev/null && find . ! -type d) | sort >"$TAP_TMP/list"
    for file in "$dir/mca_btl_verbs.so" /usr/bin/verbs_info /usr/share/man/man7/mca_btl_verbs.7.gz \
        /etc/openmpi/verbs-mca-params.conf /usr/share/modules/modulefiles/verbs/; do
        tap_like "$TAP_TMP/list" "^\\.$file" "it has $file"
    done
    tap_unlike "$TAP_TMP/list" '\.la$|libsofthca|vrb_pingpong' "it has nothing that only tests need"
    dpkg-deb -f "${deb:-/dev/null}" Depends >"$TAP_TMP/depends"
    tap_like "$TAP_TMP/depends" "libopenmpi[0-9]+[^,]*\\(>= ${series//./\\.}[.)]" "it needs Open MPI $series"
    tap_like "$TAP_TMP/depends" "libopenmpi[0-9]+[^,]*\\(<< " "and no later series"
    if tap_have lintian; then
        lintian --allow-root "$TAP_TMP"/one/deb/*.changes >"$TAP_TMP/lintian" 2>&1
        tap_unlike "$TAP_TMP/lintian" '^E:' "lintian finds no error"
    else
        tap_skip "lintian finds no error" "lintian is not installed"
    fi
    # Unloading must not take /usr/bin out of PATH.
    tap_is "$(grep -rlE 'prepend.path.*PATH.*(/bin|"bin")' "$root/usr/share/modules" "$root/usr/share/lmod")" "" \
        "its module leaves PATH alone"
    tap_run "a job with the component of the package" 90 env PREFIX="$TAP_TMP/plugin" bash -c "
        mkdir -p '$TAP_TMP/plugin/lib' && ln -s '$root$dir' '$TAP_TMP/plugin/lib/openmpi' &&
        '$TOP/tests/lib/vrbrun' --link roce --timeout 60 --mca btl_verbs_show_map 1 -- \
            '$BUILD/tests/mpi/pingpong'"
    tap_like "$TAP_OUT" "map: host node0 rank 0 .* MTU" "goes over verbs"
else
    tap_skip "make deb" "debhelper is not installed"
fi

# --- the others

spec=$TOP/contrib/rpm/openmpi-verbs.spec
version=$(sed -n 's/^AC_INIT(\[verbs\], \[\(.*\)\])/\1/p' "$TOP/configure.ac")
tap_is "$(sed -n 's/^Version: *//p' "$spec")" "$version" "the RPM is of the version of configure.ac"
tap_is "$(find "$TOP/contrib/easybuild" -name "verbs-$version-*.eb" | wc -l)" 1 \
    "and so is EasyBuild's recipe"
if tap_have rpmspec; then
    tap_run "rpmspec understands the spec" 30 rpmspec -P "$spec"
else
    tap_skip "rpmspec understands the spec" "rpm is not installed"
fi
for recipe in "$TOP"/contrib/easybuild/*.eb "$TOP"/contrib/spack/packages/*/package.py; do
    tap_run "${recipe##*/} is Python" 10 python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" \
        "$recipe"
done
# Each option that a recipe passes to configure must be one.
"$TOP/configure" --help >"$TAP_TMP/help" 2>/dev/null
wrong=$(cat "$TOP"/contrib/{debian/rules,rpm/*.spec,easybuild/*.eb,spack/packages/*/package.py} |
    grep -oE -- '--(with|enable|disable)-[a-z-]+' | sort -u | while read -r option; do
    grep -qF -- "$option" "$TAP_TMP/help" || echo "$option"
done)
tap_is "$wrong" "" "every option that they pass is one of configure's"

# --- the man page

if tap_have python3; then
    make -s -C "$TAP_TMP/one" -n man >"$TAP_TMP/man.sh"
    sed "s|>[^ ]*mca_btl_verbs.7.new|>'$TAP_TMP/man.7'|; /^mv /d" "$TAP_TMP/man.sh" >"$TAP_TMP/man1.sh"
    (cd "$TAP_TMP/one" && sh "$TAP_TMP/man1.sh")
    tap_run "mca_btl_verbs(7) says what docs/parameters.md says (else: make man)" 10 \
        cmp "$TAP_TMP/man.7" "$TOP/docs/mca_btl_verbs.7"
    if tap_have man; then
        man -l --warnings "$TOP/docs/mca_btl_verbs.7" 2>"$TAP_TMP/man.err" >/dev/null
        tap_unlike "$TAP_TMP/man.err" . "and man has no complaint"
    fi
fi
tap_done
