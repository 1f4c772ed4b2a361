/* Prints tables of how the reliable datagram engine recovers, beside go-back-N. Not a test.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "reliable_gbn.h"

#define PACKETS 50000
#define PACKET_BYTES 4096
#define COUNT_OF(a) ((int)(sizeof(a) / sizeof((a)[0])))

static double gbps(const struct sim_result *r)
{
    return r->end_ns ? (double)r->delivered * PACKET_BYTES * 8 / (double)r->end_ns : 0;
}

/* 32 Gb/s, 12 us of round trip. */
static void link_defaults(struct sim_config *cfg)
{
    sim_defaults(cfg, 1);
    cfg->packets = PACKETS;
    cfg->slot_ns = 1024;
    cfg->queue = 256;
    cfg->limit_ns = 100 * SIM_SEC;
}

static void loss_table(void)
{
    const uint32_t ppm[] = {0, 100, 1000, 10000, 30000, 50000, 100000, 200000, 300000};
    const struct gbn_config fast = {.window = 128, .ack_every = 8, .timeout_ns = 500 * SIM_US};
    const struct gbn_config usual = {.window = 128, .ack_every = 8, .timeout_ns = 67 * SIM_MS};

    printf("One stream of %d packets of %d bytes, 32 Gb/s, 12 us RTT, random loss both ways\n\n",
           PACKETS, PACKET_BYTES);
    printf("%8s | %9s %9s %11s %9s %8s | %9s %11s | %9s\n", "loss", "Gb/s", "resent", "/lost",
           "needless", "timeouts", "GBN 500us", "resent/lost", "GBN 67ms");
    for (int i = 0; i < COUNT_OF(ppm); i++) {
        struct sim_config cfg;
        struct sim_result r, g, h;

        link_defaults(&cfg);
        cfg.loss_ppm = ppm[i];
        sim_run(&cfg, &r);
        gbn_run(&cfg, &fast, &g);
        gbn_run(&cfg, &usual, &h);
        printf("%7.2f%% | %9.2f %9" PRIu64 " %11.3f %9" PRIu64 " %8" PRIu64
               " | %9.2f %11.1f | %9.3f\n",
               ppm[i] / 1e4, gbps(&r), r.tx.resent,
               r.data_lost ? (double)r.tx.resent / (double)r.data_lost : 0, r.tx.needless,
               r.tx.timeouts, gbps(&g),
               g.data_lost ? (double)(g.data_sent - g.delivered) / (double)g.data_lost : 0,
               gbps(&h));
        if (r.error[0] || !r.finished) {
            printf("         ! %s\n", r.error[0] ? r.error : "not finished");
        }
    }
}

static void reordering_table(void)
{
    const uint64_t late_us[] = {2, 5, 10, 20, 50, 100};

    printf("\nReordering without loss: 10 %% of packets late by up to ...\n\n");
    printf("%8s | %9s %9s %9s %10s\n", "late us", "Gb/s", "resent", "needless", "reordered");
    for (int i = 0; i < COUNT_OF(late_us); i++) {
        struct sim_config cfg;
        struct sim_result r;

        link_defaults(&cfg);
        cfg.late_ppm = 100000;
        cfg.late_ns = late_us[i] * SIM_US;
        sim_run(&cfg, &r);
        printf("%8" PRIu64 " | %9.2f %9" PRIu64 " %9" PRIu64 " %10" PRIu64 " %s\n", late_us[i],
               gbps(&r), r.tx.resent, r.tx.needless, r.tx.reordered, r.error);
    }
}

static void incast_table(void)
{
    const uint32_t senders[] = {1, 2, 4, 16, 64};

    printf(
        "\nMany to one: 2000 packets each, 512 receive buffers, 300 ns to serve one, advertised\n"
        "shares or not, a switch queue of 256 packets\n\n");
    printf("%8s %6s | %9s %9s %9s %9s %12s\n", "senders", "shares", "Gb/s", "resent", "dropped",
           "timeouts", "least/most");
    for (int i = 0; i < 2 * COUNT_OF(senders); i++) {
        struct sim_config cfg;
        struct sim_result r;
        uint64_t least = UINT64_MAX, most = 0;

        link_defaults(&cfg);
        cfg.senders = senders[i / 2];
        cfg.packets = 2000;
        cfg.rq = 512;
        cfg.serve_ns = 300;
        cfg.share_rq = i & 1;
        cfg.gap_ns = 20 * SIM_US;
        sim_run(&cfg, &r);
        for (uint32_t k = 1; k <= cfg.senders; k++) {
            least = r.share[k] < least ? r.share[k] : least;
            most = r.share[k] > most ? r.share[k] : most;
        }
        printf("%8u %6s | %9.2f %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %5" PRIu64 "/%-6" PRIu64
               " %s\n",
               cfg.senders, cfg.share_rq ? "yes" : "no", gbps(&r), r.tx.resent,
               r.rq_drops + r.queue_drops, r.tx.timeouts, least, most, r.error);
    }
}

int main(void)
{
    loss_table();
    reordering_table();
    incast_table();
    return 0;
}
