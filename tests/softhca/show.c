/* softhca-ctl's view of a fabric: what is there, what it counted, how full its queues are.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "show.h"

#include "softhca.h"

#include <arpa/inet.h>
#include <string.h>

static const char *const port_states[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER"};
static const char *const gid_types[] = {"IB", "RoCE v1", "RoCE v2"};
static const char *const counter_names[SM_CNT_N] = {[SM_CNT_SEND] = "send",
                                                    [SM_CNT_WRITE] = "write",
                                                    [SM_CNT_READ] = "read",
                                                    [SM_CNT_ATOMIC] = "atomic",
                                                    [SM_CNT_UD_SEND] = "ud_send",
                                                    [SM_CNT_UD_DROP] = "ud_drop",
                                                    [SM_CNT_RNR] = "rnr",
                                                    [SM_CNT_TIMEOUT] = "timeout",
                                                    [SM_CNT_ERR_WC] = "error_wc",
                                                    [SM_CNT_BOUNCE] = "bounce",
                                                    [SM_CNT_BYTES] = "bytes",
                                                    [SM_CNT_FAULTS] = "faults",
                                                    [SM_CNT_REG_MR] = "registration"};

static void print_gids(const struct sm_port *p)
{
    static const uint8_t none[16];
    char text[INET6_ADDRSTRLEN];

    for (unsigned int i = 0; i < p->ngids && i < SM_MAX_GIDS; i++) {
        const struct sm_gid *g = &p->gids[i];

        if (memcmp(g->raw, none, 16) == 0) {
            continue;
        }
        inet_ntop(AF_INET6, g->raw, text, sizeof(text));
        printf("      gid %2u  %-40s %s\n", i, text, gid_types[g->type < 3 ? g->type : 0]);
    }
}

static void print_device(const struct sm_dev *d)
{
    printf("  device %s%s: %u QPs, %u CQs, %u SRQs, %u MRs\n", d->name,
           atomic_load(&d->fatal) ? " (FATAL)" : "", atomic_load(&d->nqp), atomic_load(&d->ncq),
           atomic_load(&d->nsrq), atomic_load(&d->nmr));
    for (unsigned int i = 0; i < d->nports && i < SM_MAX_PORTS; i++) {
        const struct sm_port *p = &d->ports[i];
        uint32_t state = atomic_load(&p->state);

        printf("    port %u  %s  %s  mtu %u  net %s", i + 1,
               p->link == SM_LINK_ETH ? "Ethernet" : "InfiniBand",
               port_states[state < 6 ? state : 0], 128u << p->active_mtu, p->net);
        if (p->link == SM_LINK_IB) {
            printf("  lid 0x%x lmc %u", p->lid, p->lmc);
        }
        putchar('\n');
        print_gids(p);
    }
}

static void print_rules(void)
{
    const struct shca_fault_shared *f = &shca.seg->faults;

    for (int i = 0; i < SHCA_FAULT_RULES; i++) {
        const struct shca_fault_slot *s = &f->slot[i];

        if (atomic_load(&s->state) == 2) {
            printf("fault %d  %s  passes %llu  hits %llu  %.*s\n", i,
                   atomic_load(&s->origin) ? "everyone" : "some",
                   (unsigned long long)atomic_load(&s->passes),
                   (unsigned long long)atomic_load(&s->hits), SHCA_FAULT_TEXT - 1, s->text);
        }
    }
}

int shca_show_status(void)
{
    const struct sm_seg *seg = shca.seg;

    printf("fabric %s%s\n", shca.fabric, atomic_load(&seg->keep) ? " (kept)" : "");
    for (int i = 0; i < SM_MAX_PROCS; i++) {
        const struct sm_proc *p = &seg->procs[i];

        if (atomic_load(&p->state) == SM_PROC_LIVE) {
            printf("process %d  host %s  registered %llu  %s\n", p->pid,
                   p->host < SM_MAX_HOSTS ? seg->hosts[p->host].name : "?",
                   (unsigned long long)atomic_load(&p->locked_bytes),
                   shca_proc_alive(p) ? "alive" : "dead");
        }
    }
    for (int i = 0; i < SM_MAX_HOSTS; i++) {
        const struct sm_host *h = &seg->hosts[i];

        if (!atomic_load(&h->used)) {
            continue;
        }
        printf("host %s\n", h->name);
        for (unsigned int k = 0; k < h->ndevs && k < SM_MAX_DEVS_PER_HOST; k++) {
            if (h->devs[k] < SM_MAX_DEVS) {
                print_device(&seg->devs[h->devs[k]]);
            }
        }
    }
    print_rules();
    return 0;
}

int shca_show_counters(void)
{
    for (int i = 0; i < SM_MAX_DEVS; i++) {
        const struct sm_dev *d = &shca.seg->devs[i];

        if (!atomic_load(&d->used) || d->host >= SM_MAX_HOSTS) {
            continue;
        }
        for (int c = 0; c < SM_CNT_N; c++) {
            printf("%s.%s.%s %llu\n", shca.seg->hosts[d->host].name, d->name,
                   counter_names[c] ? counter_names[c] : "?",
                   (unsigned long long)atomic_load(&d->cnt[c]));
        }
    }
    for (int i = 0; i < SHCA_FAULT_POINTS; i++) {
        unsigned long long hits = atomic_load(&shca.seg->faults.point_hits[i]);

        if (hits) {
            printf("fault.%s %llu\n", shca_fault_point_name((enum shca_fault_point)i), hits);
        }
    }
    return 0;
}

static const char *const qp_states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const char *host_of(const struct sm_obj *o)
{
    uint32_t host = o->dev < SM_MAX_DEVS ? shca.seg->devs[o->dev].host : SM_MAX_HOSTS;

    return host < SM_MAX_HOSTS ? shca.seg->hosts[host].name : "?";
}

static int pid_of(const struct sm_obj *o)
{
    return o->proc < SM_MAX_PROCS ? shca.seg->procs[o->proc].pid : 0;
}

static unsigned long long filled(const struct sm_rq *rq)
{
    return atomic_load(&rq->prod) - atomic_load(&rq->cons);
}

/* Where it sends, and how; a UD QP: where the last datagram went. */
static void print_path(const struct sm_qp *q)
{
    const struct sm_path *p = &q->path;
    char gid[INET6_ADDRSTRLEN];

    if (p->port_num == 0) {
        return; /* nowhere yet */
    }
    printf("  sl %u", p->sl);
    if (p->dlid != 0) {
        printf(" lid 0x%x", p->dlid);
    }
    if (p->is_grh) {
        inet_ntop(AF_INET6, p->dgid, gid, sizeof(gid));
        printf(" gid %s from %u tclass %u hop %u flow 0x%05x", gid, p->sgid_index, p->tclass,
               p->hop_limit, p->flow);
    }
    if (q->type != IBV_QPT_UD) {
        printf(" mtu %u", 128u << q->path_mtu);
    }
}

