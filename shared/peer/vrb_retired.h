/* Peers that were dropped, and may come back. Internal to the core.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes may drop and make each other's peer at different times (MPI_Comm_disconnect and
 * connect), while what one end sent is still under way to the other. The datagrams between two
 * incarnations therefore have one sequence of numbers for as long as both live: it stays behind
 * when a peer is dropped, and the peer's next life goes on with it. So nothing that was delivered
 * is delivered again, and neither end waits for numbers that the other forgot.
 *
 * What stays is about 1.5 KiB per process that was dropped after it had exchanged datagrams. */
#ifndef VRB_RETIRED_H
#define VRB_RETIRED_H

#include "peer/vrb_peer.h"

/* At the end of a peer's destruction: keeps it if it has to be kept. Returns 1 if it did; the peer
 * is then not to be touched any more. */
int vrb_retired_keep(struct vrb_peer *peer);

/* A new peer, of which only rail and remote are set: makes it known as a source of datagrams, with
 * the numbers of its earlier life if it had one. VRB_OK or VRB_ERR_NOMEM. */
int vrb_retired_return(struct vrb_peer *peer, uint64_t name, int remote_rail);

/* The rail goes. */
void vrb_retired_clear(struct vrb_rail *rail);

#endif
