#!/bin/bash
# group: the component inside a source tree of Open MPI: placed, configured, built in both ways, run
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
#
# Open MPI's own autogen.pl and configure take a quarter of an hour, so a small tree stands in for
# it here: what they give to a component (AM conditional, opallibdir, the macros that it calls) and
# the headers of the installed Open MPI. docs/testing.md tells how the whole was tried.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"

tap_have autoreconf automake libtoolize ompi_info || tap_skip_all "no autotools, or no Open MPI"
into=$TOP/tools/into-ompi-tree
tree=$TAP_TMP/tree
cppflags=$(make -s -C "$BUILD" print-OMPI_CPPFLAGS 2>/dev/null | tail -n 1)
version=$(ompi_info --version | sed -n 's/^Open MPI v*\([0-9.]*\).*/\1/p')
IFS=. read -r major minor _ <<<"$version"
if [ -z "${minor:-}" ] || [ -z "$cppflags" ]; then
    tap_skip_all "the build has no component"
fi

# --- what is refused
tap_fails "no folder is a usage error" 10 "$into"
tap_fails "a folder that is no source tree is refused" 10 "$into" "$TAP_TMP"
tap_like "$TAP_OUT" 'is no source tree of Open MPI' "and it says so"
mkdir -p "$tree/opal/mca/btl" && : >"$tree/opal/mca/btl/btl.h" || exit 1
printf 'major=4\nminor=0\n' >"$tree/VERSION"
tap_fails "Open MPI 4.0 is refused" 10 "$into" "$tree"
tap_like "$TAP_OUT" '4\.1 is the oldest' "and it says what is wanted"
printf 'major=%s\nminor=%s\nrelease=0\n' "$major" "$minor" >"$tree/VERSION"
mkdir "$tree/opal/mca/btl/verbs" && : >"$tree/opal/mca/btl/verbs/theirs"
tap_fails "a component of that name that is not ours is refused" 10 "$into" "$tree"
tap_run "and stays as it is" 5 test -e "$tree/opal/mca/btl/verbs/theirs"
rm -r "$tree/opal/mca/btl/verbs"

# --- placing
tap_run "the component is placed" 20 "$into" "$tree"
tap_run "a second time replaces it" 20 "$into" "$tree"
tap_is "$(cd "$tree/opal/mca/btl" && ls)" "$(printf 'btl.h\nverbs')" "and leaves nothing beside it"
placed=$tree/opal/mca/btl/verbs
missing=$(cd "$TOP" && find component shared -name '*.[ch]' | while read -r file; do
    cmp -s "$file" "$placed/$file" || echo "$file"
done)
tap_is "$missing" "" "every source file of component and core is there"

# --- a tree around it
mkdir -p "$tree/config" "$tree/m4" || exit 1
cat >"$tree/configure.ac" <<'END'
AC_INIT([tree], [1.0])
AC_CONFIG_AUX_DIR([config])
AC_CONFIG_MACRO_DIR([m4])
AC_CONFIG_HEADERS([found.h])
AM_INIT_AUTOMAKE([foreign subdir-objects no-define])
AC_PROG_CC
AM_PROG_AR
LT_INIT
AC_DEFUN([OPAL_SUMMARY_ADD], [echo "summary: $2: $4"])
m4_include([opal/mca/btl/verbs/configure.m4])
MCA_opal_btl_verbs_CONFIG([echo "verbs: yes"], [echo "verbs: no"])
AM_CONDITIONAL([MCA_BUILD_opal_btl_verbs_DSO], [test "x$dso" = xyes])
OPAL_LIB_PREFIX=
OPAL_LIB_NAME=open-pal
opallibdir='${libdir}/openmpi'
AC_SUBST([OPAL_LIB_PREFIX])
AC_SUBST([OPAL_LIB_NAME])
AC_SUBST([opallibdir])
AC_CONFIG_FILES([Makefile opal/Makefile])
AC_OUTPUT
END
echo 'SUBDIRS = opal opal/mca/btl/verbs' >"$tree/Makefile.am"
printf '%s\n' 'noinst_LTLIBRARIES = libopen-pal.la' 'libopen_pal_la_SOURCES = nothing.c' \
    >"$tree/opal/Makefile.am"
echo 'int libopen_pal_stands_in;' >"$tree/opal/nothing.c"
tap_run "autoreconf takes its macros and its rules" 180 autoreconf --install --force "$tree"

# configured NAME ARGUMENTS...: in a build folder of its own, outside the tree
configured() {
    local build=$TAP_TMP/$1
    shift
    mkdir -p "$build" && cd "$build" &&
        "$tree/configure" -q --prefix="$build/inst" "$@" &&
        { grep '^#define VRB_' found.h | tee vrb_found.h; }
}
# built NAME TARGET: the real opal_config.h is that of the installed Open MPI, so what configure found
# out here is given on the command line
built() {
    make -s "-j$(nproc)" -C "$TAP_TMP/$1" CPPFLAGS="-O1 $cppflags -include $TAP_TMP/$1/vrb_found.h" "$2"
}
tap_run "configure takes it for an object of its own" 180 configured dso dso=yes
tap_like "$TAP_OUT" '^verbs: yes' "and finds that it can be built"
tap_like "$TAP_OUT" 'VRB_HAVE_QUERY_GID_EX' "with what libibverbs has"
tap_run "the object is built and installed" 300 built dso install
tap_is "$(nm -D --defined-only "$TAP_TMP/dso/inst/lib/openmpi/mca_btl_verbs.so" |
    grep -c mca_btl_verbs_component)" 1 "it exports the component"

tap_run "configure takes it for the library" 180 configured static dso=no
tap_run "the part of the library is built" 300 built static all
archive=$TAP_TMP/static/opal/mca/btl/verbs/.libs/libmca_btl_verbs.a
tap_is "$(nm --defined-only "$archive" | sed -n 's/^[0-9a-f]* [A-TV-Z] //p' |
    grep -v -e '^vrb_' -e '^mca_btl_verbs_' | sort -u | tr '\n' ' ')" "" \
    "its symbols have a prefix, since all of Open MPI shares them"
tap_run "--without-btl-verbs leaves it out" 180 configured without --without-btl-verbs dso=yes
tap_like "$TAP_OUT" '^verbs: no' "and says so"
tap_fails "--with-btl-verbs insists" 180 configured insist --with-btl-verbs dso=yes \
    CPPFLAGS=-Dibv_get_device_list=not_there
tap_like "$TAP_OUT" 'missing: libibverbs' "and tells what is missing"

# --- the object runs
if [ -x "$BUILD/tests/mpi/pingpong" ] && [ -e "$BUILD/.libs/libsofthca.so" ]; then
    over_tree() { PREFIX=$TAP_TMP/dso/inst vrb_mpirun "$@"; }
    tap_run "a job over the object that the tree made" 90 over_tree --timeout 60 \
        --mca btl_verbs_show_map 1 -- "$BUILD/tests/mpi/pingpong" --max-size 100K --iterations 2
    tap_like "$TAP_OUT" 'map: host node0 rank 0 shca0' "and it carried the messages"
else
    tap_skip "a job over the object that the tree made" "no software HCA or no MPI programs"
fi
tap_done
