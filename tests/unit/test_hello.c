/* Handshake messages: layout, round trip, what is refused.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "rc/vrb_credit.h"
#include "util/vrb_status.h"
#include "wire/vrb_hello.h"

static const struct vrb_hello good = {
    .type = VRB_HELLO,
    .flags = VRB_HELLO_HAVE | VRB_HELLO_NEED | VRB_HELLO_MUST | VRB_HELLO_LAST,
    .mtu = 3,
    .rd_in = 16,
    .src_rail = 1,
    .dst_rail = 2,
    .grant = 0x0140,
    .src_id = 0x11223344,
    .dst_id = 0x55667788,
    .qpn = 0x0a0b0c,
    .psn = 0xfffffe,
    .recv_size = 16384,
    .gen = 0x0203,
    .rx_seq = 0xfffe0130, /* so the grant is for 0x10 packets more */
    .src_life = 0x21222324,
    .dst_life = 0x31323334,
    .src_name = 0x0102030405060708,
    .dst_name = 0xf1f2f3f4f5f6f7f8,
    .token = 0x41424344,
    .lid = 0x5152,
    .heard = 4,
    .has_gid = 1,
    .gid = {0xfe, 0x80, [15] = 0x61},
    .gid_was = {0x20, 0x01, [15] = 0x71},
};

static void layout(void **state)
{
    const uint8_t wanted[VRB_HELLO_SIZE] = {
        'V',  'R',  'B',  'H',  3,    1,    15,   0,          /* magic .. reason */
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,       /* source name */
        0xf8, 0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1,       /* destination name */
        0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55,       /* ids */
        0x0c, 0x0b, 0x0a, 0x00, 0xfe, 0xff, 0xff, 0x00,       /* QPN, PSN */
        0x00, 0x40, 0x00, 0x00, 0x40, 0x01, 3,    16,   1, 2, /* receive size .. rails */
        0x03, 0x02, 0x30, 0x01, 0xfe, 0xff,                   /* generation, packets received */
        0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31,       /* lives */
        0x44, 0x43, 0x42, 0x41, 0x52, 0x51, 1,    4,          /* token, LID, GIDs count, heard */
        0xfe, 0x80, 0,    0,    0,    0,    0,    0,          /* GID */
        0,    0,    0,    0,    0,    0,    0,    0x61,       /* */
        0x20, 0x01, 0,    0,    0,    0,    0,    0,          /* the one published */
        0,    0,    0,    0,    0,    0,    0,    0x71,       /* */
    };
    uint8_t buf[VRB_HELLO_SIZE];

    (void)state;
    memset(buf, 0xee, sizeof(buf));
    vrb_hello_put(&good, buf);
    assert_memory_equal(buf, wanted, sizeof(buf));
}

static void assert_same(const struct vrb_hello *a, const struct vrb_hello *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->mtu, b->mtu);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->rd_in, b->rd_in);
    assert_int_equal(a->src_rail, b->src_rail);
    assert_int_equal(a->dst_rail, b->dst_rail);
    assert_int_equal(a->grant, b->grant);
    assert_int_equal(a->src_id, b->src_id);
    assert_int_equal(a->dst_id, b->dst_id);
    assert_int_equal(a->qpn, b->qpn);
    assert_int_equal(a->psn, b->psn);
    assert_int_equal(a->recv_size, b->recv_size);
    assert_int_equal(a->gen, b->gen);
    assert_int_equal(a->rx_seq, b->rx_seq);
    assert_int_equal(a->src_life, b->src_life);
    assert_int_equal(a->dst_life, b->dst_life);
    assert_int_equal(a->src_name, b->src_name);
    assert_int_equal(a->dst_name, b->dst_name);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->lid, b->lid);
    assert_int_equal(a->heard, b->heard);
    assert_int_equal(a->has_gid, b->has_gid);
    assert_memory_equal(a->gid, b->gid, sizeof(a->gid));
    assert_memory_equal(a->gid_was, b->gid_was, sizeof(a->gid_was));
}

static int get_after_put(const struct vrb_hello *in, struct vrb_hello *out)
{
    uint8_t buf[VRB_HELLO_SIZE];

    vrb_hello_put(in, buf);
    return vrb_hello_get(buf, sizeof(buf), out);
}

static void round_trip(void **state)
{
    struct rng r = {1};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct vrb_hello h = good, out;

        h.flags = (uint8_t)rng_below(&r, 16);
        h.mtu = (uint8_t)(1 + rng_below(&r, 5));
        h.round = (uint8_t)rng_below(&r, VRB_ROUND_MAX + 1);
        h.rd_in = (uint8_t)rng_next(&r);
        h.src_rail = (uint8_t)rng_below(&r, 8);
        h.dst_rail = (uint8_t)rng_below(&r, 8);
        h.gen = (uint16_t)rng_below(&r, 3);
        h.rx_seq = h.gen == 0 ? 0 : (uint32_t)rng_next(&r);
        h.src_life = (uint32_t)rng_next(&r) | 1;
        h.dst_life = h.gen == 0 ? 0 : (uint32_t)rng_next(&r) | 1;
        h.grant = (uint16_t)(h.rx_seq + 1 + rng_below(&r, VRB_CREDIT_MAX_WINDOW));
        h.src_id = (uint32_t)rng_next(&r) | 1;
        h.dst_id = (uint32_t)rng_next(&r);
        h.qpn = 1 + rng_below(&r, 0xffffff);
        h.psn = rng_below(&r, 0x1000000);
        h.recv_size = 1 + (uint32_t)rng_below(&r, 1 << 30);
        h.src_name = rng_next(&r);
        h.dst_name = rng_next(&r);
        h.token = (uint32_t)rng_next(&r);
        h.lid = (uint16_t)rng_below(&r, 0xc000);
        h.heard = (uint8_t)rng_below(&r, 6);
        h.has_gid = (uint8_t)rng_below(&r, 2);
        h.gid[3] = h.gid_was[7] = (uint8_t)rng_next(&r);
        if (rng_chance(&r, 20)) {
            h.type = VRB_REJECT;
            h.reason = (uint8_t)rng_below(&r, 6);
            h.qpn = 0;
        }
        assert_int_equal(get_after_put(&h, &out), VRB_OK);
        assert_same(&h, &out);
    }
}

