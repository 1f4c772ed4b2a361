/* The configuration file: hosts, devices, ports, addresses and limits other than the built-in ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines `[section]` and `key = value`; '#' and ';' start comments. HOST is a name, an index or '*'
 * (also when left out); within numbers and addresses %h is the host's index, %H that plus one, and
 * numbers may be sums (lid = 0x40+%h) with k, m, g behind them.
 *
 * - [fabric]: defaults = yes|no (whether every host has shca0, ib, and shca1, roce)
 * - [host INDEX]: name = NAME (the host that gets this index, and so these addresses)
 * - [limits]: max_qp, max_mr, memlock ... of every device; all keys are in conf_value.c
 * - [device HOST/NAME]: link = ib|roce, ports = 1|2, fw, vendor_id, part_id, hw_ver, any limit,
 *   transport = ib|iwarp|usnic (what it says of itself)
 * - [port HOST/NAME:P]: lid, lmc, grh = 1 (packets need a GRH), sm_lid, prefix, pkeys = K,K.., mtu,
 * max_mtu, speed, width, net, state = down|init|armed|active, max_msg_sz, gids = TABLE-LENGTH,
 *   gid.N = [ib|v1|v2] ADDRESS[/BITS] [vlan TAG] [dev NETWORK-DEVICE] or empty, gid.* = empty
 *
 * A device comes before its ports; a port section without :P means all ports of the device.
 */
#include "conf.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- devices ---- */

static void set_device(struct shca_conf *p, struct sm_dev *d, const char *key, const char *v)
{
    uint64_t n;

    if (!strcmp(key, "link")) {
        bool ib = !strcmp(v, "ib");

        if (!ib && strcmp(v, "roce")) {
            shca_conf_complain(p, "neither ib nor roce", v);
            return;
        }
        for (unsigned int i = 1; i <= d->nports; i++) {
            shca_default_port(d, i, ib ? SM_LINK_IB : SM_LINK_ETH);
        }
    } else if (!strcmp(key, "ports")) {
        if (shca_conf_number(p, v, &n) && n >= 1 && n <= SM_MAX_PORTS) {
            for (unsigned int i = d->nports + 1; i <= n; i++) {
                shca_default_port(d, i, (enum sm_link)d->ports[0].link);
            }
            d->nports = (uint32_t)n;
        } else {
            shca_conf_complain(p, "a device has 1 or 2 ports", v);
        }
    } else if (!strcmp(key, "transport")) {
        if (!strcmp(v, "ib")) {
            d->transport = IBV_TRANSPORT_IB;
        } else if (!strcmp(v, "iwarp")) {
            d->transport = IBV_TRANSPORT_IWARP;
        } else if (!strcmp(v, "usnic")) {
            d->transport = IBV_TRANSPORT_USNIC_UDP;
        } else {
            shca_conf_complain(p, "neither ib, iwarp nor usnic", v);
        }
    } else if (!strcmp(key, "fw")) {
        snprintf(d->fw, sizeof(d->fw), "%s", v);
    } else if (!strcmp(key, "vendor_id")) {
        shca_conf_store(p, v, 0, 0xffffff, &d->vendor_id, 4);
    } else if (!strcmp(key, "part_id")) {
        shca_conf_store(p, v, 0, 0xffff, &d->part_id, 4);
    } else if (!strcmp(key, "hw_ver")) {
        shca_conf_store(p, v, 0, UINT32_MAX, &d->hw_ver, 4);
    } else if (!shca_conf_limit(p, &d->lim, key, v)) {
        shca_conf_complain(p, "unknown key of a device", key);
    }
}

static struct sm_dev *dev_named(const struct shca_conf *p, const char *name)
{
    const struct sm_host *h = &shca.seg->hosts[p->host];

    for (uint32_t i = 0; i < h->ndevs; i++) {
        if (!strcmp(shca.seg->devs[h->devs[i]].name, name)) {
            return &shca.seg->devs[h->devs[i]];
        }
    }
    return NULL;
}

static bool host_matches(const struct shca_conf *p, const char *h)
{
    char *end;
    unsigned long i = strtoul(h, &end, 10);

    return p->dry || !strcmp(h, "*") || !strcmp(h, p->host_name) ||
           (end != h && !*end && i == p->host);
}

