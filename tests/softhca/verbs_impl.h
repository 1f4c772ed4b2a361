/* The verbs calls that travel through function pointers of a context.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOFTHCA_VERBS_IMPL_H
#define SOFTHCA_VERBS_IMPL_H

#include "softhca.h"

int shca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size);
int shca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in,
                         struct ibv_device_attr_ex *attr, size_t size);
struct ibv_qp *shca_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *shca_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
struct ibv_cq *shca_new_cq(struct ibv_context *ctx, int cqe, void *cq_context,
                           struct ibv_comp_channel *channel, int vector);

/* ---- event.c ---- */

/* Blocks until every delivered event of an object was acknowledged. */
void shca_wait_events(pthread_mutex_t *m, pthread_cond_t *c, const uint32_t *completed,
                      const uint32_t *delivered);

/* ---- rq.c ---- */

void shca_srq_limit(struct sm_srq *s, uint32_t idx); /* raises the limit event if due; locked */

/* ---- qp_state.c ---- */

/* Checks a transition and the attributes that go with it: 0, or EINVAL with a message. */
int shca_qp_check(const struct shca_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask);
const char *shca_qp_state_name(int state);

#endif
