/* The modex: what each process publishes about its rails, and how others read it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One packed blob per process (shared/address/vrb_address.h); it carries its own version and byte
 * order. */
#include "btl_verbs.h"

int mca_btl_verbs_modex_send(void)
{
    struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    size_t size = vrb_address_packed_max(c->num_modules);
    uint8_t *blob = malloc(size);
    int used;
    int rc;

    if (blob == NULL) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    used = vrb_address_pack(c->addresses, c->num_modules, blob, size);
    if (used < 0) {
        free(blob);
        return OPAL_ERROR;
    }
    OPAL_MODEX_SEND(rc, MCA_BTL_VERBS_MODEX_SCOPE, &c->super.btl_version, blob, (size_t)used);
    free(blob);
    return rc;
}

int mca_btl_verbs_modex_recv(const opal_proc_t *proc, struct vrb_address *addresses,
                             const char **why)
{
    uint8_t *blob = NULL;
    size_t size = 0;
    int rc;
    int n;

    OPAL_MODEX_RECV(rc, &mca_btl_verbs_component.super.btl_version, &proc->proc_name, &blob, &size);
    if (rc != OPAL_SUCCESS || blob == NULL) {
        *why = "it has no usable verbs port";
        return 0;
    }
    n = vrb_address_unpack(blob, size, addresses, why);
    free(blob);
    return n > 0 ? n : 0;
}
