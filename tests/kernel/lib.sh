# shellcheck shell=bash
# What the scripts of the kernel bed share: cache, messages, the Debian mirror, the roots' recipes.
# SPDX-License-Identifier: BSD-3-Clause
#
# Status 77 means "cannot be had here", with the reason on stderr: test groups skip on it.

KBED=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${TOP:=$(cd "$KBED/../.." && pwd)}"
: "${BUILD:=$TOP/_build}"
: "${PREFIX:=$TOP/_inst}"
VRB_CACHE=${VRB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/verbs}
export TOP BUILD PREFIX VRB_CACHE

kbed_name=${0##*/}

kbed_die() {
    echo "$kbed_name: $*" >&2
    exit 1
}

kbed_usage_error() {
    echo "$kbed_name: $*" >&2
    exit 2
}

kbed_unavailable() {
    echo "$kbed_name: $*" >&2
    exit 77
}

kbed_make_cache() {
    mkdir -p "$VRB_CACHE" || kbed_die "cannot make the cache folder $VRB_CACHE"
}

# Waits while another process makes the same thing: kbed_lock NAME holds until this script ends.
kbed_lock() {
    kbed_make_cache
    exec 7>"$VRB_CACHE/$1.lock" || exit 1
    flock -w 1200 7 || kbed_die "$VRB_CACHE/$1.lock is held by another process for 20 minutes"
}

# The Debian mirror that this machine's own apt uses (security archives have no other suites).
# shellcheck disable=SC2016 # apt's own placeholders
kbed_mirror() {
    local mirror
    mirror=${VRB_DEBIAN_MIRROR:-}
    if [ -z "$mirror" ] && command -v apt-get >/dev/null; then
        mirror=$(apt-get indextargets --format '$(SITE)|$(ORIGIN)|$(LABEL)|$(COMPONENT)' \
            'Created-By: Packages' 2>/dev/null | sed -n 's/|Debian|Debian|main$//p' | head -n 1)
        # Without package lists (before the first update) origin and label are not known.
        [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(SITE)|$(COMPONENT)' \
            'Created-By: Packages' 2>/dev/null | sed -n 's/|main$//p' |
            grep '/debian/\{0,1\}$' | head -n 1)
    fi
    [ -n "$mirror" ] || kbed_unavailable "no Debian mirror in this machine's apt sources" \
        "(VRB_DEBIAN_MIRROR names one)"
    echo "$mirror"
}

kbed_suite() {
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    *) kbed_usage_error "--debian is 12 or 13, not '$1'" ;;
    esac
}

# Packages of the root of Debian $1, one a line: see the sections of packages.txt.
kbed_packages() {
    awk -v want=" all $1 " '
        /^\[/ { name = substr($0, 2, length($0) - 2); on = index(want, " " name " "); next }
        /^#/ || /^ *$/ { next }
        on { print $1 }' "$KBED/packages.txt"
}

# A root is known by what it is made of and how.
kbed_root_dir() {
    local hash
    hash=$({ kbed_suite "$1" && kbed_packages "$1" && cat "$KBED/make-root"; } | sha256sum)
    echo "$VRB_CACHE/debian$1-${hash:0:12}"
}