static void every_length(void **state)
{
    uint8_t buf[VRB_HELLO_SIZE + 40] = {0};
    struct vrb_hello h;

    (void)state;
    vrb_hello_put(&good, buf);
    for (size_t len = 0; len <= sizeof(buf); len++) {
        uint8_t *copy = exact_copy(buf, len);

        assert_int_equal(vrb_hello_get(copy, len, &h),
                         len < VRB_HELLO_SIZE ? VRB_ERR_MALFORMED : VRB_OK);
        free(copy);
    }
}

#define BAD(field, value)                                                 \
    do {                                                                  \
        struct vrb_hello bad_ = good, out_;                               \
        bad_.field = value;                                               \
        assert_int_equal(get_after_put(&bad_, &out_), VRB_ERR_MALFORMED); \
    } while (0)

static void bad_values(void **state)
{
    (void)state;
    BAD(type, 0);
    BAD(type, 4);
    BAD(src_id, 0);
    BAD(qpn, 0);
    BAD(qpn, 0x1000000);
    BAD(psn, 0x1000000);
    BAD(mtu, 0);
    BAD(mtu, 6);
    BAD(recv_size, 0);
    BAD(grant, 0x0130);
    BAD(grant, 0x0130 + VRB_CREDIT_MAX_WINDOW + 1);
    BAD(grant, 0x012f);
    BAD(gen, 0); /* a first connection where something was received before */
    BAD(src_life, 0);
    BAD(dst_life, 0);
    BAD(src_rail, 8);
    BAD(dst_rail, 255);
    BAD(lid, 0xc000);
    BAD(heard, 6);
    BAD(has_gid, 2);
}

static void other_version(void **state)
{
    uint8_t buf[VRB_HELLO_SIZE];
    struct vrb_hello h;

    (void)state;
    vrb_hello_put(&good, buf);
    for (int version = 0; version < 256; version++) {
        if (version == VRB_HELLO_VERSION) {
            continue;
        }
        buf[4] = (uint8_t)version;
        assert_int_equal(vrb_hello_get(buf, sizeof(buf), &h), VRB_ERR_NOTSUP);
        assert_int_equal(h.src_name, good.src_name);
        assert_int_equal(h.dst_name, good.dst_name);
        assert_int_equal(h.src_id, good.src_id);
        assert_int_equal(h.dst_id, good.dst_id);
        assert_int_equal(h.type, good.type); /* an answer must not be answered */
        assert_int_equal(h.qpn, 0);
    }
    buf[0] ^= 1;
    assert_int_equal(vrb_hello_get(buf, sizeof(buf), &h), VRB_ERR_MALFORMED);
}

/* A later minor change may use what is spare now. */
static void spare_bits_are_ignored(void **state)
{
    uint8_t buf[VRB_HELLO_SIZE];
    struct vrb_hello h;

    (void)state;
    vrb_hello_put(&good, buf);
    buf[6] |= 0xf0;
    assert_int_equal(vrb_hello_get(buf, sizeof(buf), &h), VRB_OK);
    assert_same(&h, &good);
}

static void random_bytes(void **state)
{
    struct rng r = {4};

    (void)state;
    for (int run = 0; run < 50000; run++) {
        uint8_t buf[VRB_HELLO_SIZE];
        struct vrb_hello h;

        vrb_hello_put(&good, buf);
        for (int i = 0; i < 4; i++) {
            buf[rng_below(&r, VRB_HELLO_SIZE)] = (uint8_t)rng_next(&r);
        }
        if (vrb_hello_get(buf, sizeof(buf), &h) == VRB_OK && h.type == VRB_HELLO) {
            assert_true(h.qpn > 0 && h.qpn <= 0xffffff && h.psn <= 0xffffff && h.src_id != 0);
            assert_true(h.mtu >= 1 && h.mtu <= 5 && h.src_rail < 8 && h.dst_rail < 8);
        }
    }
}

static void reject_texts(void **state)
{
    (void)state;
    for (int a = 0; a < 256; a++) {
        const char *text = vrb_reject_text((uint8_t)a);

        assert_non_null(text);
        assert_true(strlen(text) > 8);
        for (int b = 0; b < a && a <= VRB_REJECT_VERSION; b++) {
            assert_string_not_equal(text, vrb_reject_text((uint8_t)b));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),        cmocka_unit_test(round_trip),
        cmocka_unit_test(every_length),  cmocka_unit_test(bad_values),
        cmocka_unit_test(other_version), cmocka_unit_test(spare_bits_are_ignored),
        cmocka_unit_test(random_bytes),  cmocka_unit_test(reject_texts),
    };

    return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
