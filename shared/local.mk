# Build rules of shared/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

# The transport core. Pure parts first (no clock, no verbs call), then those that drive a device.
noinst_LTLIBRARIES += libvrb.la
libvrb_la_LIBADD = $(IBVERBS_LIBS)
libvrb_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libvrb_la_SOURCES = \
	shared/vrb.h \
	shared/address/vrb_address.c \
	shared/address/vrb_address.h \
	shared/address/vrb_ah.c \
	shared/address/vrb_ah.h \
	shared/address/vrb_choose.c \
	shared/address/vrb_choose.h \
	shared/device/vrb_filter.c \
	shared/device/vrb_filter.h \
	shared/device/vrb_port.c \
	shared/device/vrb_query.c \
	shared/device/vrb_query.h \
	shared/dgram/vrb_dgram.c \
	shared/dgram/vrb_dgram.h \
	shared/dgram/vrb_dgram_recv.c \
	shared/dgram/vrb_dgram_send.c \
	shared/dgram/vrb_reasm.c \
	shared/dgram/vrb_reasm.h \
	shared/mem/vrb_memlock.c \
	shared/mem/vrb_memlock.h \
	shared/mem/vrb_mr.c \
	shared/mem/vrb_pool.c \
	shared/mem/vrb_pool.h \
	shared/mem/vrb_region.c \
	shared/mem/vrb_region.h \
	shared/peer/vrb_path.c \
	shared/peer/vrb_path.h \
	shared/peer/vrb_peer.c \
	shared/peer/vrb_peer.h \
	shared/rail/vrb_async.c \
	shared/rail/vrb_progress.c \
	shared/rail/vrb_rail.c \
	shared/rail/vrb_rail.h \
	shared/rc/vrb_credit.h \
	shared/rc/vrb_rc.h \
	shared/rc/vrb_rc_qp.c \
	shared/rc/vrb_rc_rdma.c \
	shared/rc/vrb_rc_recv.c \
	shared/rc/vrb_rc_send.c \
	shared/reliable/vrb_rel.c \
	shared/reliable/vrb_rel.h \
	shared/reliable/vrb_rel_ack.h \
	shared/reliable/vrb_rel_cc.c \
	shared/reliable/vrb_rel_cc.h \
	shared/reliable/vrb_rel_env.c \
	shared/reliable/vrb_rel_loss.c \
	shared/reliable/vrb_rel_loss.h \
	shared/reliable/vrb_rel_num.h \
	shared/reliable/vrb_rel_pool.c \
	shared/reliable/vrb_rel_pool.h \
	shared/reliable/vrb_rel_rtt.c \
	shared/reliable/vrb_rel_rtt.h \
	shared/reliable/vrb_rel_rx.c \
	shared/reliable/vrb_rel_rx.h \
	shared/reliable/vrb_rel_tx.c \
	shared/reliable/vrb_rel_tx.h \
	shared/ud/vrb_ud.c \
	shared/ud/vrb_ud.h \
	shared/ud/vrb_ud_hello.c \
	shared/ud/vrb_ud_hello.h \
	shared/util/vrb_clock.h \
	shared/util/vrb_config.c \
	shared/util/vrb_explain.c \
	shared/util/vrb_explain.h \
	shared/util/vrb_list.h \
	shared/util/vrb_log.c \
	shared/util/vrb_log.h \
	shared/util/vrb_map.c \
	shared/util/vrb_map.h \
	shared/util/vrb_status.h \
	shared/util/vrb_text.c \
	shared/util/vrb_text.h \
	shared/wire/vrb_hello.c \
	shared/wire/vrb_hello.h \
	shared/wire/vrb_ud_wire.c \
	shared/wire/vrb_ud_wire.h \
	shared/wire/vrb_wire.c \
	shared/wire/vrb_wire.h \
	shared/wireup/vrb_wireup.c \
	shared/wireup/vrb_wireup.h
