/* Options, byte patterns, verification and error reports shared by the MPI test programs.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every payload byte is a function of (sender, receiver, tag, offset, seed), so a byte that comes
 * from another message, another place or another run is seen as wrong. Buffers stand between two
 * guard zones, so that a transfer that is too long is seen too.
 */
#ifndef VRB_TESTS_MPI_CHECK_H
#define VRB_TESTS_MPI_CHECK_H

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"

#define CHK_GUARD 64U           /* bytes of guard before and after each buffer */
#define CHK_GUARD_BYTE 0xc3     /* what a guard holds */
#define CHK_POISON_BYTE 0x5a    /* what a receive buffer holds before the transfer */
#define CHK_DEFAULT_TIMEOUT 120 /* seconds until a rank that hangs says where */

/* One program-specific option: a number (an optional K, M or G suffix) or a flag. */
struct chk_option {
    const char *name; /* with its dashes; NULL ends the list */
    const char *help;
    uint64_t *value;
    int is_flag; /* takes no argument, sets *value to 1 */
};

/* What all programs know: their place, the common options and how much was verified. */
struct chk {
    const char *name;
    const char *about;
    const struct chk_option *options;
    int thread_level; /* MPI_THREAD_...: what the program needs */
    int rank;
    int size;
    uint64_t iterations;
    uint64_t max_size; /* bytes */
    uint64_t seed;
    uint64_t timeout;  /* seconds without progress report; 0: none */
    uint64_t counters; /* print the transport's counters at the end */
    uint64_t messages; /* verified by this rank */
    uint64_t bytes;    /* verified by this rank */
    char where[200];   /* what this rank is doing, for the report of a hang */
};

/* The one instance; each program is one translation unit. */
static struct chk chk;

/* ---- reports ---------------------------------------------------------------------------- */

static inline void chk_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* Prints one line and ends the whole job with a non-zero status. */
static inline void chk_fail(const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    printf("FAIL %s: rank %d: %s (%s)\n", chk.name, chk.rank, line, chk.where);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

/* Says what comes next; also feeds the watchdog. */
static inline void chk_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void chk_step(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(chk.where, sizeof(chk.where), format, args);
    va_end(args);
    if (chk.timeout != 0) {
        alarm((unsigned)chk.timeout);
    }
}

/* Only async-signal-safe calls: the rank may hang inside malloc or MPI. */
static inline void chk_on_alarm(int signal_number)
{
    static const char head[] = "FAIL hang: ";
    static const char middle[] = ": no progress in: ";
    (void)signal_number;
    ssize_t ignored = write(STDOUT_FILENO, head, sizeof(head) - 1);
    ignored = write(STDOUT_FILENO, chk.name, strlen(chk.name));
    ignored = write(STDOUT_FILENO, middle, sizeof(middle) - 1);
    ignored = write(STDOUT_FILENO, chk.where, strlen(chk.where));
    ignored = write(STDOUT_FILENO, "\n", 1);
    (void)ignored;
    _exit(3);
}

/* ---- options ---------------------------------------------------------------------------- */

static inline void chk_usage(FILE *out)
{
    fprintf(out, "Usage: %s [options]\n%s\n\n", chk.name, chk.about);
    fprintf(out, "  %-22s rounds of the test (default %llu)\n", "--iterations N",
            (unsigned long long)chk.iterations);
    fprintf(out, "  %-22s largest message (default %llu; K, M, G suffixes)\n", "--max-size BYTES",
            (unsigned long long)chk.max_size);
    fprintf(out, "  %-22s seed of patterns and choices (default %llu)\n", "--seed N",
            (unsigned long long)chk.seed);
    fprintf(out, "  %-22s give up on a rank that stands still so long; 0: never (default %d)\n",
            "--timeout SECONDS", CHK_DEFAULT_TIMEOUT);
    fprintf(out, "  %-22s print what the transport counted, summed over the ranks\n", "--counters");
    for (const struct chk_option *o = chk.options; o != NULL && o->name != NULL; o++) {
        char text[64];
        snprintf(text, sizeof(text), "%s%s", o->name, o->is_flag ? "" : " N");
        fprintf(out, "  %-22s %s (default %llu)\n", text, o->help, (unsigned long long)*o->value);
    }
    fprintf(out, "\nPrints PASS, or one line that says what differed, and exits non-zero.\n");
}

/* Decimal or 0x number with an optional K, M or G; returns 0 when the text is no such number. */
static inline int chk_parse_number(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *text == '-') {
        return 0;
    }
    int shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    if (shift != 0) {
        end++;
    }
    if (*end != '\0' || (number << shift) >> shift != number) {
        return 0;
    }
    *value = (uint64_t)number << shift;
    return 1;
}

