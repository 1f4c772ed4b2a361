# Build rules of component/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

component_LTLIBRARIES += mca_btl_verbs.la

mca_btl_verbs_la_SOURCES = \
	component/btl_verbs.h component/btl_verbs_compat.h \
	component/btl_verbs_atomic.c component/btl_verbs_component.c component/btl_verbs_error.c \
	component/btl_verbs_heap.c \
	component/btl_verbs_map.c \
	component/btl_verbs_memory.c component/btl_verbs_memory_report.c \
	component/btl_verbs_modex.c component/btl_verbs_module.c \
	component/btl_verbs_params.c component/btl_verbs_proc.c component/btl_verbs_pvars.c \
	component/btl_verbs_rdma.c component/btl_verbs_recv.c component/btl_verbs_send.c \
	component/btl_verbs_summary.c component/btl_verbs_text.c component/btl_verbs_watch.c
mca_btl_verbs_la_CPPFLAGS = $(VRB_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_btl_verbs_la_CFLAGS = $(VRB_CFLAGS)
# Open MPI loads components with their symbols global, so only one may show.
mca_btl_verbs_la_LDFLAGS = $(VRB_LDFLAGS) $(VRB_MODULE_FLAGS) \
	-export-symbols-regex '^mca_btl_verbs_component$$'
mca_btl_verbs_la_LIBADD = libvrb.la $(OMPI_LIBS) $(IBVERBS_LIBS)
