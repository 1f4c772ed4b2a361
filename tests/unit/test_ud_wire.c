/* Packets of the UD transport: layout, round trip, every truncation, arbitrary bytes.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wire/vrb_hello.h"
#include "wire/vrb_ud_wire.h"

#define PACKET_MAX 512

static void layout(void **state)
{
    const struct vrb_ud_hdr hdr = {.kind = VRB_UD_SEGMENT,
                                   .flags = VRB_UD_ASK,
                                   .tag = 0xab,
                                   .rail = 1,
                                   .src = 0x01020304,
                                   .token = 0x11121314,
                                   .pn = 0x21222324,
                                   .dseq = 0x31323334,
                                   .msg = 0x41424344,
                                   .msg_len = 0x51525354,
                                   .offset = 0x61626364};
    const struct vrb_ud_ack ack = {.cum = 0x71727374,
                                   .echo = 0x81828384,
                                   .delay = 0x9192,
                                   .buffers = 0xa1a2,
                                   .words = 1,
                                   .repeats = 7,
                                   .bits = {0xb1b2b3b4b5b6b7b8}};
    const uint8_t wanted[] = {
        0x13, 0x03, 0xab, 0x01, 4,    3,    2,    1,    0x14, 0x13, 0x12, 0x11, 0x24, 0x23,
        0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51,
        0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x71, 0x84, 0x83, 0x82, 0x81, 0x92, 0x91,
        0xa2, 0xa1, 1,    7,    0,    0,    0xb8, 0xb7, 0xb6, 0xb5, 0xb4, 0xb3, 0xb2, 0xb1};
    uint8_t p[PACKET_MAX];

    (void)state;
    assert_int_equal(vrb_ud_front_size(VRB_UD_SEGMENT, &ack), sizeof(wanted));
    vrb_ud_put(p, &hdr, &ack);
    assert_memory_equal(p, wanted, sizeof(wanted));
    assert_int_equal(vrb_ud_src(p), hdr.src);
    assert_int_equal(vrb_ud_peek_token(p), hdr.token);
}

static void random_packet(struct rng *r, struct vrb_ud_hdr *h, struct vrb_ud_ack *ack, int *has_ack,
                          uint32_t *len)
{
    memset(h, 0, sizeof(*h));
    memset(ack, 0, sizeof(*ack));
    h->kind = (uint8_t)(VRB_UD_DATA + rng_below(r, 4));
    h->flags = (uint8_t)(rng_below(r, 4) << 1);
    h->tag = (uint8_t)rng_next(r);
    h->rail = (uint8_t)rng_next(r);
    h->src = (uint32_t)rng_next(r);
    h->token = (uint32_t)rng_next(r);
    h->pn = (uint32_t)rng_next(r);
    h->dseq = (uint32_t)rng_next(r);
    h->msg = (uint32_t)rng_next(r);
    *has_ack = h->kind == VRB_UD_ACK || rng_chance(r, 50);
    *len = h->kind == VRB_UD_ACK ? 0 : 8 + rng_below(r, 100);
    if (h->kind == VRB_UD_SEGMENT) {
        h->msg_len = *len + rng_below(r, UINT32_MAX - *len);
        h->offset = rng_below(r, h->msg_len - *len + 1);
    }
    ack->cum = (uint32_t)rng_next(r);
    ack->echo = (uint32_t)rng_next(r);
    ack->delay = (uint16_t)rng_next(r);
    ack->buffers = (uint16_t)rng_next(r);
    ack->repeats = (uint8_t)rng_next(r);
    ack->words = (uint8_t)rng_below(r, VRB_UD_ACK_WORDS + 1);
    for (int i = 0; i < ack->words; i++) {
        ack->bits[i] = rng_next(r);
    }
}

static void round_trip_and_truncation(void **state)
{
    struct rng r = {1};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct vrb_ud_hdr h;
        struct vrb_ud_ack ack;
        struct vrb_ud_packet out;
        uint8_t p[PACKET_MAX];
        uint32_t len;
        int has_ack;

        random_packet(&r, &h, &ack, &has_ack, &len);
        size_t front = vrb_ud_front_size((enum vrb_ud_kind)h.kind, has_ack ? &ack : NULL);

        vrb_ud_put(p, &h, has_ack ? &ack : NULL);
        memset(p + front, 0x5a, len);
        h.flags |= has_ack ? VRB_UD_HAS_ACK : 0;
        memset(&out, 0, sizeof(out));
        assert_int_equal(vrb_ud_get(p, front + len, &out), VRB_OK);
        assert_memory_equal(&out.hdr, &h, sizeof(h));
        assert_ptr_equal(out.payload, p + front);
        assert_int_equal(out.len, len);
        assert_int_equal((out.payload - p) % 8, 0);
        if (has_ack) {
            assert_memory_equal(&out.ack, &ack, sizeof(ack));
        }
        /* Nothing is read beyond a cut packet, and a cut front is malformed. */
        for (size_t cut = 0; cut < front; cut++) {
            uint8_t *copy = exact_copy(p, cut);

            assert_int_equal(vrb_ud_get(copy, cut, &out), VRB_ERR_MALFORMED);
            free(copy);
        }
    }
}