static inline void chk_parse(int argc, char **argv)
{
    const struct chk_option common[] = {
        {"--iterations", NULL, &chk.iterations, 0},
        {"--max-size", NULL, &chk.max_size, 0},
        {"--seed", NULL, &chk.seed, 0},
        {"--timeout", NULL, &chk.timeout, 0},
        {"--counters", NULL, &chk.counters, 1},
        {NULL, NULL, NULL, 0},
    };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            chk_usage(stdout);
            exit(0);
        }
        const struct chk_option *found = NULL;
        for (const struct chk_option *o = common; found == NULL && o->name != NULL; o++) {
            found = strcmp(o->name, argv[i]) == 0 ? o : NULL;
        }
        for (const struct chk_option *o = chk.options;
             found == NULL && o != NULL && o->name != NULL; o++) {
            found = strcmp(o->name, argv[i]) == 0 ? o : NULL;
        }
        if (found == NULL) {
            fprintf(stderr, "%s: unknown option %s\n", chk.name, argv[i]);
            exit(2);
        }
        if (found->is_flag) {
            *found->value = 1;
        } else if (i + 1 >= argc || !chk_parse_number(argv[++i], found->value)) {
            fprintf(stderr, "%s: %s needs a number\n", chk.name, found->name);
            exit(2);
        }
    }
}

/* Options first, so that --help works without a launcher; then MPI. */
static inline void chk_begin(int *argc, char ***argv, const struct chk *defaults)
{
    chk = *defaults;
    chk.seed = chk.seed != 0 ? chk.seed : 1;
    chk.timeout = CHK_DEFAULT_TIMEOUT;
    chk_parse(*argc, *argv);
    signal(SIGALRM, chk_on_alarm);
    chk_step("MPI_Init");
    int provided = 0;
    MPI_Init_thread(argc, argv, chk.thread_level, &provided);
    if (provided < chk.thread_level) {
        chk_fail("this MPI has not got the thread level that is needed");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &chk.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &chk.size);
    if (chk.counters) {
        counters_start();
    }
    chk_step("start");
}

static inline void chk_need_ranks(int least)
{
    if (chk.size < least) {
        chk_fail("needs at least %d ranks, has %d", least, chk.size);
    }
}

/* Ends a program whose ranks all arrive here; rank 0 speaks for all. */
static inline int chk_end(void)
{
    uint64_t mine[2] = {chk.messages, chk.bytes};
    uint64_t all[2] = {0, 0};
    chk_step("final reduction");
    MPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (chk.counters) {
        counters_print(chk.rank, MPI_COMM_WORLD);
    }
    chk_step("MPI_Finalize");
    MPI_Finalize();
    alarm(0);
    if (chk.rank == 0) {
        printf("PASS %s: %d ranks, %llu messages, %llu bytes verified\n", chk.name, chk.size,
               (unsigned long long)all[0], (unsigned long long)all[1]);
        fflush(stdout);
    }
    return 0;
}

/* ---- seeded choices --------------------------------------------------------------------- */

/* The mixing step of splitmix64: every input bit reaches every output bit. */
static inline uint64_t chk_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static inline uint64_t chk_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15U;
    return chk_mix(*state);
}

/* A number in [0, limit); the bias of the remainder does not matter for tests. */
static inline uint64_t chk_random_below(uint64_t *state, uint64_t limit)
{
    return limit == 0 ? 0 : chk_random(state) % limit;
}

/* ---- patterns --------------------------------------------------------------------------- */

static inline uint64_t chk_key(int sender, int receiver, int tag, uint64_t salt)
{
    uint64_t ends = ((uint64_t)(uint32_t)sender << 32) | (uint32_t)receiver;
    return chk_mix(chk_mix(chk_mix(ends + 1) + (uint32_t)tag) + salt * 0x9e3779b97f4a7c15U +
                   chk.seed);
}

/* Eight pattern bytes at 8 * index. */
static inline uint64_t chk_word(uint64_t key, uint64_t index)
{
    uint64_t x = (key + index) * 0x9e3779b97f4a7c15U;
    return x ^ (x >> 29);
}

static inline unsigned char chk_byte(uint64_t key, uint64_t offset)
{
    return (unsigned char)(chk_word(key, offset / 8) >> (8 * (offset % 8)));
}

/* Fills with the pattern's bytes [offset, offset + length); words are laid out low byte first. */
static inline void chk_fill_at(void *buffer, size_t length, uint64_t key, uint64_t offset)
{
    unsigned char *bytes = buffer;
    size_t i = 0;
    while (i < length && (offset + i) % 8 != 0) {
        bytes[i] = chk_byte(key, offset + i);
        i++;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; i + 8 <= length; i += 8) {
        uint64_t word = chk_word(key, (offset + i) / 8);
        memcpy(bytes + i, &word, 8);
    }
#endif
    for (; i < length; i++) {
        bytes[i] = chk_byte(key, offset + i);
    }
}

