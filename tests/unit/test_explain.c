/* The wording of failures: golden texts, and what each must name.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After a change of wording: UNIT_GOLDEN_WRITE=tests/unit/explain.golden tests/unit/test_explain,
 * then read the difference as a user would. */
#include "unit.h"

#include <infiniband/verbs.h>

#include "gids.h"
#include "util/vrb_explain.h"
#include "util/vrb_status.h"
#include "util/vrb_text.h"
#include "wireup/vrb_wireup.h"

/* The largest text that the core makes room for is 2 KiB; this one shows if any gets near. */
#define ROOM 4096
#define LONGEST 1600

static struct vrb_failure failure(uint8_t link)
{
    struct vrb_failure f = {
        .wc_status = -1,
        .vendor_err = 0x81,
        .what = "sending",
        .retry_count = 7,
        .ib_timeout = 17,
        .rnr_retry = 7,
        .link = link,
        .seconds = 60.02,
        .hellos = 66,
    };

    f.local = (struct vrb_end){.host = "node1", .rank = 0, .port = 1, .qpn = 0x1a2};
    f.remote = (struct vrb_end){.host = "node2", .rank = 17, .qpn = 0x3b4};
    if (link == VRB_LINK_IB) {
        f.local.dev = "shca0";
        f.local.lid = 17;
        f.remote.lid = 18;
        f.local.gid = gid(VRB_GID_IB, 0, "fe80::1:1");
    } else {
        f.local.dev = "shca1";
        f.local.gid = gid(VRB_GID_ROCE_V2, 3, "::ffff:10.77.1.1");
        f.remote.gid = gid(VRB_GID_ROCE_V2, 0, "::ffff:10.77.1.2");
    }
    return f;
}

/* Every text that is compared: appended to one file-like string under a heading. */
static char golden[200000];
static size_t golden_len;

static void record(const char *heading, const char *text)
{
    golden_len += (size_t)snprintf(golden + golden_len, sizeof(golden) - golden_len, "== %s\n%s\n",
                                   heading, text);
    assert_true(golden_len < sizeof(golden));
}

/* Rules that hold for each text whatever it says. */
static const char *explain(const struct vrb_failure *f)
{
    static char buf[ROOM];

    memset(buf, 'z', sizeof(buf));
    assert_ptr_equal(vrb_explain(f, buf, sizeof(buf)), buf);
    size_t len = strlen(buf);

    assert_in_range(len, 40, LONGEST);
    assert_int_not_equal(buf[len - 1], '\n');
    assert_int_not_equal(buf[len - 1], ' ');
    assert_null(strstr(buf, " \n"));
    for (const char *line = buf; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        /* First line and ends are as long as the names in them. */
        if (strncmp(line, "          ", 10) == 0 || strncmp(line, "  cause:", 8) == 0) {
            assert_in_range(strcspn(line, "\n"), 11, VRB_TEXT_WIDTH);
        }
    }
    return buf;
}

static void names_both_ends(const char *text, uint8_t link)
{
    static const char *const common[] = {"host node1 rank 0", "host node2 rank 17", "port 1",
                                         "QPN 0x0001a2", "QPN 0x0003b4"};
    static const char *const roce[] = {"shca1", "GID ::ffff:10.77.1.1 (RoCE v2) index 3",
                                       "GID ::ffff:10.77.1.2 (RoCE v2)"};
    static const char *const ib[] = {"shca0", "LID 17 (0x11)", "LID 18 (0x12)"};

    for (int i = 0; i < COUNT_OF(common); i++) {
        assert_non_null(strstr(text, common[i]));
    }
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(text, link == VRB_LINK_IB ? ib[i] : roce[i]));
    }
}

#define STATUS(name)                         \
    {                                        \
        IBV_WC_##name, "(IBV_WC_" #name ", " \
    }
