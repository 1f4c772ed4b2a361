/*
 * One fault rule in parsed form, and the parser that makes it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SHCA_FAULT_RULE_H
#define SHCA_FAULT_RULE_H

#include "fault.h"

struct shca_fault_rule {
    struct shca_fault_args args; /* host, dev and port double as matches */
    char peer[48];
    uint32_t opcodes; /* bit per opcode, 0 = any */
    int qp_type;      /* -1 = any */
    bool has_qpn;
    uint32_t qpn;
    uint64_t min, max; /* bytes */
    uint64_t nth, every;
    double prob; /* < 0: not given */
    uint64_t at_ns;
    bool has_at;
    uint64_t count; /* 0 = no limit */
    bool fabric;    /* count= counts the hits of all processes */
    bool clocked;   /* an action due by the clock, not by passes */
};

/* Parses the first rule of *text and moves *text behind it. Returns 1 for a rule (its words, single
 * spaced, in `words`), 0 at the end of the text, -1 with a message in err. */
int shca_fault_parse(const char **text, struct shca_fault_rule *rule, char words[SHCA_FAULT_TEXT],
                     char *err, size_t err_len);

bool shca_fault_is_action(enum shca_fault_point point);

#endif
