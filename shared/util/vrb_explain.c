/* The wording of every failure report.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_explain.h"

#include <inttypes.h>
#include <string.h>

#include "util/vrb_status.h"
#include "util/vrb_text.h"
#include "wireup/vrb_wireup.h"

/* Statuses whose text depends on the connection's settings. */
enum { WC_RETRY_EXC = 12, WC_RNR_RETRY_EXC = 13, WC_RESP_TIMEOUT = 20 };

#define SAME_VERSION \
    "use the same version of this transport on all hosts; if it is the same, report this message"
#define LEAVE_BUFFERS                                                                           \
    "check that the program leaves its buffers and windows alone until MPI is done with them; " \
    "without the registration cache (--mca mpi_leave_pinned 0) the fault shows where it is made"
#define DMESG "look for driver messages (dmesg) on both hosts, and report this message"
#define LIMITS                                                                                    \
    "look at the limit of locked memory (ulimit -l) and at the device's own limits (ibv_devinfo " \
    "-v: max_qp, max_cqe, max_mr); fewer processes per host need less"
#define UNUSED_KIND "this transport uses nothing that reports this status"

struct status {
    const char *name, *text; /* IBV_WC_ and name is the constant in verbs.h */
    const char *cause, *next;
};

/* By the numbers of enum ibv_wc_status. */
static const struct status statuses[] = {
    {"SUCCESS", "success", NULL, NULL},
    {"LOC_LEN_ERR", "local length error",
     "a message was longer than the receive buffer, or than the port allows", SAME_VERSION},
    {"LOC_QP_OP_ERR", "local QP operation error",
     "the device refused the work request, or the queue pair was in the wrong state",
     "look for driver messages (dmesg) on this host, update the device's firmware, and report this "
     "message"},
    {"LOC_EEC_OP_ERR", "local EE context operation error", UNUSED_KIND, DMESG},
    {"LOC_PROT_ERR", "local protection error",
     "memory of this process was not registered (any more) for this access: freed or remapped "
     "while a message was in flight, or moved by fork()",
     LEAVE_BUFFERS},
    {"WR_FLUSH_ERR", "work request flushed",
     "the queue pair was already in error: this is a consequence, not the cause",
     "look for the first message about this pair of processes, on both hosts"},
    {"MW_BIND_ERR", "memory window bind error", UNUSED_KIND, DMESG},
    {"BAD_RESP_ERR", "bad response", "the peer answered with something the device did not expect",
     "update the firmware of both devices; look for damaged packets (error counters of the ports)"},
    {"LOC_ACCESS_ERR", "local access error",
     "memory of this process was not registered (any more) for being written to by the peer",
     LEAVE_BUFFERS},
    {"REM_INV_REQ_ERR", "remote invalid request error",
     "the peer's device took the request for invalid: a message longer than its receive buffer, or "
     "an operation that its queue pair does not allow",
     SAME_VERSION},
    {"REM_ACCESS_ERR", "remote access error",
     "the peer's device refused the RDMA: the memory there is not registered (any more) for this "
     "access",
     LEAVE_BUFFERS},
    {"REM_OP_ERR", "remote operation error", "the peer's device could not finish the operation",
     "look on the peer's host for driver messages (dmesg) and for an earlier report"},
    {"RETRY_EXC_ERR", "transport retry counter exceeded", NULL, NULL},
    {"RNR_RETRY_EXC_ERR", "receiver-not-ready retry counter exceeded", NULL, NULL},
    {"LOC_RDD_VIOL_ERR", "local RDD violation", UNUSED_KIND, DMESG},
    {"REM_INV_RD_REQ_ERR", "remote invalid RD request", UNUSED_KIND, DMESG},
    {"REM_ABORT_ERR", "operation aborted by the remote end",
     "the peer's device gave the operation up",
     "look on the peer's host for driver messages (dmesg) and for an earlier report"},
    {"INV_EECN_ERR", "invalid EE context number", UNUSED_KIND, DMESG},
    {"INV_EEC_STATE_ERR", "invalid EE context state", UNUSED_KIND, DMESG},
    {"FATAL_ERR", "fatal device error", "the local device or its driver failed",
     "look for driver messages (dmesg) on this host; the vendor error tells the device's maker "
     "more"},
    {"RESP_TIMEOUT_ERR", "response timeout", NULL, NULL},
    {"GENERAL_ERR", "general error", "the local device or its driver failed",
     "look for driver messages (dmesg) on this host; the vendor error tells the device's maker "
     "more"},
    {"TM_ERR", "tag matching error", UNUSED_KIND, DMESG},
    {"TM_RNDV_INCOMPLETE", "tag matching rendezvous incomplete", UNUSED_KIND, DMESG},
};

static const struct status unknown_status = {
    "?", "unknown completion status", "the device reports what verbs does not define", DMESG};

