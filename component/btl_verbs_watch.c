/* A running process's counters, for others to see (btl_verbs_stats_dir, and the tool verbs_stat).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"
#include "util/vrb_statfile.h"

static struct vrb_statfile file;

static void refresh(void)
{
    struct vrb_rail *rails[VRB_MAX_RAILS];
    uint64_t values[VRB_FIGURES_MAX];
    int n = mca_btl_verbs_rails(rails);

    n = vrb_figures_read(rails, n, values);
    vrb_statfile_write(&file, values, n);
}

bool mca_btl_verbs_watched(void)
{
    const char *dir = mca_btl_verbs_component.params.stats_dir;

    return dir != NULL && dir[0] != '\0';
}

void mca_btl_verbs_watch_start(void)
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    char err[768];
    int n;
    const struct vrb_figure *figures = vrb_figures(&n);

    if (!mca_btl_verbs_watched() || file.map != NULL) {
        return;
    }
    if (vrb_statfile_open(&file, c->params.stats_dir, c->name >> 32, c->name & UINT32_MAX,
                          opal_process_info.nodename, figures, n, err, sizeof(err)) != VRB_OK) {
        mca_btl_verbs_say_here("btl_verbs_stats_dir, host %s: %s: no counters are shown there",
                               opal_process_info.nodename, err);
        return;
    }
    refresh();
}

void mca_btl_verbs_tick(void *ctx, struct vrb_rail *rail)
{
    (void)ctx;
    /* One rail's clock is enough. */
    if (file.map != NULL && rail == mca_btl_verbs_component.rails[0]) {
        refresh();
    }
}

void mca_btl_verbs_watch_stop(void)
{
    if (file.map != NULL) {
        refresh();
        vrb_statfile_close(&file);
    }
}