static const struct {
    int status;
    const char *says;
} statuses[] = {
    STATUS(SUCCESS),
    STATUS(LOC_LEN_ERR),
    STATUS(LOC_QP_OP_ERR),
    STATUS(LOC_EEC_OP_ERR),
    STATUS(LOC_PROT_ERR),
    STATUS(WR_FLUSH_ERR),
    STATUS(MW_BIND_ERR),
    STATUS(BAD_RESP_ERR),
    STATUS(LOC_ACCESS_ERR),
    STATUS(REM_INV_REQ_ERR),
    STATUS(REM_ACCESS_ERR),
    STATUS(REM_OP_ERR),
    STATUS(RETRY_EXC_ERR),
    STATUS(RNR_RETRY_EXC_ERR),
    STATUS(LOC_RDD_VIOL_ERR),
    STATUS(REM_INV_RD_REQ_ERR),
    STATUS(REM_ABORT_ERR),
    STATUS(INV_EECN_ERR),
    STATUS(INV_EEC_STATE_ERR),
    STATUS(FATAL_ERR),
    STATUS(RESP_TIMEOUT_ERR),
    STATUS(GENERAL_ERR),
    STATUS(TM_ERR),
    STATUS(TM_RNDV_INCOMPLETE),
};

static const uint8_t links[] = {VRB_LINK_IB, VRB_LINK_ROCE};

static const char *link_name(uint8_t link)
{
    return link == VRB_LINK_IB ? "InfiniBand" : "RoCE";
}

static void every_status(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < COUNT_OF(statuses); i++) {
            struct vrb_failure f = failure(links[l]);
            char heading[80];

            f.wc_status = statuses[i].status;
            const char *text = explain(&f);

            assert_int_equal(f.wc_status, i); /* none is left out */
            assert_non_null(strstr(text, statuses[i].says));
            assert_non_null(strstr(text, vrb_wc_status_text(i)));
            assert_non_null(strstr(text, "vendor error 0x81"));
            names_both_ends(text, links[l]);
            assert_true(i == IBV_WC_SUCCESS || strstr(text, "\n  next:   "));
            snprintf(heading, sizeof(heading), "%s, status %d", link_name(links[l]), i);
            record(heading, text);
        }
    }
}

static void unknown_statuses(void **state)
{
    static const int odd[] = {24, 1000, INT32_MAX};

    (void)state;
    for (int i = 0; i < COUNT_OF(odd); i++) {
        struct vrb_failure f = failure(VRB_LINK_ROCE);

        f.wc_status = odd[i];
        assert_non_null(strstr(explain(&f), "unknown completion status (IBV_WC_?"));
    }
    assert_string_equal(vrb_wc_status_text(-5), "unknown completion status");
}

/* The text with its line breaks taken out again. */
static const char *flat(const char *text)
{
    static char out[ROOM];
    size_t n = 0;

    for (; *text; text++) {
        if (*text == '\n' && strncmp(text + 1, "          ", 10) == 0) {
            out[n++] = ' ';
            text += 10;
        } else {
            out[n++] = *text;
        }
    }
    out[n] = '\0';
    return out;
}

static void retry_exceeded_names_the_next_step(void **state)
{
    static const char *const roce[] = {"GID",           "UDP port 4791",    "MTU",        "PFC",
                                       "ib_timeout 17", "ib_retry_count 7", "about 4.3 s"};
    static const char *const ib[] = {"cable", "subnet manager", "LID", "partition", "about 4.3 s"};
    struct vrb_failure f = failure(VRB_LINK_ROCE);

    (void)state;
    f.wc_status = IBV_WC_RETRY_EXC_ERR;
    for (int i = 0; i < COUNT_OF(roce); i++) {
        assert_non_null(strstr(flat(explain(&f)), roce[i]));
    }
    assert_null(strstr(explain(&f), "subnet manager"));
    f = failure(VRB_LINK_IB);
    f.wc_status = IBV_WC_RETRY_EXC_ERR;
    for (int i = 0; i < COUNT_OF(ib); i++) {
        assert_non_null(strstr(flat(explain(&f)), ib[i]));
    }
    assert_null(strstr(flat(explain(&f)), "4791"));
}

static void kinds_of_roce_addresses(void **state)
{
    struct vrb_failure f = failure(VRB_LINK_ROCE);

    (void)state;
    f.wc_status = IBV_WC_RETRY_EXC_ERR;
    f.local.gid = gid(VRB_GID_ROCE_V1, 0, "fe80::1");
    f.remote.gid = gid(VRB_GID_ROCE_V1, 0, "fe80::2");
    const char *text = flat(explain(&f));

    assert_non_null(strstr(text, "RoCE v1 is not routed"));
    assert_non_null(strstr(text, "link-local"));
    assert_null(strstr(text, "4791"));
    record("RoCE v1, link-local", explain(&f));
}

