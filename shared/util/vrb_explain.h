/* Turns what is known about a failure into the one message that the user gets.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure: facts in, text out, so that every wording has a golden test. Uses the numbers of
 * ibv_wc_status (ibv_poll_cq(3)) without needing the library. */
#ifndef VRB_EXPLAIN_H
#define VRB_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "address/vrb_choose.h"

/* One end of a connection, as far as it is known. */
struct vrb_end {
    const char *host; /* NULL = unknown */
    uint64_t rank;    /* UINT64_MAX = unknown */
    const char *dev;  /* NULL = unknown (the peer's device name is not published) */
    int port;         /* 0 = unknown */
    uint32_t qpn;     /* 0 = none */
    uint16_t lid;
    struct vrb_gid gid; /* all zero = none */
};

struct vrb_failure {
    int wc_status;       /* enum ibv_wc_status, or -1 when it was no completion */
    uint32_t vendor_err; /* of that completion */
    int wireup;          /* enum vrb_wireup_failure, when the handshake failed */
    uint8_t reject_reason, heard;
    uint8_t broken;     /* it was connected and broke, for the reason in wc_status or detail; wireup
                         * tells why the repair failed, or STUCK: that there is none */
    uint32_t hellos;    /* sent before giving up */
    double seconds;     /* how long it was tried (handshake), or silent (datagrams) */
    uint32_t unacked;   /* datagrams that the peer never acknowledged; 0: it is not about that */
    uint8_t port_down;  /* ... because the port of this end is down */
    const char *what;   /* what was being done: "sending", "RDMA read of 1048576 bytes", ... */
    const char *detail; /* anything else in words (a system error), or NULL */
    int status;         /* enum vrb_status: chooses the advice where only words are known */
    int retry_count, ib_timeout, rnr_retry; /* the QP's settings, named where they matter */
    uint8_t link;
    struct vrb_end local, remote;
};

/* Writes a message of a few lines without trailing newline: what failed and the decoded status,
 * both ends, likely cause, next step (which depends on the status and link: for a retry count
 * exceeded on RoCE the GID, PFC and MTU; on IB the LID, SM and cable; for RNR the peer's progress;
 * for access errors registration; ...). Never overruns; returns buf. */
const char *vrb_explain(const struct vrb_failure *f, char *buf, size_t len);

/* The same for memory that could not be had for the device. what: "shca0 port 1 on host node1
 * cannot be used: registering message buffers"; limit: RLIMIT_MEMLOCK's soft limit in bytes,
 * UINT64_MAX = unlimited; cause: strerror() of the refusal. */
const char *vrb_explain_memory(const char *what, uint64_t limit, const char *cause, char *buf,
                               size_t len);

/* "transport retry counter exceeded", ... for every ibv_wc_status; never NULL. */
const char *vrb_wc_status_text(int wc_status);

#endif
