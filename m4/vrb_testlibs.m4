# VRB_CHECK_CMOCKA, VRB_CHECK_NETLINK and VRB_CHECK_SDT: what is made use of if it is there.
# SPDX-License-Identifier: BSD-3-Clause

AC_DEFUN([VRB_CHECK_CMOCKA], [
  CMOCKA_LIBS=
  vrb_save_LIBS=$LIBS
  LIBS="-lcmocka $LIBS"
  AC_CACHE_CHECK([for cmocka], [vrb_cv_cmocka], [
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <stdarg.h>
        #include <stddef.h>
        #include <stdint.h>
        #include <setjmp.h>
        #include <cmocka.h>]], [[return _cmocka_run_group_tests("", 0, 0, 0, 0);]])],
      [vrb_cv_cmocka=yes], [vrb_cv_cmocka=no])
  ])
  LIBS=$vrb_save_LIBS
  AS_IF([test "x$vrb_cv_cmocka" = xyes],
        [CMOCKA_LIBS=-lcmocka
         vrb_cmocka_summary=yes],
        [vrb_cmocka_summary="no (cmocka not found; Debian/Ubuntu: libcmocka-dev; RHEL/Fedora: libcmocka-devel)"])
  AM_CONDITIONAL([VRB_CMOCKA], [test "x$vrb_cv_cmocka" = xyes])
  AC_SUBST([CMOCKA_LIBS])
])

# libnl-route answers "which interface reaches this IP address"; nothing fails without it.
AC_DEFUN([VRB_CHECK_NETLINK], [
  NETLINK_CFLAGS=
  NETLINK_LIBS=
  AC_CACHE_CHECK([for libnl-route-3], [vrb_cv_netlink], [
    vrb_cv_netlink=no
    AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists libnl-3.0 libnl-route-3.0],
          [vrb_cv_netlink=yes])
  ])
  AS_IF([test "x$vrb_cv_netlink" = xyes], [
    NETLINK_CFLAGS=`$PKG_CONFIG --cflags libnl-3.0 libnl-route-3.0`
    NETLINK_LIBS=`$PKG_CONFIG --libs libnl-3.0 libnl-route-3.0`
    AC_DEFINE([VRB_HAVE_NETLINK], [1], [libnl-3 and libnl-route-3 are there])
  ])
  AM_CONDITIONAL([VRB_NETLINK], [test "x$vrb_cv_netlink" = xyes])
  AC_SUBST([NETLINK_CFLAGS])
  AC_SUBST([NETLINK_LIBS])
])

# <sys/sdt.h> makes probe points for perf and bpftrace: a header, no library.
AC_DEFUN([VRB_CHECK_SDT], [
  AC_CHECK_HEADER([sys/sdt.h],
    [AC_DEFINE([VRB_HAVE_SDT], [1], [sys/sdt.h is there])
     vrb_sdt_summary=yes],
    [vrb_sdt_summary="no (sys/sdt.h not found; Debian/Ubuntu: systemtap-sdt-dev; RHEL/Fedora: systemtap-sdt-devel)"])
])
