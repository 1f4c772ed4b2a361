/*
 * Fault rules at work: the shared table of rules and counters, and the decision at each hook.
 *
 * Every process keeps its own parsed copy of the rules that concern it. The text and the counters
 * are in the fabric's segment, so softhca-ctl can add rules while processes run and show the hits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fault_rule.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_FREE, SLOT_WRITING, SLOT_USED };
enum { LOCK_TRIES = 20000 };

struct local_rule {
    bool mine;         /* given to this process by shca_fault_add */
    bool active;       /* parsed and in force */
    uint64_t given_ns; /* tells a reused slot */
    uint64_t passes, hits;
    uint64_t rng;
    struct shca_fault_rule rule;
};

static struct shca_fault_shared no_table;
static struct local_rule local[SHCA_FAULT_RULES];
static uint64_t process_seed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct shca_fault_shared *shca_fault_table = &no_table;
_Atomic uint32_t shca_fault_epoch;
_Atomic uint64_t shca_fault_mask;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014): any seed will do, one word of state. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t next_random(uint64_t *state)
{
    return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* ---- the table ---- */

/* The lock word holds the owner's pid, so that a lock left by a dead process can be taken over. */
static bool lock_table(struct shca_fault_shared *table)
{
    uint32_t me = (uint32_t)getpid();

    for (int i = 0; i < LOCK_TRIES; i++) {
        uint32_t owner = 0;

        if (atomic_compare_exchange_strong(&table->lock, &owner, me)) {
            return true;
        }
        if (i % 100 == 99 && kill((pid_t)owner, 0) != 0 && errno == ESRCH &&
            atomic_compare_exchange_strong(&table->lock, &owner, me)) {
            return true;
        }
        sched_yield();
    }
    return false;
}

static void unlock_table(struct shca_fault_shared *table)
{
    atomic_fetch_add(&table->epoch, 1);
    atomic_store(&table->lock, 0);
}

/* The slot's text is shared memory: take a bounded copy before looking at it. */
static void slot_text(const struct shca_fault_slot *slot, char text[SHCA_FAULT_TEXT])
{
    memcpy(text, slot->text, SHCA_FAULT_TEXT);
    text[SHCA_FAULT_TEXT - 1] = '\0';
}

/* Brings the parsed copies up to date with the table; mutex held. */
static void refresh(void)
{
    struct shca_fault_shared *table = shca_fault_table;
    uint32_t epoch = atomic_load(&table->epoch);
    uint64_t mask = 0;

    for (int i = 0; i < SHCA_FAULT_RULES; i++) {
        struct shca_fault_slot *slot = &table->slot[i];
        struct local_rule *own = &local[i];
        char text[SHCA_FAULT_TEXT], words[SHCA_FAULT_TEXT];
        const char *p = text;

        if (atomic_load(&slot->state) != SLOT_USED) {
            own->active = own->mine = false;
            continue;
        }
        if (own->active && own->given_ns != slot->given_ns) {
            own->active = false;
        }
        if (!own->active && (own->mine || atomic_load(&slot->origin))) {
            slot_text(slot, text);
            if (shca_fault_parse(&p, &own->rule, words, NULL, 0) == 1) {
                own->active = true;
                own->given_ns = slot->given_ns;
                own->passes = own->hits = 0;
                own->rng = mix(process_seed ^ hash_text(words));
            }
        }
        if (own->active && !own->rule.clocked) {
            mask |= UINT64_C(1) << own->rule.args.point;
        }
    }
    atomic_store(&shca_fault_mask, mask);
    atomic_store(&shca_fault_epoch, epoch);
}

void shca_fault_attach(struct shca_fault_shared *shared, uint64_t seed, uint64_t salt)
{
    pthread_mutex_lock(&mutex);
    shca_fault_table = shared ? shared : &no_table;
    process_seed = mix(seed ^ mix(salt + 1));
    memset(local, 0, sizeof(local));
    refresh();
    pthread_mutex_unlock(&mutex);
}

void shca_fault_detach(void)
{
    shca_fault_attach(NULL, 0, 0);
}

int shca_fault_check(const char *rules, char *err, size_t err_len)
{
    struct shca_fault_rule rule;
    char words[SHCA_FAULT_TEXT];
    int rc;

    do {
        rc = shca_fault_parse(&rules, &rule, words, err, err_len);
    } while (rc > 0);
    return rc;
}

/* A rule given twice is one rule; given again to everyone it starts anew. */
static int known_slot(struct shca_fault_shared *table, const char *words, bool everyone)
{
    for (int i = 0; i < SHCA_FAULT_RULES; i++) {
        struct shca_fault_slot *slot = &table->slot[i];

        if (atomic_load(&slot->state) == SLOT_USED &&
            strncmp(slot->text, words, SHCA_FAULT_TEXT) == 0 &&
            atomic_load(&slot->origin) == everyone) {
            return i;
        }
    }
    return -1;
}

static int free_slot(struct shca_fault_shared *table, int from)
{
    while (from < SHCA_FAULT_RULES && atomic_load(&table->slot[from].state) == SLOT_USED) {
        from++;
    }
    return from;
}

static bool rules_fit(struct shca_fault_shared *table, const char *rules, bool everyone)
{
    struct shca_fault_rule rule;
    char words[SHCA_FAULT_TEXT];
    int i = free_slot(table, 0);

    while (shca_fault_parse(&rules, &rule, words, NULL, 0) > 0) {
        if (known_slot(table, words, everyone) < 0) {
            if (i == SHCA_FAULT_RULES) {
                return false;
            }
            i = free_slot(table, i + 1);
        }
    }
    return true;
}

static void put_rule(struct shca_fault_shared *table, const char *words, bool everyone)
{
    int i = known_slot(table, words, everyone);
    struct shca_fault_slot *slot;

    if (i < 0 || everyone) {
        i = i < 0 ? free_slot(table, 0) : i;
        slot = &table->slot[i];
        atomic_store(&slot->state, SLOT_WRITING);
        memset(slot->text, 0, sizeof(slot->text));
        memcpy(slot->text, words, strlen(words));
        slot->given_ns = now_ns();
        atomic_store(&slot->origin, everyone);
        atomic_store(&slot->passes, 0);
        atomic_store(&slot->hits, 0);
        atomic_store(&slot->state, SLOT_USED);
    }
    local[i].mine = local[i].mine || !everyone;
}

static int table_error(char *err, size_t err_len, const char *why)
{
    if (err_len) {
        snprintf(err, err_len, "fault rules: %s", why);
    }
    return -1;
}

int shca_fault_add(const char *rules, bool everyone, char *err, size_t err_len)
{
    struct shca_fault_shared *table;
    struct shca_fault_rule rule;
    char words[SHCA_FAULT_TEXT];
    int rc = 0;

    if (shca_fault_check(rules, err, err_len)) {
        return -1;
    }
    pthread_mutex_lock(&mutex);
    table = shca_fault_table;
    if (!lock_table(table)) {
        rc = table_error(err, err_len, "the table is locked by another process");
    } else {
        if (!rules_fit(table, rules, everyone)) {
            rc = table_error(err, err_len, "the table is full");
        }
        while (rc == 0 && shca_fault_parse(&rules, &rule, words, NULL, 0) > 0) {
            put_rule(table, words, everyone);
        }
        unlock_table(table);
    }
    refresh();
    pthread_mutex_unlock(&mutex);
    return rc;
}

void shca_fault_remove(int slot)
{
    struct shca_fault_shared *table;

    pthread_mutex_lock(&mutex);
    table = shca_fault_table;
    if (lock_table(table)) {
        for (int i = 0; i < SHCA_FAULT_RULES; i++) {
            if (slot < 0 || slot == i) {
                atomic_store(&table->slot[i].state, SLOT_FREE);
            }
        }
        unlock_table(table);
    }
    refresh();
    pthread_mutex_unlock(&mutex);
}

/* ---- decisions ---- */

static bool same(const char *wanted, const char *have)
{
    return !wanted[0] || (have && strcmp(wanted, have) == 0);
}

static bool matches(const struct shca_fault_rule *rule, const struct shca_fault_site *site)
{
    if (!same(rule->args.host, site->host) || !same(rule->args.dev, site->dev) ||
        !same(rule->peer, site->peer)) {
        return false;
    }
    if ((rule->args.port && rule->args.port != site->port) ||
        (rule->has_qpn && rule->qpn != site->qpn) ||
        (rule->qp_type >= 0 && rule->qp_type != site->qp_type)) {
        return false;
    }
    if (rule->opcodes &&
        (site->op < 1 || site->op > 32 || !(rule->opcodes & (UINT32_C(1) << (site->op - 1))))) {
        return false;
    }
    return site->bytes >= rule->min && site->bytes <= rule->max;
}

static bool selected(struct local_rule *own)
{
    const struct shca_fault_rule *rule = &own->rule;

    if (rule->nth) {
        return own->passes == rule->nth;
    }
    if (rule->every) {
        return own->passes % rule->every == 0;
    }
    /* 53 bits are a double's precision */
    return rule->prob < 0 || (double)(next_random(&own->rng) >> 11) * 0x1p-53 < rule->prob;
}

static bool in_window(const struct local_rule *own, uint64_t now)
{
    const struct shca_fault_rule *rule = &own->rule;
    uint64_t start = own->given_ns + rule->at_ns;

    if (shca_fault_is_action(rule->args.point)) {
        return now >= start; /* for= is the action's own duration */
    }
    return now >= start && (!rule->args.for_ns || now - start < rule->args.for_ns);
}

/* Counts a hit against count=; false if all are used up. */
static bool claim(struct local_rule *own, struct shca_fault_slot *slot)
{
    uint64_t limit = own->rule.count;

    if (limit && own->rule.fabric) {
        uint64_t hits = atomic_load(&slot->hits);

        do {
            if (hits >= limit) {
                return false;
            }
        } while (!atomic_compare_exchange_weak(&slot->hits, &hits, hits + 1));
    } else {
        if (limit && own->hits >= limit) {
            return false;
        }
        atomic_fetch_add(&slot->hits, 1);
    }
    own->hits++;
    return true;
}

static void hit(int i, struct shca_fault_args *args)
{
    enum shca_fault_point point = local[i].rule.args.point;

    atomic_fetch_add(&shca_fault_table->point_hits[point], 1);
    if (args) {
        *args = local[i].rule.args;
        args->rule = i;
    }
}

bool shca_fault_decide(enum shca_fault_point point, const struct shca_fault_site *site,
                       struct shca_fault_args *args)
{
    static const struct shca_fault_site nowhere;
    bool found = false;

    pthread_mutex_lock(&mutex);
    if (atomic_load(&shca_fault_table->epoch) != atomic_load(&shca_fault_epoch)) {
        refresh();
    }
    for (int i = 0; i < SHCA_FAULT_RULES && !found; i++) {
        struct local_rule *own = &local[i];
        struct shca_fault_slot *slot = &shca_fault_table->slot[i];

        if (!own->active || own->rule.clocked || own->rule.args.point != point ||
            !matches(&own->rule, site ? site : &nowhere)) {
            continue;
        }
        if ((own->rule.has_at || own->rule.args.for_ns) && !in_window(own, now_ns())) {
            continue;
        }
        own->passes++;
        atomic_fetch_add(&slot->passes, 1);
        if (selected(own) && claim(own, slot)) {
            hit(i, args);
            found = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

uint64_t shca_fault_next(void)
{
    uint64_t next = UINT64_MAX;

    pthread_mutex_lock(&mutex);
    if (atomic_load(&shca_fault_table->epoch) != atomic_load(&shca_fault_epoch)) {
        refresh();
    }
    for (int i = 0; i < SHCA_FAULT_RULES; i++) {
        struct local_rule *own = &local[i];

        if (own->active && own->rule.clocked &&
            atomic_load(&shca_fault_table->slot[i].hits) < own->rule.count &&
            own->given_ns + own->rule.at_ns < next) {
            next = own->given_ns + own->rule.at_ns;
        }
    }
    pthread_mutex_unlock(&mutex);
    return next;
}

bool shca_fault_due(uint64_t now, struct shca_fault_args *args)
{
    bool found = false;

    pthread_mutex_lock(&mutex);
    if (atomic_load(&shca_fault_table->epoch) != atomic_load(&shca_fault_epoch)) {
        refresh();
    }
    for (int i = 0; i < SHCA_FAULT_RULES && !found; i++) {
        struct local_rule *own = &local[i];

        if (own->active && own->rule.clocked && own->given_ns + own->rule.at_ns <= now &&
            claim(own, &shca_fault_table->slot[i])) {
            hit(i, args);
            found = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}
