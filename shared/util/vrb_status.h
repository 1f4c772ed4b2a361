/* Status codes that every function of the transport core returns.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_STATUS_H
#define VRB_STATUS_H

/* Zero is success, errors are negative; callers test `< 0` or compare by name. */
enum vrb_status {
    VRB_OK = 0,
    VRB_ERR_AGAIN = -1,     /* no room now; nothing was taken, try again after progress */
    VRB_ERR_NOMEM = -2,     /* memory, registered memory or a device object ran out */
    VRB_ERR_ARG = -3,       /* the caller (or the user's parameter) is wrong */
    VRB_ERR_MALFORMED = -4, /* bytes from the network that no correct peer sends */
    VRB_ERR_UNREACH = -5,   /* no pair of addresses leads to the peer */
    VRB_ERR_NOTSUP = -6,    /* the device or library cannot do it */
    VRB_ERR_DEVICE = -7,    /* a verbs call failed in a way that retrying cannot mend */
    VRB_ERR_TIMEOUT = -8,   /* the peer did not answer within the configured time */
    VRB_ERR_PEER = -9,      /* the connection to the peer broke (see the report printed) */
    VRB_ERR_REJECTED = -10, /* the peer answered, and declined */
    VRB_ERR_PERM = -11,     /* memory that may not be accessed as asked (read-only mapping) */
};

#endif
