/* The configuration file: hosts, devices, ports, addresses and limits other than the built-in ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines `[section]` and `key = value`; '#' and ';' start comments. HOST is a name, an index or '*'
 * (also when left out); within numbers and addresses %h is the host's index, %H that plus one, and
 * numbers may be sums (lid = 0x40+%h).
 *
 *   [fabric]             defaults = yes|no     whether every host has shca0 (ib) and shca1 (roce)
 *   [host INDEX]         name = NAME           which host gets this index, and so these addresses
 *   [limits]             max_qp, max_mr, memlock ... of every device (table `limits` below)
 *   [device HOST/NAME]   link = ib|roce, ports = 1|2, fw, vendor_id, part_id, hw_ver, any limit
 *   [port HOST/NAME:P]   lid, lmc, sm_lid, prefix, pkeys = K,K.., mtu, max_mtu, state, width,
 * speed, net, max_msg_sz, gids = TABLE-LENGTH, gid.N = [ib|v1|v2] ADDRESS[/BITS] or empty; gid.* =
 * empty Device sections come before the port sections of that device; without :P all its ports are
 * meant.
 */
#include "softhca.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What the lines of a section apply to. */
struct scope {
    enum { S_NONE, S_SKIP, S_FABRIC, S_HOST, S_LIMITS, S_DEVICE, S_PORT } kind;
    struct sm_dev *dev;
    int port; /* 0: all */
};

struct parser {
    const char *name; /* of the text, for messages; NULL: stay quiet */
    int line;
    int errors;
    bool dry;      /* only check */
    uint32_t host; /* which host is being made */
    const char *host_name;
    struct scope s;
    /* answers */
    bool defaults;
    const char *want; /* host name whose index is asked for */
    int index, section_index;
};

static void complain(struct parser *p, const char *what, const char *word)
{
    p->errors++;
    if (p->name) {
        shca_log("%s:%d: %s: %s", p->name, p->line, what, word);
    }
}

static char *trim(char *s)
{
    char *e;

    s += strspn(s, " \t\r");
    e = s + strlen(s);
    while (e > s && strchr(" \t\r", e[-1])) {
        *--e = '\0';
    }
    return s;
}

/* %h and %H. */
static void expand(const struct parser *p, const char *in, char *out, size_t len)
{
    size_t n = 0;

    for (; *in && n + 12 < len; in++) {
        if (in[0] == '%' && (in[1] == 'h' || in[1] == 'H')) {
            n += (size_t)snprintf(out + n, len - n, "%u", p->host + (in[1] == 'H'));
            in++;
        } else {
            out[n++] = *in;
        }
    }
    out[n] = '\0';
}

static bool number(struct parser *p, const char *text, uint64_t *out)
{
    char buf[128], *s = buf;

    expand(p, text, buf, sizeof(buf));
    *out = 0;
    for (;;) {
        char *end;
        unsigned long long v;

        errno = 0;
        v = strtoull(s, &end, 0);
        if (end == s || errno || *s == '-') {
            complain(p, "not a number", text);
            return false;
        }
        *out += v;
        switch (*end) {
        case 'k':
        case 'K':
            *out += v * 1023;
            end++;
            break;
        case 'm':
        case 'M':
            *out += v * ((1u << 20) - 1);
            end++;
            break;
        case 'g':
        case 'G':
            *out += v * ((1u << 30) - 1);
            end++;
            break;
        default:
            break;
        }
        if (!*end) {
            return true;
        }
        if (*end != '+') {
            complain(p, "not a number", text);
            return false;
        }
        s = end + 1;
    }
}

/* A number within bounds, stored into `size` bytes. */
static void store(struct parser *p, const char *v, uint64_t min, uint64_t max, void *to,
                  size_t size)
{
    uint64_t n;

    if (!number(p, v, &n)) {
        return;
    }
    if (n < min || n > max) {
        complain(p, "out of range", v);
        return;
    }
    switch (size) {
    case 1:
        *(uint8_t *)to = (uint8_t)n;
        break;
    case 2:
        *(uint16_t *)to = (uint16_t)n;
        break;
    case 4:
        *(uint32_t *)to = (uint32_t)n;
        break;
    default:
        *(uint64_t *)to = n;
    }
}

