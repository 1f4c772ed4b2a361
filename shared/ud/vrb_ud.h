/* The UD QP of a rail: its buffers and send slots, shared by handshakes and datagrams.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything on it may be lost; who needs it to arrive repeats it (wireup/, reliable/).
 *
 * It may break and is set up again meanwhile (vrb_ud_recover.c): that is a blackout, no more.
 *
 * Sends are signalled sparsely. Posting numbers each request; a completion tells that all up to its
 * number are done, and only then may the memory of a request be reused, acknowledged or not. */
#ifndef VRB_UD_H
#define VRB_UD_H

#include "rail/vrb_rail.h"
#include "wire/vrb_hello.h"

struct vrb_peer;

/* A GRH, used or not, lies before every received payload (ibv_post_recv(3)). */
#define VRB_UD_GRH 40

enum vrb_ud_state { VRB_UD_WORKS = 0, VRB_UD_FLUSHING, VRB_UD_WAITING };

/* Taken off sq_room while the QP is broken, so that nobody finds room. */
#define VRB_UD_NO_ROOM (1 << 24)

struct vrb_ud {
    struct ibv_qp *qp;
    uint8_t state;      /* enum vrb_ud_state */
    uint8_t generation; /* of the requests: late completions of an earlier one are not ours */
    uint32_t inline_max;
    int sq_room;        /* free send slots */
    int reserve;        /* of which data leaves these alone: acknowledgements and handshakes */
    uint32_t posted;    /* number of the last request posted */
    uint32_t completed; /* all up to this one are done */
    uint32_t unsignalled, signal_every;
    uint32_t depth;      /* send slots */
    uint32_t arrived;    /* datagrams, modulo 2^32 */
    uint32_t held;       /* receive slots that are being read: callbacks may progress */
    uint32_t hello_busy; /* bit i: handshake slot i is in flight */
    struct ibv_mr *mr;
    uint8_t *mem; /* receive slots, handshake slots, zeros to lengthen them, what nobody reads */
    size_t mem_size;
    uint8_t *hellos, *zeros, *dump;
    uint32_t recvs, slot_size;
    uint32_t chain;       /* receives posted again at a time */
    uint32_t *free_slots; /* consumed receive slots, to be posted again */
    uint32_t free_n;
    /* Recovery: ns, but for the last line. */
    uint64_t broke_at, works_since;
    uint64_t wait, next_try; /* how long, and when, to try again */
    uint64_t next_look;
    uint64_t down_since;          /* the port was seen to be down, 0 = it is not */
    uint32_t seen, posted_before; /* `arrived` and `posted` at the last look */
};

/* Makes the QP, its buffers and a random Q_Key; fills address.ud_qpn and qkey of the rail. Returns
 * VRB_OK, or an error with *detail in words. */
int vrb_ud_open(struct vrb_rail *rail, char *detail, size_t len);
void vrb_ud_close(struct vrb_rail *rail);

/* How many CQ entries it may need. */
int vrb_ud_cq_entries(const struct vrb_rail *rail);

/* Makes the peer's address handle if it has none. VRB_OK; VRB_ERR_AGAIN: the neighbour is not
 * resolved yet, try later; an error in words. */
int vrb_ud_peer_ah(struct vrb_peer *peer, char *detail, size_t len);

/* Posts one datagram to the peer, whose address handle exists; the caller has seen that sq_room >
 * 0. signal: a completion is wanted now and not with the next regular one. wr_id, next, opcode and
 * flags but INLINE are filled in here. Returns 0 or an errno; ud->posted is the request's number.
 */
int vrb_ud_post(struct vrb_peer *peer, struct ibv_send_wr *wr, int signal);

/* True when request `number` no longer reads its memory. */
static inline int vrb_ud_is_done(const struct vrb_ud *ud, uint32_t number)
{
    return (int32_t)(ud->completed - number) >= 0;
}

/* Sends a HELLO to the peer's UD QP, as long as a packet of that MTU (0: no longer than it must
 * be). Fills in where we are reached. Returns VRB_OK (sent, or lost for want of a slot: like on the
 * wire), or an error that repeating cannot mend, in words. */
int vrb_ud_hello(struct vrb_peer *peer, const struct vrb_hello *h, uint8_t mtu, char *detail,
                 size_t len);

/* Completions of this QP. */
void vrb_ud_recv(struct vrb_rail *rail, const struct ibv_wc *wc);
void vrb_ud_send_done(struct vrb_rail *rail, const struct ibv_wc *wc);

/* Posts consumed receive slots again when a batch has gathered. */
void vrb_ud_repost_chain(struct vrb_rail *rail);

static inline void vrb_ud_repost(struct vrb_rail *rail)
{
    if (rail->ud->free_n >= rail->ud->chain) {
        vrb_ud_repost_chain(rail);
    }
}

/* The QP stopped working, for a reason in words: sets it up again from progress. */
void vrb_ud_broke(struct vrb_rail *rail, const char *why);

/* Asks the device whether the QP still works, and starts its recovery if it does not. Returns 1
 * while it is broken. */
int vrb_ud_is_broken(struct vrb_rail *rail, const char *why);

/* One step of the recovery; progress calls it while the QP is broken. */
void vrb_ud_recover(struct vrb_rail *rail);

/* Now and then: a QP that gets no answers to what it sends may be in error without a word. */
void vrb_ud_look(struct vrb_rail *rail, uint64_t now);

/* ---- between the files of this folder ---- */

int vrb_ud_to_rts(struct vrb_rail *rail); /* RESET -> RTS; 0 or an errno */
int vrb_ud_fill(struct vrb_rail *rail);   /* posts the receive slots; an errno if none is taken */

#endif
