# Build rules of tools/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

EXTRA_DIST += \
	tools/build.sh tools/check-style.sh tools/install-packages.sh tools/packages.txt