#define LIMIT(name, min, max)                                                                    \
    {                                                                                            \
#name, offsetof(struct sm_limits, name), sizeof(((struct sm_limits *)0)->name), min, max \
    }

static const struct {
    const char *name;
    size_t off, size;
    uint64_t min, max;
} limits[] = {
    LIMIT(max_qp, 1, SM_MAX_QP - 2),
    LIMIT(max_qp_wr, 1, 1 << 20),
    LIMIT(max_sge, 1, SM_MAX_SGE),
    LIMIT(max_sge_rd, 1, SM_MAX_SGE),
    LIMIT(max_inline, 0, 4096),
    LIMIT(max_cq, 1, SM_MAX_CQ - 2),
    LIMIT(max_cqe, 1, 1 << 24),
    LIMIT(max_srq, 0, SM_MAX_SRQ - 2),
    LIMIT(max_srq_wr, 1, 1 << 20),
    LIMIT(max_srq_sge, 1, SM_MAX_SGE),
    LIMIT(max_mr, 1, SM_MAX_MR - 2),
    LIMIT(max_pd, 1, 1 << 24),
    LIMIT(max_ah, 1, 1 << 24),
    LIMIT(max_rd_atom, 0, 255),
    LIMIT(max_init_rd_atom, 0, 255),
    LIMIT(comp_vectors, 1, 1024),
    LIMIT(no_ud, 0, 1),
    LIMIT(in_order, 0, 1),
    LIMIT(max_mr_size, 1, UINT64_MAX),
    LIMIT(memlock, 0, UINT64_MAX),
};

static bool set_limit(struct parser *p, struct sm_limits *l, const char *key, const char *v)
{
    if (!strcmp(key, "atomic_cap")) {
        if (!strcmp(v, "none")) {
            l->atomic_cap = IBV_ATOMIC_NONE;
        } else if (!strcmp(v, "hca")) {
            l->atomic_cap = IBV_ATOMIC_HCA;
        } else if (!strcmp(v, "glob")) {
            l->atomic_cap = IBV_ATOMIC_GLOB;
        } else {
            complain(p, "neither none, hca nor glob", v);
        }
        return true;
    }
    if (!strcmp(key, "max_qp_rd_atom")) { /* both directions at once */
        store(p, v, 0, 255, &l->max_rd_atom, 4);
        store(p, v, 0, 255, &l->max_init_rd_atom, 4);
        return true;
    }
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (!strcmp(key, limits[i].name)) {
            store(p, v, limits[i].min, limits[i].max, (char *)l + limits[i].off, limits[i].size);
            return true;
        }
    }
    return false;
}

/* ---- ports ---- */

static void set_gid(struct parser *p, struct sm_port *port, const char *key, const char *value)
{
    char buf[128], *v = buf, *addr, *slash, *word, *save;
    struct sm_gid g = {0};
    uint64_t i;

    if (!strcmp(key, "gid.*")) {
        if (strcmp(value, "empty")) {
            complain(p, "only empty is possible for gid.*", value);
            return;
        }
        memset(port->gids, 0, sizeof(port->gids));
        return;
    }
    if (!number(p, key + 4, &i) || i >= SM_MAX_GIDS) {
        complain(p, "no such GID index", key);
        return;
    }
    if (i >= port->ngids) {
        port->ngids = (uint16_t)(i + 1);
    }
    if (!strcmp(value, "empty")) {
        port->gids[i] = g;
        return;
    }
    g.type = port->link == SM_LINK_IB ? SM_GID_IB : SM_GID_ROCE2;
    if (port->link == SM_LINK_ETH) {
        strcpy(g.ndev, "lo");
    }
    expand(p, value, buf, sizeof(buf));
    word = strtok_r(v, " \t", &save);
    addr = word ? strtok_r(NULL, " \t", &save) : NULL;
    if (!addr) {
        addr = word;
    } else if (!strcmp(word, "v1")) {
        g.type = SM_GID_ROCE1;
    } else if (!strcmp(word, "v2")) {
        g.type = SM_GID_ROCE2;
    } else if (!strcmp(word, "ib")) {
        g.type = SM_GID_IB;
    } else {
        complain(p, "neither ib, v1 nor v2", word);
        return;
    }
    slash = addr ? strchr(addr, '/') : NULL;
    if (slash) {
        *slash = '\0';
    }
    if (!addr || inet_pton(AF_INET6, addr, g.raw) != 1) {
        complain(p, "not an IPv6 address", value);
        return;
    }
    g.plen = memcmp(g.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) ? 64 : 24;
    if (slash) {
        store(p, slash + 1, 0, 128, &g.plen, 1);
    }
    port->gids[i] = g;
}

