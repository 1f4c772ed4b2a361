# Build rules of benchmarks/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

noinst_PROGRAMS += benchmarks/vrb_pingpong benchmarks/vrb_memory benchmarks/vrb_instructions \
	benchmarks/vrb_peers

VRB_BENCH_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)

benchmarks_vrb_pingpong_SOURCES = \
	benchmarks/vrb_pingpong.c \
	benchmarks/bench_p2p.c benchmarks/bench_p2p.h \
	benchmarks/bench_stats.c benchmarks/bench_stats.h
benchmarks_vrb_pingpong_CPPFLAGS = $(VRB_BENCH_CPPFLAGS)
benchmarks_vrb_pingpong_LDADD = $(MPI_LIBS)

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
	benchmarks/compare_kernel benchmarks/kernel_round \
	benchmarks/instruction_count.py benchmarks/instructions benchmarks/instructions.txt
