# VRB_CHECK_IBVERBS: libibverbs of rdma-core 28 or newer, and what later versions add.
# SPDX-License-Identifier: BSD-3-Clause

# VRB_IBVERBS_FEATURE(NAME, MACRO-SUFFIX, STATEMENT)
# Linked, not only compiled: several of these are inline functions around a newer exported symbol.
AC_DEFUN([VRB_IBVERBS_FEATURE], [
  AC_CACHE_CHECK([for $1], [vrb_cv_have_$1], [
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]], [[$3]])],
                   [vrb_cv_have_$1=yes], [vrb_cv_have_$1=no])
  ])
  AS_IF([test "x$vrb_cv_have_$1" = xyes],
        [AC_DEFINE([VRB_HAVE_$2], [1], [libibverbs has $1])])
])

AC_DEFUN([VRB_CHECK_IBVERBS], [
  IBVERBS_LIBS=-libverbs
  vrb_save_LIBS=$LIBS
  LIBS="$IBVERBS_LIBS $LIBS"
  AC_CACHE_CHECK([for libibverbs, rdma-core 28 or newer], [vrb_cv_ibverbs], [
    # Version 28 brought relaxed ordering as an access flag; the library has no version macro.
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]], [[
        struct ibv_device_attr_ex attr;
        int num = 0;
        struct ibv_device **list = ibv_get_device_list(&num);
        return list == 0 || IBV_ACCESS_RELAXED_ORDERING == 0 ||
               ibv_query_device_ex(ibv_open_device(list[0]), 0, &attr);]])],
      [vrb_cv_ibverbs=yes], [vrb_cv_ibverbs=no])
  ])
  AS_IF([test "x$vrb_cv_ibverbs" != xyes],
        [VRB_MISSING([libibverbs of rdma-core 28 or newer], [libibverbs-dev], [rdma-core-devel])], [
    VRB_IBVERBS_FEATURE([ibv_query_gid_ex], [QUERY_GID_EX],
      [struct ibv_gid_entry e; return ibv_query_gid_ex((struct ibv_context *)0, 1, 0, &e, 0);])
    VRB_IBVERBS_FEATURE([ibv_query_gid_table], [QUERY_GID_TABLE],
      [struct ibv_gid_entry e; return (int)ibv_query_gid_table((struct ibv_context *)0, &e, 1, 0);])
    VRB_IBVERBS_FEATURE([ibv_query_qp_data_in_order], [QUERY_QP_DATA_IN_ORDER],
      [return ibv_query_qp_data_in_order((struct ibv_qp *)0, IBV_WR_RDMA_WRITE, 0);])
    VRB_IBVERBS_FEATURE([ibv_is_fork_initialized], [IS_FORK_INITIALIZED],
      [return ibv_is_fork_initialized() == IBV_FORK_ENABLED;])
  ])
  LIBS=$vrb_save_LIBS
  AC_SUBST([IBVERBS_LIBS])
])
