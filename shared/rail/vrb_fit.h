/* Fits the settings to what the device allows, or says which limit is too small.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure. */
#ifndef VRB_FIT_H
#define VRB_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "vrb.h"

/* What a device says of itself (struct ibv_device_attr), and what the UD QP takes of it. */
struct vrb_limits {
    int max_cqe;    /* entries of a completion queue */
    int max_qp_wr;  /* entries of a send or receive queue */
    int max_srq;    /* shared receive queues; 0: none to be had */
    int max_srq_wr; /* entries of one */
    int max_qp_init_rd_atom;
    int ud_cqes; /* completion queue entries that the UD QP may need */
};

/* Entries of the completion queue, in depths of a send queue, that no request counts on: one for
 * the request that takes more than was left (rc/vrb_rc.h), the rest for markers of broken QPs. */
#define VRB_FIT_MARGIN_QPS 4
#define VRB_FIT_MARKER_QPS (VRB_FIT_MARGIN_QPS - 1)

/* Lowers the queue depths in cfg to what the device has, and turns use_srq off where it is no use.
 * VRB_OK, or VRB_ERR_DEVICE with the limit in words when not even the shortest queues fit. */
int vrb_fit(struct vrb_config *cfg, const struct vrb_limits *d, char *detail, size_t len);

#endif
