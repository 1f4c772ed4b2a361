/* Parameters: the component's own MCA variables, and how they become the core's settings.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * docs/parameters.md describes each of them to users. */
#include <stddef.h>

#include "btl_verbs.h"

#define PREFIX "btl_verbs_"

/* A number. Open MPI stores it as an unsigned int; the core keeps some in a byte. */
struct number {
    const char *name, *help;
    size_t offset;  /* in struct vrb_config */
    unsigned bytes; /* of that field: 1, 2 or 4 */
    unsigned most;  /* for shorter fields: what fits is not yet what makes sense */
    mca_base_var_info_lvl_t level;
};

#define WORD(field) offsetof(struct vrb_config, field), 4, UINT32_MAX
#define HALF(field) offsetof(struct vrb_config, field), 2, UINT16_MAX
#define BYTE(field, most) offsetof(struct vrb_config, field), 1, most

static const struct number numbers[] = {
    {"connect_timeout",
     "Seconds after which a peer that does not answer the connection handshake is given up.",
     WORD(connect_timeout), OPAL_INFO_LVL_4},
    {"recover_timeout",
     "Seconds for which a connection that broke (a link went down, a switch was restarted) is "
     "tried "
     "to be made again, before its loss is reported (0: it is not tried).",
     WORD(recover_timeout), OPAL_INFO_LVL_4},
    {"peer_timeout",
     "Seconds without any acknowledgement of datagrams after which a peer is given up (0: never).",
     WORD(peer_timeout), OPAL_INFO_LVL_4},
    {"port_timeout",
     "Seconds that a port may be down while datagrams wait for it, before their peers are given up "
     "(0: for ever).",
     WORD(port_timeout), OPAL_INFO_LVL_4},
    {"promote_after",
     "With " PREFIX "mode auto: messages to a peer before it is connected over RC.",
     WORD(promote_after), OPAL_INFO_LVL_4},
    {"max_rc", "With " PREFIX "mode auto: RC connections of one port at the most.", WORD(max_rc),
     OPAL_INFO_LVL_4},
    {"ud_buffers", "Receive buffers of the datagram queue; each holds one MTU.", WORD(ud_buffers),
     OPAL_INFO_LVL_5},
    {"keepalive",
     "Seconds of silence after which a connected peer is asked for a sign of life (0: never).",
     WORD(keepalive), OPAL_INFO_LVL_4},
    {"ib_timeout",
     "How long the port waits for an acknowledgement before it sends again: 4.096 us * 2^n.",
     BYTE(ib_timeout, 24), OPAL_INFO_LVL_4},
    {"ib_retry_count",
     "How often the port sends again before it reports the connection lost (0 to 7).",
     BYTE(ib_retry_count, 7), OPAL_INFO_LVL_4},
    {"sl", "Service level of all packets (0 to 15). On Ethernet it selects the priority.",
     BYTE(sl, 15), OPAL_INFO_LVL_4},
    {"traffic_class",
     "Traffic class of packets with a global header: on RoCEv2 the DSCP (times 4) and ECN bits. 0: "
     "what the driver has been told for the port, else 0.",
     BYTE(tclass, 255), OPAL_INFO_LVL_4},
    {"pkey",
     "InfiniBand partition to use, by its key (0x8001; the membership bit does not count). 0: one "
     "of "
     "which the port is a full member, the default partition first.",
     HALF(pkey), OPAL_INFO_LVL_3},
    {"credits", "Packets that one peer may have on their way to this process.", WORD(credits),
     OPAL_INFO_LVL_5},
    {"recv_buffers",
     "Receive buffers of the queue that all peers share. Each has btl_verbs_max_send_size bytes.",
     WORD(recv_buffers), OPAL_INFO_LVL_5},
    {"send_buffers",
     "Send buffers of btl_verbs_max_send_size bytes at the most. They are made on demand.",
     WORD(send_buffers), OPAL_INFO_LVL_5},
    {"sq_depth", "Work requests that the send queue of one connection holds.", WORD(sq_depth),
     OPAL_INFO_LVL_5},
    {"burst",
     "Small messages to a peer that leave at once when the program makes them in one go, without "
     "waiting for or testing anything. The next ones share packets, which leave when they are "
     "full, "
     "or when the program does wait or test (0: every message leaves at once).",
     WORD(burst), OPAL_INFO_LVL_5},
    {"max_inline",
     "Bytes that a packet may have to be sent inline, without the port reading memory. The device "
     "may allow less.",
     WORD(max_inline), OPAL_INFO_LVL_5},
    {"rd_atomic", "RDMA reads of one connection under way at a time. The device may allow less.",
     WORD(rd_atomic), OPAL_INFO_LVL_5},
    {"use_srq",
     "1: connections share one receive queue where the device can do that. 0: each has its own.",
     BYTE(use_srq, 1), OPAL_INFO_LVL_6},
};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static unsigned values[NUMBERS]; /* as the user set them */

