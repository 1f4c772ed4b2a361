# Build rules of benchmarks/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

noinst_PROGRAMS += benchmarks/vrb_pingpong

benchmarks_vrb_pingpong_SOURCES = \
	benchmarks/vrb_pingpong.c \
	benchmarks/bench_p2p.c benchmarks/bench_p2p.h \
	benchmarks/bench_stats.c benchmarks/bench_stats.h
benchmarks_vrb_pingpong_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
benchmarks_vrb_pingpong_LDADD = $(MPI_LIBS)

EXTRA_DIST += benchmarks/compare
