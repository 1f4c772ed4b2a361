/* Port sections of the configuration: addresses, partitions, state.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conf.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static void set_gid(struct shca_conf *p, struct sm_port *port, const char *key, const char *value)
{
    char buf[128], *v = buf, *addr, *slash, *word, *save, *more;
    struct sm_gid g = {0};
    uint64_t i;

    if (!strcmp(key, "gid.*")) {
        if (strcmp(value, "empty")) {
            shca_conf_complain(p, "only empty is possible for gid.*", value);
            return;
        }
        memset(port->gids, 0, sizeof(port->gids));
        return;
    }
    if (!shca_conf_number(p, key + 4, &i) || i >= SM_MAX_GIDS) {
        shca_conf_complain(p, "no such GID index", key);
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
    shca_conf_expand(p, value, buf, sizeof(buf));
    more = strstr(v, " dev ");
    if (more) {
        snprintf(g.ndev, sizeof(g.ndev), "%.15s", more + 5);
        *more = '\0';
    }
    more = strstr(v, " vlan ");
    if (more) {
        shca_conf_store(p, more + 6, 1, 4094, &g.vlan, 2);
        *more = '\0';
    }
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
        shca_conf_complain(p, "neither ib, v1 nor v2", word);
        return;
    }
    slash = addr ? strchr(addr, '/') : NULL;
    if (slash) {
        *slash = '\0';
    }
    if (!addr || inet_pton(AF_INET6, addr, g.raw) != 1) {
        shca_conf_complain(p, "not an IPv6 address", value);
        return;
    }
    g.plen = memcmp(g.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) ? 64 : 24;
    if (slash) {
        shca_conf_store(p, slash + 1, 0, 128, &g.plen, 1);
    }
    port->gids[i] = g;
}

static void set_pkeys(struct shca_conf *p, struct sm_port *port, const char *value)
{
    char buf[256], *word, *save;
    uint16_t n = 0;

    snprintf(buf, sizeof(buf), "%s", value);
    for (word = strtok_r(buf, ", \t", &save); word; word = strtok_r(NULL, ", \t", &save)) {
        if (n == SM_MAX_PKEYS) {
            shca_conf_complain(p, "too many P_Keys", value);
            return;
        }
        shca_conf_store(p, word, 0, 0xffff, &port->pkeys[n++], 2);
    }
    port->npkeys = n ? n : 1;
}

static void set_state(struct shca_conf *p, struct sm_port *port, const char *v)
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
    shca_conf_complain(p, "no such port state", v);
}

static void set_mtu(struct shca_conf *p, const char *v, uint8_t *to)
{
    uint64_t n;

    if (shca_conf_number(p, v, &n)) {
        for (uint8_t code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
            if (n == (128u << code)) {
                *to = code;
                return;
            }
        }
        shca_conf_complain(p, "not an MTU (256 to 4096, a power of two)", v);
    }
}

void shca_conf_port(struct shca_conf *p, struct sm_port *port, const char *key, const char *v)
{
    uint8_t prefix[16];
    char buf[128];

    if (!strncmp(key, "gid.", 4)) {
        set_gid(p, port, key, v);
    } else if (!strcmp(key, "lid")) {
        shca_conf_store(p, v, 1, 0xbfff, &port->lid, 2);
    } else if (!strcmp(key, "lmc")) {
        shca_conf_store(p, v, 0, 7, &port->lmc, 1);
    } else if (!strcmp(key, "grh")) {
        shca_conf_store(p, v, 0, 1, &port->grh_required, 1);
    } else if (!strcmp(key, "sm_lid")) {
        shca_conf_store(p, v, 0, 0xbfff, &port->sm_lid, 2);
    } else if (!strcmp(key, "prefix")) {
        shca_conf_expand(p, v, buf, sizeof(buf));
        if (inet_pton(AF_INET6, buf, prefix) != 1) {
            shca_conf_complain(p, "not a prefix (write it as an IPv6 address, fe80::)", v);
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
        shca_conf_store(p, v, 1, 16, &port->width, 1);
    } else if (!strcmp(key, "speed")) {
        shca_conf_store(p, v, 1, 128, &port->speed, 1);
    } else if (!strcmp(key, "max_msg_sz")) {
        shca_conf_store(p, v, 1, 1u << 30, &port->max_msg_sz, 4);
    } else if (!strcmp(key, "gids")) {
        shca_conf_store(p, v, 1, SM_MAX_GIDS, &port->ngids, 2);
    } else if (!strcmp(key, "net")) {
        snprintf(port->net, sizeof(port->net), "%s", v);
    } else {
        shca_conf_complain(p, "unknown key of a port", key);
    }
}
