/* Queue depths are fitted to any device: never zero, never absurd, or refused in words.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "rail/vrb_fit.h"
#include "rc/vrb_credit.h"

static struct vrb_limits ample(void)
{
    return (struct vrb_limits){.max_cqe = 4194303,
                               .max_qp_wr = 32768,
                               .max_srq = 1000,
                               .max_srq_wr = 32767,
                               .max_qp_init_rd_atom = 16,
                               .ud_cqes = 160};
}

static int fit(const struct vrb_limits *d, uint8_t use_srq, struct vrb_config *cfg, char *detail)
{
    vrb_config_defaults(cfg);
    cfg->use_srq = use_srq;
    detail[0] = '\0';
    return vrb_fit(cfg, d, detail, 256);
}

static void ample_device_changes_nothing(void **state)
{
    struct vrb_limits d = ample();
    struct vrb_config cfg, defaults;
    char detail[256];

    (void)state;
    vrb_config_defaults(&defaults);
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_OK);
    assert_memory_equal(&cfg, &defaults, sizeof(cfg));
    assert_string_equal(detail, "");
}

/* What was promised to the completion queue must fit in it. */
static void check_sums(const struct vrb_config *cfg, const struct vrb_limits *d)
{
    int64_t room = (int64_t)d->max_cqe - d->ud_cqes;

    assert_in_range(cfg->sq_depth, 1, d->max_qp_wr);
    room -= (int64_t)VRB_FIT_MARGIN_QPS * cfg->sq_depth;
    if (cfg->use_srq) {
        assert_in_range(cfg->recv_buffers, 8, d->max_srq_wr);
        assert_in_range(cfg->credits, 2, cfg->recv_buffers);
        room -= cfg->recv_buffers;
    } else {
        assert_in_range(cfg->credits, 2, 64);
        assert_in_range(cfg->credits + VRB_CREDIT_RESERVE, 1, d->max_qp_wr);
        room -= cfg->credits + VRB_CREDIT_RESERVE;
    }
    assert_true(room >= cfg->sq_depth);
}

static void any_limits(void **state)
{
    static const int values[] = {-5,  -1,  0,   1,   2,   3,   4,   5,   7,     8,         12,
                                 15,  16,  17,  31,  64,  100, 160, 161, 167,   168,       170,
                                 172, 173, 176, 177, 180, 200, 255, 300, 65536, 2147483647};
    struct vrb_limits d = ample();
    struct vrb_config cfg;
    char detail[256];
    int fits = 0, refused = 0;

    (void)state;
    for (int i = 0; i < COUNT_OF(values); i++) {
        for (int j = 0; j < COUNT_OF(values); j++) {
            for (int k = 0; k < COUNT_OF(values); k++) {
                for (uint8_t srq = 0; srq < 2; srq++) {
                    d.max_cqe = values[i];
                    d.max_qp_wr = values[j];
                    d.max_srq_wr = values[k];
                    if (fit(&d, srq, &cfg, detail) == VRB_OK) {
                        check_sums(&cfg, &d);
                        fits++;
                    } else {
                        assert_true(strlen(detail) > 40);
                        refused++;
                    }
                }
            }
        }
    }
    assert_true(fits > 1000 && refused > 1000);
}

static void refusals_name_the_limit(void **state)
{
    struct vrb_limits d = ample();
    struct vrb_config cfg;
    char detail[256];

    (void)state;
    d.max_cqe = 170;
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_ERR_DEVICE);
    assert_non_null(strstr(detail, "completion queue"));
    assert_non_null(strstr(detail, "170"));
    assert_non_null(strstr(detail, "max_cqe"));
    d = ample();
    d.max_qp_wr = 4;
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_OK);
    assert_int_equal(fit(&d, 0, &cfg, detail), VRB_ERR_DEVICE);
    assert_non_null(strstr(detail, "receive queue"));
    assert_non_null(strstr(detail, "max_qp_wr"));
}

/* Without a shared queue several peers fit into a short completion queue. */
static void short_cq_is_shared_out(void **state)
{
    struct vrb_limits d = ample();
    struct vrb_config cfg;
    char detail[256];

    (void)state;
    d.max_srq = 0;
    d.max_cqe = 400;
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_OK);
    assert_int_equal(cfg.use_srq, 0);
    assert_true(4 * (cfg.credits + VRB_CREDIT_RESERVE) <= (400 - 160) / 2);
}

static void reads(void **state)
{
    struct vrb_limits d = ample();
    struct vrb_config cfg;
    char detail[256];

    (void)state;
    d.max_qp_init_rd_atom = 0;
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_OK);
    assert_int_equal(cfg.rd_atomic, 1);
    d.max_qp_init_rd_atom = 4;
    assert_int_equal(fit(&d, 1, &cfg, detail), VRB_OK);
    assert_int_equal(cfg.rd_atomic, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ample_device_changes_nothing),
        cmocka_unit_test(any_limits),
        cmocka_unit_test(refusals_name_the_limit),
        cmocka_unit_test(short_cq_is_shared_out),
        cmocka_unit_test(reads),
    };

    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