static void receiver_not_ready(void **state)
{
    struct vrb_failure f = failure(VRB_LINK_ROCE);

    (void)state;
    f.wc_status = IBV_WC_RNR_RETRY_EXC_ERR;
    const char *text = explain(&f);

    assert_non_null(strstr(text, "rnr_retry 7"));
    assert_non_null(strstr(text, "recv_buffers"));
    assert_null(strstr(text, "cable"));
    assert_null(strstr(text, "PFC"));
}

static void handshakes(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++) {
        char heading[80];

        for (int heard = 0; heard < 2; heard++) {
            struct vrb_failure f = failure(links[l]);

            f.what = "connecting";
            f.wireup = VRB_WU_FAIL_TIMEOUT;
            f.heard = (uint8_t)heard;
            f.remote.qpn = 0;
            const char *text = explain(&f);

            assert_non_null(
                strstr(text, "connecting failed: no connection after 60 s and 66 handshake"));
            assert_true(heard || strstr(text, links[l] == VRB_LINK_IB ? "LIDs" : "GIDs"));
            snprintf(heading, sizeof(heading), "%s, timeout, %s", link_name(links[l]),
                     heard ? "heard" : "never heard");
            record(heading, text);
        }
    }
    for (int reason = 0; reason <= VRB_REJECT_VERSION + 1; reason++) {
        struct vrb_failure f = failure(VRB_LINK_ROCE);
        char heading[80];

        f.what = "connecting";
        f.wireup = VRB_WU_FAIL_REJECTED;
        f.reject_reason = (uint8_t)reason;
        const char *text = explain(&f);

        snprintf(heading, sizeof(heading), "rejected, reason %d", reason);
        record(heading, text);
    }
    for (int kind = VRB_WU_FAIL_RESTART; kind <= VRB_WU_FAIL_LOCAL; kind++) {
        struct vrb_failure f = failure(VRB_LINK_ROCE);

        f.what = "connecting";
        f.wireup = kind;
        record(kind == VRB_WU_FAIL_RESTART ? "restart" : "given up", explain(&f));
    }
}

static void silent_datagrams(void **state)
{
    (void)state;
    for (int l = 0; l < 2; l++) {
        for (int heard = 0; heard < 2; heard++) {
            struct vrb_failure f = failure(links[l]);
            char heading[80];
            const char *text;

            f.what = "sending";
            f.unacked = 17;
            f.heard = (uint8_t)heard;
            text = explain(&f);
            assert_non_null(strstr(text, "17 datagrams were not acknowledged for 60 s"));
            assert_non_null(strstr(text, "peer_timeout"));
            snprintf(heading, sizeof(heading), "%s, silent datagrams, %s", link_name(links[l]),
                     heard ? "heard" : "never heard");
            record(heading, text);
        }
        struct vrb_failure f = failure(links[l]);
        char heading[80];

        f.what = "sending";
        f.unacked = 17;
        f.port_down = 1;
        assert_non_null(strstr(explain(&f), "has been down for 60 s (port_timeout)"));
        snprintf(heading, sizeof(heading), "%s, port down, datagrams wait", link_name(links[l]));
        record(heading, explain(&f));
    }
}