static void set_pkeys(struct parser *p, struct sm_port *port, const char *value)
{
    char buf[256], *word, *save;
    uint16_t n = 0;

    snprintf(buf, sizeof(buf), "%s", value);
    for (word = strtok_r(buf, ", \t", &save); word; word = strtok_r(NULL, ", \t", &save)) {
        if (n == SM_MAX_PKEYS) {
            complain(p, "too many P_Keys", value);
            return;
        }
        store(p, word, 0, 0xffff, &port->pkeys[n++], 2);
    }
    port->npkeys = n ? n : 1;
}

static void set_state(struct parser *p, struct sm_port *port, const char *v)
{
    static const struct {
        const char *name;
        uint32_t state;
    } t[] = {{"down", IBV_PORT_DOWN},
             {"init", IBV_PORT_INIT},
             {"armed", IBV_PORT_ARMED},
             {"active", IBV_PORT_ACTIVE}};

    for (size_t i = 0; i < 4; i++) {
        if (!strcasecmp(v, t[i].name)) {
            atomic_store(&port->state, t[i].state);
            return;
        }
    }
    complain(p, "no such port state", v);
}

static void set_mtu(struct parser *p, const char *v, uint8_t *to)
{
    uint64_t n;

    if (number(p, v, &n)) {
        for (uint8_t code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
            if (n == (128u << code)) {
                *to = code;
                return;
            }
        }
        complain(p, "not an MTU (256 to 4096, a power of two)", v);
    }
}

static void set_port(struct parser *p, struct sm_port *port, const char *key, const char *v)
{
    uint8_t prefix[16];
    char buf[128];

    if (!strncmp(key, "gid.", 4)) {
        set_gid(p, port, key, v);
    } else if (!strcmp(key, "lid")) {
        store(p, v, 1, 0xbfff, &port->lid, 2);
    } else if (!strcmp(key, "lmc")) {
        store(p, v, 0, 7, &port->lmc, 1);
    } else if (!strcmp(key, "sm_lid")) {
        store(p, v, 0, 0xbfff, &port->sm_lid, 2);
    } else if (!strcmp(key, "prefix")) {
        expand(p, v, buf, sizeof(buf));
        if (inet_pton(AF_INET6, buf, prefix) != 1) {
            complain(p, "not a prefix (write it as an IPv6 address, fe80::)", v);
            return;
        }
        memcpy(port->gids[0].raw, prefix, 8);
    } else if (!strcmp(key, "pkeys")) {
        set_pkeys(p, port, v);
    } else if (!strcmp(key, "mtu")) {
        set_mtu(p, v, &port->active_mtu);
        port->max_mtu = port->max_mtu < port->active_mtu ? port->active_mtu : port->max_mtu;
    } else if (!strcmp(key, "max_mtu")) {
        set_mtu(p, v, &port->max_mtu);
    } else if (!strcmp(key, "state")) {
        set_state(p, port, v);
    } else if (!strcmp(key, "width")) {
        store(p, v, 1, 16, &port->width, 1);
    } else if (!strcmp(key, "speed")) {
        store(p, v, 1, 128, &port->speed, 1);
    } else if (!strcmp(key, "max_msg_sz")) {
        store(p, v, 1, 1u << 31, &port->max_msg_sz, 4);
    } else if (!strcmp(key, "gids")) {
        store(p, v, 1, SM_MAX_GIDS, &port->ngids, 2);
    } else if (!strcmp(key, "net")) {
        snprintf(port->net, sizeof(port->net), "%s", v);
    } else {
        complain(p, "unknown key of a port", key);
    }
}