/* Reads or writes the field of cfg that a number is about. */
static unsigned field_get(const struct number *n, const struct vrb_config *cfg)
{
    const char *p = (const char *)cfg + n->offset;

    return n->bytes == 1   ? *(const uint8_t *)p
           : n->bytes == 2 ? *(const uint16_t *)(const void *)p
                           : *(const uint32_t *)(const void *)p;
}

static void field_set(const struct number *n, struct vrb_config *cfg, unsigned value)
{
    char *p = (char *)cfg + n->offset;

    if (n->bytes == 4) {
        *(uint32_t *)(void *)p = value;
        return;
    }
    if (value > n->most) {
        mca_btl_verbs_say_here(PREFIX "%s = %u is out of range (at most %u); using %u", n->name,
                               value, n->most, n->most);
        value = n->most;
    }
    if (n->bytes == 2) {
        *(uint16_t *)(void *)p = (uint16_t)value;
    } else {
        *(uint8_t *)p = (uint8_t)value;
    }
}

static void number_register(const mca_base_component_t *me, const char *name, const char *help,
                            mca_base_var_info_lvl_t level, unsigned *value, unsigned by_default)
{
    *value = by_default;
    (void)mca_base_component_var_register(me, name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0,
                                          0, level, MCA_BASE_VAR_SCOPE_LOCAL, value);
}

static void mode_register(const mca_base_component_t *me, struct mca_btl_verbs_params *params,
                          int by_default)
{
    static const mca_base_var_enum_value_t modes[] = {
        {VRB_MODE_RC, "rc"}, {VRB_MODE_UD, "ud"}, {VRB_MODE_AUTO, "auto"}, {0, NULL}};
    mca_base_var_enum_t *names = NULL;

    params->mode = by_default;
    (void)mca_base_var_enum_create(PREFIX "mode", modes, &names);
    (void)mca_base_component_var_register(
        me, "mode",
        "How messages travel. rc: over a reliable connection to each peer. ud: as reliable "
        "datagrams, "
        "without any connection, so that memory does not grow with the number of peers. auto: as "
        "datagrams at first, over a connection to peers that are busy or read by RDMA.",
        MCA_BASE_VAR_TYPE_INT, names, 0, 0, OPAL_INFO_LVL_2, MCA_BASE_VAR_SCOPE_ALL_EQ,
        &params->mode);
    if (names != NULL) {
        OBJ_RELEASE(names);
    }
}

static void carrier_register(const mca_base_component_t *me, struct mca_btl_verbs_params *params,
                             int by_default)
{
    static const mca_base_var_enum_value_t carriers[] = {
        {VRB_CARRIER_AUTO, "auto"}, {VRB_CARRIER_TCP, "tcp"}, {0, NULL}};
    mca_base_var_enum_t *names = NULL;

    params->carrier = by_default;
    (void)mca_base_var_enum_create(PREFIX "wireup", carriers, &names);
    (void)mca_base_component_var_register(
        me, "wireup",
        "What carries the handshake that makes connections. auto: a UD queue pair, or TCP where "
        "the device has none. tcp: TCP, which leaves " PREFIX "mode rc only.",
        MCA_BASE_VAR_TYPE_INT, names, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_ALL_EQ,
        &params->carrier);
    if (names != NULL) {
        OBJ_RELEASE(names);
    }
}