/* A connection that broke and could not be made again: both facts are told. */
static void repairs(void **state)
{
    static const struct {
        int wireup;
        const char *heading, *told;
    } ends[] = {
        {VRB_WU_FAIL_TIMEOUT, "broken, timeout", "no new connection in 60 s"},
        {VRB_WU_FAIL_REJECTED, "broken, rejected", "the peer declined a new connection"},
        {VRB_WU_FAIL_RESTART, "broken, restart", "the peer lost its side"},
        {VRB_WU_FAIL_STUCK, "broken again and again", "5 new connections in a row broke"},
    };

    (void)state;
    for (int i = 0; i < COUNT_OF(ends); i++) {
        struct vrb_failure f = failure(i & 1 ? VRB_LINK_IB : VRB_LINK_ROCE);
        const char *text;

        f.broken = 1;
        f.wc_status = IBV_WC_RETRY_EXC_ERR;
        f.wireup = ends[i].wireup;
        f.reject_reason = VRB_REJECT_FAILED;
        text = explain(&f);
        assert_non_null(strstr(text, "IBV_WC_RETRY_EXC_ERR"));
        assert_non_null(strstr(text, ends[i].told));
        record(ends[i].heading, text);
        /* This end's QP was in order: the peer's was not. */
        f.wc_status = -1;
        f.what = "keeping the connection";
        f.detail = "the peer's queue pair broke";
        text = explain(&f);
        assert_non_null(strstr(text, "the peer's queue pair broke"));
        assert_non_null(strstr(text, ends[i].told));
        if (i == 0) {
            record("broken at the peer, timeout", text);
        }
    }
}

/* InfiniBand ports whose GIDs name different subnets. */
static void through_a_router(void **state)
{
    static const uint8_t here[VRB_GID_LEN] = {0xfe, 0xc0, [7] = 1, [15] = 1};
    static const uint8_t there[VRB_GID_LEN] = {0xfe, 0xc0, [7] = 2, [15] = 2};
    struct vrb_failure f = failure(VRB_LINK_IB);

    (void)state;
    memcpy(f.local.gid.raw, here, sizeof(here));
    memcpy(f.remote.gid.raw, there, sizeof(there));
    f.what = "connecting";
    f.wireup = VRB_WU_FAIL_TIMEOUT;
    f.hellos = 30;
    f.seconds = 60;
    assert_non_null(strstr(explain(&f), "different InfiniBand subnets"));
    record("IB, no answer from another subnet", explain(&f));
    f.remote.gid.raw[7] = 1;
    assert_null(strstr(explain(&f), "different InfiniBand subnets"));
}

static void in_words_only(void **state)
{
    struct vrb_failure f = failure(VRB_LINK_ROCE);

    (void)state;
    f.what = "RDMA read of 1048576 bytes";
    f.detail = "ibv_post_send: Invalid argument (22)";
    record("no completion, detail", explain(&f));
    f.detail = NULL;
    record("no completion, no detail", explain(&f));
    f.wc_status = IBV_WC_REM_ACCESS_ERR;
    f.detail = "rkey 0x1234";
    record("completion and detail", explain(&f));
}

/* A failure that only an errno explains still tells what to do next. */
static void advice_by_status(void **state)
{
    static const int codes[] = {VRB_ERR_NOMEM, VRB_ERR_UNREACH, VRB_ERR_MALFORMED, VRB_ERR_DEVICE,
                                VRB_ERR_PEER};
    char heading[64];

    (void)state;
    for (int i = 0; i < COUNT_OF(codes); i++) {
        struct vrb_failure f = failure(i % 2 == 0 ? VRB_LINK_IB : VRB_LINK_ROCE);
        const char *text;

        f.what = "connecting";
        f.detail = "something in words";
        f.status = codes[i];
        text = explain(&f);
        assert_non_null(strstr(text, "\n  next:"));
        snprintf(heading, sizeof(heading), "in words, status %d", codes[i]);
        record(heading, text);
    }
}

static void little_is_known(void **state)
{
    struct vrb_failure f = {.wc_status = IBV_WC_WR_FLUSH_ERR};

    (void)state;
    f.local.rank = f.remote.rank = UINT64_MAX;
    record("nothing known", explain(&f));
    f.remote.host = "";
    assert_non_null(strstr(explain(&f), "remote: host unknown"));
}

static void memory_limits(void **state)
{
    char buf[ROOM];

    (void)state;
    record("memlock 64 KiB", vrb_explain_memory("registering the receive buffers of shca0 port 1",
                                                65536, "Cannot allocate memory", buf, sizeof(buf)));
    assert_non_null(strstr(buf, "64 KiB"));
    assert_non_null(strstr(buf, "LimitMEMLOCK"));
    record("memlock unlimited", vrb_explain_memory("registering a message", UINT64_MAX,
                                                   "Cannot allocate memory", buf, sizeof(buf)));
    assert_null(strstr(buf, "LimitMEMLOCK"));
    record("memlock 0", vrb_explain_memory("registering a message", 0, "Operation not permitted",
                                           buf, sizeof(buf)));
}

