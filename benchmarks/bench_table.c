/* Prints results in the columns of the OSU benchmarks, or as one JSON object.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "benchmarks/bench_table.h"

#include <stdio.h>
#include <string.h>

#define SIZE_WIDTH 10 /* as in OSU's tables, which scripts cut by column */
#define FIELD_WIDTH 18

static const char *const tail_names[BENCH_TAILS] = {"P50", "P99", "P99.9"};
static const char *const tail_keys[BENCH_TAILS] = {"p50", "p99", "p999"};

/* In OSU's tables a title stands at the right end of its column, the first one at the left. */
static void print_title(const char *title, int *position)
{
    char text[64];
    if (*position == 0) {
        snprintf(text, sizeof(text), "# %s", title);
        printf("%-*s", SIZE_WIDTH, text);
    } else {
        printf("%*s", FIELD_WIDTH, title);
    }
    (*position)++;
}

void bench_table_begin(const struct bench_table *table, const struct bench_heading *heading)
{
    const struct bench_options *o = table->options;
    if (o->json) {
        printf("{\"benchmark\": \"%s\", \"ranks\": %d, \"pairs\": %d, \"window\": %d, "
               "\"validate\": %s, \"results\": [",
               heading->program, heading->ranks, heading->pairs, o->window,
               o->validate ? "true" : "false");
        return;
    }
    printf("# %s: %s\n%s", heading->program, heading->title,
           heading->note != NULL ? heading->note : "");
    int position = 0;
    if (table->has_size) {
        print_title("Size", &position);
    }
    for (const struct bench_column *c = table->columns; c->title != NULL; c++) {
        if (o->full || !c->full) {
            print_title(c->title, &position);
        }
    }
    if (o->full && table->unit != NULL) {
        for (int i = 0; i < BENCH_TAILS; i++) {
            char text[32];
            snprintf(text, sizeof(text), "%s (%s)", tail_names[i], table->unit);
            print_title(text, &position);
        }
        print_title("Iterations", &position);
    }
    if (o->validate) {
        print_title("Validation", &position);
    }
    printf("\n");
    fflush(stdout);
}

static void print_json(const struct bench_table *table, const struct bench_row *row)
{
    const char *comma = "";
    printf("%s\n {", table->rows > 0 ? "," : "");
    if (table->has_size) {
        printf("\"size\": %zu", row->size);
        comma = ", ";
    }
    for (int i = 0; table->columns[i].title != NULL; i++) {
        printf("%s\"%s\": %.4f", comma, table->columns[i].key, row->figures[i]);
        comma = ", ";
    }
    if (table->unit != NULL) {
        const char *unit = strcmp(table->unit, "us") == 0 ? "us" : "mbps";
        for (int i = 0; i < BENCH_TAILS; i++) {
            printf(", \"%s_%s\": %.4f", tail_keys[i], unit, row->tails[i]);
        }
        printf(", \"iterations\": %zu", row->iterations);
    }
    if (table->options->validate) {
        printf(", \"wrong_bytes\": %lu", row->wrong);
    }
    printf("}");
}

static void print_figure(double value, int *position)
{
    printf("%*.2f", *position == 0 ? SIZE_WIDTH : FIELD_WIDTH, value);
    (*position)++;
}

void bench_table_row(struct bench_table *table, const struct bench_row *row)
{
    const struct bench_options *o = table->options;
    if (o->json) {
        print_json(table, row);
    } else {
        int position = 0;
        if (table->has_size) {
            printf("%-*zu", SIZE_WIDTH, row->size);
            position = 1;
        }
        for (int i = 0; table->columns[i].title != NULL; i++) {
            if (o->full || !table->columns[i].full) {
                print_figure(row->figures[i], &position);
            }
        }
        if (o->full && table->unit != NULL) {
            for (int i = 0; i < BENCH_TAILS; i++) {
                print_figure(row->tails[i], &position);
            }
            printf("%*zu", FIELD_WIDTH, row->iterations);
        }
        if (o->validate) {
            printf("%*s", FIELD_WIDTH, row->wrong == 0 ? "Pass" : "Fail");
        }
        printf("\n");
    }
    table->rows++;
    fflush(stdout);
}

void bench_table_end(const struct bench_table *table, unsigned long wrong)
{
    if (table->options->json) {
        printf("\n]}\n");
    }
    if (wrong > 0) {
        fflush(stdout);
        fprintf(stderr, "validation FAILED: %lu wrong bytes\n", wrong);
    }
}
