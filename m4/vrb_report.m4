# VRB_MISSING and VRB_REPORT_MISSING: name every missing piece, and its package, in one line.
# SPDX-License-Identifier: BSD-3-Clause

# VRB_MISSING(WHAT, DEBIAN-PACKAGES, RHEL-PACKAGES)
AC_DEFUN([VRB_MISSING], [
  vrb_missing="${vrb_missing:+$vrb_missing; }$1 [(]Debian/Ubuntu: $2; RHEL/Fedora: $3[)]"
])

AC_DEFUN([VRB_REPORT_MISSING], [
  AS_IF([test -n "$vrb_missing"], [AC_MSG_ERROR([missing: $vrb_missing])])
])
