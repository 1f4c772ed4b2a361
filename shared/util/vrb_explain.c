/* The wording of every failure report.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "util/vrb_explain.h"

#include <inttypes.h>

#include "util/vrb_text.h"
#include "wireup/vrb_wireup.h"

/* The numbers of enum ibv_wc_status that are told apart here. */
enum {
    WC_SUCCESS = 0,
    WC_LOC_LEN = 1,
    WC_LOC_QP_OP = 2,
    WC_LOC_PROT = 4,
    WC_WR_FLUSH = 5,
    WC_BAD_RESP = 7,
    WC_LOC_ACCESS = 8,
    WC_REM_INV_REQ = 9,
    WC_REM_ACCESS = 10,
    WC_REM_OP = 11,
    WC_RETRY_EXC = 12,
    WC_RNR_RETRY_EXC = 13,
    WC_REM_ABORT = 16,
    WC_FATAL = 19,
    WC_RESP_TIMEOUT = 20,
    WC_GENERAL = 21,
};

#define CAUSE "\n  cause:  "
#define NEXT "\n  next:   "
#define MORE "\n          "

static const struct {
    const char *name, *text;
} statuses[] = {
    {"SUCCESS", "success"},
    {"LOC_LEN_ERR", "local length error"},
    {"LOC_QP_OP_ERR", "local QP operation error"},
    {"LOC_EEC_OP_ERR", "local EE context operation error"},
    {"LOC_PROT_ERR", "local protection error"},
    {"WR_FLUSH_ERR", "work request flushed"},
    {"MW_BIND_ERR", "memory window bind error"},
    {"BAD_RESP_ERR", "bad response"},
    {"LOC_ACCESS_ERR", "local access error"},
    {"REM_INV_REQ_ERR", "remote invalid request error"},
    {"REM_ACCESS_ERR", "remote access error"},
    {"REM_OP_ERR", "remote operation error"},
    {"RETRY_EXC_ERR", "transport retry counter exceeded"},
    {"RNR_RETRY_EXC_ERR", "receiver-not-ready retry counter exceeded"},
    {"LOC_RDD_VIOL_ERR", "local RDD violation"},
    {"REM_INV_RD_REQ_ERR", "remote invalid RD request"},
    {"REM_ABORT_ERR", "operation aborted by the remote end"},
    {"INV_EECN_ERR", "invalid EE context number"},
    {"INV_EEC_STATE_ERR", "invalid EE context state"},
    {"FATAL_ERR", "fatal device error"},
    {"RESP_TIMEOUT_ERR", "response timeout"},
    {"GENERAL_ERR", "general error"},
    {"TM_ERR", "tag matching error"},
    {"TM_RNDV_INCOMPLETE", "tag matching rendezvous incomplete"},
};

#define NUM_STATUSES ((int)(sizeof(statuses) / sizeof(statuses[0])))

