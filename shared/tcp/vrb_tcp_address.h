/* What is published about the TCP carrier: ports by rail, and the host's IP addresses.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes: u8 rails, u16 port of each (little-endian; 0 = that rail has a UD QP), u8 addresses, then
 * each as u8 length (4 or 16) and so many bytes in network order. */
#ifndef VRB_TCP_ADDRESS_H
#define VRB_TCP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

/* A longer list adds nothing: each costs a connection attempt. */
#define VRB_TCP_HOSTS 8

struct vrb_tcp_host {
    uint8_t len; /* 4 or 16 */
    uint8_t raw[16];
};

/* The addresses of this host's interfaces that are up, IPv4 first; loopback only if there is
 * nothing else. Returns how many. */
int vrb_tcp_own_hosts(struct vrb_tcp_host hosts[VRB_TCP_HOSTS]);

/* Packs; returns the bytes used, or VRB_ERR_ARG. */
int vrb_tcp_pack(const uint16_t *ports, int rails, const struct vrb_tcp_host *hosts, int n,
                 uint8_t *buf, size_t len);

/* Unpacks what is about one rail. Returns how many hosts there are (0: nothing for this rail), or
 * VRB_ERR_MALFORMED. */
int vrb_tcp_unpack(const uint8_t *buf, size_t len, int rail, uint16_t *port,
                   struct vrb_tcp_host hosts[VRB_TCP_HOSTS]);

#endif