/* "HOST/NAME[:P]" of a device or port section. */
static void enter_object(struct shca_conf *p, char *what, bool port)
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
    if (colon && shca_conf_number(p, colon + 1, &n)) {
        *colon = '\0';
        if (n < 1 || n > SM_MAX_PORTS) {
            shca_conf_complain(p, "no such port", colon + 1);
        }
    }
    p->s.kind = S_SKIP;
    if (!*name || strlen(name) >= SM_NAME_LEN) {
        shca_conf_complain(p, "bad device name", name);
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
            shca_conf_complain(p, "no such device or port", name);
            return;
        }
    }
    p->s.port = (int)n;
    p->s.kind = port ? S_PORT : S_DEVICE;
}

static void enter(struct shca_conf *p, char *section)
{
    uint64_t i;

    p->s = (struct shca_conf_scope){.kind = S_SKIP};
    if (!strcmp(section, "fabric")) {
        p->s.kind = S_FABRIC;
    } else if (!strcmp(section, "limits")) {
        p->s.kind = S_LIMITS;
    } else if (!strncmp(section, "host ", 5)) {
        if (shca_conf_number(p, trim(section + 5), &i) && i < SM_MAX_HOSTS) {
            p->s.kind = S_HOST;
            p->section_index = (int)i;
        } else {
            shca_conf_complain(p, "no such host index", section);
        }
    } else if (!strncmp(section, "device ", 7)) {
        enter_object(p, trim(section + 7), false);
    } else if (!strncmp(section, "port ", 5)) {
        enter_object(p, trim(section + 5), true);
    } else {
        shca_conf_complain(p, "unknown section", section);
    }
}

static void assign(struct shca_conf *p, const char *key, const char *v)
{
    const struct sm_host *h = p->dry ? NULL : &shca.seg->hosts[p->host];
    struct sm_limits scratch;

    switch (p->s.kind) {
    case S_NONE:
        shca_conf_complain(p, "a key before any section", key);
        break;
    case S_FABRIC:
        if (strcmp(key, "defaults") || (strcmp(v, "yes") && strcmp(v, "no"))) {
            shca_conf_complain(p, "only defaults = yes|no", key);
        } else {
            p->defaults = !strcmp(v, "yes");
        }
        break;
    case S_HOST:
        if (strcmp(key, "name")) {
            shca_conf_complain(p, "unknown key of a host", key);
        } else if (p->want && !strcmp(v, p->want)) {
            p->index = p->section_index;
        }
        break;
    case S_LIMITS:
        if (p->dry && !shca_conf_limit(p, &scratch, key, v)) {
            shca_conf_complain(p, "unknown limit", key);
        }
        for (uint32_t i = 0; h && i < h->ndevs; i++) {
            shca_conf_limit(p, &shca.seg->devs[h->devs[i]].lim, key, v);
        }
        break;
    case S_DEVICE:
        set_device(p, p->s.dev, key, v);
        break;
    case S_PORT:
        for (int i = 1; i <= (int)p->s.dev->nports; i++) {
            if (!p->s.port || p->s.port == i) {
                shca_conf_port(p, &p->s.dev->ports[i - 1], key, v);
            }
        }
        break;
    case S_SKIP:
        break;
    }
}

static void parse_line(struct shca_conf *p, char *line)
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
            shca_conf_complain(p, "a section needs one ']' at its end", s);
            p->s.kind = S_SKIP;
            return;
        }
        *end = '\0';
        enter(p, trim(s + 1));
        return;
    }
    eq = strchr(s, '=');
    if (!eq) {
        shca_conf_complain(p, "neither [section] nor key = value", s);
        return;
    }
    *eq = '\0';
    assign(p, trim(s), trim(eq + 1));
}

static void parse(struct shca_conf *p, const char *text)
{
    char line[512];

    while (*text) {
        size_t n = strcspn(text, "\n");

        p->line++;
        if (n >= sizeof(line)) {
            shca_conf_complain(p, "line too long", "");
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
    struct shca_conf p = {.host = host_idx,
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
        p.s = (struct shca_conf_scope){.kind = S_NONE};
        parse(&p, shca.seg->conf);
    }
}

int shca_conf_check(const char *text, const char *name)
{
    struct shca_conf p = {.name = name, .host_name = "", .dry = true};

    parse(&p, text);
    return p.errors ? EINVAL : 0;
}

int shca_conf_host_index(const char *name)
{
    struct shca_conf p = {.host_name = "", .dry = true, .want = name, .index = -1};

    parse(&p, shca.seg->conf);
    return p.index;
}
