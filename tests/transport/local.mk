# Build rules of tests/transport/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

# The transport core driven without Open MPI; run over a device by tests/groups/transport.sh.
noinst_PROGRAMS += tests/transport/core_pair
tests_transport_core_pair_SOURCES = tests/transport/core_pair.c
tests_transport_core_pair_LDADD = libvrb.la $(IBVERBS_LIBS)

# A stranger that attacks a job; run by tests/groups/mpi-attack.sh.
noinst_PROGRAMS += tests/transport/hello_attack
tests_transport_hello_attack_SOURCES = tests/transport/hello_attack.c
tests_transport_hello_attack_LDADD = libvrb.la $(IBVERBS_LIBS)
noinst_PROGRAMS += tests/transport/core_lives
tests_transport_core_lives_SOURCES = tests/transport/core_lives.c
tests_transport_core_lives_LDADD = libvrb.la $(IBVERBS_LIBS)

noinst_PROGRAMS += tests/transport/core_crowd
tests_transport_core_crowd_SOURCES = tests/transport/core_crowd.c
tests_transport_core_crowd_LDADD = libvrb.la $(IBVERBS_LIBS)

# Threads that use the same rails; tests/groups/threads.sh builds it again with ThreadSanitizer.
noinst_PROGRAMS += tests/transport/core_threads
tests_transport_core_threads_SOURCES = tests/transport/core_threads.c
tests_transport_core_threads_LDADD = libvrb.la $(IBVERBS_LIBS) -lpthread
