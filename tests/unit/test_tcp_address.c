/* Unit tests of what is published about the TCP carrier: round trip, cut and senseless bytes.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "tcp/vrb_tcp_address.h"
#include "util/vrb_status.h"

static const struct vrb_tcp_host hosts[3] = {
    {4, {10, 0, 0, 1}}, {16, {0x20, 1, 0xd, 0xb8, [15] = 7}}, {4, {192, 168, 1, 255}}};

static void round_trip(void **state)
{
    const uint16_t ports[3] = {1, 0, 65535};
    struct vrb_tcp_host got[VRB_TCP_HOSTS];
    uint8_t buf[255];
    uint16_t port;
    int len = vrb_tcp_pack(ports, 3, hosts, 3, buf, sizeof(buf));

    (void)state;
    assert_int_equal(len, 1 + 6 + 1 + 5 + 17 + 5);
    assert_int_equal(vrb_tcp_unpack(buf, (size_t)len, 0, &port, got), 3);
    assert_int_equal(port, 1);
    assert_memory_equal(got, hosts, sizeof(hosts));
    assert_int_equal(vrb_tcp_unpack(buf, (size_t)len, 2, &port, got), 3);
    assert_int_equal(port, 65535);
    assert_int_equal(vrb_tcp_unpack(buf, (size_t)len, 1, &port, got), 0); /* it has a UD QP */
    assert_int_equal(vrb_tcp_unpack(buf, (size_t)len, 3, &port, got), 0);
    assert_int_equal(vrb_tcp_unpack(buf, (size_t)len, -1, &port, got), 0);
    for (size_t cut = 0; cut < (size_t)len; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1); /* ASan sees a read beyond it */

        memcpy(copy, buf, cut);
        assert_int_equal(vrb_tcp_unpack(copy, cut, 0, &port, got), VRB_ERR_MALFORMED);
        assert_int_equal(vrb_tcp_pack(ports, 3, hosts, 3, copy, cut), VRB_ERR_ARG);
        free(copy);
    }
    assert_int_equal(vrb_tcp_pack(ports, 3, hosts, VRB_TCP_HOSTS + 1, buf, 255), VRB_ERR_ARG);
}

static void senseless(void **state)
{
    struct vrb_tcp_host got[VRB_TCP_HOSTS];
    struct rng r = {11};
    uint16_t port;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        size_t len = rng_below(&r, 60);
        uint8_t *p = malloc(len ? len : 1);

        for (size_t k = 0; k < len; k++) {
            p[k] = (uint8_t)(rng_below(&r, 3) ? rng_below(&r, 20) : rng_below(&r, 256));
        }
        int n = vrb_tcp_unpack(p, len, (int)rng_below(&r, 4), &port, got);

        assert_true(n == VRB_ERR_MALFORMED || (n >= 0 && n <= VRB_TCP_HOSTS));
        for (int k = 0; k < n; k++) {
            assert_true(got[k].len == 4 || got[k].len == 16);
        }
        free(p);
    }
}

static void own(void **state)
{
    struct vrb_tcp_host got[VRB_TCP_HOSTS];
    int n = vrb_tcp_own_hosts(got);

    (void)state;
    assert_true(n >= 0 && n <= VRB_TCP_HOSTS);
    for (int i = 0; i < n; i++) {
        assert_true(got[i].len == 4 || got[i].len == 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(senseless),
        cmocka_unit_test(own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