const char *vrb_wc_status_text(int wc_status)
{
    return wc_status >= 0 && wc_status < NUM_STATUSES ? statuses[wc_status].text
                                                      : "unknown completion status";
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

/* What to look at when packets get lost on the way. */
static void put_path_advice(struct vrb_text *t, uint8_t link)
{
    if (link == VRB_LINK_ROCE) {
        vrb_text_put(
            t,
            NEXT "check that the two GIDs above are in networks that reach each other (ping their"
                 " addresses," MORE "ibv_devinfo -v lists the GIDs), that UDP port 4791 is not"
                 " filtered, that the MTU is the same" MORE "on the whole way, and that priority"
                 " flow control (PFC) or ECN keeps the fabric from dropping");
        return;
    }
    vrb_text_put(t,
                 NEXT "check the cable and both ports (ibstat, ibdiagnet), that the subnet manager"
                      " runs and has given" MORE
                      "out these LIDs (sminfo, ibtracert), and that both ends are on"
                      " the same fabric and partition");
}

/* A QP waits 4.096 us * 2^timeout per try (IBTA 9.7.6.1.3); devices may take up to 4 times that. */
static double retry_seconds(const struct vrb_failure *f)
{
    int exponent = f->ib_timeout > 0 && f->ib_timeout < 32 ? f->ib_timeout : 0;

    return 4.096e-6 * (double)(1ull << exponent) * (f->retry_count + 1);
}

static void put_retry_exceeded(struct vrb_text *t, const struct vrb_failure *f)
{
    vrb_text_put(t,
                 CAUSE "no acknowledgement in about %.2g s (ib_timeout %d, %d retries): the peer's"
                       " process or host is gone," MORE
                       "or packets are lost between the two addresses",
                 retry_seconds(f), f->ib_timeout, f->retry_count);
    put_path_advice(t, f->link);
    vrb_text_put(t, "." MORE
                    "If the job's output shows that the peer ended first, look there; on a busy"
                    " fabric raise ib_timeout");
}

static void put_rnr_exceeded(struct vrb_text *t, const struct vrb_failure *f)
{
    vrb_text_put(t,
                 CAUSE
                 "the peer had no receive buffer through all retries (rnr_retry %d): it does not"
                 " call MPI, or its" MORE "receive queue is too small for the number of senders",
                 f->rnr_retry);
    vrb_text_put(t,
                 NEXT "look whether the peer's process is stopped (debugger, swapping); otherwise"
                      " raise recv_buffers" MORE "or lower credits");
}

static void put_wc_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wc_status) {
    case WC_RETRY_EXC:
    case WC_RESP_TIMEOUT:
        put_retry_exceeded(t, f);
        break;
    case WC_RNR_RETRY_EXC:
        put_rnr_exceeded(t, f);
        break;
    case WC_WR_FLUSH:
        vrb_text_put(
            t,
            CAUSE "the queue pair was already in error: this is a consequence, not the cause" NEXT
                  "look for the first message about this pair of processes, on both hosts");
        break;
    case WC_LOC_LEN:
        vrb_text_put(t, CAUSE
                     "a message was longer than the receive buffer or the port allows" NEXT
                     "use the same version of this transport on all hosts; if it is, report this"
                     " message");
        break;
    case WC_LOC_QP_OP:
        vrb_text_put(
            t,
            CAUSE "the device refused the work request, or the queue pair was in the wrong"
                  " state" NEXT
                  "look for driver messages (dmesg), update the device's firmware, and report this"
                  " message");
        break;
    case WC_LOC_PROT:
    case WC_LOC_ACCESS:
        vrb_text_put(t, CAUSE
                     "memory of this process was not registered (any more) for the access that was"
                     " asked for:" MORE
                     "freed or remapped while a message was in flight, or changed by"
                     " fork()" NEXT "check that the program leaves buffers alone until MPI is done"
                     " with them; without the registration" MORE "cache (--mca mpi_leave_pinned 0)"
                     " the fault shows where it is made");
        break;
    case WC_REM_ACCESS:
        vrb_text_put(
            t, CAUSE
            "the peer's device refused the RDMA: the memory there is not registered"
            " (any more)" MORE "for this access" NEXT
            "check that the peer's program leaves its buffers and windows alone until MPI is"
            " done with them;" MORE "without the registration cache (--mca mpi_leave_pinned 0)"
            " the fault shows where it is made");
        break;
    case WC_REM_INV_REQ:
        vrb_text_put(t, CAUSE
                     "the peer's device took the request for invalid: a message longer than its"
                     " receive buffer," MORE
                     "or an operation that its queue pair does not allow" NEXT
                     "use the same version of this transport on all hosts; if it is, report this"
                     " message");
        break;
    case WC_REM_OP:
    case WC_REM_ABORT:
        vrb_text_put(t, CAUSE
                     "the peer's device could not finish the operation" NEXT
                     "look at the peer's host for driver messages (dmesg) and an earlier report");
        break;
    case WC_FATAL:
    case WC_GENERAL:
        vrb_text_put(t,
                     CAUSE
                     "the local device or its driver failed" NEXT
                     "look for driver messages (dmesg) on this host; vendor error 0x%x tells the"
                     " device's maker more",
                     f->vendor_err);
        break;
    case WC_BAD_RESP:
        vrb_text_put(t, CAUSE
                     "the peer answered with something the device did not expect" NEXT
                     "update the firmware of both devices; look for damaged packets (port error"
                     " counters)");
        break;
    default:
        vrb_text_put(t, CAUSE
                     "this transport does not use what reports this status" NEXT
                     "look for driver messages (dmesg) on both hosts, and report this message");
        break;
    }
}

static void put_rejected(struct vrb_text *t, const struct vrb_failure *f)
{
    vrb_text_put(t, CAUSE "the peer declined: %s", vrb_reject_text(f->reject_reason));
    switch (f->reject_reason) {
    case VRB_REJECT_NO_QP:
        vrb_text_put(
            t, NEXT "look at the peer's own message; usual limits are locked memory (ulimit -l) and"
                    " the device's queue pairs" MORE "(ibv_devinfo -v: max_qp); fewer processes per"
                    " host need fewer");
        break;
    case VRB_REJECT_NO_PATH:
        vrb_text_put(t, NEXT "compare the ports of both hosts (ibv_devinfo -v): link layer, GIDs,"
                             " partition keys");
        break;
    case VRB_REJECT_VERSION:
        vrb_text_put(t, NEXT "install the same version of this transport on all hosts");
        break;
    case VRB_REJECT_UNKNOWN:
        vrb_text_put(t, NEXT
                     "check that both ends use the same devices (if_include, if_exclude) and that"
                     " the peer's process still runs");
        break;
    default:
        vrb_text_put(t, NEXT
                     "look for an earlier message about this pair of processes, on both hosts");
        break;
    }
}

