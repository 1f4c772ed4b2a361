/* The hash map: random puts, deletions and look-ups against a plain array, collisions included.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "util/vrb_map.h"
#include "util/vrb_status.h"

#define KEYS 512

static void test_against_array(void **state)
{
    struct vrb_map m = {.slots = NULL};
    void *want[KEYS] = {NULL};
    unsigned rng = 12345;
    static char values[KEYS];

    (void)state;
    for (int step = 0; step < 200000; step++) {
        unsigned k, live = 0;
        /* Keys that differ in high bits only collide after hashing as well as before. */
        uint64_t key;

        rng = rng * 1103515245u + 12345u;
        k = (rng >> 8) % KEYS;
        key = (uint64_t)k << (k % 3 * 20);
        if ((rng >> 20) % 3 == 0) {
            vrb_map_del(&m, key);
            want[k] = NULL;
        } else {
            assert_int_equal(vrb_map_put(&m, key, &values[k]), VRB_OK);
            want[k] = &values[k];
        }
        if (step % 1000 == 0) {
            for (k = 0; k < KEYS; k++) {
                assert_ptr_equal(vrb_map_get(&m, (uint64_t)k << (k % 3 * 20)), want[k]);
                live += want[k] != NULL;
            }
            assert_int_equal(m.used, live);
        }
    }
    vrb_map_clear(&m);
    assert_null(vrb_map_get(&m, 1));
}

static void test_empty(void **state)
{
    struct vrb_map m = {.slots = NULL};

    (void)state;
    assert_null(vrb_map_get(&m, 0));
    vrb_map_del(&m, 0);
    assert_int_equal(vrb_map_put(&m, 0, &m), VRB_OK);
    assert_ptr_equal(vrb_map_get(&m, 0), &m);
    vrb_map_del(&m, 5);
    vrb_map_del(&m, 0);
    assert_null(vrb_map_get(&m, 0));
    vrb_map_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
