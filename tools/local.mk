# Build rules of tools/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause

EXTRA_DIST += tools/packages.txt tools/install-packages.sh tools/check-style.sh