/* ---- devices ---- */

static void set_device(struct parser *p, struct sm_dev *d, const char *key, const char *v)
{
    uint64_t n;

    if (!strcmp(key, "link")) {
        bool ib = !strcmp(v, "ib");

        if (!ib && strcmp(v, "roce")) {
            complain(p, "neither ib nor roce", v);
            return;
        }
        for (unsigned int i = 1; i <= d->nports; i++) {
            shca_default_port(d, i, ib ? SM_LINK_IB : SM_LINK_ETH);
        }
    } else if (!strcmp(key, "ports")) {
        if (number(p, v, &n) && n >= 1 && n <= SM_MAX_PORTS) {
            for (unsigned int i = d->nports + 1; i <= n; i++) {
                shca_default_port(d, i, (enum sm_link)d->ports[0].link);
            }
            d->nports = (uint32_t)n;
        } else {
            complain(p, "a device has 1 or 2 ports", v);
        }
    } else if (!strcmp(key, "fw")) {
        snprintf(d->fw, sizeof(d->fw), "%s", v);
    } else if (!strcmp(key, "vendor_id")) {
        store(p, v, 0, 0xffffff, &d->vendor_id, 4);
    } else if (!strcmp(key, "part_id")) {
        store(p, v, 0, 0xffff, &d->part_id, 4);
    } else if (!strcmp(key, "hw_ver")) {
        store(p, v, 0, UINT32_MAX, &d->hw_ver, 4);
    } else if (!set_limit(p, &d->lim, key, v)) {
        complain(p, "unknown key of a device", key);
    }
}

static struct sm_dev *dev_named(const struct parser *p, const char *name)
{
    const struct sm_host *h = &shca.seg->hosts[p->host];

    for (uint32_t i = 0; i < h->ndevs; i++) {
        if (!strcmp(shca.seg->devs[h->devs[i]].name, name)) {
            return &shca.seg->devs[h->devs[i]];
        }
    }
    return NULL;
}

static bool host_matches(const struct parser *p, const char *h)
{
    char *end;
    unsigned long i = strtoul(h, &end, 10);

    return p->dry || !strcmp(h, "*") || !strcmp(h, p->host_name) ||
           (end != h && !*end && i == p->host);
}

/* "HOST/NAME[:P]" of a device or port section. */
static void enter_object(struct parser *p, char *what, bool port)
{
    static struct sm_dev scratch; /* target of a dry run */
    char *slash = strchr(what, '/'), *colon = port ? strrchr(what, ':') : NULL;
    const char *host = "*", *name = what;
    uint64_t n = 0;

    if (slash) {
        *slash = '\0';
        host = what;
        name = slash + 1;
    }
    if (colon && number(p, colon + 1, &n)) {
        *colon = '\0';
        if (n < 1 || n > SM_MAX_PORTS) {
            complain(p, "no such port", colon + 1);
        }
    }
    p->s.kind = S_SKIP;
    if (!*name || strlen(name) >= SM_NAME_LEN) {
        complain(p, "bad device name", name);
        return;
    }
    if (!host_matches(p, host)) {
        return;
    }
    if (p->dry) {
        scratch.nports = 1;
        n = 0;
        p->s.dev = &scratch;
    } else {
        p->s.dev = dev_named(p, name);
        if (!p->s.dev && !port) {
            p->s.dev = shca_new_dev(p->host, name, SM_LINK_IB);
        }
        if (!p->s.dev || n > p->s.dev->nports) {
            complain(p, "no such device or port", name);
            return;
        }
    }
    p->s.port = (int)n;
    p->s.kind = port ? S_PORT : S_DEVICE;
}

