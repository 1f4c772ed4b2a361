/*
 * Parser of fault rules: strict, and names the word it does not understand.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fault_rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ARG_US = 1, ARG_ERRNO = 2, ARG_STATUS = 4, ARG_BYTES = 8, ARG_WINDOW = 16 };
enum { ARG_INDEX = 32, ARG_LID = 64, ARG_GID = 128 };

static const struct {
    const char *name;
    unsigned args;   /* words the point takes */
    unsigned needed; /* of these, the ones it cannot do without */
    bool action;
    int err; /* default of errno= */
    const char *help;
} points[SHCA_FAULT_POINTS] = {
    [SHCA_FAULT_UD_DROP] = {"ud.drop", 0, 0, false, 0, "lose a UD datagram"},
    [SHCA_FAULT_UD_DUP] = {"ud.dup", 0, 0, false, 0, "deliver a UD datagram twice"},
    [SHCA_FAULT_UD_REORDER] = {"ud.reorder", ARG_WINDOW, 0, false, 0,
                               "let up to window= (4) later UD datagrams overtake this one"},
    [SHCA_FAULT_UD_DELAY] = {"ud.delay", ARG_US, ARG_US, false, 0,
                             "deliver a UD datagram us= microseconds later"},
    [SHCA_FAULT_UD_CORRUPT] = {"ud.corrupt", ARG_INDEX, 0, false, 0,
                               "flip a bit of byte index= of a UD datagram"},
    [SHCA_FAULT_PATH_MTU] = {"path.mtu", ARG_BYTES, ARG_BYTES, false, 0,
                             "lose UD datagrams and RC packets of more than bytes="},
    [SHCA_FAULT_RC_RNR] = {"rc.rnr", 0, 0, false, 0, "pretend the RC receive queue is empty"},
    [SHCA_FAULT_RC_RETRY_EXC] = {"rc.retry_exc", 0, 0, false, 0,
                                 "the RC request never arrives: its retries are used up"},
    [SHCA_FAULT_RC_ACK_LOST] = {"rc.ack_lost", 0, 0, false, 0,
                                "the RC request is executed, but its acknowledgement never comes"},
    [SHCA_FAULT_RC_DELAY] = {"rc.delay", ARG_US, ARG_US, false, 0,
                             "execute an RC work request us= microseconds later"},
    [SHCA_FAULT_RC_READ_SHORT] = {"rc.read_short", ARG_BYTES, 0, false, 0,
                                  "complete an RDMA read with success though only bytes= (1024) "
                                  "came, then break the QP, as soft-RoCE can"},
    [SHCA_FAULT_WC_ERROR] = {"wc.error", ARG_STATUS, ARG_STATUS, false, 0,
                             "complete a work request with status="},
    [SHCA_FAULT_REG_MR_FAIL] = {"reg_mr.fail", ARG_ERRNO, 0, false, ENOMEM,
                                "ibv_reg_mr fails with errno= (ENOMEM)"},
    [SHCA_FAULT_REG_MR_LIMIT] = {"reg_mr.limit", ARG_BYTES, ARG_BYTES, false, ENOMEM,
                                 "a process may register at most bytes="},
    [SHCA_FAULT_CREATE_CQ_FAIL] = {"create_cq.fail", ARG_ERRNO, 0, false, ENOMEM,
                                   "ibv_create_cq fails with errno= (ENOMEM)"},
    [SHCA_FAULT_CREATE_QP_FAIL] = {"create_qp.fail", ARG_ERRNO, 0, false, ENOMEM,
                                   "ibv_create_qp fails with errno= (ENOMEM)"},
    [SHCA_FAULT_CREATE_SRQ_FAIL] = {"create_srq.fail", ARG_ERRNO, 0, false, ENOMEM,
                                    "ibv_create_srq fails with errno= (ENOMEM)"},
    [SHCA_FAULT_CREATE_AH_FAIL] = {"create_ah.fail", ARG_ERRNO, 0, false, ENOMEM,
                                   "ibv_create_ah fails with errno= (ENOMEM)"},
    [SHCA_FAULT_MODIFY_QP_FAIL] = {"modify_qp.fail", ARG_ERRNO, 0, false, EINVAL,
                                   "ibv_modify_qp fails with errno= (EINVAL)"},
    [SHCA_FAULT_OPEN_DEVICE_FAIL] = {"open_device.fail", ARG_ERRNO, 0, false, EIO,
                                     "ibv_open_device fails with errno= (EIO)"},
    [SHCA_FAULT_POST_SEND_FAIL] = {"post_send.fail", ARG_ERRNO, 0, false, ENOMEM,
                                   "ibv_post_send fails with errno= (ENOMEM)"},
    [SHCA_FAULT_POST_RECV_FAIL] = {"post_recv.fail", ARG_ERRNO, 0, false, ENOMEM,
                                   "ibv_post_recv fails with errno= (ENOMEM)"},
    [SHCA_FAULT_CQ_OVERRUN] = {"cq.overrun", 0, 0, false, 0, "treat the completion queue as full"},
    [SHCA_FAULT_PORT_DOWN] = {"port.down", 0, 0, true, 0, "take the port down, for for="},
    [SHCA_FAULT_PORT_UP] = {"port.up", 0, 0, true, 0, "bring the port up"},
    [SHCA_FAULT_GID_SET] = {"gid.set", ARG_INDEX | ARG_GID, ARG_INDEX | ARG_GID, true, 0,
                            "set GID table entry index= to gid="},
    [SHCA_FAULT_GID_CLEAR] = {"gid.clear", ARG_INDEX, ARG_INDEX, true, 0,
                              "empty GID table entry index="},
    [SHCA_FAULT_LID_SET] = {"lid.set", ARG_LID, ARG_LID, true, 0, "change the LID to lid="},
    [SHCA_FAULT_DEV_FATAL] = {"dev.fatal", 0, 0, true, 0, "the device fails for good"},
    [SHCA_FAULT_SRQ_LIMIT] = {"srq.limit", 0, 0, true, 0, "raise SRQ_LIMIT_REACHED"},
    [SHCA_FAULT_PEER_KILL] = {"peer.kill", 0, 0, true, 0,
                              "SIGKILL the process that owns the destination QP"},
};

