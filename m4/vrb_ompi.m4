# VRB_CHECK_OMPI: the Open MPI that the component is built for, found through its ompi_info.
# SPDX-License-Identifier: BSD-3-Clause
#
# Sets OMPI_CPPFLAGS, OMPI_LIBS (libopen-pal), MPICC, MPI_CFLAGS, MPI_LIBS (for MPI programs),
# componentdir, helpdir; defines VRB_OMPI_VERSION_{MAJOR,MINOR,RELEASE} and VRB_OMPI_VERSION.

# VRB_OMPI_PATH(VARIABLE, NAME): asks ompi_info for one of its directories.
AC_DEFUN([VRB_OMPI_PATH], [
  $1=`"$OMPI_INFO" --parsable --path $2 2>/dev/null | sed -n 's/^path:$2://p'`
])

AC_DEFUN([VRB_OMPI_FIND], [
  AS_IF([test -n "$with_ompi"], [
    AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$with_ompi/bin])
    AC_PATH_PROG([MPICC], [mpicc.openmpi], [], [$with_ompi/bin])
    AS_IF([test -z "$MPICC"], [AC_PATH_PROG([MPICC_PLAIN], [mpicc], [], [$with_ompi/bin])
                               MPICC=$MPICC_PLAIN])
  ], [
    AC_PATH_PROG([OMPI_INFO], [ompi_info])
    # Beside that ompi_info first: another MPI's mpicc may come earlier in PATH.
    vrb_bindir=`AS_DIRNAME(["$OMPI_INFO"])`
    AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc], [], [$vrb_bindir:$PATH])
  ])
])

# Version of the installed Open MPI: "Open MPI v4.1.4" or "Open MPI v5.0.0rc12".
AC_DEFUN([VRB_OMPI_VERSION_OF], [
  AC_MSG_CHECKING([the version of Open MPI])
  vrb_ompi_version=`"$OMPI_INFO" --version 2>/dev/null | sed -n 's/^Open MPI v*\([[0-9]][[^ ]]*\).*/\1/p'`
  AC_MSG_RESULT([${vrb_ompi_version:-unknown}])
  vrb_ompi_major=`echo "$vrb_ompi_version" | sed -n 's/^\([[0-9]]*\)\..*/\1/p'`
  vrb_ompi_minor=`echo "$vrb_ompi_version" | sed -n 's/^[[0-9]]*\.\([[0-9]]*\).*/\1/p'`
  vrb_ompi_release=`echo "$vrb_ompi_version" | sed -n 's/^[[0-9]]*\.[[0-9]]*\.\([[0-9]]*\).*/\1/p'`
  vrb_ompi_release=${vrb_ompi_release:-0}
])

# Header directories. A source tree comes after the installed headers, because only the installed
# opal_config.h describes the installed library; without installed headers, its build tree is first.
AC_DEFUN([VRB_OMPI_CPPFLAGS_OF], [
  VRB_OMPI_PATH([vrb_ompi_include], [pkgincludedir])
  VRB_OMPI_PATH([vrb_ompi_topinclude], [includedir])
  OMPI_CPPFLAGS=
  AS_IF([test -n "$with_ompi_build"],
        [OMPI_CPPFLAGS="-isystem $with_ompi_build/opal/include -isystem $with_ompi_build"])
  AS_IF([test -r "$vrb_ompi_include/opal_config.h"],
        [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $vrb_ompi_include"])
  AS_IF([test -n "$with_ompi_source"],
        [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $with_ompi_source/opal/include -isystem $with_ompi_source"])
  # From version 5 on, headers of Open MPI include pmix.h.
  AS_IF([test "$vrb_ompi_major" -ge 5], [
    AS_IF([test -r "$vrb_ompi_topinclude/pmix.h"], [
      AS_IF([test "x$vrb_ompi_topinclude" != x/usr/include],
            [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $vrb_ompi_topinclude"])],
      [test -n "$PKG_CONFIG" && $PKG_CONFIG --exists pmix],
      [OMPI_CPPFLAGS="$OMPI_CPPFLAGS `$PKG_CONFIG --cflags pmix`"
       OMPI_LIBS="$OMPI_LIBS `$PKG_CONFIG --libs pmix`"])
  ])
])

# The headers must be there, be of the version that ompi_info reported, and link.
AC_DEFUN([VRB_OMPI_CHECK_HEADERS], [
  vrb_save_CPPFLAGS=$CPPFLAGS
  vrb_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS"
  LIBS="$OMPI_LIBS $LIBS"
  vrb_ompi_headers=no
  vrb_ompi_same=no
  vrb_ompi_links=no
  AC_MSG_CHECKING([for Open MPI's BTL headers])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include "opal_config.h"
                                       #include "opal/mca/btl/btl.h"]], [])],
                    [vrb_ompi_headers=yes])
  AC_MSG_RESULT([$vrb_ompi_headers])
  AS_IF([test $vrb_ompi_headers = no],
    [VRB_MISSING([headers of Open MPI $vrb_ompi_version for components, opal/mca/btl/btl.h (or name --with-ompi-source and --with-ompi-build)],
                 [libopenmpi-dev], [openmpi-devel])], [
    AC_MSG_CHECKING([whether headers and library are of one version])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include "opal_config.h"
        #if OPAL_MAJOR_VERSION != $vrb_ompi_major || OPAL_MINOR_VERSION != $vrb_ompi_minor
        #error other version
        #endif
        extern const char opal_version_string@<:@@:>@;]], [[return opal_version_string[0];]])],
      [vrb_ompi_same=yes])
    AC_MSG_RESULT([$vrb_ompi_same])
    AS_IF([test $vrb_ompi_same = no],
      [VRB_MISSING([libopen-pal and headers both of Open MPI $vrb_ompi_version (see config.log)],
                   [libopenmpi-dev], [openmpi-devel])])
  ])
  CPPFLAGS=$vrb_save_CPPFLAGS
  LIBS=$vrb_save_LIBS
])

# Where `make install` puts the component: the user's choice, else beside Open MPI's own components
# unless the user gave a prefix, in which case nothing may be written outside of it.
AC_DEFUN([VRB_OMPI_COMPONENT_DIR], [
  AS_IF([test -n "$with_component_dir"], [componentdir=$with_component_dir],
        [test "x$prefix" = xNONE && test -n "$vrb_ompi_pkglibdir"],
        [componentdir=$vrb_ompi_pkglibdir],
        [componentdir='${libdir}/openmpi'])
  AS_IF([test "x$prefix" = xNONE && test -n "$vrb_ompi_pkgdatadir"],
        [helpdir=$vrb_ompi_pkgdatadir],
        [helpdir='${datadir}/openmpi'])
  vrb_component_summary=$componentdir
])

AC_DEFUN([VRB_CHECK_OMPI], [
  AC_ARG_WITH([ompi],
    [AS_HELP_STRING([--with-ompi=PREFIX], [where Open MPI is installed (default: the ompi_info in PATH)])],
    [], [with_ompi=])
  AC_ARG_WITH([ompi-source],
    [AS_HELP_STRING([--with-ompi-source=DIR],
                    [source tree of the same version, when the installed headers are not complete])],
    [], [with_ompi_source=])
  AC_ARG_WITH([ompi-build],
    [AS_HELP_STRING([--with-ompi-build=DIR],
                    [configured build tree of the installed Open MPI, when it installed no opal_config.h])],
    [], [with_ompi_build=])
  AC_ARG_WITH([component-dir],
    [AS_HELP_STRING([--with-component-dir=DIR],
                    [install the component there @<:@Open MPI's component directory, or LIBDIR/openmpi if --prefix is given@:>@])],
    [], [with_component_dir=])
  AC_ARG_ENABLE([mpi-component],
    [AS_HELP_STRING([--disable-mpi-component],
                    [build the transport core, the software HCA and their tests only: no Open MPI needed])])
  m4_foreach_w([vrb_name], [ompi ompi_source ompi_build component_dir], [
    AS_CASE([$with_[]vrb_name], [yes], [AC_MSG_ERROR([--with-]m4_translit(vrb_name, [_], [-])[ needs a directory])],
            [no], [with_[]vrb_name=])
  ])

  vrb_ompi_summary="not used (--disable-mpi-component)"
  AS_IF([test "x$enable_mpi_component" != xno], [
    VRB_OMPI_FIND
    AS_IF([test -z "$OMPI_INFO"],
      [VRB_MISSING([Open MPI 4.1 or newer (no ompi_info in ${with_ompi:+$with_ompi/bin}${with_ompi:-PATH})],
                   [openmpi-bin libopenmpi-dev], [openmpi openmpi-devel])], [
      VRB_OMPI_VERSION_OF
      AS_IF([test -z "$vrb_ompi_major"],
        [VRB_MISSING([Open MPI ($OMPI_INFO does not tell its version)],
                     [openmpi-bin libopenmpi-dev], [openmpi openmpi-devel])],
        [test "$vrb_ompi_major" -lt 4 || { test "$vrb_ompi_major" -eq 4 && test "$vrb_ompi_minor" -lt 1; }],
        [VRB_MISSING([Open MPI 4.1 or newer ($OMPI_INFO is version $vrb_ompi_version)],
                     [openmpi-bin libopenmpi-dev], [openmpi openmpi-devel])], [
        VRB_OMPI_PATH([vrb_ompi_libdir], [libdir])
        VRB_OMPI_PATH([vrb_ompi_pkglibdir], [pkglibdir])
        VRB_OMPI_PATH([vrb_ompi_pkgdatadir], [pkgdatadir])
        OMPI_LIBS="-L$vrb_ompi_libdir -lopen-pal"
        VRB_OMPI_CPPFLAGS_OF
        VRB_OMPI_CHECK_HEADERS
        AS_IF([test -z "$MPICC"],
          [VRB_MISSING([Open MPI's compiler wrapper mpicc], [libopenmpi-dev], [openmpi-devel])],
          [MPI_CFLAGS=`"$MPICC" --showme:compile | sed 's/ *-pthread */ /; s/-I/-isystem /g'`
           MPI_LIBS=`"$MPICC" --showme:link`])
        vrb_ompi_summary="$vrb_ompi_version ($OMPI_INFO)"
        AC_DEFINE_UNQUOTED([VRB_OMPI_VERSION], ["$vrb_ompi_version"], [Open MPI built for])
        AC_DEFINE_UNQUOTED([VRB_OMPI_VERSION_MAJOR], [$vrb_ompi_major], [its major version])
        AC_DEFINE_UNQUOTED([VRB_OMPI_VERSION_MINOR], [$vrb_ompi_minor], [its minor version])
        AC_DEFINE_UNQUOTED([VRB_OMPI_VERSION_RELEASE], [$vrb_ompi_release], [its release number])
      ])
    ])
  ])
  VRB_OMPI_COMPONENT_DIR
  AM_CONDITIONAL([VRB_MPI], [test "x$enable_mpi_component" != xno])
  AC_SUBST([OMPI_INFO])
  AC_SUBST([OMPI_CPPFLAGS])
  AC_SUBST([OMPI_LIBS])
  AC_SUBST([MPICC])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_LIBS])
  AC_SUBST([OMPI_PKGLIBDIR], [$vrb_ompi_pkglibdir])
  AC_SUBST([componentdir])
  AC_SUBST([helpdir])
])