static const struct status *find_status(int wc_status)
{
    int known = (int)(sizeof(statuses) / sizeof(statuses[0]));

    return wc_status >= 0 && wc_status < known ? &statuses[wc_status] : &unknown_status;
}

const char *vrb_wc_status_text(int wc_status)
{
    return find_status(wc_status)->text;
}

static void put_end(struct vrb_text *t, const char *title, const struct vrb_end *e, uint8_t link)
{
    char gid[80];

    vrb_text_put(t, "\n  %-8shost %s", title, e->host && e->host[0] ? e->host : "unknown");
    if (e->rank != UINT64_MAX) {
        vrb_text_put(t, " rank %" PRIu64, e->rank);
    }
    if (e->dev) {
        vrb_text_put(t, ", %s", e->dev);
        if (e->port > 0) {
            vrb_text_put(t, " port %d", e->port);
        }
    }
    if (link == VRB_LINK_IB && e->lid != 0) {
        vrb_text_put(t, ", LID %u (0x%x)", e->lid, e->lid);
    }
    if (!vrb_gid_is_empty(e->gid.raw)) {
        vrb_text_put(t, ", GID %s", vrb_gid_text(&e->gid, gid, sizeof(gid)));
        if (link == VRB_LINK_ROCE && e->dev) {
            vrb_text_put(t, " index %u", e->gid.index);
        }
    }
    if (e->qpn != 0) {
        vrb_text_put(t, ", QPN 0x%06x", e->qpn);
    }
}

/* InfiniBand: the first 64 bits of a GID name the subnet (IBTA 4.1.1). */
static int between_subnets(const struct vrb_failure *f)
{
    return f->link == VRB_LINK_IB && !vrb_gid_is_empty(f->local.gid.raw) &&
           !vrb_gid_is_empty(f->remote.gid.raw) &&
           memcmp(f->local.gid.raw, f->remote.gid.raw, 8) != 0;
}

/* What to look at when packets get lost on the way; more = a further sentence. */
static void put_path_advice(struct vrb_text *t, const struct vrb_failure *f, const char *more)
{
    const struct vrb_gid *gid = &f->local.gid;
    const char *carrier = "that no firewall filters UDP port 4791";
    const char *scope = "";

    if (between_subnets(f)) {
        vrb_text_block(
            t, "next:",
            "the ports are in different InfiniBand subnets, by the prefixes of their GIDs. "
            "Packets leave with a global route header (GRH) for the LID of the peer, and "
            "only routers that take that for their own (FLID) pass them on; the LID of "
            "another router is not asked of the subnet manager. Choose ports of one "
            "subnet (if_include), let TCP carry this pair (--mca btl self,tcp), or have "
            "FLIDs set up. %s",
            more);
        return;
    }
    if (f->link == VRB_LINK_IB) {
        vrb_text_block(t, "next:",
                       "check the cable and both ports (ibstat, ibdiagnet), that the subnet "
                       "manager runs and gave out these LIDs (sminfo, ibtracert), and that both "
                       "ends are on the same fabric and partition. %s",
                       more);
        return;
    }
    if (gid->type == VRB_GID_ROCE_V1) {
        carrier = "that both ports are on one Ethernet (RoCE v1 is not routed)";
    }
    if (vrb_gid_is_link_local(gid->raw)) {
        scope = "These GIDs are link-local, which many networks do not carry: give the ports IP "
                "addresses. ";
    }
    vrb_text_block(t, "next:",
                   "check that the two GIDs above reach each other (ping their addresses; "
                   "ibv_devinfo -v lists a port's GIDs), %s, that the MTU is the same on the whole "
                   "way, and that priority flow control (PFC) or ECN keeps the fabric from "
                   "dropping. %s%s",
                   carrier, scope, more);
}

/* A QP waits 4.096 us * 2^timeout per try (IBTA 9.7.6.1.3); devices may take up to 4 times that. */
static double retry_seconds(const struct vrb_failure *f)
{
    int exponent = f->ib_timeout > 0 && f->ib_timeout < 32 ? f->ib_timeout : 0;

    return 4.096e-6 * (double)(1ull << exponent) * (f->retry_count + 1);
}

