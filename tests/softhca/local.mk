# Build rules of tests/softhca/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

# What the device library and its control program share: the segment, the fabric, faults.
noinst_LTLIBRARIES += libsofthca_core.la
libsofthca_core_la_SOURCES = \
	tests/softhca/shm_format.h tests/softhca/softhca.h \
	tests/softhca/fault.h tests/softhca/fault_rule.h \
	tests/softhca/shm_dir.h tests/softhca/shm.c tests/softhca/shm_clean.c \
	tests/softhca/lock.c tests/softhca/heap.c \
	tests/softhca/reap.c tests/softhca/fabric.c tests/softhca/fabric_change.c \
	tests/softhca/conf.h tests/softhca/conf.c tests/softhca/conf_value.c tests/softhca/conf_port.c \
	tests/softhca/evsend.c tests/softhca/misc.c \
	tests/softhca/fault.c tests/softhca/fault_rule.c
libsofthca_core_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

# Loaded with LD_PRELOAD in front of libibverbs, so its symbols carry no version.
noinst_LTLIBRARIES += libsofthca.la
libsofthca_la_SOURCES = \
	tests/softhca/verbs_impl.h tests/softhca/exec.h \
	tests/softhca/attach.c tests/softhca/ctl_dev.c tests/softhca/ctl_qp.c \
	tests/softhca/qp_state.c tests/softhca/ctl_cq.c tests/softhca/ctl_mr.c \
	tests/softhca/ctl_misc.c tests/softhca/sq_post.c tests/softhca/exec_common.c tests/softhca/exec_mem.c \
	tests/softhca/exec_rc.c tests/softhca/exec_ud.c tests/softhca/deliver.c \
	tests/softhca/fault_hooks.c tests/softhca/rq.c tests/softhca/cq.c tests/softhca/cq_ex.c \
	tests/softhca/event.c \
	tests/softhca/helper.c tests/softhca/qp_ex.c \
	tests/softhca/env.h tests/softhca/env.c tests/softhca/env_dir.c \
	tests/softhca/sysfs.h tests/softhca/sysfs.c
libsofthca_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libsofthca_la_LDFLAGS = $(AM_LDFLAGS) $(VRB_NOINST_MODULE_FLAGS)
libsofthca_la_LIBADD = libsofthca_core.la -lpthread -ldl

noinst_PROGRAMS += softhca-ctl
softhca_ctl_SOURCES = tests/softhca/softhca_ctl.c tests/softhca/show.h tests/softhca/show.c
softhca_ctl_LDADD = libsofthca_core.la -lpthread

# Plain verbs: group softhca-wr runs it on both devices.
noinst_PROGRAMS += softhca_wr_test
softhca_wr_test_SOURCES = tests/softhca/wr_test.c
softhca_wr_test_LDADD = $(IBVERBS_LIBS)

# Conformance programs, plain verbs too: group softhca runs them.
softhca_t_common = tests/softhca/t_common.h tests/softhca/t_common.c
noinst_PROGRAMS += softhca_t_semantics softhca_t_control softhca_t_ud softhca_t_peers \
	softhca_t_threads softhca_t_reach softhca_t_early softhca_t_faults softhca_t_fork
softhca_t_semantics_SOURCES = tests/softhca/t_semantics.c $(softhca_t_common)
softhca_t_semantics_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_control_SOURCES = tests/softhca/t_control.c $(softhca_t_common)
softhca_t_control_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_ud_SOURCES = tests/softhca/t_ud.c $(softhca_t_common)
softhca_t_ud_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_peers_SOURCES = tests/softhca/t_peers.c $(softhca_t_common)
softhca_t_peers_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_threads_SOURCES = tests/softhca/t_threads.c $(softhca_t_common)
softhca_t_threads_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_reach_SOURCES = tests/softhca/t_reach.c $(softhca_t_common)
softhca_t_reach_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_early_SOURCES = tests/softhca/t_early.c $(softhca_t_common)
softhca_t_early_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_faults_SOURCES = tests/softhca/t_faults.c $(softhca_t_common)
softhca_t_faults_LDADD = $(IBVERBS_LIBS) -lpthread
softhca_t_fork_SOURCES = tests/softhca/t_fork.c $(softhca_t_common)
softhca_t_fork_LDADD = $(IBVERBS_LIBS) -lpthread

if VRB_CMOCKA
check_PROGRAMS += softhca_fault_test
TESTS += softhca_fault_test
softhca_fault_test_SOURCES = tests/softhca/fault_test.c tests/softhca/fault.c \
	tests/softhca/fault_rule.c
softhca_fault_test_LDADD = $(CMOCKA_LIBS) -lpthread
endif

EXTRA_DIST += tests/softhca/soft-roce.ini
