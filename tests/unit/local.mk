# Build rules of tests/unit/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

# One program per concept; `make check` runs them all.
unit_tests = \
	tests/unit/test_address \
	tests/unit/test_choose \
	tests/unit/test_config \
	tests/unit/test_credit \
	tests/unit/test_explain \
	tests/unit/test_filter \
	tests/unit/test_fit \
	tests/unit/test_gid_table \
	tests/unit/test_hello \
	tests/unit/test_map \
	tests/unit/test_net \
	tests/unit/test_pairs \
	tests/unit/test_pmtu \
	tests/unit/test_reasm \
	tests/unit/test_reliable \
	tests/unit/test_reliable_loss \
	tests/unit/test_reliable_sim \
	tests/unit/test_situations \
	tests/unit/test_statfile \
	tests/unit/test_tcp_address \
	tests/unit/test_ud_wire \
	tests/unit/test_wire \
	tests/unit/test_wireup \
	tests/unit/test_wireup_sim \
	tests/unit/test_recover_sim

if VRB_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif

AM_TESTS_ENVIRONMENT = UNIT_SRCDIR='$(abs_top_srcdir)/tests/unit'; export UNIT_SRCDIR;

unit_libs = libvrb.la $(CMOCKA_LIBS)
unit_headers = tests/unit/unit.h tests/unit/gids.h

reliable_sim = tests/unit/reliable_sim.c tests/unit/reliable_sim.h tests/unit/event_heap.h

tests_unit_test_address_SOURCES = tests/unit/test_address.c $(unit_headers)
tests_unit_test_address_LDADD = $(unit_libs)
tests_unit_test_choose_SOURCES = tests/unit/test_choose.c $(unit_headers)
tests_unit_test_choose_LDADD = $(unit_libs)
tests_unit_test_config_SOURCES = tests/unit/test_config.c $(unit_headers)
tests_unit_test_config_LDADD = $(unit_libs)
tests_unit_test_credit_SOURCES = tests/unit/test_credit.c $(unit_headers)
tests_unit_test_credit_LDADD = $(unit_libs)
tests_unit_test_explain_SOURCES = tests/unit/test_explain.c $(unit_headers)
tests_unit_test_explain_LDADD = $(unit_libs)
tests_unit_test_filter_SOURCES = tests/unit/test_filter.c $(unit_headers)
tests_unit_test_filter_LDADD = $(unit_libs)
tests_unit_test_fit_SOURCES = tests/unit/test_fit.c $(unit_headers)
tests_unit_test_fit_LDADD = $(unit_libs)
tests_unit_test_gid_table_SOURCES = tests/unit/test_gid_table.c $(unit_headers)
tests_unit_test_gid_table_LDADD = $(unit_libs)
tests_unit_test_hello_SOURCES = tests/unit/test_hello.c $(unit_headers)
tests_unit_test_hello_LDADD = $(unit_libs)
tests_unit_test_map_SOURCES = tests/unit/test_map.c $(unit_headers)
tests_unit_test_map_LDADD = $(unit_libs)
tests_unit_test_net_SOURCES = tests/unit/test_net.c $(unit_headers)
tests_unit_test_net_LDADD = $(unit_libs)
tests_unit_test_pairs_SOURCES = tests/unit/test_pairs.c $(unit_headers)
tests_unit_test_pairs_LDADD = $(unit_libs)
tests_unit_test_pmtu_SOURCES = tests/unit/test_pmtu.c $(unit_headers)
tests_unit_test_pmtu_LDADD = $(unit_libs)
tests_unit_test_reasm_SOURCES = tests/unit/test_reasm.c $(unit_headers)
tests_unit_test_reasm_LDADD = $(unit_libs)
tests_unit_test_reliable_SOURCES = tests/unit/test_reliable.c tests/unit/reliable_fixture.h \
	$(unit_headers)
tests_unit_test_reliable_LDADD = $(unit_libs)
tests_unit_test_reliable_loss_SOURCES = tests/unit/test_reliable_loss.c \
	tests/unit/reliable_fixture.h $(unit_headers)
tests_unit_test_reliable_loss_LDADD = $(unit_libs)
tests_unit_test_reliable_sim_SOURCES = tests/unit/test_reliable_sim.c $(reliable_sim) $(unit_headers)
tests_unit_test_reliable_sim_LDADD = $(unit_libs)
tests_unit_test_situations_SOURCES = tests/unit/test_situations.c $(unit_headers)
tests_unit_test_situations_LDADD = $(unit_libs)
tests_unit_test_statfile_SOURCES = tests/unit/test_statfile.c $(unit_headers)
tests_unit_test_statfile_LDADD = $(unit_libs)
tests_unit_test_tcp_address_SOURCES = tests/unit/test_tcp_address.c $(unit_headers)
tests_unit_test_tcp_address_LDADD = $(unit_libs)
tests_unit_test_ud_wire_SOURCES = tests/unit/test_ud_wire.c $(unit_headers)
tests_unit_test_ud_wire_LDADD = $(unit_libs)
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c $(unit_headers)
tests_unit_test_wire_LDADD = $(unit_libs)
tests_unit_test_wireup_SOURCES = tests/unit/test_wireup.c $(unit_headers)
tests_unit_test_wireup_LDADD = $(unit_libs)
tests_unit_test_wireup_sim_SOURCES = tests/unit/test_wireup_sim.c $(unit_headers)
tests_unit_test_wireup_sim_LDADD = $(unit_libs)
tests_unit_test_recover_sim_SOURCES = tests/unit/test_recover_sim.c $(unit_headers)
tests_unit_test_recover_sim_LDADD = $(unit_libs)

EXTRA_DIST += tests/unit/explain.golden tests/fuzz

# Tables of how the reliable datagrams recover, beside go-back-N. Not a test.
noinst_PROGRAMS += tests/unit/reliable_report
tests_unit_reliable_report_SOURCES = tests/unit/reliable_report.c tests/unit/reliable_gbn.c \
	tests/unit/reliable_gbn.h $(reliable_sim)
tests_unit_reliable_report_LDADD = libvrb.la