static void put_wc_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    const struct status *s = find_status(f->wc_status);

    switch (f->wc_status) {
    case WC_RETRY_EXC:
    case WC_RESP_TIMEOUT:
        vrb_text_block(t, "cause:",
                       "no acknowledgement in about %.2g s (ib_timeout %d, ib_retry_count %d): the "
                       "peer's process or host is gone, or packets are lost between the two "
                       "addresses",
                       retry_seconds(f), f->ib_timeout, f->retry_count);
        put_path_advice(t, f,
                        "If the peer's process ended first, its own output tells why. On a busy "
                        "fabric raise ib_timeout.");
        break;
    case WC_RNR_RETRY_EXC:
        vrb_text_block(t, "cause:",
                       "the peer had no receive buffer free in any try (rnr_retry %d): its process "
                       "is stopped, or its receive queue is too short for the number of senders",
                       f->rnr_retry);
        vrb_text_block(t, "next:",
                       "look whether the peer's process makes progress (debugger, swapping); "
                       "otherwise raise recv_buffers or lower credits");
        break;
    default:
        if (s->cause) {
            vrb_text_block(t, "cause:", "%s", s->cause);
            vrb_text_block(t, "next:", "%s", s->next);
        }
        break;
    }
}

static void put_rejected(struct vrb_text *t, const struct vrb_failure *f)
{
    const char *next = "look for an earlier message about this pair of processes, on both hosts";

    if (f->reject_reason == VRB_REJECT_NO_QP) {
        next =
            "look at the peer's own message. The usual limits: locked memory (ulimit -l), and the "
            "device's queue pairs (ibv_devinfo -v: max_qp), of which fewer processes per host "
            "need fewer";
    } else if (f->reject_reason == VRB_REJECT_NO_PATH) {
        next = "compare the ports of both hosts (ibv_devinfo -v): link layer, GIDs, partition keys";
    } else if (f->reject_reason == VRB_REJECT_VERSION) {
        next = "install the same version of this transport on all hosts";
    } else if (f->reject_reason == VRB_REJECT_UNKNOWN) {
        next =
            "check that if_include and if_exclude are the same on all hosts, and that the peer's "
            "process still runs";
    }
    vrb_text_block(t, "cause:", "the peer declined: %s", vrb_reject_text(f->reject_reason));
    vrb_text_block(t, "next:", "%s", next);
}

static void put_unanswered(struct vrb_text *t, const struct vrb_failure *f)
{
    if (f->heard) {
        vrb_text_block(t, "cause:",
                       "the peer was heard, but the handshake did not come to its end: packets in "
                       "one direction get lost, or the peer hardly ever calls MPI");
        vrb_text_block(t, "next:",
                       "look whether the peer's process is stopped or long outside MPI; if not, "
                       "check the error and discard counters of both ports and of the switches. A "
                       "longer connect_timeout gives slow peers time.");
        return;
    }
    vrb_text_block(t, "cause:",
                   "nothing %s heard from the peer%s: its process has ended or hangs, or no "
                   "packet gets through between the two addresses",
                   f->broken ? "was" : "was ever", f->broken ? " since" : "");
    put_path_advice(t, f, "Other ports can be chosen with if_include or if_exclude.");
}

static void put_wireup(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wireup) {
    case VRB_WU_FAIL_TIMEOUT:
        vrb_text_put(t, "no connection after %.0f s and %u handshake messages", f->seconds,
                     f->hellos);
        break;
    case VRB_WU_FAIL_REJECTED:
        vrb_text_put(t, "the peer rejected the connection");
        break;
    case VRB_WU_FAIL_RESTART:
        vrb_text_put(t, "the peer lost its side of the connection");
        break;
    default:
        vrb_text_put(t, "the connection could not be set up");
        break;
    }
}

/* What became of the repair of a connection. */
static void put_repair(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wireup) {
    case VRB_WU_FAIL_TIMEOUT:
        vrb_text_put(t,
                     "; no new connection in %.0f s (recover_timeout; %u handshake messages, %s)",
                     f->seconds, f->hellos, f->heard ? "some answered" : "none answered");
        break;
    case VRB_WU_FAIL_REJECTED:
        vrb_text_put(t, "; the peer declined a new connection: %s",
                     vrb_reject_text(f->reject_reason));
        break;
    case VRB_WU_FAIL_RESTART:
        vrb_text_put(t, "; the peer lost its side of the connection");
        break;
    case VRB_WU_FAIL_STUCK:
        vrb_text_put(t, "; %d new connections in a row broke the same way", VRB_WU_STUCK_MAX);
        break;
    default:
        break;
    }
}

static void put_wireup_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wireup) {
    case VRB_WU_FAIL_TIMEOUT:
        put_unanswered(t, f);
        break;
    case VRB_WU_FAIL_REJECTED:
        put_rejected(t, f);
        break;
    case VRB_WU_FAIL_STUCK:
        put_path_advice(t, f, "");
        break;
    case VRB_WU_FAIL_RESTART:
        vrb_text_block(t, "cause:",
                       "the peer asks for a new connection: it was started anew, or gave this one "
                       "up");
        vrb_text_block(t, "next:", "look at the peer's output for the reason");
        break;
    default:
        vrb_text_block(
            t, "next:", "look for an earlier message on this host: it names the call or the limit");
        break;
    }
}

