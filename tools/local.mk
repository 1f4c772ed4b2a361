# Build rules of tools/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

EXTRA_DIST += \
	tools/build.sh tools/check-style.sh tools/install-packages.sh tools/into-ompi-tree tools/ompi-tree \
	tools/packages.txt

# What users run.
bin_PROGRAMS += tools/verbs_info
dist_man_MANS = tools/verbs_info.1
noinst_HEADERS += tools/info.h
tools_verbs_info_SOURCES = tools/verbs_info.c tools/verbs_info_check.c tools/verbs_info_dcb.c \
	tools/verbs_info_json.c tools/verbs_info_peer.c tools/verbs_info_text.c
tools_verbs_info_LDADD = libvrb.la $(IBVERBS_LIBS)