static void refused(void **state)
{
    struct vrb_ud_ack ack = {.words = 0};
    struct vrb_ud_packet out;
    uint8_t p[PACKET_MAX] = {0};

    (void)state;
    /* Versions and kinds. A HELLO is none of ours. */
    for (int first = 0; first < 256; first++) {
        struct vrb_ud_hdr h = {.kind = VRB_UD_DATA};

        vrb_ud_put(p, &h, &ack);
        p[0] = (uint8_t)first;
        /* SEGMENT lacks a length */
        int good = first == 0x11 || first == 0x12 || first == 0x14 || first == 0x16;
        size_t len = VRB_UD_HDR_SIZE + VRB_UD_ACK_SIZE + (first == 0x12 ? 8 : 0);

        assert_int_equal(vrb_ud_get(p, len, &out), good ? VRB_OK : VRB_ERR_MALFORMED);
    }
    struct vrb_hello hello = {.type = VRB_HELLO};
    uint8_t bytes[VRB_HELLO_SIZE];

    vrb_hello_put(&hello, bytes);
    assert_int_equal(vrb_ud_get(bytes, sizeof(bytes), &out), VRB_ERR_MALFORMED);
    /* Unknown flags. */
    for (int flags = 0; flags < 256; flags++) {
        struct vrb_ud_hdr h = {.kind = VRB_UD_DATA};

        vrb_ud_put(p, &h, &ack);
        p[1] = (uint8_t)flags;
        assert_int_equal(vrb_ud_get(p, 100, &out), flags < 8 ? VRB_OK : VRB_ERR_MALFORMED);
    }
    /* A VOID with a payload, or with a tag of no meaning. */
    struct vrb_ud_hdr nothing = {.kind = VRB_UD_VOID, .tag = 1};

    vrb_ud_put(p, &nothing, NULL);
    assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE, &out), VRB_OK);
    assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE + 1, &out), VRB_ERR_MALFORMED);
    nothing.tag = 2;
    vrb_ud_put(p, &nothing, NULL);
    assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE, &out), VRB_ERR_MALFORMED);
    /* An ACK without an ack block, or with a payload. */
    struct vrb_ud_hdr h = {.kind = VRB_UD_ACK};

    vrb_ud_put(p, &h, NULL);
    assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE, &out), VRB_ERR_MALFORMED);
    vrb_ud_put(p, &h, &ack);
    assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE + VRB_UD_ACK_SIZE + 1, &out), VRB_ERR_MALFORMED);
    /* More bitmap than there may be. */
    p[VRB_UD_HDR_SIZE + 12] = VRB_UD_ACK_WORDS + 1;
    assert_int_equal(
        vrb_ud_get(p, VRB_UD_HDR_SIZE + VRB_UD_ACK_SIZE + 8 * (VRB_UD_ACK_WORDS + 1), &out),
        VRB_ERR_MALFORMED);
}

/* Segments lie inside their message, also where 32-bit sums would wrap. */
static void segments(void **state)
{
    const struct {
        uint32_t msg_len, offset, len;
        int good;
    } t[] = {
        {100, 0, 100, 1},
        {100, 50, 50, 1},
        {100, 50, 51, 0},
        {100, 0, 0, 0},
        {0, 0, 0, 0},
        {100, 100, 1, 0},
        {100, UINT32_MAX, 8, 0},
        {UINT32_MAX, UINT32_MAX - 8, 8, 1},
        {UINT32_MAX, UINT32_MAX - 7, 8, 0},
        {8, UINT32_MAX - 3, 8, 0},
    };

    (void)state;
    for (int i = 0; i < COUNT_OF(t); i++) {
        struct vrb_ud_hdr h = {
            .kind = VRB_UD_SEGMENT, .msg_len = t[i].msg_len, .offset = t[i].offset};
        struct vrb_ud_packet out;
        uint8_t p[PACKET_MAX] = {0};

        vrb_ud_put(p, &h, NULL);
        assert_int_equal(vrb_ud_get(p, VRB_UD_HDR_SIZE + VRB_UD_SEGMENT_SIZE + t[i].len, &out),
                         t[i].good ? VRB_OK : VRB_ERR_MALFORMED);
    }
}

static void tokens(void **state)
{
    struct rng r = {4};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t a = rng_next(&r), b = rng_next(&r);

        assert_int_equal(vrb_ud_token(a, b), vrb_ud_token(a, b));
        /* Each of these by chance once in 2^32. */
        assert_true(vrb_ud_token(a, b) != vrb_ud_token(b, a));
        assert_true(vrb_ud_token(a, b) != vrb_ud_token(a + 1, b));
        assert_true(vrb_ud_token(a, b) != vrb_ud_token(a, b + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),  cmocka_unit_test(round_trip_and_truncation),
        cmocka_unit_test(refused), cmocka_unit_test(segments),
        cmocka_unit_test(tokens),
    };

    return cmocka_run_group_tests_name("ud_wire", tests, NULL, NULL);
}
