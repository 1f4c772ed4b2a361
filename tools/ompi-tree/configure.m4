# MCA_opal_btl_verbs_CONFIG: what Open MPI's own configure asks about the verbs BTL.
# SPDX-License-Identifier: BSD-3-Clause
#
# Put in place by tools/into-ompi-tree. The check for libibverbs is the project's own, a copy of
# which is in the folder m4. What it finds lands in opal_config.h.

m4_include([opal/mca/btl/verbs/m4/vrb_report.m4])
m4_include([opal/mca/btl/verbs/m4/vrb_ibverbs.m4])

# MCA_opal_btl_verbs_CONFIG(ACTION-IF-IT-CAN-BE-BUILT, ACTION-IF-NOT)
AC_DEFUN([MCA_opal_btl_verbs_CONFIG], [
    AC_CONFIG_FILES([opal/mca/btl/verbs/Makefile])
    AC_ARG_WITH([btl-verbs],
        [AS_HELP_STRING([--with-btl-verbs(=DIR)],
                        [Build the verbs BTL, with the libibverbs in DIR if it is given; without
                         this option it is built where libibverbs is found])])

    btl_verbs_happy=no
    btl_verbs_CPPFLAGS=
    btl_verbs_LDFLAGS=
    btl_verbs_LIBS=
    vrb_missing=
    AS_IF([test "x$with_btl_verbs" != xno], [
        btl_verbs_save_CPPFLAGS=$CPPFLAGS
        btl_verbs_save_LDFLAGS=$LDFLAGS
        AS_CASE([$with_btl_verbs], [''|yes], [], [
            btl_verbs_CPPFLAGS="-I$with_btl_verbs/include"
            btl_verbs_LDFLAGS="-L$with_btl_verbs/lib"
            AS_IF([test -d "$with_btl_verbs/lib64"],
                  [btl_verbs_LDFLAGS="-L$with_btl_verbs/lib64 $btl_verbs_LDFLAGS"])
            CPPFLAGS="$btl_verbs_CPPFLAGS $CPPFLAGS"
            LDFLAGS="$btl_verbs_LDFLAGS $LDFLAGS"
        ])
        VRB_CHECK_IBVERBS
        CPPFLAGS=$btl_verbs_save_CPPFLAGS
        LDFLAGS=$btl_verbs_save_LDFLAGS
        AS_IF([test -z "$vrb_missing"], [btl_verbs_happy=yes
                                         btl_verbs_LIBS=$IBVERBS_LIBS])
    ])

    AS_IF([test "$btl_verbs_happy" = yes], [$1], [
        AS_IF([test -n "$with_btl_verbs" && test "x$with_btl_verbs" != xno],
              [AC_MSG_ERROR([--with-btl-verbs: missing: $vrb_missing])])
        $2])
    OPAL_SUMMARY_ADD([[Transports]], [[Verbs]], [], [$btl_verbs_happy])

    AC_SUBST([btl_verbs_CPPFLAGS])
    AC_SUBST([btl_verbs_LDFLAGS])
    AC_SUBST([btl_verbs_LIBS])
])