static inline void chk_fill(void *buffer, size_t length, uint64_t key)
{
    chk_fill_at(buffer, length, key, 0);
}

/* Index of the first byte that is not the pattern's, or length. */
static inline size_t chk_first_difference(const void *buffer, size_t length, uint64_t key,
                                          uint64_t offset)
{
    const unsigned char *bytes = buffer;
    size_t i = 0;
    while (i < length && (offset + i) % 8 != 0) {
        if (bytes[i] != chk_byte(key, offset + i)) {
            return i;
        }
        i++;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        if (word != chk_word(key, (offset + i) / 8)) {
            break;
        }
    }
#endif
    while (i < length && bytes[i] == chk_byte(key, offset + i)) {
        i++;
    }
    return i;
}

/* Verifies the bytes of one message (or of one piece at `offset` of it) and reports the first
 * wrong byte with the extent of the damage. */
static inline void chk_verify_at(const void *buffer, size_t length, int sender, int tag,
                                 uint64_t key, uint64_t offset)
{
    size_t first = chk_first_difference(buffer, length, key, offset);
    if (first < length) {
        const unsigned char *bytes = buffer;
        size_t wrong = 0;
        size_t last = first;
        for (size_t i = first; i < length; i++) {
            if (bytes[i] != chk_byte(key, offset + i)) {
                wrong++;
                last = i;
            }
        }
        chk_fail("from peer %d, tag %d, size %zu: offset %llu: expected 0x%02x, got 0x%02x; "
                 "%zu bytes wrong up to offset %llu",
                 sender, tag, length, (unsigned long long)(offset + first),
                 chk_byte(key, offset + first), bytes[first], wrong,
                 (unsigned long long)(offset + last));
    }
    chk.bytes += length;
}

/* A message from `sender` to this rank, filled by chk_fill_to() at the other end. */
static inline void chk_verify_from(const void *buffer, size_t length, int sender, int tag,
                                   uint64_t salt)
{
    chk_verify_at(buffer, length, sender, tag, chk_key(sender, chk.rank, tag, salt), 0);
    chk.messages++;
}

static inline void chk_fill_to(void *buffer, size_t length, int receiver, int tag, uint64_t salt)
{
    chk_fill(buffer, length, chk_key(chk.rank, receiver, tag, salt));
}

/* The status of a receive must name the message that was expected. */
static inline void chk_verify_status(MPI_Status *status, int sender, int tag, size_t length)
{
    MPI_Count count = 0;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    if (status->MPI_SOURCE != sender || status->MPI_TAG != tag || (size_t)count != length) {
        chk_fail("status says source %d, tag %d, %lld bytes; expected %d, %d, %zu",
                 status->MPI_SOURCE, status->MPI_TAG, (long long)count, sender, tag, length);
    }
}

/* ---- buffers ---------------------------------------------------------------------------- */

static inline void *chk_malloc(size_t length)
{
    void *memory = malloc(length != 0 ? length : 1);
    if (memory == NULL) {
        chk_fail("no memory for %zu bytes", length);
    }
    return memory;
}

/* A buffer between guards; free it with chk_free(), which needs the same length. */
static inline void *chk_alloc(size_t length)
{
    unsigned char *memory = chk_malloc(length + 2 * (size_t)CHK_GUARD);
    memset(memory, CHK_GUARD_BYTE, CHK_GUARD);
    memset(memory + CHK_GUARD, CHK_POISON_BYTE, length);
    memset(memory + CHK_GUARD + length, CHK_GUARD_BYTE, CHK_GUARD);
    return memory + CHK_GUARD;
}

static inline void chk_poison(void *buffer, size_t length)
{
    memset(buffer, CHK_POISON_BYTE, length);
}

/* Bytes that no transfer may touch still hold `value`. */
static inline void chk_untouched(const void *buffer, size_t length, unsigned char value,
                                 const char *what)
{
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != value) {
            chk_fail("%s: byte %zu of %zu was overwritten: expected 0x%02x, got 0x%02x", what, i,
                     length, value, bytes[i]);
        }
    }
}

static inline void chk_guards(const void *buffer, size_t length)
{
    const unsigned char *bytes = buffer;
    chk_untouched(bytes - CHK_GUARD, CHK_GUARD, CHK_GUARD_BYTE, "guard before the buffer");
    chk_untouched(bytes + length, CHK_GUARD, CHK_GUARD_BYTE, "guard after the buffer");
}

static inline void chk_free(void *buffer, size_t length)
{
    chk_guards(buffer, length);
    free((unsigned char *)buffer - CHK_GUARD);
}

#endif
