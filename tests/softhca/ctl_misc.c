/* Calls that this device answers with "not supported", and the fork calls.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * They have to exist: the library's own versions would take our objects for a kernel driver's.
 */
#include "verbs_impl.h"

#include <stdlib.h>

SHCA_EXPORT int ibv_fork_init(void)
{
    return 0; /* process_vm writes respect copy-on-write: there is nothing to protect */
}

SHCA_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

SHCA_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}

SHCA_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}

SHCA_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                             size_t length, int access)
{
    (void)mr;
    (void)flags;
    (void)pd;
    (void)addr;
    (void)length;
    (void)access;
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

SHCA_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                             uint64_t iova, int fd, int access)
{
    (void)pd;
    (void)offset;
    (void)length;
    (void)iova;
    (void)fd;
    (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

SHCA_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    (void)cmd_fd;
    errno = EOPNOTSUPP;
    return NULL;
}

SHCA_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *ctx, uint32_t handle)
{
    (void)ctx;
    (void)handle;
    errno = EOPNOTSUPP;
    return NULL;
}

SHCA_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}

SHCA_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)pd;
    (void)handle;
    errno = EOPNOTSUPP;
    return NULL;
}

SHCA_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

SHCA_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

SHCA_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    ece->vendor_id = 0;
    ece->options = 0;
    ece->comp_mask = 0;
    return 0;
}
