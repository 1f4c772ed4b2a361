#!/bin/bash
# Makes ./configure from configure.ac; needs autoconf, automake and libtool.
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$(dirname "$0")" || exit 1
for tool in autoreconf automake libtoolize; do
    if ! command -v "$tool" >/dev/null; then
        echo "autogen.sh: $tool not found: install autoconf, automake and libtool" \
             "(the packages have these names on Debian, Ubuntu, RHEL and Fedora)" >&2
        exit 1
    fi
done
exec autoreconf --install --force "$@"
