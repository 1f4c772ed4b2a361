/* Packet headers and coalesced records: layout, round trip, hostile lengths.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "wire/vrb_wire.h"

static void layout(void **state)
{
    uint8_t p[VRB_HDR_SIZE];
    const uint8_t wanted[VRB_HDR_SIZE] = {0x11, 0xab, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12};

    (void)state;
    vrb_hdr_put(p, VRB_KIND_DATA, 0xab, 0x1234, 0x12345678);
    assert_memory_equal(p, wanted, sizeof(p));
}

static void round_trip(void **state)
{
    struct rng r = {1};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        enum vrb_kind kind = (enum vrb_kind)(VRB_KIND_DATA + rng_below(&r, 3));
        uint8_t tag = (uint8_t)rng_next(&r), p[VRB_HDR_SIZE];
        uint16_t grant = (uint16_t)rng_next(&r);
        uint32_t seq = (uint32_t)rng_next(&r);
        struct vrb_hdr h;

        vrb_hdr_put(p, kind, tag, grant, seq);
        assert_int_equal(vrb_hdr_get(p, 100, &h), VRB_OK);
        assert_int_equal(h.kind, kind);
        assert_int_equal(h.tag, tag);
        assert_int_equal(h.grant, grant);
        assert_int_equal(h.seq, seq);
    }
}

static void short_packets(void **state)
{
    uint8_t p[VRB_HDR_SIZE + VRB_RECORD_HDR_SIZE] = {0};
    struct vrb_hdr h;

    (void)state;
    for (int kind = VRB_KIND_DATA; kind <= VRB_KIND_CREDIT; kind++) {
        size_t least = kind == VRB_KIND_COALESCED ? sizeof(p) : VRB_HDR_SIZE;

        vrb_hdr_put(p, (enum vrb_kind)kind, 0, 0, 0);
        for (size_t len = 0; len <= sizeof(p); len++) {
            uint8_t *copy = exact_copy(p, len);

            assert_int_equal(vrb_hdr_get(copy, len, &h), len < least ? VRB_ERR_MALFORMED : VRB_OK);
            free(copy);
        }
    }
}

static void every_first_byte(void **state)
{
    uint8_t p[64] = {0};
    struct vrb_hdr h;

    (void)state;
    for (int b = 0; b < 256; b++) {
        int good = b >> 4 == VRB_WIRE_VERSION && (b & 15) >= 1 && (b & 15) <= 3;

        p[0] = (uint8_t)b;
        assert_int_equal(vrb_hdr_get(p, sizeof(p), &h), good ? VRB_OK : VRB_ERR_MALFORMED);
    }
}

static void record_sizes(void **state)
{
    (void)state;
    assert_int_equal(vrb_record_size(0), 8);
    assert_int_equal(vrb_record_size(1), 16);
    assert_int_equal(vrb_record_size(8), 16);
    assert_int_equal(vrb_record_size(9), 24);
    assert_int_equal(vrb_record_size(VRB_RECORD_MAX_LEN), 8 + 65536);
}

static void record_padding_is_zero(void **state)
{
    uint8_t p[32];

    (void)state;
    memset(p, 0xee, sizeof(p));
    uint8_t *data = vrb_record_begin(p, 7, 3);
    const uint8_t wanted[16] = {3, 0, 7, 0, 0, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 0};

    assert_ptr_equal(data, p + 8);
    memcpy(data, "abc", 3);
    assert_memory_equal(p, wanted, sizeof(wanted));
    assert_int_equal(p[16], 0xee);
}

/* Packs records of random lengths and reads them back. */
static void record_round_trip(void **state)
{
    struct rng r = {2};

    (void)state;
    for (int run = 0; run < 2000; run++) {
        size_t lens[20], total = 0, off = 0;
        int n = 1 + (int)rng_below(&r, 20);

        for (int i = 0; i < n; i++) {
            lens[i] = rng_below(&r, rng_chance(&r, 10) ? VRB_RECORD_MAX_LEN + 1 : 40);
            total += vrb_record_size(lens[i]);
        }
        uint8_t *packet = malloc(total);
        size_t at = 0;

        assert_non_null(packet);
        for (int i = 0; i < n; i++) {
            memset(vrb_record_begin(packet + at, (uint8_t)i, lens[i]), 'A' + i, lens[i]);
            at += vrb_record_size(lens[i]);
        }
        for (int i = 0; i < n; i++) {
            struct vrb_record rec;

            assert_int_equal(vrb_record_next(packet, total, &off, &rec), 1);
            assert_int_equal(rec.len, lens[i]);
            assert_int_equal(rec.tag, i);
            assert_int_equal((rec.data - packet) % 8, 0);
            for (size_t b = 0; b < lens[i]; b++) {
                assert_int_equal(rec.data[b], 'A' + i);
            }
        }
        struct vrb_record none;

        assert_int_equal(vrb_record_next(packet, total, &off, &none), 0);
        free(packet);
    }
}

static void records_cut_short(void **state)
{
    uint8_t packet[48] = {0};

    (void)state;
    vrb_record_begin(packet, 1, 5);       /* 16 bytes */
    vrb_record_begin(packet + 16, 2, 17); /* 32 bytes */
    for (size_t len = 0; len <= sizeof(packet); len++) {
        uint8_t *copy = exact_copy(packet, len);
        struct vrb_record rec;
        size_t off = 0;
        int rc, seen = 0;

        while ((rc = vrb_record_next(copy, len, &off, &rec)) == 1) {
            seen++;
        }
        assert_int_equal(seen, len == 48 ? 2 : len >= 16 ? 1 : 0);
        assert_int_equal(rc, len == 0 || len == 16 || len == 48 ? 0 : VRB_ERR_MALFORMED);
        free(copy);
    }
}

/* Whatever arrives: the walk ends, and every record lies inside the packet. */
static void random_records(void **state)
{
    struct rng r = {3};

    (void)state;
    for (int run = 0; run < 20000; run++) {
        uint8_t bytes[64];
        size_t len = rng_below(&r, sizeof(bytes) + 1), off = 0;

        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)(rng_chance(&r, 70) ? rng_below(&r, 9) : rng_next(&r));
        }
        uint8_t *copy = exact_copy(bytes, len);
        struct vrb_record rec;
        int rc, steps = 0;

        while ((rc = vrb_record_next(copy, len, &off, &rec)) == 1) {
            assert_true(rec.data >= copy + 8 && rec.data + rec.len <= copy + len);
            assert_true(++steps <= 8);
        }
        assert_true(rc == 0 || rc == VRB_ERR_MALFORMED);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(short_packets),
        cmocka_unit_test(every_first_byte),
        cmocka_unit_test(record_sizes),
        cmocka_unit_test(record_padding_is_zero),
        cmocka_unit_test(record_round_trip),
        cmocka_unit_test(records_cut_short),
        cmocka_unit_test(random_records),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
