/* Performance variables (MPI_T): the core's figures, joined over the rails of the process.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "btl_verbs.h"
#include "rail/vrb_figures.h"

int mca_btl_verbs_rails(struct vrb_rail *rails[VRB_MAX_RAILS])
{
    const struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    int n = 0;

    for (int i = 0; i < c->num_modules; i++) {
        if (c->modules[i] != NULL && c->modules[i]->rail != NULL) { /* not ended */
            rails[n++] = c->modules[i]->rail;
        }
    }
    return n;
}

static int read_pvar(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    struct vrb_rail *rails[VRB_MAX_RAILS];
    int n = mca_btl_verbs_rails(rails);

    (void)obj;
    *(unsigned long long *)value = vrb_figure_value(pvar->ctx, rails, n);
    return OPAL_SUCCESS;
}

void mca_btl_verbs_pvars_register(void)
{
    int n;
    const struct vrb_figure *figures = vrb_figures(&n);

    for (int i = 0; i < n; i++) {
        const struct vrb_figure *f = &figures[i];

        (void)mca_base_component_pvar_register(
            &mca_btl_verbs_component.super.btl_version, f->name, f->help, OPAL_INFO_LVL_4,
            f->kind == VRB_FIGURE_COUNT ? MCA_BASE_PVAR_CLASS_COUNTER : MCA_BASE_PVAR_CLASS_LEVEL,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_pvar, NULL, NULL,
            (void *)(uintptr_t)f);
    }
}