void mca_btl_verbs_params_register(struct mca_btl_verbs_params *params)
{
    const mca_base_component_t *me = &mca_btl_verbs_component.super.btl_version;
    struct vrb_config defaults;
    size_t i;

    params->if_include = NULL;
    params->if_exclude = NULL;
    params->stats_dir = NULL;
    params->summary = false;
    params->show_map = false;
    params->show_memory = false;
    (void)mca_base_component_var_register(me, "if_include",
                                          "Ports to use: a comma-separated list of DEVICE or "
                                          "DEVICE:PORT (mlx5_0,mlx5_1:1). Empty: all "
                                          "active ports. Not together with " PREFIX "if_exclude.",
                                          MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_1,
                                          MCA_BASE_VAR_SCOPE_READONLY, &params->if_include);
    (void)mca_base_component_var_register(me, "if_exclude",
                                          "Ports not to use: a comma-separated list of DEVICE or "
                                          "DEVICE:PORT. Not together with " PREFIX "if_include.",
                                          MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_1,
                                          MCA_BASE_VAR_SCOPE_READONLY, &params->if_exclude);
    (void)mca_base_component_var_register(
        me, "show_map",
        "Print a line for each connection when it is made: device, port, link layer, addresses and "
        "protocol, and where one way of sending gives way to the next.",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_2, MCA_BASE_VAR_SCOPE_LOCAL,
        &params->show_map);
    (void)mca_base_component_var_register(
        me, "show_memory",
        "Print what memory each process holds for each peer, when the peer goes, and what it had "
        "registered, at the end.",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_LOCAL,
        &params->show_memory);
    (void)mca_base_component_var_register(
        me, "summary",
        "Print a table for each host at the end of the job: what its ranks sent, and how, what was "
        "sent again, waited for and registered.",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_LOCAL,
        &params->summary);
    (void)mca_base_component_var_register(
        me, "stats_dir",
        "Folder in which each process shows its counters while it runs, in a small file that the "
        "tool verbs_stat reads (empty: nowhere).",
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
        &params->stats_dir);
    number_register(
        me, "registered_max",
        "MiB of the application's memory that a process keeps registered at the most (0: no limit "
        "but the system's). Beyond it what was not used for longest leaves the cache.",
        OPAL_INFO_LVL_4, &params->registered_max, 0);
    number_register(
        me, "port_wait",
        "Seconds to wait at the start for an InfiniBand port that the subnet manager is about to "
        "bring up, if no port is up and this BTL was asked for (0: do not wait).",
        OPAL_INFO_LVL_4, &params->port_wait, 10);
    vrb_config_defaults(&defaults);
    mode_register(me, params, defaults.mode);
    carrier_register(me, params, defaults.carrier);
    for (i = 0; i < NUMBERS; i++) {
        number_register(me, numbers[i].name, numbers[i].help, numbers[i].level, &values[i],
                        field_get(&numbers[i], &defaults));
    }
}

/* Brings one of Open MPI's standard sizes into range. A default follows the other sizes in silence.
 */
static void size_clamp(const char *name, size_t *value, size_t is_default, size_t least,
                       size_t most)
{
    size_t used = *value < least ? least : *value > most ? most : *value;

    if (used != *value && *value == is_default) {
        *value = used;
    } else if (used != *value) {
        mca_btl_verbs_say_here(PREFIX "%s = %zu is out of range (%zu .. %zu); using %zu", name,
                               *value, least, most, used);
        *value = used;
    }
}

/* ob1 refuses to start when its longest header does not fit the eager limit (80 bytes in 5.0), and
 * its control messages carry a registration handle on top. */
#define MIN_EAGER 256
#define MIN_PACKET 1024
#define MAX_PACKET (1 << 20)

void mca_btl_verbs_params_config(mca_btl_base_module_t *module, struct vrb_config *cfg)
{
    size_t i;

    vrb_config_defaults(cfg);
    for (i = 0; i < NUMBERS; i++) {
        field_set(&numbers[i], cfg, values[i]);
    }
    cfg->mode = (uint8_t)mca_btl_verbs_component.params.mode;
    cfg->carrier = (uint8_t)mca_btl_verbs_component.params.carrier;
    size_clamp("max_send_size", &module->btl_max_send_size, cfg->recv_size, MIN_PACKET, MAX_PACKET);
    size_clamp("eager_limit", &module->btl_eager_limit, MCA_BTL_VERBS_EAGER, MIN_EAGER,
               module->btl_max_send_size);
    size_clamp("rndv_eager_limit", &module->btl_rndv_eager_limit, MCA_BTL_VERBS_EAGER, 0,
               module->btl_eager_limit);
    cfg->recv_size = (uint32_t)module->btl_max_send_size;
    vrb_config_clamp(cfg, PREFIX);
}
