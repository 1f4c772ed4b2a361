# Build rules of tests/mpi/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause
#
# One source file per program, all with the same flags.

noinst_HEADERS += tests/mpi/check.h tests/mpi/counters.h tests/mpi/sizes.h

noinst_PROGRAMS += \
	tests/mpi/collectives \
	tests/mpi/corners \
	tests/mpi/datatypes \
	tests/mpi/flood \
	tests/mpi/forking \
	tests/mpi/incast \
	tests/mpi/inflight \
	tests/mpi/initfini \
	tests/mpi/killed \
	tests/mpi/memory \
	tests/mpi/nullself \
	tests/mpi/onesided \
	tests/mpi/pingpong \
	tests/mpi/random \
	tests/mpi/readonly \
	tests/mpi/sessions \
	tests/mpi/remap \
	tests/mpi/sparse \
	tests/mpi/spawn \
	tests/mpi/storm \
	tests/mpi/threads \
	tests/mpi/ulfm \
	tests/mpi/unexpected

VRB_MPITEST_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)

tests_mpi_collectives_SOURCES = tests/mpi/collectives.c
tests_mpi_collectives_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_collectives_LDADD = $(MPI_LIBS)

tests_mpi_corners_SOURCES = tests/mpi/corners.c
tests_mpi_corners_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_corners_LDADD = $(MPI_LIBS)

tests_mpi_datatypes_SOURCES = tests/mpi/datatypes.c
tests_mpi_datatypes_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_datatypes_LDADD = $(MPI_LIBS)

tests_mpi_flood_SOURCES = tests/mpi/flood.c
tests_mpi_flood_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_flood_LDADD = $(MPI_LIBS)

tests_mpi_forking_SOURCES = tests/mpi/forking.c
tests_mpi_forking_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_forking_LDADD = $(MPI_LIBS)

tests_mpi_incast_SOURCES = tests/mpi/incast.c
tests_mpi_incast_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_incast_LDADD = $(MPI_LIBS)

tests_mpi_inflight_SOURCES = tests/mpi/inflight.c
tests_mpi_inflight_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_inflight_LDADD = $(MPI_LIBS)

tests_mpi_initfini_SOURCES = tests/mpi/initfini.c
tests_mpi_initfini_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_initfini_LDADD = $(MPI_LIBS)

tests_mpi_killed_SOURCES = tests/mpi/killed.c
tests_mpi_killed_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_killed_LDADD = $(MPI_LIBS)

tests_mpi_nullself_SOURCES = tests/mpi/nullself.c
tests_mpi_nullself_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_nullself_LDADD = $(MPI_LIBS)

tests_mpi_onesided_SOURCES = tests/mpi/onesided.c
tests_mpi_onesided_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_onesided_LDADD = $(MPI_LIBS)

tests_mpi_pingpong_SOURCES = tests/mpi/pingpong.c
tests_mpi_pingpong_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_pingpong_LDADD = $(MPI_LIBS)

tests_mpi_random_SOURCES = tests/mpi/random.c
tests_mpi_random_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_random_LDADD = $(MPI_LIBS)

tests_mpi_readonly_SOURCES = tests/mpi/readonly.c
tests_mpi_readonly_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_readonly_LDADD = $(MPI_LIBS)

tests_mpi_remap_SOURCES = tests/mpi/remap.c
tests_mpi_remap_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_remap_LDADD = $(MPI_LIBS)

tests_mpi_sparse_SOURCES = tests/mpi/sparse.c
tests_mpi_sparse_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_sparse_LDADD = $(MPI_LIBS)

tests_mpi_storm_SOURCES = tests/mpi/storm.c
tests_mpi_storm_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_storm_LDADD = $(MPI_LIBS)

tests_mpi_threads_SOURCES = tests/mpi/threads.c
tests_mpi_threads_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_threads_LDADD = $(MPI_LIBS) -lpthread

tests_mpi_unexpected_SOURCES = tests/mpi/unexpected.c
tests_mpi_unexpected_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_unexpected_LDADD = $(MPI_LIBS)

tests_mpi_memory_SOURCES = tests/mpi/memory.c
tests_mpi_memory_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_memory_LDADD = $(MPI_LIBS)

tests_mpi_sessions_SOURCES = tests/mpi/sessions.c
tests_mpi_sessions_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_sessions_LDADD = $(MPI_LIBS)

tests_mpi_spawn_SOURCES = tests/mpi/spawn.c
tests_mpi_spawn_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_spawn_LDADD = $(MPI_LIBS)

tests_mpi_ulfm_SOURCES = tests/mpi/ulfm.c
tests_mpi_ulfm_CPPFLAGS = $(VRB_MPITEST_CPPFLAGS)
tests_mpi_ulfm_LDADD = $(MPI_LIBS)
