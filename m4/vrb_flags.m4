# VRB_CHECK_FLAGS: warning, -Werror and sanitizer flags (VRB_CFLAGS, VRB_LDFLAGS).
# SPDX-License-Identifier: BSD-3-Clause

# VRB_TRY_CFLAG(FLAG): adds FLAG to VRB_CFLAGS when the compiler knows it. -Werror makes clang
# refuse, rather than mention, a flag that it does not know.
AC_DEFUN([VRB_TRY_CFLAG], [
  AS_VAR_PUSHDEF([flagvar], [vrb_cv_cflag_$1])
  AC_CACHE_CHECK([whether $CC takes $1], [flagvar], [
    vrb_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
                      [AS_VAR_SET([flagvar], [yes])], [AS_VAR_SET([flagvar], [no])])
    CFLAGS=$vrb_save_CFLAGS
  ])
  AS_VAR_IF([flagvar], [yes], [VRB_CFLAGS="$VRB_CFLAGS $1"])
  AS_VAR_POPDEF([flagvar])
])

AC_DEFUN([VRB_CHECK_FLAGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [make every compiler warning an error])])
  AC_ARG_ENABLE([sanitize],
    [AS_HELP_STRING([--enable-sanitize],
                    [build with AddressSanitizer and UndefinedBehaviorSanitizer])])

  VRB_CFLAGS=
  VRB_LDFLAGS=
  m4_foreach_w([vrb_flag], [-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                            -Wpointer-arith -Wwrite-strings -Wvla -fno-common
                            -fno-strict-aliasing],
               [VRB_TRY_CFLAG(vrb_flag)])
  AS_IF([test "x$enable_werror" = xyes], [VRB_CFLAGS="$VRB_CFLAGS -Werror"])

  AS_IF([test "x$enable_sanitize" = xyes], [
    vrb_sanitize="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    # clang links its runtime into programs only: a sanitized shared object loaded by an ordinary
    # program (mpirun's ranks) needs the shared one.
    VRB_SANITIZE_FLAGS=
    m4_foreach([vrb_flag], [[$vrb_sanitize -shared-libasan], [$vrb_sanitize]], [
      AS_IF([test -z "$VRB_SANITIZE_FLAGS"], [
        vrb_save_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror vrb_flag"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [VRB_SANITIZE_FLAGS="vrb_flag"])
        CFLAGS=$vrb_save_CFLAGS
      ])
    ])
    AS_IF([test -n "$VRB_SANITIZE_FLAGS"],
      [VRB_CFLAGS="$VRB_CFLAGS $VRB_SANITIZE_FLAGS -fno-omit-frame-pointer"
       VRB_LDFLAGS="$VRB_LDFLAGS $VRB_SANITIZE_FLAGS"],
      [VRB_MISSING([the sanitizer runtime of $CC], [libasan8 libubsan1 or libclang-rt-dev],
                   [libasan libubsan or compiler-rt])])
  ])
  AM_CONDITIONAL([VRB_SANITIZE], [test "x$enable_sanitize" = xyes])
  AC_SUBST([VRB_CFLAGS])
  AC_SUBST([VRB_LDFLAGS])
])
