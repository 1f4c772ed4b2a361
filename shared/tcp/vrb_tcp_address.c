/* Packs and unpacks what is published about the TCP carrier (see vrb_tcp_address.h).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tcp/vrb_tcp_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "util/vrb_status.h"
#include "wire/vrb_wire.h"

/* Adds the addresses of one family; link-local IPv6 ones need to know an interface and are left
 * out.
 */
static int take(const struct ifaddrs *list, int family, int loopback,
                struct vrb_tcp_host hosts[VRB_TCP_HOSTS], int n)
{
    for (const struct ifaddrs *i = list; i != NULL && n < VRB_TCP_HOSTS; i = i->ifa_next) {
        struct vrb_tcp_host *h = &hosts[n];

        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
            !(i->ifa_flags & IFF_LOOPBACK) != !loopback) {
            continue;
        }
        memset(h, 0, sizeof(*h));
        if (family == AF_INET) {
            struct sockaddr_in a;

            memcpy(&a, i->ifa_addr, sizeof(a));
            h->len = 4;
            memcpy(h->raw, &a.sin_addr, 4);
            n++;
        } else {
            struct sockaddr_in6 a;

            memcpy(&a, i->ifa_addr, sizeof(a));
            h->len = 16;
            memcpy(h->raw, &a.sin6_addr, 16);
            n += !IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr);
        }
    }
    return n;
}

int vrb_tcp_own_hosts(struct vrb_tcp_host hosts[VRB_TCP_HOSTS])
{
    struct ifaddrs *list = NULL;
    int n = 0;

    if (getifaddrs(&list) != 0) {
        return 0;
    }
    n = take(list, AF_INET, 0, hosts, n);
    n = take(list, AF_INET6, 0, hosts, n);
    if (n == 0) {
        n = take(list, AF_INET, 1, hosts, n);
    }
    freeifaddrs(list);
    return n;
}

int vrb_tcp_pack(const uint16_t *ports, int rails, const struct vrb_tcp_host *hosts, int n,
                 uint8_t *buf, size_t len)
{
    size_t used = 0;

    if (rails < 0 || rails > UINT8_MAX || n < 0 || n > VRB_TCP_HOSTS ||
        len < 2 + 2 * (size_t)rails) {
        return VRB_ERR_ARG;
    }
    buf[used++] = (uint8_t)rails;
    for (int i = 0; i < rails; i++) {
        vrb_put16(buf + used, ports[i]);
        used += 2;
    }
    buf[used++] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        if (len - used < 1u + hosts[i].len) {
            return VRB_ERR_ARG;
        }
        buf[used++] = hosts[i].len;
        memcpy(buf + used, hosts[i].raw, hosts[i].len);
        used += hosts[i].len;
    }
    return (int)used;
}

int vrb_tcp_unpack(const uint8_t *buf, size_t len, int rail, uint16_t *port,
                   struct vrb_tcp_host hosts[VRB_TCP_HOSTS])
{
    size_t off;
    int n;

    if (len < 1 || len < 2 + 2 * (size_t)buf[0]) {
        return VRB_ERR_MALFORMED;
    }
    *port = rail >= 0 && rail < buf[0] ? vrb_get16(buf + 1 + 2 * rail) : 0;
    off = 1 + 2 * (size_t)buf[0];
    n = buf[off++];
    if (n > VRB_TCP_HOSTS) {
        return VRB_ERR_MALFORMED;
    }
    for (int i = 0; i < n; i++) {
        if (len - off < 1 || (buf[off] != 4 && buf[off] != 16) || len - off - 1 < buf[off]) {
            return VRB_ERR_MALFORMED;
        }
        hosts[i].len = buf[off];
        memset(hosts[i].raw, 0, sizeof(hosts[i].raw));
        memcpy(hosts[i].raw, buf + off + 1, hosts[i].len);
        off += 1u + hosts[i].len;
    }
    return *port == 0 ? 0 : n;
}
