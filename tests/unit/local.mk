# Build rules of tests/unit/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause
