# VRB_CHECK_SITE: what the environment modules of a site-wide installation say.
# SPDX-License-Identifier: BSD-3-Clause
#
# After VRB_CHECK_OMPI. Sets OMPI_SERIES (4.1), OMPI_SYSCONFDIR, OMPI_RIVALS, modulefilesdir.
AC_DEFUN([VRB_CHECK_SITE], [
  AC_ARG_WITH([modulefiles],
    [AS_HELP_STRING([--with-modulefiles=DIR],
                    [install environment modules (Tcl, Lua) there @<:@PREFIX/share/modulefiles if --prefix is given@:>@])],
    [], [with_modulefiles=])
  AS_CASE([$with_modulefiles],
    [yes|''], [modulefilesdir='${datadir}/modulefiles'],
    [modulefilesdir=$with_modulefiles])
  # Beside Open MPI's own components nothing has to be set for Open MPI to find ours.
  AS_IF([test "x$with_modulefiles" = x && test "x$prefix" = xNONE], [with_modulefiles=no])
  AM_CONDITIONAL([VRB_MODULEFILES],
    [test "x$with_modulefiles" != xno && test "x$enable_mpi_component" != xno])

  OMPI_SERIES=$vrb_ompi_major.$vrb_ompi_minor
  VRB_OMPI_PATH([OMPI_SYSCONFDIR], [sysconfdir])
  # From 5.0 on, Open MPI's own components are usually part of its libraries. Where they are not,
  # its folder has to stay in the component path.
  vrb_ompi_dso=no
  AS_IF([test -n "$OMPI_PKGLIBDIR" && ls "$OMPI_PKGLIBDIR"/mca_pml_*.so >/dev/null 2>&1],
        [vrb_ompi_dso=yes])
  AM_CONDITIONAL([VRB_OMPI_DSO], [test $vrb_ompi_dso = yes])
  # libpmix of 5.x looks through the same path and complains of files that are not its own.
  AM_CONDITIONAL([VRB_OMPI_PMIX5], [test "${vrb_ompi_major:-0}" -ge 5])
  AS_CASE([$vrb_ompi_major], [4], [OMPI_RIVALS=openib,uct], [OMPI_RIVALS=uct,ofi])
  AC_SUBST([OMPI_SERIES])
  AC_SUBST([OMPI_SYSCONFDIR])
  AC_SUBST([OMPI_RIVALS])
  AC_SUBST([modulefilesdir])
])