static void put_unanswered(struct vrb_text *t, const struct vrb_failure *f)
{
    if (f->heard) {
        vrb_text_put(
            t,
            CAUSE "the peer was heard, but the handshake did not end: its answers get lost, or it"
                  " rarely calls MPI" NEXT "look whether the peer's process is stopped or busy"
                  " outside MPI; if it is not, packets are lost:" MORE
                  "check error and discard counters on the way");
        return;
    }
    vrb_text_put(
        t,
        CAUSE "nothing was ever heard from the peer: its process has ended or hangs, or no packet"
              " gets through" MORE "between the two addresses");
    put_path_advice(t, f->link);
    vrb_text_put(t, "." MORE "To use other ports set if_include or if_exclude");
}

static void put_wireup(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wireup) {
    case VRB_WU_FAIL_TIMEOUT:
        vrb_text_put(t, "no connection in %.0f s, %u handshake messages sent", f->seconds,
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

static void put_wireup_advice(struct vrb_text *t, const struct vrb_failure *f)
{
    switch (f->wireup) {
    case VRB_WU_FAIL_TIMEOUT:
        put_unanswered(t, f);
        break;
    case VRB_WU_FAIL_REJECTED:
        put_rejected(t, f);
        break;
    case VRB_WU_FAIL_RESTART:
        vrb_text_put(
            t, CAUSE
            "the peer asks for a new connection, so it was started anew or gave this one up" NEXT
            "look at the peer's output for the reason");
        break;
    default:
        vrb_text_put(t,
                     NEXT "look for an earlier message on this host: it names the call or limit");
        break;
    }
}

const char *vrb_explain(const struct vrb_failure *f, char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};

    vrb_text_put(&t, "%s failed: ", f->what ? f->what : "communication");
    if (f->wireup != VRB_WU_FAIL_NONE) {
        put_wireup(&t, f);
    } else if (f->wc_status >= 0) {
        vrb_text_put(&t, "%s (IBV_WC_%s, status %d, vendor error 0x%x)",
                     vrb_wc_status_text(f->wc_status),
                     f->wc_status < NUM_STATUSES ? statuses[f->wc_status].name : "?", f->wc_status,
                     f->vendor_err);
    } else {
        vrb_text_put(&t, "%s", f->detail ? f->detail : "the connection was lost");
    }
    put_end(&t, "local:", &f->local, f->link);
    put_end(&t, "remote:", &f->remote, f->link);
    if (f->detail && (f->wireup != VRB_WU_FAIL_NONE || f->wc_status >= 0)) {
        vrb_text_put(&t, "\n  detail: %s", f->detail);
    }
    if (f->wireup != VRB_WU_FAIL_NONE) {
        put_wireup_advice(&t, f);
    } else if (f->wc_status > WC_SUCCESS) {
        put_wc_advice(&t, f);
    }
    return buf;
}

/* Bytes in the largest unit that leaves no fraction. */
static void put_bytes(struct vrb_text *t, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;

    while (u < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    vrb_text_put(t, "%" PRIu64 " %s", bytes, units[u]);
}

const char *vrb_explain_memlock(const char *what, uint64_t bytes, uint64_t limit, const char *cause,
                                char *buf, size_t len)
{
    struct vrb_text t = {.buf = buf, .len = len};

    vrb_text_put(&t, "registering ");
    put_bytes(&t, bytes);
    vrb_text_put(&t, " for %s failed: %s", what, cause);
    if (limit == UINT64_MAX) {
        vrb_text_put(
            &t,
            CAUSE "locked memory is not limited here (ulimit -l: unlimited), so the host's memory"
                  " or the device's" MORE "regions ran out" NEXT
                  "look at the free memory and at ibv_devinfo -v (max_mr); fewer processes per host"
                  " need less");
        return buf;
    }
    vrb_text_put(&t, CAUSE "this process may lock ");
    put_bytes(&t, limit);
    vrb_text_put(
        &t, " of memory (ulimit -l)" NEXT
            "raise the limit where the job's processes are started: LimitMEMLOCK=infinity in the"
            " service of slurmd," MORE "pbs_mom or sshd (systemctl edit), memlock in"
            " /etc/security/limits.conf for logins; restart the" MORE
            "daemon, and check with: mpirun sh -c 'ulimit -l'");
    return buf;
}