/* Cut at any size: terminated, a prefix of the whole, nothing written beyond. */
static void never_overruns(void **state)
{
    struct vrb_failure f = failure(VRB_LINK_ROCE);
    char whole[ROOM];

    (void)state;
    f.wc_status = IBV_WC_RETRY_EXC_ERR;
    f.detail = "something";
    vrb_explain(&f, whole, sizeof(whole));
    for (size_t len = 1; len < strlen(whole) + 2; len++) {
        char *buf = malloc(len);

        assert_non_null(buf);
        vrb_explain(&f, buf, len);
        size_t got = strlen(buf);

        assert_true(got < len);
        assert_memory_equal(buf, whole, got);
        free(buf);
    }
    assert_ptr_equal(vrb_explain(&f, whole, 0), whole);
}

static void long_names(void **state)
{
    static char name[5000];
    struct vrb_failure f = failure(VRB_LINK_ROCE);
    char buf[512];

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    f.local.host = f.remote.host = f.local.dev = f.what = f.detail = name;
    vrb_explain(&f, buf, sizeof(buf));
    assert_int_equal(strlen(buf), sizeof(buf) - 1);
}

static void wrapping(void **state)
{
    char buf[ROOM], wide[200];
    struct vrb_text t = {.buf = buf, .len = sizeof(buf)};

    (void)state;
    memset(wide, 'w', sizeof(wide));
    wide[150] = '\0';
    vrb_text_block(&t, "a:", "one  two %s three", wide);
    assert_ptr_equal(strstr(buf, "\n  a:      one two\n          www"), buf);
    assert_non_null(strstr(buf, "w\n          three"));
    t.at = 0;
    vrb_text_block(&t, "empty:", "%s", "");
    assert_string_equal(buf, "\n  empty:  ");
}

/* Last: all recorded texts against the file. */
static void golden_texts(void **state)
{
    const char *dir = getenv("UNIT_SRCDIR"), *write_to = getenv("UNIT_GOLDEN_WRITE");
    static char wanted[sizeof(golden)];
    char path[1024];

    (void)state;
    if (write_to) {
        FILE *out = fopen(write_to, "w");

        assert_non_null(out);
        assert_int_equal(fwrite(golden, 1, golden_len, out), golden_len);
        assert_int_equal(fclose(out), 0);
        return;
    }
    snprintf(path, sizeof(path), "%s/explain.golden", dir ? dir : "tests/unit");
    FILE *in = fopen(path, "r");

    if (!in) {
        fail_msg("cannot open %s: set UNIT_SRCDIR", path);
    }
    size_t n = fread(wanted, 1, sizeof(wanted) - 1, in);

    fclose(in);
    wanted[n] = '\0';
    for (const char *w = wanted, *g = golden; *w || *g;) {
        size_t wn = strcspn(w, "\n"), gn = strcspn(g, "\n");

        if (wn != gn || memcmp(w, g, wn) != 0) {
            fail_msg("differs from explain.golden\nwanted: %.*s\ngot:    %.*s", (int)wn, w, (int)gn,
                     g);
        }
        w += wn + (w[wn] == '\n');
        g += gn + (g[gn] == '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status),
        cmocka_unit_test(unknown_statuses),
        cmocka_unit_test(retry_exceeded_names_the_next_step),
        cmocka_unit_test(kinds_of_roce_addresses),
        cmocka_unit_test(receiver_not_ready),
        cmocka_unit_test(handshakes),
        cmocka_unit_test(silent_datagrams),
        cmocka_unit_test(repairs),
        cmocka_unit_test(through_a_router),
        cmocka_unit_test(in_words_only),
        cmocka_unit_test(advice_by_status),
        cmocka_unit_test(little_is_known),
        cmocka_unit_test(memory_limits),
        cmocka_unit_test(never_overruns),
        cmocka_unit_test(long_names),
        cmocka_unit_test(wrapping),
        cmocka_unit_test(golden_texts),
    };

    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
