# Build rules of tools/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

EXTRA_DIST += \
	tools/build.sh tools/check-docs.py tools/check-style.sh tools/install-packages.sh tools/into-ompi-tree tools/ompi-tree \
	tools/md2man.py tools/packages.txt

# What users run.
bin_PROGRAMS += tools/verbs_info tools/verbs_stat
dist_man_MANS = tools/verbs_info.1 tools/verbs_stat.1 docs/mca_btl_verbs.7
noinst_HEADERS += tools/info.h tools/output.h tools/stat.h tools/trouble.h
tools_verbs_info_SOURCES = tools/output.c tools/trouble.c tools/verbs_info.c tools/verbs_info_check.c tools/verbs_info_dcb.c \
	tools/verbs_info_json.c tools/verbs_info_pair.c tools/verbs_info_peer.c \
	tools/verbs_info_text.c
tools_verbs_info_LDADD = libvrb.la $(IBVERBS_LIBS)
tools_verbs_stat_SOURCES = tools/output.c tools/trouble.c tools/verbs_stat.c tools/verbs_stat_hw.c \
	tools/verbs_stat_read.c tools/verbs_stat_show.c
tools_verbs_stat_LDADD = libvrb.la $(IBVERBS_LIBS)

# The man page of the parameters is the page of docs/ in another form, kept in the repository so that
# building needs no Python. The group style tells when it is out of date.
man:
	$(srcdir)/tools/md2man.py mca_btl_verbs 7 "Open MPI" \
	    "native RDMA transport of Open MPI over InfiniBand and RoCEv2" \
	    <$(srcdir)/docs/parameters.md >$(srcdir)/docs/mca_btl_verbs.7.new
	mv $(srcdir)/docs/mca_btl_verbs.7.new $(srcdir)/docs/mca_btl_verbs.7
.PHONY: man
