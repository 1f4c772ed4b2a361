/* Files of counters: what was written is read; damaged, stale and odd ones are refused or told.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "util/vrb_statfile.h"
#include "util/vrb_status.h"

static const struct vrb_figure three[] = {
    {"messages", "", VRB_FIGURE_COUNT, 0, 0, 0},
    {"peers", "", VRB_FIGURE_LEVEL, 0, 0, 0},
    {"rtt", "", VRB_FIGURE_MEAN, 0, 0, 0},
};

static char dir[] = "/tmp/vrbstatXXXXXX";
static struct vrb_statfile file;
static struct vrb_statfile_copy copy;
static char err[256];

static int open_one(void **state)
{
    (void)state;
    return vrb_statfile_open(&file, dir, 0xabc, 7, "node1", three, 3, err, sizeof(err));
}

static int close_one(void **state)
{
    (void)state;
    vrb_statfile_close(&file);
    return 0;
}

static int read_it(void)
{
    memset(&copy, 0, sizeof(copy));
    return vrb_statfile_read(file.path, &copy, err, sizeof(err));
}

static void write_and_read(void **state)
{
    uint64_t values[3] = {5, 2, 1000}, v = 0;

    (void)state;
    vrb_statfile_write(&file, values, 3);
    assert_int_equal(read_it(), VRB_OK);
    assert_int_equal(copy.n, 3);
    assert_int_equal(copy.header.rank, 7);
    assert_int_equal(copy.header.job, 0xabc);
    assert_int_equal(copy.header.pid, getpid());
    assert_string_equal(copy.header.host, "node1");
    assert_int_equal(copy.life, VRB_STATFILE_ALIVE);
    assert_true(vrb_statfile_find(&copy, "rtt", &v));
    assert_int_equal(v, 1000);
    assert_false(vrb_statfile_find(&copy, "nosuch", &v));
    assert_int_equal(copy.header.turn & 1, 0);
}

static void goes_at_the_end(void **state)
{
    char path[sizeof(file.path)];

    (void)state;
    memcpy(path, file.path, sizeof(path));
    vrb_statfile_close(&file);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(vrb_statfile_read(path, &copy, err, sizeof(err)), VRB_ERR_AGAIN);
    vrb_statfile_write(&file, NULL, 0); /* does nothing */
    vrb_statfile_close(&file);
}

static void a_child_leaves_it(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        vrb_statfile_close(&file);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(read_it(), VRB_OK);
}

static void dead_processes(void **state)
{
    (void)state;
    file.map->started++; /* another process has the number now */
    assert_int_equal(read_it(), VRB_OK);
    assert_int_equal(copy.life, VRB_STATFILE_DEAD);
    file.map->boot[0] ^= 1; /* another machine */
    assert_int_equal(read_it(), VRB_OK);
    assert_int_equal(copy.life, VRB_STATFILE_UNKNOWN);
    file.map->turn = 1; /* it was ended while it wrote */
    assert_int_equal(read_it(), VRB_OK);
    file.map->pid = (uint32_t)getpid(); /* for close_one */
}

static void damaged(void **state)
{
    struct vrb_statfile_header *h = file.map, good = *h;

    (void)state;
    h->magic[0] = 'x';
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    *h = good;
    h->version++;
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    assert_non_null(strstr(err, "layout 2"));
    *h = good;
    h->records = UINT32_MAX;
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    h->record_bytes = UINT32_MAX;
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    *h = good;
    h->record_bytes = 0;
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    *h = good;
    h->header_bytes = 8;
    assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    *h = good;
    memset(h->host, 0xff, sizeof(h->host));
    memset(((struct vrb_statfile_record *)(h + 1))->name, 0x1b, 48);
    assert_int_equal(read_it(), VRB_OK);
    assert_int_equal(copy.header.host[0], '?');
    assert_int_equal(copy.records[0].name[46], '?');
    assert_int_equal(copy.records[0].name[47], '\0');
    ((struct vrb_statfile_record *)(h + 1))->kind = 77;
    assert_int_equal(read_it(), VRB_OK);
    assert_int_equal(copy.n, 2);
    *h = good;
    for (size_t size = 0; size < file.bytes; size += 13) {
        assert_int_equal(truncate(file.path, (off_t)(file.bytes - 1 - size)), 0);
        assert_int_equal(read_it(), VRB_ERR_MALFORMED);
    }
    assert_int_equal(truncate(file.path, (off_t)file.bytes), 0); /* mapped memory is whole again */
    *h = good;
}

/* Any bytes: sanitizers look on. */
static void random_bytes(void **state)
{
    struct rng r = {.state = 42};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct vrb_statfile_header good = *file.map;

        for (int k = 0; k < 4; k++) {
            ((uint8_t *)file.map)[8 + rng_below(&r, (uint32_t)file.bytes - 8)] =
                (uint8_t)rng_next(&r);
        }
        file.map->turn &= ~1u;
        (void)read_it();
        *file.map = good;
    }
}

static void odd_things(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(vrb_statfile_read(path, &copy, err, sizeof(err)), VRB_ERR_MALFORMED);
    unlink(path);
    assert_int_equal(symlink(file.path, path), 0);
    assert_int_equal(vrb_statfile_read(path, &copy, err, sizeof(err)), VRB_ERR_MALFORMED);
    unlink(path);
    assert_int_equal(vrb_statfile_read(dir, &copy, err, sizeof(err)), VRB_ERR_MALFORMED);
}

static void no_folder(void **state)
{
    struct vrb_statfile f;

    (void)state;
    assert_true(vrb_statfile_open(&f, "/proc/nosuch/x", 1, 1, "h", three, 3, err, sizeof(err)) < 0);
    assert_non_null(strstr(err, "/proc/nosuch/x"));
    assert_null(f.map);
}

static void joining(void **state)
{
    uint64_t seen = 0, mean = 0;

    (void)state;
    assert_int_equal(vrb_figure_join(VRB_FIGURE_COUNT, 3, 4, &seen), 7);
    assert_int_equal(vrb_figure_join(VRB_FIGURE_LEAST, 0, 4, &seen), 4);
    assert_int_equal(vrb_figure_join(VRB_FIGURE_LEAST, 3, 4, &seen), 3);
    assert_int_equal(vrb_figure_join(VRB_FIGURE_LEAST, 3, 0, &seen), 3);
    assert_int_equal(vrb_figure_join(VRB_FIGURE_MOST, 3, 4, &seen), 4);
    mean = vrb_figure_join(VRB_FIGURE_MEAN, mean, 10, &seen);
    mean = vrb_figure_join(VRB_FIGURE_MEAN, mean, 0, &seen);
    mean = vrb_figure_join(VRB_FIGURE_MEAN, mean, 4, &seen);
    assert_int_equal(mean, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_and_read, open_one, close_one),
        cmocka_unit_test_setup_teardown(goes_at_the_end, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_child_leaves_it, open_one, close_one),
        cmocka_unit_test_setup_teardown(dead_processes, open_one, close_one),
        cmocka_unit_test_setup_teardown(damaged, open_one, close_one),
        cmocka_unit_test_setup_teardown(random_bytes, open_one, close_one),
        cmocka_unit_test_setup_teardown(odd_things, open_one, close_one),
        cmocka_unit_test(no_folder),
        cmocka_unit_test(joining),
    };
    int failed;

    if (mkdtemp(dir) == NULL) {
        return 77;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return failed;
}