static void enter(struct parser *p, char *section)
{
    uint64_t i;

    p->s = (struct scope){.kind = S_SKIP};
    if (!strcmp(section, "fabric")) {
        p->s.kind = S_FABRIC;
    } else if (!strcmp(section, "limits")) {
        p->s.kind = S_LIMITS;
    } else if (!strncmp(section, "host ", 5)) {
        if (number(p, trim(section + 5), &i) && i < SM_MAX_HOSTS) {
            p->s.kind = S_HOST;
            p->section_index = (int)i;
        } else {
            complain(p, "no such host index", section);
        }
    } else if (!strncmp(section, "device ", 7)) {
        enter_object(p, trim(section + 7), false);
    } else if (!strncmp(section, "port ", 5)) {
        enter_object(p, trim(section + 5), true);
    } else {
        complain(p, "unknown section", section);
    }
}

static void assign(struct parser *p, const char *key, const char *v)
{
    const struct sm_host *h = &shca.seg->hosts[p->host];
    struct sm_limits scratch;

    switch (p->s.kind) {
    case S_NONE:
        complain(p, "a key before any section", key);
        break;
    case S_FABRIC:
        if (strcmp(key, "defaults") || (strcmp(v, "yes") && strcmp(v, "no"))) {
            complain(p, "only defaults = yes|no", key);
        } else {
            p->defaults = !strcmp(v, "yes");
        }
        break;
    case S_HOST:
        if (strcmp(key, "name")) {
            complain(p, "unknown key of a host", key);
        } else if (p->want && !strcmp(v, p->want)) {
            p->index = p->section_index;
        }
        break;
    case S_LIMITS:
        if (p->dry && !set_limit(p, &scratch, key, v)) {
            complain(p, "unknown limit", key);
        }
        for (uint32_t i = 0; !p->dry && i < h->ndevs; i++) {
            set_limit(p, &shca.seg->devs[h->devs[i]].lim, key, v);
        }
        break;
    case S_DEVICE:
        set_device(p, p->s.dev, key, v);
        break;
    case S_PORT:
        for (int i = 1; i <= (int)p->s.dev->nports; i++) {
            if (!p->s.port || p->s.port == i) {
                set_port(p, &p->s.dev->ports[i - 1], key, v);
            }
        }
        break;
    case S_SKIP:
        break;
    }
}

static void parse_line(struct parser *p, char *line)
{
    char *s, *eq, *end;

    line[strcspn(line, "#;\n")] = '\0';
    s = trim(line);
    if (!*s) {
        return;
    }
    if (*s == '[') {
        end = strchr(s, ']');
        if (!end || end[1]) {
            complain(p, "a section needs one ']' at its end", s);
            p->s.kind = S_SKIP;
            return;
        }
        *end = '\0';
        enter(p, trim(s + 1));
        return;
    }
    eq = strchr(s, '=');
    if (!eq) {
        complain(p, "neither [section] nor key = value", s);
        return;
    }
    *eq = '\0';
    assign(p, trim(s), trim(eq + 1));
}

static void parse(struct parser *p, const char *text)
{
    char line[512];

    while (*text) {
        size_t n = strcspn(text, "\n");

        p->line++;
        if (n >= sizeof(line)) {
            complain(p, "line too long", "");
        } else {
            memcpy(line, text, n);
            line[n] = '\0';
            parse_line(p, line);
        }
        text += n + (text[n] == '\n');
    }
}

void shca_conf_host(uint32_t host_idx)
{
    struct parser p = {.host = host_idx,
                       .host_name = shca.seg->hosts[host_idx].name,
                       .defaults = true,
                       .dry = true};

    parse(&p, shca.seg->conf); /* first only for [fabric] defaults */
    if (p.defaults) {
        shca_new_dev(host_idx, "shca0", SM_LINK_IB);
        shca_new_dev(host_idx, "shca1", SM_LINK_ETH);
    }
    p.dry = false;
    /* Twice, so that [limits] reaches devices which a later section makes. */
    for (int pass = 0; pass < 2; pass++) {
        p.s = (struct scope){.kind = S_NONE};
        parse(&p, shca.seg->conf);
    }
}

int shca_conf_check(const char *text, const char *name)
{
    struct parser p = {.name = name, .host_name = "", .dry = true};

    parse(&p, text);
    return p.errors ? EINVAL : 0;
}

int shca_conf_host_index(const char *name)
{
    struct parser p = {.host_name = "", .dry = true, .want = name, .index = -1};

    parse(&p, shca.seg->conf);
    return p.index;
}
