/* Unit tests of the joining of segments: any order, bounds, and messages that were given up.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "dgram/vrb_reasm.h"
#include "util/vrb_status.h"

#define LEN_MAX 1000

static int add(struct vrb_reasm *r, uint32_t number, uint32_t msg_len, uint32_t offset,
               uint32_t len, struct vrb_reasm_msg **whole)
{
    uint8_t bytes[LEN_MAX];

    for (uint32_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(number + offset + i);
    }
    return vrb_reasm_add(r, number, 3, msg_len, offset, bytes, len, whole);
}

static void any_order(void **state)
{
    struct vrb_reasm r;
    struct vrb_reasm_msg *m;

    (void)state;
    vrb_reasm_init(&r, LEN_MAX);
    for (uint32_t n = UINT32_MAX - 3; n != 4; n++) { /* numbers come round */
        assert_int_equal(add(&r, n, 1000, 600, 400, &m), VRB_OK);
        assert_null(m);
        assert_int_equal(add(&r, n + 100, 1000, 0, 1, &m), VRB_OK);
        assert_null(m);
        assert_int_equal(add(&r, n, 1000, 0, 600, &m), VRB_OK);
        assert_non_null(m);
        assert_int_equal(m->len, 1000);
        for (uint32_t i = 0; i < 1000; i++) {
            assert_int_equal(m->data[i], (uint8_t)(n + i));
        }
        vrb_reasm_free(&r, m);
    }
    vrb_reasm_fini(&r);
}

static void refused(void **state)
{
    struct vrb_reasm r;
    struct vrb_reasm_msg *m;

    (void)state;
    vrb_reasm_init(&r, LEN_MAX);
    assert_int_equal(add(&r, 1, LEN_MAX + 1, 0, 10, &m), VRB_ERR_MALFORMED);
    assert_int_equal(add(&r, 1, 100, 100, 1, &m), VRB_ERR_MALFORMED);
    assert_int_equal(add(&r, 1, 100, 99, 2, &m), VRB_ERR_MALFORMED);
    assert_int_equal(add(&r, 1, 100, 0, 10, &m), VRB_OK);
    assert_int_equal(add(&r, 1, 101, 10, 10, &m), VRB_ERR_MALFORMED);
    assert_int_equal(add(&r, 1, 100, 0, 91, &m), VRB_ERR_MALFORMED);
    for (uint32_t n = 2; n <= VRB_REASM_MAX; n++) {
        assert_int_equal(add(&r, n, 100, 0, 10, &m), VRB_OK);
    }
    assert_int_equal(add(&r, 5000, 100, 0, 10, &m), VRB_ERR_MALFORMED);
    vrb_reasm_fini(&r);
}

static void given_up(void **state)
{
    struct vrb_reasm r;
    struct vrb_reasm_msg *m;
    uint32_t base = UINT32_MAX - 100;

    (void)state;
    vrb_reasm_init(&r, LEN_MAX);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(add(&r, base + i, 100, 0, 10, &m), VRB_OK);
    }
    assert_int_equal(r.bytes, 200 * (sizeof(struct vrb_reasm_msg) + LEN_MAX));
    vrb_reasm_void(&r, base + 150);
    assert_int_equal(r.by_number.used, 50);
    /* A delayed segment of one that was given up starts nothing. */
    assert_int_equal(add(&r, base + 7, 100, 10, 10, &m), VRB_OK);
    assert_null(m);
    assert_int_equal(r.by_number.used, 50);
    /* The others go on, and so do later ones, as far as numbers go. */
    assert_int_equal(add(&r, base + 150, 100, 10, 90, &m), VRB_OK);
    assert_non_null(m);
    vrb_reasm_free(&r, m);
    for (uint64_t n = 200; n < UINT64_C(5) << 32; n += 1 << 16) {
        assert_int_equal(add(&r, base + (uint32_t)n, 2, 0, 1, &m), VRB_OK);
        assert_int_equal(add(&r, base + (uint32_t)n, 2, 1, 1, &m), VRB_OK);
        assert_non_null(m);
        vrb_reasm_free(&r, m);
    }
    /* The spare ones were enough, and are still counted. */
    assert_int_equal(r.bytes, 200 * (sizeof(struct vrb_reasm_msg) + LEN_MAX));
    vrb_reasm_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),
        cmocka_unit_test(refused),
        cmocka_unit_test(given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
