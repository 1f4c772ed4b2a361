#!/bin/bash
# group: the component compiles against the headers of the coming Open MPI (6.0), where Debian has them
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
#
# The headers are those of Debian's development suite (packages libopenmpi-dev and libpmix-dev, which
# are unpacked into the cache and never installed). They lack some headers that they include, as those
# of 5.0 do; the ones in the root of the kernel bed's Debian 13 stand in for these.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/lib.sh
. "$TOP/tests/kernel/lib.sh"

tap_have apt-get dpkg-deb "${CC:-cc}" || tap_skip_all "no apt here"
root=$("$TOP/tests/kernel/get-root" --no-make 13 2>/dev/null) ||
    tap_skip_all "no root of Debian 13 in the cache (tests/kernel/get-root 13 makes one)"
mirror=$(kbed_mirror 2>/dev/null) || tap_skip_all "no Debian mirror in this machine's apt sources"
headers=$VRB_CACHE/ompi-next

# Nothing of the machine's own apt is read or written but its keys.
download() {
    local apt=$1/apt signed='' keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$apt"/{lists/partial,cache/archives/partial} && : >"$apt/status" || return 1
    [ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
    echo "deb $signed$mirror sid main" >"$apt/sources.list"
    local options=(-q -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status"
        -o Dir::Cache="$apt/cache" -o Dir::Etc::SourceList="$apt/sources.list"
        -o Dir::Etc::SourceParts=/nonexistent -o Dir::Etc::Preferences=/nonexistent
        -o Dir::Etc::PreferencesParts=/nonexistent -o Acquire::Languages=none
        -o APT::Sandbox::User=root -o Acquire::Retries=2)
    apt-get "${options[@]}" update && cd "$apt" &&
        apt-get "${options[@]}" download libopenmpi-dev libpmix-dev || return 1
    for package in "$apt"/*.deb; do
        dpkg-deb -x "$package" "$1/root" || return 1
    done
    dpkg-deb -f "$apt"/libopenmpi-dev_*.deb Version >"$1/version" && rm -rf "$apt"
}
if [ ! -e "$headers/version" ]; then
    rm -rf "$headers" "$headers.new"
    mkdir -p "$headers.new" || exit 1
    tap_limit 240 download "$headers.new" >"$TAP_TMP/download" 2>&1 ||
        tap_skip_all "no headers from the mirror: $(grep -v '^$' "$TAP_TMP/download" | tail -n 1)"
    mv "$headers.new" "$headers" || exit 1
fi
version=$(cat "$headers/version")
include=$(find "$headers/root" -name opal_config.h -printf '%h\n' | head -n 1)
pmix=$(find "$headers/root" -name pmix.h -printf '%h\n' | head -n 1)
if [ -z "$include" ] || [ -z "$pmix" ]; then
    tap_skip_all "the packages of Open MPI $version hold no opal_config.h or no pmix.h"
fi

# As it is built inside its source tree: there the version is that of opal_config.h.
tree=$TAP_TMP/tree
mkdir -p "$tree/opal/mca/btl" && : >"$tree/opal/mca/btl/btl.h" &&
    sed -n 's/^#define OPAL_\(MAJOR\|MINOR\|RELEASE\)_VERSION \([0-9]*\)/\L\1\E=\2/p' \
        "$include/opal_config.h" >"$tree/VERSION" || exit 1
tap_run "into-ompi-tree takes Open MPI $version" 20 "$TOP/tools/into-ompi-tree" "$tree"
cd "$tree/opal/mca/btl/verbs" || exit 1
compile() {
    local file status=0
    for file in component/*.c shared/*/*.c; do
        "${CC:-cc}" -fsyntax-only -Wall -Wextra -Werror -D_GNU_SOURCE -I. -Ishared -Icomponent \
            -isystem "$include" -isystem "$pmix" -isystem "$root/usr/src/openmpi" "$file" || status=1
    done
    return "$status"
}
tap_run "every file compiles against Open MPI $version" 300 compile
tap_done
