/* Data centre bridging settings of a network device, asked of the kernel (rtnetlink, dcbnl).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Without libnl: the two messages that are needed are few lines, and libnl has no DCB. */
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/info.h"

#ifndef IEEE_8021QAZ_APP_SEL_DSCP
#define IEEE_8021QAZ_APP_SEL_DSCP 5
#endif

struct request {
    struct nlmsghdr nh;
    struct dcbmsg dcb;
    char attrs[64];
};

static void put_name(struct request *r, const char *ndev)
{
    struct nlattr *a = (void *)((char *)r + NLMSG_ALIGN(r->nh.nlmsg_len));
    size_t n = strlen(ndev) + 1;

    a->nla_type = DCB_ATTR_IFNAME;
    a->nla_len = (unsigned short)(NLA_HDRLEN + n);
    memcpy((char *)a + NLA_HDRLEN, ndev, n);
    r->nh.nlmsg_len = NLMSG_ALIGN(r->nh.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* The attribute of that type among the len bytes at p, or NULL. */
static const struct nlattr *find_attr(const void *p, size_t len, int type)
{
    while (len >= NLA_HDRLEN) {
        const struct nlattr *a = p;

        if (a->nla_len < NLA_HDRLEN || a->nla_len > len) {
            return NULL;
        }
        if ((a->nla_type & NLA_TYPE_MASK) == type) {
            return a;
        }
        if ((size_t)NLA_ALIGN(a->nla_len) >= len) {
            return NULL;
        }
        len -= NLA_ALIGN(a->nla_len);
        p = (const char *)p + NLA_ALIGN(a->nla_len);
    }
    return NULL;
}

static const void *data_of(const struct nlattr *a, size_t *len)
{
    *len = (size_t)a->nla_len - NLA_HDRLEN;
    return (const char *)a + NLA_HDRLEN;
}

static void take_apps(struct info_dcb *dcb, const void *p, size_t len)
{
    while (len >= NLA_HDRLEN + sizeof(struct dcb_app)) {
        const struct nlattr *a = p;
        struct dcb_app app;

        if (a->nla_len < NLA_HDRLEN + sizeof(app) || a->nla_len > len) {
            return;
        }
        memcpy(&app, (const char *)p + NLA_HDRLEN, sizeof(app));
        if (app.selector == IEEE_8021QAZ_APP_SEL_DSCP && app.protocol < 64 && app.priority < 8) {
            dcb->dscp[app.protocol] = (signed char)app.priority;
            dcb->dscp_known = 1;
        }
        if ((size_t)NLA_ALIGN(a->nla_len) >= len) {
            return;
        }
        len -= NLA_ALIGN(a->nla_len);
        p = (const char *)p + NLA_ALIGN(a->nla_len);
    }
}

static void take_answer(struct info_dcb *dcb, const char *buf, size_t got)
{
    const struct nlmsghdr *nh = (const void *)buf;
    const struct nlattr *ieee, *a;
    const void *p;
    size_t len, head = NLMSG_LENGTH(sizeof(struct dcbmsg));

    if (got < head || nh->nlmsg_len > got || nh->nlmsg_len < head || nh->nlmsg_type != RTM_GETDCB) {
        return;
    }
    ieee = find_attr(buf + NLMSG_ALIGN(head), nh->nlmsg_len - NLMSG_ALIGN(head), DCB_ATTR_IEEE);
    if (ieee == NULL) {
        return;
    }
    p = data_of(ieee, &len);
    a = find_attr(p, len, DCB_ATTR_IEEE_PFC);
    if (a != NULL && a->nla_len >= NLA_HDRLEN + sizeof(struct ieee_pfc)) {
        struct ieee_pfc pfc;

        memcpy(&pfc, (const char *)a + NLA_HDRLEN, sizeof(pfc));
        dcb->pfc = pfc.pfc_en;
        dcb->pfc_known = 1;
    }
    a = find_attr(p, len, DCB_ATTR_IEEE_APP_TABLE);
    if (a != NULL) {
        const void *apps = data_of(a, &len);

        take_apps(dcb, apps, len);
    }
}

void info_dcb_read(const char *ndev, struct info_dcb *dcb)
{
    struct request r = {
        .nh = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct dcbmsg)),
               .nlmsg_type = RTM_GETDCB,
               .nlmsg_flags = NLM_F_REQUEST},
        .dcb = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET},
    };
    struct timeval limit = {.tv_sec = 1};
    _Alignas(8) char buf[8192];
    ssize_t got;
    int fd;

    memset(dcb, 0, sizeof(*dcb));
    memset(dcb->dscp, -1, sizeof(dcb->dscp));
    fd = ndev[0] == '\0' ? -1 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return;
    }
    put_name(&r, ndev);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (send(fd, &r, r.nh.nlmsg_len, 0) == (ssize_t)r.nh.nlmsg_len) {
        got = recv(fd, buf, sizeof(buf), 0);
        if (got > 0) {
            take_answer(dcb, buf, (size_t)got);
        }
    }
    close(fd);
}
