/* The QP state machine: which transitions exist, which attributes each needs and admits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From the InfiniBand Architecture Specification, volume 1, "QP state transition properties".
 */
#include "verbs_impl.h"

#include <string.h>

struct rule {
    enum ibv_qp_state from, to;
    int rc_need, rc_may, ud_need, ud_may;
};

#define PATH_MIG (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const struct rule rules[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_MIG, IBV_QP_SQ_PSN,
     IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_MIG, 0,
     IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | PATH_MIG, 0,
     IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
         IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | PATH_MIG,
     0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, -1, 0, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY}, /* not for RC */
};

static const struct {
    int bit;
    const char *name;
} attrs[] = {
    {IBV_QP_CUR_STATE, "CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    {IBV_QP_PORT, "PORT"},
    {IBV_QP_QKEY, "QKEY"},
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_TIMEOUT, "TIMEOUT"},
    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    {IBV_QP_ALT_PATH, "ALT_PATH"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
    {IBV_QP_CAP, "CAP"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
};

static void names_of(int bits, char *out, size_t len)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]) && n < len; i++) {
        if (bits & attrs[i].bit) {
            n += (size_t)snprintf(out + n, len - n, "%s%s", n ? "|" : "", attrs[i].name);
        }
    }
    if (!out[0]) {
        snprintf(out, len, "0x%x", (unsigned int)bits);
    }
}

const char *shca_qp_state_name(int state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state >= 0 && state < 7 ? names[state] : "?";
}

static int refuse(const struct shca_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
                  const char *why, int bits)
{
    char names[256];

    names_of(bits, names, sizeof(names));
    return shca_strict(EINVAL, "ibv_modify_qp: %s QP 0x%x, %s to %s: %s%s",
                       qp->sm->type == IBV_QPT_UD ? "UD" : "RC", qp->sm->qpn,
                       shca_qp_state_name((int)from), shca_qp_state_name((int)to), why,
                       bits ? names : "");
}

int shca_qp_check(const struct shca_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    bool ud = qp->sm->type == IBV_QPT_UD;

    mask &= ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        return mask & ~IBV_QP_CUR_STATE
                   ? refuse(qp, from, to, "not admitted: ", mask & ~IBV_QP_CUR_STATE)
                   : 0;
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct rule *r = &rules[i];
        int need = ud ? r->ud_need : r->rc_need, may = ud ? r->ud_may : r->rc_may;

        if (r->from != from || r->to != to || need == -1) {
            continue;
        }
        if (need & ~mask) {
            return refuse(qp, from, to, "missing: ", need & ~mask);
        }
        if (mask & ~(need | may)) {
            return refuse(qp, from, to, "not admitted: ", mask & ~(need | may));
        }
        return 0;
    }
    return refuse(qp, from, to, "no such transition", 0);
}
