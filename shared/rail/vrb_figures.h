/* What a process counts, by name: the one list behind performance variables, files of counters and
 * summaries.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef VRB_FIGURES_H
#define VRB_FIGURES_H

#include <stddef.h>
#include <stdint.h>

struct vrb_rail;

/* How figures of several rails, or of several processes, become one. */
enum vrb_figure_kind {
    VRB_FIGURE_COUNT = 1, /* events since the start: the sum, and there is a rate */
    VRB_FIGURE_LEVEL = 2, /* a state: the sum */
    VRB_FIGURE_LEAST = 3, /* the least of those that are not 0 */
    VRB_FIGURE_MOST = 4,
    VRB_FIGURE_MEAN = 5, /* the mean of those that are not 0 */
};

struct vrb_figure {
    const char *name, *help;
    enum vrb_figure_kind kind;
    size_t first, second; /* fields of struct vrb_stats: the sum of both; of a mean, the quotient */
    int looks;            /* somebody has to look at all peers first */
};

#define VRB_FIGURES_MAX 96

/* The list; *n: how many. */
const struct vrb_figure *vrb_figures(int *n);

/* The figure of n rails (NULL: skipped) now. Looks at their peers if it has to. */
uint64_t vrb_figure_value(const struct vrb_figure *figure, struct vrb_rail *const *rails, int n);

/* All of them, with one look at the peers; values[i] belongs to vrb_figures()[i]. Returns how many.
 */
int vrb_figures_read(struct vrb_rail *const *rails, int n, uint64_t values[VRB_FIGURES_MAX]);

/* Adds a value to what others gave. *seen: of how many it is, 0 at first. A mean is that of the
 * values, whatever stands behind each. Here and not in the source file because it is pure, and that
 * is not. */
static inline uint64_t vrb_figure_join(enum vrb_figure_kind kind, uint64_t sum, uint64_t value,
                                       uint64_t *seen)
{
    switch (kind) {
    case VRB_FIGURE_LEAST:
        return value == 0 || (sum != 0 && sum < value) ? sum : value;
    case VRB_FIGURE_MOST:
        return sum > value ? sum : value;
    case VRB_FIGURE_MEAN:
        if (value == 0) {
            return sum;
        }
        ++*seen;
        /* The mean so far, moved by its share of the difference, which may be negative. */
        return value > sum ? sum + (value - sum) / *seen : sum - (sum - value) / *seen;
    default:
        return sum + value;
    }
}

#endif
