/* The modex: what each process publishes about its rails, and how others read it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One packed blob per process (shared/address/vrb_address.h); it carries its own version and byte
 * order. */
#include <string.h>

#include "btl_verbs.h"

int mca_btl_verbs_modex_send(void)
{
    struct mca_btl_verbs_component *c = &mca_btl_verbs_component;
    size_t size = vrb_address_packed_max(c->num_modules) + 2 + VRB_TCP_PACKED_MAX;
    uint8_t *blob = malloc(size);
    uint8_t tcp[VRB_TCP_PACKED_MAX];
    struct vrb_rail *rails[VRB_MAX_RAILS];
    int used, extra, i;
    int rc;

    if (blob == NULL) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (i = 0; i < c->num_modules; i++) {
        rails[i] = c->modules[i]->rail;
    }
    used = vrb_address_pack(c->addresses, c->num_modules, blob, size);
    extra = vrb_rail_tcp_pack(rails, c->num_modules, tcp, sizeof(tcp));
    if (used > 0 && extra > 0) {
        used = vrb_address_extra_put(blob, (size_t)used, size, VRB_EXTRA_TCP, tcp, (uint8_t)extra);
    }
    if (used < 0 || extra < 0) {
        free(blob);
        return OPAL_ERROR;
    }
    OPAL_MODEX_SEND(rc, MCA_BTL_VERBS_MODEX_SCOPE, &c->super.btl_version, blob, (size_t)used);
    free(blob);
    return rc;
}

int mca_btl_verbs_modex_recv(struct mca_btl_verbs_proc *proc, const char **why)
{
    const uint8_t *tcp;
    uint8_t *blob = NULL;
    size_t size = 0;
    int rc;
    int n;

    OPAL_MODEX_RECV(rc, &mca_btl_verbs_component.super.btl_version, &proc->opal->proc_name, &blob,
                    &size);
    if (rc != OPAL_SUCCESS || blob == NULL) {
        *why = "it has no usable verbs port";
        return 0;
    }
    n = vrb_address_unpack(blob, size, proc->addresses, why);
    tcp = n > 0 ? vrb_address_extra_get(blob, size, VRB_EXTRA_TCP, &proc->tcp_len) : NULL;
    if (tcp != NULL) {
        memcpy(proc->tcp, tcp, proc->tcp_len);
    } else {
        proc->tcp_len = 0;
    }
    free(blob);
    return n > 0 ? n : 0;
}