int shca_show_queues(void)
{
    for (uint32_t i = 0; i < SM_MAX_QP; i++) {
        const struct sm_qp *q = &shca.seg->qps[i];
        uint32_t state = atomic_load(&q->o.state);

        if (!state) {
            continue;
        }
        printf("qp 0x%06x  pid %d  %s  %s  %s  port %u", q->qpn, pid_of(&q->o), host_of(&q->o),
               q->type == IBV_QPT_UD ? "UD" : "RC", state <= 7 ? qp_states[state - 1] : "DYING",
               q->port_num);
        if (q->type != IBV_QPT_UD) {
            printf("  to 0x%06x", q->dest_qpn);
        } else {
            printf("  qkey 0x%08x", q->qkey);
        }
        if (q->srq == UINT32_MAX) {
            printf("  receives %llu", filled(&q->rq));
        } else {
            printf("  srq %u", q->srq);
        }
        printf("  scq %u  rcq %u", q->scq, q->rcq);
        print_path(q);
        putchar('\n');
    }
    for (uint32_t i = 0; i < SM_MAX_SRQ; i++) {
        const struct sm_srq *q = &shca.seg->srqs[i];

        if (atomic_load(&q->o.state)) {
            printf("srq %u  pid %d  %s  receives %llu of %u  limit %u\n", i, pid_of(&q->o),
                   host_of(&q->o), filled(&q->rq), q->rq.max_wr, atomic_load(&q->limit));
        }
    }
    for (uint32_t i = 0; i < SM_MAX_CQ; i++) {
        const struct sm_cq *q = &shca.seg->cqs[i];

        if (atomic_load(&q->o.state)) {
            printf("cq %u  pid %d  %s  entries %llu of %u%s%s\n", i, pid_of(&q->o), host_of(&q->o),
                   (unsigned long long)(atomic_load(&q->prod) - atomic_load(&q->cons)), q->cqe,
                   atomic_load(&q->armed) ? "  armed" : "",
                   atomic_load(&q->overrun) ? "  OVERRUN" : "");
        }
    }
    return 0;
}