struct name_value {
    const char *name;
    uint32_t value;
};

static const struct name_value errnos[] = {
    {"ENOMEM", ENOMEM}, {"EINVAL", EINVAL},           {"EAGAIN", EAGAIN},
    {"EIO", EIO},       {"ENOSPC", ENOSPC},           {"EPERM", EPERM},
    {"EACCES", EACCES}, {"EFAULT", EFAULT},           {"EBUSY", EBUSY},
    {"ENODEV", ENODEV}, {"EOPNOTSUPP", ENOTSUP},      {"EMFILE", EMFILE},
    {"ENOSYS", ENOSYS}, {"ENETUNREACH", ENETUNREACH}, {"ETIMEDOUT", ETIMEDOUT},
    {NULL, 0},
};

static const struct name_value statuses[] = {
    {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
    {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"LOC_EEC_OP_ERR", IBV_WC_LOC_EEC_OP_ERR},
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
    {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
    {"MW_BIND_ERR", IBV_WC_MW_BIND_ERR},
    {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
    {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
    {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
    {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
    {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
    {"FATAL_ERR", IBV_WC_FATAL_ERR},
    {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
    {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
    {NULL, 0},
};

#define OP(name) (UINT32_C(1) << (name))
static const struct name_value opcodes[] = {
    {"send", OP(IBV_WR_SEND) | OP(IBV_WR_SEND_WITH_IMM) | OP(IBV_WR_SEND_WITH_INV)},
    {"send_imm", OP(IBV_WR_SEND_WITH_IMM)},
    {"write", OP(IBV_WR_RDMA_WRITE) | OP(IBV_WR_RDMA_WRITE_WITH_IMM)},
    {"write_imm", OP(IBV_WR_RDMA_WRITE_WITH_IMM)},
    {"read", OP(IBV_WR_RDMA_READ)},
    {"atomic", OP(IBV_WR_ATOMIC_CMP_AND_SWP) | OP(IBV_WR_ATOMIC_FETCH_AND_ADD)},
    {"cmp_swap", OP(IBV_WR_ATOMIC_CMP_AND_SWP)},
    {"fetch_add", OP(IBV_WR_ATOMIC_FETCH_AND_ADD)},
    {"recv", UINT32_C(1) << (SHCA_FAULT_OP_RECV - 1)},
    {NULL, 0},
};

static const struct name_value types[] = {
    {"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}, {NULL, 0}};

static const struct name_value units_time[] = {
    {"ns", 1}, {"us", 1000}, {"ms", 1000 * 1000}, {"s", 1000 * 1000 * 1000}, {NULL, 0}};
static const struct name_value units_bytes[] = {
    {"", 1}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {NULL, 0}};
static const struct name_value units_none[] = {{"", 1}, {NULL, 0}};

const char *shca_fault_point_name(enum shca_fault_point point)
{
    return (unsigned)point < SHCA_FAULT_POINTS ? points[point].name : "?";
}

const char *shca_fault_point_help(enum shca_fault_point point)
{
    return (unsigned)point < SHCA_FAULT_POINTS ? points[point].help : "";
}

bool shca_fault_is_action(enum shca_fault_point point)
{
    return points[point].action;
}

/* ---- scanning ---- */

struct scan {
    char word[SHCA_FAULT_TEXT];
    char *err;
    size_t err_len;
};

__attribute__((format(printf, 2, 3))) static int fail(struct scan *scan, const char *format, ...)
{
    char why[160], shown[40];
    va_list list;
    size_t i;

    va_start(list, format);
    vsnprintf(why, sizeof(why), format, list);
    va_end(list);
    for (i = 0; scan->word[i] && i < sizeof(shown) - 1; i++) {
        shown[i] = isprint((unsigned char)scan->word[i]) ? scan->word[i] : '?';
    }
    shown[i] = '\0';
    if (scan->err_len) {
        snprintf(scan->err, scan->err_len, "fault rule: '%s': %s", shown, why);
    }
    return -1;
}

static bool ends_rule(char c)
{
    return c == '\0' || c == ';' || c == '\n' || c == '#';
}

/* Returns 1 for a word, 0 at the end of the rule, -1 for a word that is too long. */
static int next_word(const char **text, struct scan *scan)
{
    const char *p = *text;
    size_t len = 0;

    while (*p == ' ' || *p == '\t' || *p == '\r') {
        p++;
    }
    while (!ends_rule(*p) && *p != ' ' && *p != '\t' && *p != '\r') {
        if (len == sizeof(scan->word) - 1) {
            scan->word[len] = '\0';
            return fail(scan, "word too long");
        }
        scan->word[len++] = *p++;
    }
    scan->word[len] = '\0';
    *text = p;
    return len > 0;
}

static void skip_to_rule(const char **text)
{
    const char *p = *text;

    for (;;) {
        if (*p == '#') {
            while (*p && *p != '\n') {
                p++;
            }
        } else if (*p == ';' || *p == '\n' || *p == ' ' || *p == '\t' || *p == '\r') {
            p++;
        } else {
            break;
        }
    }
    *text = p;
}

static int lookup(const struct name_value *table, const char *name, uint32_t *value)
{
    for (; table->name; table++) {
        if (strcasecmp(table->name, name) == 0) {
            *value = table->value;
            return 0;
        }
    }
    return -1;
}

/* Own number parser: strtod and strtoull depend on the locale, take signs and blanks. */
static int number(const char *text, const struct name_value *units, uint64_t max, uint64_t *value)
{
    uint64_t v = 0;
    uint32_t unit;
    int base = 10;
    const char *p = text;

    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2])) {
        base = 16;
        p += 2;
    }
    if (!isxdigit((unsigned char)*p) || (base == 10 && !isdigit((unsigned char)*p))) {
        return -1;
    }
    for (; base == 16 ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p); p++) {
        unsigned digit =
            isdigit((unsigned char)*p) ? (unsigned)(*p - '0') : (unsigned)(tolower(*p) - 'a' + 10);

        if (v > (UINT64_MAX - digit) / (unsigned)base) {
            return -1;
        }
        v = v * (unsigned)base + digit;
    }
    if (lookup(units, p, &unit) || v > max / unit) {
        return -1;
    }
    *value = v * unit;
    return 0;
}

/* 0.02, .5, 1 or 2% */
static int probability(const char *text, double *value)
{
    double v = 0, scale = 1;
    int digits = 0;

    for (; isdigit((unsigned char)*text) && digits < 4; text++, digits++) {
        v = v * 10 + (*text - '0');
    }
    if (*text == '.') {
        for (text++; isdigit((unsigned char)*text) && digits < 20; text++, digits++) {
            scale /= 10;
            v += (*text - '0') * scale;
        }
    }
    if (*text == '%') {
        v /= 100;
        text++;
    }
    if (digits == 0 || *text || v > 1) {
        return -1;
    }
    *value = v;
    return 0;
}

static int address(const char *text, uint8_t gid[16])
{
    memset(gid, 0, 16);
    if (inet_pton(AF_INET6, text, gid) == 1) {
        return 0;
    }
    gid[10] = gid[11] = 0xff; /* IPv4-mapped */
    return inet_pton(AF_INET, text, gid + 12) == 1 ? 0 : -1;
}

static int name(const char *text, char *to, size_t size)
{
    size_t len = strlen(text);

    if (len == 0 || len >= size) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("_-.:", text[i])) {
            return -1;
        }
    }
    memcpy(to, text, len + 1);
    return 0;
}

/* ---- words ---- */

static int match_word(struct shca_fault_rule *rule, const char *key, const char *value)
{
    uint64_t n = 0;
    uint32_t v = 0;
    int rc;

    if (strcmp(key, "host") == 0) {
        return name(value, rule->args.host, sizeof(rule->args.host));
    } else if (strcmp(key, "dev") == 0) {
        return name(value, rule->args.dev, sizeof(rule->args.dev));
    } else if (strcmp(key, "peer") == 0) {
        return name(value, rule->peer, sizeof(rule->peer));
    } else if (strcmp(key, "op") == 0) {
        return lookup(opcodes, value, &rule->opcodes);
    } else if (strcmp(key, "type") == 0) {
        rc = lookup(types, value, &v);
        rule->qp_type = rc ? -1 : (int)v;
        return rc;
    } else if (strcmp(key, "port") == 0) {
        rc = number(value, units_none, 255, &n);
        rule->args.port = (int)n;
        return rc || n == 0 ? -1 : 0;
    } else if (strcmp(key, "qp") == 0) {
        rc = number(value, units_none, 0xffffff, &n);
        rule->has_qpn = true;
        rule->qpn = (uint32_t)n;
        return rc;
    } else if (strcmp(key, "min") == 0) {
        return number(value, units_bytes, UINT64_MAX, &rule->min);
    } else if (strcmp(key, "max") == 0) {
        return number(value, units_bytes, UINT64_MAX, &rule->max);
    }
    return 1;
}

static int when_word(struct shca_fault_rule *rule, const char *key, const char *value)
{
    if (strcmp(key, "nth") == 0) {
        return number(value, units_none, UINT64_MAX, &rule->nth) || rule->nth == 0 ? -1 : 0;
    } else if (strcmp(key, "every") == 0) {
        return number(value, units_none, UINT64_MAX, &rule->every) || rule->every == 0 ? -1 : 0;
    } else if (strcmp(key, "count") == 0) {
        return number(value, units_none, UINT64_MAX, &rule->count) || rule->count == 0 ? -1 : 0;
    } else if (strcmp(key, "prob") == 0) {
        return probability(value, &rule->prob);
    } else if (strcmp(key, "at") == 0) {
        rule->has_at = true;
        return number(value, units_time, UINT64_MAX / 4, &rule->at_ns);
    } else if (strcmp(key, "for") == 0) {
        return number(value, units_time, UINT64_MAX / 4, &rule->args.for_ns) ||
                       rule->args.for_ns == 0
                   ? -1
                   : 0;
    } else if (strcmp(key, "scope") == 0) {
        rule->fabric = strcmp(value, "fabric") == 0;
        return rule->fabric || strcmp(value, "process") == 0 ? 0 : -1;
    }
    return 1;
}

/* Sets *arg to the argument's bit. */
static int arg_word(struct shca_fault_args *args, const char *key, const char *value, unsigned *arg)
{
    uint64_t n = 0;
    uint32_t v = 0;
    int rc;

    if (strcmp(key, "us") == 0) {
        *arg = ARG_US;
        return number(value, units_none, UINT32_MAX, &args->us);
    } else if (strcmp(key, "bytes") == 0) {
        *arg = ARG_BYTES;
        return number(value, units_bytes, UINT64_MAX, &args->bytes);
    } else if (strcmp(key, "errno") == 0) {
        *arg = ARG_ERRNO;
        rc = lookup(errnos, value, &v) ? number(value, units_none, 133, &n) : 0;
        args->err = rc == 0 && n ? (int)n : (int)v;
        return rc || args->err <= 0 ? -1 : 0;
    } else if (strcmp(key, "status") == 0) {
        *arg = ARG_STATUS;
        rc = lookup(statuses, value, &v) ? number(value, units_none, IBV_WC_GENERAL_ERR, &n) : 0;
        args->status = rc == 0 && n ? (int)n : (int)v;
        return rc || args->status <= 0 ? -1 : 0;
    } else if (strcmp(key, "window") == 0) {
        *arg = ARG_WINDOW;
        rc = number(value, units_none, 1024, &n);
        args->window = (uint32_t)n;
        return rc || n == 0 ? -1 : 0;
    } else if (strcmp(key, "index") == 0) {
        *arg = ARG_INDEX;
        rc = number(value, units_none, 65535, &n);
        args->index = (uint32_t)n;
        return rc;
    } else if (strcmp(key, "lid") == 0) {
        *arg = ARG_LID;
        rc = number(value, units_none, 0xbfff, &n); /* unicast LIDs end at 0xbfff */
        args->lid = (uint16_t)n;
        return rc || n == 0 ? -1 : 0;
    } else if (strcmp(key, "gid") == 0) {
        *arg = ARG_GID;
        args->has_gid = true;
        return address(value, args->gid);
    }
    return 1;
}

static int one_word(struct scan *scan, struct shca_fault_rule *rule, unsigned *given)
{
    char key[16];
    const char *equal = strchr(scan->word, '=');
    enum shca_fault_point point = rule->args.point;
    unsigned arg = 0;
    int rc;

    if (!equal || equal == scan->word || (size_t)(equal - scan->word) >= sizeof(key)) {
        return fail(scan, "expected KEY=VALUE after %s", points[point].name);
    }
    memcpy(key, scan->word, (size_t)(equal - scan->word));
    key[equal - scan->word] = '\0';
    rc = match_word(rule, key, equal + 1);
    if (rc > 0) {
        rc = when_word(rule, key, equal + 1);
    }
    if (rc > 0) {
        rc = arg_word(&rule->args, key, equal + 1, &arg);
        if (rc <= 0 && !(points[point].args & arg)) {
            return fail(scan, "%s takes no %s=", points[point].name, key);
        }
        *given |= arg;
    }
    if (rc > 0) {
        return fail(scan, "unknown word");
    }
    return rc < 0 ? fail(scan, "bad value for %s=", key) : 0;
}

static int check(struct scan *scan, struct shca_fault_rule *rule, unsigned given)
{
    static const char *const arg_names[] = {"us",     "errno", "status", "bytes",
                                            "window", "index", "lid",    "gid"};
    enum shca_fault_point point = rule->args.point;
    unsigned missing = points[point].needed & ~given;
    int selectors = (rule->nth > 0) + (rule->every > 0) + (rule->prob >= 0);

    snprintf(scan->word, sizeof(scan->word), "%s", points[point].name);
    for (unsigned i = 0; i < sizeof(arg_names) / sizeof(arg_names[0]); i++) {
        if (missing & (1u << i)) {
            return fail(scan, "needs %s=", arg_names[i]);
        }
    }
    if (selectors > 1) {
        return fail(scan, "only one of nth=, every=, prob= may be given");
    }
    if (point == SHCA_FAULT_PATH_MTU && rule->min <= rule->args.bytes) {
        rule->min = rule->args.bytes == UINT64_MAX ? UINT64_MAX : rule->args.bytes + 1;
    }
    if (rule->min > rule->max) {
        return fail(scan, "min= is above max=");
    }
    if (points[point].action) {
        rule->fabric = true;
        rule->clocked = rule->has_at && selectors == 0 && point != SHCA_FAULT_SRQ_LIMIT &&
                        point != SHCA_FAULT_PEER_KILL;
        if (rule->count == 0 && rule->every == 0) {
            rule->count = 1;
        }
        if (rule->clocked && rule->count > 1) {
            return fail(scan, "an action by the clock (at=) happens once, count= does not fit");
        }
        if (rule->args.for_ns && point != SHCA_FAULT_PORT_DOWN) {
            return fail(scan, "takes no for=");
        }
    } else if (rule->nth && rule->count == 0) {
        rule->count = 1;
    }
    return 0;
}

int shca_fault_parse(const char **text, struct shca_fault_rule *rule, char words[SHCA_FAULT_TEXT],
                     char *err, size_t err_len)
{
    struct scan scan = {.err = err, .err_len = err_len};
    unsigned given = 0, point;
    size_t used;
    int rc;

    skip_to_rule(text);
    if (**text == '\0') {
        return 0;
    }
    if (next_word(text, &scan) < 0) {
        return -1;
    }
    for (point = 0; point < SHCA_FAULT_POINTS; point++) {
        if (strcmp(points[point].name, scan.word) == 0) {
            break;
        }
    }
    if (point == SHCA_FAULT_POINTS) {
        return fail(&scan, "no such fault point");
    }
    memset(rule, 0, sizeof(*rule));
    rule->args.point = (enum shca_fault_point)point;
    rule->args.err = points[point].err;
    rule->args.window = 4;
    rule->qp_type = -1;
    rule->prob = -1;
    rule->max = UINT64_MAX;
    used = strlen(scan.word);
    memcpy(words, scan.word, used + 1);
    while ((rc = next_word(text, &scan)) > 0) {
        size_t len = strlen(scan.word);

        if (one_word(&scan, rule, &given)) {
            return -1;
        }
        if (used + 1 + len >= SHCA_FAULT_TEXT) {
            return fail(&scan, "rule longer than %d characters", SHCA_FAULT_TEXT - 1);
        }
        words[used++] = ' ';
        memcpy(words + used, scan.word, len + 1);
        used += len;
    }
    return rc < 0 || check(&scan, rule, given) ? -1 : 1;
}
