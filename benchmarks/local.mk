# Build rules of benchmarks/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

noinst_PROGRAMS += benchmarks/vrb_pingpong benchmarks/vrb_memory benchmarks/vrb_instructions \
	benchmarks/vrb_peers benchmarks/vrb_bench
check_PROGRAMS += benchmarks/vrb_bench_corrupted
noinst_LTLIBRARIES += benchmarks/libbench.la

VRB_BENCH_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)

# What the programs share. libtool makes a static library of it.
benchmarks_libbench_la_SOURCES = \
	benchmarks/bench_coll.c benchmarks/bench_coll.h \
	benchmarks/bench_options.c benchmarks/bench_options.h \
	benchmarks/bench_overlap.c \
	benchmarks/bench_p2p.c benchmarks/bench_p2p.h \
	benchmarks/bench_pattern.c benchmarks/bench_pattern.h \
	benchmarks/bench_pt2pt.c \
	benchmarks/bench_report.c \
	benchmarks/bench_rma.c \
	benchmarks/bench_startup.c \
	benchmarks/bench_stats.c benchmarks/bench_stats.h \
	benchmarks/bench_suite.h \
	benchmarks/bench_table.c benchmarks/bench_table.h \
	benchmarks/bench_threads.c
benchmarks_libbench_la_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_libbench_la_CFLAGS = $(AM_CFLAGS) -pthread

# The suite: one program, and a link to it under the name of each benchmark.
benchmarks_vrb_bench_SOURCES = benchmarks/vrb_bench.c
benchmarks_vrb_bench_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_bench_LDADD = benchmarks/libbench.la $(MPI_LIBS) -lpthread

VRB_BENCH_NAMES = \
	latency multi_lat latency_mt bw bibw mbw_mr \
	put_latency get_latency acc_latency get_acc_latency fop_latency cas_latency \
	put_bw get_bw put_bibw \
	barrier bcast reduce allreduce gather allgather scatter alltoall \
	ibarrier ibcast ireduce iallreduce igather iallgather iscatter ialltoall isend \
	init first_message

benchmarks/.links: benchmarks/vrb_bench$(EXEEXT)
	@for name in $(VRB_BENCH_NAMES); do \
	    rm -f benchmarks/vrb_$$name && $(LN_S) vrb_bench$(EXEEXT) benchmarks/vrb_$$name || exit 1; \
	done
	@touch $@

all-local: benchmarks/.links
clean-local:
	-for name in $(VRB_BENCH_NAMES); do rm -f benchmarks/vrb_$$name; done
CLEANFILES += benchmarks/.links

# The same over an MPI that spoils one byte of what arrives: validation must find it.
benchmarks_vrb_bench_corrupted_SOURCES = benchmarks/vrb_bench.c benchmarks/corrupting_mpi.c
benchmarks_vrb_bench_corrupted_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_bench_corrupted_LDADD = benchmarks/libbench.la $(MPI_LIBS) -lpthread

benchmarks_vrb_pingpong_SOURCES = benchmarks/vrb_pingpong.c
benchmarks_vrb_pingpong_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_pingpong_LDADD = benchmarks/libbench.la $(MPI_LIBS)

benchmarks_vrb_memory_SOURCES = benchmarks/vrb_memory.c
benchmarks_vrb_memory_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_memory_LDADD = $(MPI_LIBS)

benchmarks_vrb_instructions_SOURCES = benchmarks/vrb_instructions.c
benchmarks_vrb_instructions_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_instructions_LDADD = $(MPI_LIBS)

benchmarks_vrb_peers_SOURCES = benchmarks/vrb_peers.c
benchmarks_vrb_peers_LDADD = libvrb.la $(IBVERBS_LIBS)

EXTRA_DIST += \
	benchmarks/compare benchmarks/compare_measure.py benchmarks/compare_report.py \
	benchmarks/compare_html.py benchmarks/compare_plot.py \
	benchmarks/compare_kernel benchmarks/kernel_round \
	benchmarks/instruction_count.py benchmarks/instructions benchmarks/instructions.txt