static void put_silence_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    if (f->port_down) {
        vrb_text_block(t, "cause:", "the link is down, and what is to be sent waits for it");
        put_path_advice(t, f, "A link that needs longer to come back needs a longer port_timeout.");
        return;
    }
    if (f->heard) {
        vrb_text_block(
            t, "cause:",
            "the peer was heard before: its process has ended or is stopped, it computes "
            "for longer than that without calling MPI, or the network between the two "
            "addresses is down");
    } else {
        vrb_text_block(
            t, "cause:",
            "nothing was ever heard from the peer: its process has ended or hangs, or no "
            "packet gets through between the two addresses");
    }
    put_path_advice(t, f,
                    "Give peers that compute for long a longer peer_timeout; 0 waits for ever.");
}

/* Failures that neither a completion nor the handshake explains: by what kind of call it was. */
static void put_status_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->status) {
    case VRB_ERR_NOMEM:
        vrb_text_block(t, "next:", "%s", LIMITS);
        break;
    case VRB_ERR_UNREACH:
        put_path_advice(t, f, "Other ports can be chosen with if_include or if_exclude.");
        break;
    case VRB_ERR_MALFORMED:
        vrb_text_block(t, "next:", "%s", SAME_VERSION);
        break;
    case VRB_OK:
        break;
    default:
        vrb_text_block(t, "next:", "%s", DMESG);
        break;
    }
}

const char *vrb_explain(const struct vrb_failure *f, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};
    int decoded = f->wireup != VRB_WU_FAIL_NONE || f->wc_status >= 0;

    vrb_text_put(&t, "%s failed: ", f->what ? f->what : "communication");
    if (f->unacked > 0 && f->port_down) {
        vrb_text_put(&t, "the port of this end has been down for %.0f s (port_timeout)",
                     f->seconds);
    } else if (f->unacked > 0) {
        vrb_text_put(&t, "%u datagram%s not acknowledged for %.0f s (peer_timeout)", f->unacked,
                     f->unacked == 1 ? " was" : "s were", f->seconds);
    } else if (f->wireup != VRB_WU_FAIL_NONE && !f->broken) {
        put_wireup(&t, f);
    } else if (f->wc_status >= 0) {
        const struct status *s = find_status(f->wc_status);

        vrb_text_put(&t, "%s (IBV_WC_%s, status %d, vendor error 0x%x)", s->text, s->name,
                     f->wc_status, f->vendor_err);
    } else {
        vrb_text_put(&t, "%s", f->detail ? f->detail : "the connection was lost");
        decoded = 0;
    }
    if (f->broken) {
        put_repair(&t, f);
    }
    put_end(&t, "local:", &f->local, f->link);
    put_end(&t, "remote:", &f->remote, f->link);
    if (decoded && f->detail) {
        vrb_text_block(&t, "detail:", "%s", f->detail);
    }
    if (f->unacked > 0) {
        put_silence_advice(&t, f);
    } else if (f->wireup != VRB_WU_FAIL_NONE && !(f->broken && f->wc_status >= 0)) {
        put_wireup_advice(&t, f);
    } else if (f->wc_status >= 0) {
        put_wc_advice(&t, f);
    } else {
        put_status_advice(&t, f);
    }
    return buf;
}

/* "16 KiB": in the largest unit that leaves no fraction. */
static const char *bytes_text(uint64_t bytes, char *buf, size_t len)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct vrb_text t = {.buf = buf, .len = len};
    int u = 0;

    while (u < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    vrb_text_put(&t, "%" PRIu64 " %s", bytes, units[u]);
    return buf;
}

const char *vrb_explain_memory(const char *what, uint64_t limit, const char *cause, char *buf,
                               size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};
    char size[32];

    vrb_text_put(&t, "%s: %s", what, cause);
    if (limit == UINT64_MAX) {
        vrb_text_block(&t, "cause:",
                       "locked memory is not limited here (ulimit -l: unlimited), so the host's "
                       "memory or one of the device's tables ran out");
        vrb_text_block(&t, "next:",
                       "look at the free memory and at ibv_devinfo -v (max_qp, max_cq, max_mr); "
                       "fewer processes per host need less");
        return buf;
    }
    vrb_text_block(&t, "cause:",
                   "this process may lock no more than %s of memory (ulimit -l); where that is "
                   "enough, one of the device's tables is full (ibv_devinfo -v: max_qp, max_cq, "
                   "max_mr)",
                   bytes_text(limit, size, sizeof(size)));
    vrb_text_block(&t, "next:",
                   "raise the limit where the job's processes come from: LimitMEMLOCK=infinity in "
                   "the service of slurmd, pbs_mom or sshd (systemctl edit), or memlock in "
                   "/etc/security/limits.conf for logins; restart that daemon, and check with: "
                   "mpirun sh -c 'ulimit -l'");
    return buf;
}
