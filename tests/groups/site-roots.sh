#!/bin/bash
# group: the Debian package in fresh roots of Debian 12 and 13: install, module, a job, purge (on request)
# timeout: 3600
# packages: packages
# SPDX-License-Identifier: BSD-3-Clause
#
# VRB_SITE_ROOTS=1 runs it, SITE_DEBIANS (12 13) says for which. A root is made by mmdebstrap with
# nothing but the essential packages, from the mirror of this machine's own apt; what apt-get then
# installs is what the package asks for. On another Debian than this machine's the package is built in
# the guests' root (tests/kernel/get-root), under an overlay that goes away with the group.
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../kernel/lib.sh
. "$TOP/tests/kernel/lib.sh"
# shellcheck source=../kernel/group.sh
. "$TOP/tests/kernel/group.sh"

[ "${VRB_SITE_ROOTS:-0}" = 1 ] ||
    tap_skip_all "takes ten minutes and more: run with VRB_SITE_ROOTS=1"
[ "$(id -u)" -eq 0 ] || tap_skip_all "roots are made and entered as root only"
if ! tap_have mmdebstrap; then
    "$TOP/tools/install-packages.sh" kernel >&2
    tap_have mmdebstrap || tap_skip_all "no mmdebstrap here"
fi
mirror=$(kbed_mirror 2>"$TAP_TMP/mirror") || tap_skip_all "$(cat "$TAP_TMP/mirror")"
tap_have dpkg-buildpackage dh || tap_skip_all "debhelper is not installed"
unset MAKEFLAGS MFLAGS
shared=() # folders that a root sees, at their own paths
here=$(sed -n 's/^VERSION_ID=//p' /etc/os-release 2>/dev/null | tr -d '"')

# make_root DEBIAN: a root in $TAP_TMP/DEBIAN.
make_root() {
    local suite signed=''
    suite=$(kbed_suite "$1") || return
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] '
    mmdebstrap --mode=root --variant=minbase --aptopt='Acquire::Languages "none"' \
        "$suite" "$TAP_TMP/$1" "deb $signed$mirror $suite main" </dev/null
}

# in_root ROOT COMMANDS: by bash, in the root; all mounts end with it. With $lower, ROOT is an overlay
# on top of that folder, and what changes goes to ROOT.upper.
in_root() {
    local folder
    for folder in "${shared[@]+"${shared[@]}"}"; do
        mkdir -p "$1$folder"
    done
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private --fork --kill-child bash -c '
        set -eu
        root=$1 commands=$2 lower=$3
        shift 3
        if [ -n "$lower" ]; then
            mount -t overlay -o "lowerdir=$lower,upperdir=$root.upper,workdir=$root.work" none "$root"
        else
            mount --bind "$root" "$root"
        fi
        mount -t tmpfs tmpfs "$root/tmp"
        for folder; do
            mkdir -p "$root$folder"
            mount --bind "$folder" "$root$folder"
        done
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        for file in /etc/resolv.conf /etc/hosts; do
            [ ! -e "$file" ] || cat "$file" >"$root$file"
        done
        exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            bash -c "$commands"' in_root "$1" "$2" "${lower:-}" "${shared[@]+"${shared[@]}"}" </dev/null
}

# build_package DEBIAN: leaves it in $TAP_TMP/deb-DEBIAN.
build_package() {
    local guest=$TAP_TMP/build-$1 out=$TAP_TMP/deb-$1
    mkdir -p "$guest" "$guest".{upper,work} "$out" "$TAP_TMP/dist"
    (cd "$TAP_TMP/dist" && { [ -e Makefile ] || "$TOP/configure" -q --disable-tests; } &&
        make -s dist) || return
    cp "$TAP_TMP"/dist/verbs-*.tar.gz "$out"
    if [ "$1" = "$here" ]; then
        "$TOP/tools/make-deb" "$out"/verbs-*.tar.gz "$out"
        return
    fi
    shared=("$TOP" "$out")
    lower=$("$KBED/get-root" "$1") in_root "$guest" "apt-get -q update && apt-get -qy --no-install-recommends install debhelper \
            libnl-3-dev libnl-route-3-dev pkg-config &&
        OMPI_SOURCE=/usr/src/openmpi '$TOP/tools/make-deb' '$out'/verbs-*.tar.gz '$out'"
}

# files ROOT: all that is there, but for what apt and dpkg keep of their own work.
files() {
    (cd "$1" && find . -xdev ! -path './proc/*' ! -path './var/log/*' ! -path './var/cache/*' \
        ! -path './var/lib/apt/*' ! -path './var/lib/dpkg/*-old' ! -path './var/lib/dpkg/lock*' \
        ! -path './tmp/*' | sort)
}

for debian in ${SITE_DEBIANS:-12 13}; do
    on="Debian $debian"
    if [ "$debian" != "$here" ]; then
        root_needs --softhca "$debian"
    fi
    mapfile -t lines < <("$KBED/build-component" --softhca "$debian" 2>"$TAP_TMP/build.err")
    [ ${#lines[@]} -eq 2 ] || {
        tap_notok "$on: the software HCA is built" "$(tail -n 20 "$TAP_TMP/build.err")"
        continue
    }
    tap_run "$on: make deb" 900 build_package "$debian" || continue
    tap_run "$on: a fresh root" 600 make_root "$debian" || continue
    root=$TAP_TMP/$debian
    mkdir -p "$root/root/deb"
    cp "$TAP_TMP/deb-$debian"/openmpi-verbs_*.deb "$root/root/deb/openmpi-verbs.deb" || continue
    shared=("$TOP" "${lines[0]}")
    case ${lines[0]}/ in "$TOP"/*) shared=("$TOP") ;; esac

    # What the package needs comes first, by apt's own reckoning, so that what is there before and
    # after can be compared.
    # shellcheck disable=SC2016
    tap_run "$on: apt finds what the package needs" 900 in_root "$root" '
        apt-get -q update && apt-get -s install /root/deb/openmpi-verbs.deb environment-modules |
            sed -n "s/^Inst \([^ ]*\) .*/\1/p" | grep -v "^openmpi-verbs$" >/root/needed &&
        grep -q openmpi-bin /root/needed && xargs apt-get -qy install </root/needed' || continue
    files "$root" >"$TAP_TMP/before"
    tap_run "$on: apt-get install ./openmpi-verbs.deb" 300 in_root "$root" \
        'apt-get -qy install /root/deb/openmpi-verbs.deb' || continue
    tap_unlike "$TAP_OUT" '^E:|^W: .*verbs' "$on: without a complaint"
    files "$root" >"$TAP_TMP/installed"
    tap_is "$(comm -13 "$TAP_TMP/before" "$TAP_TMP/installed" | grep -c 'mca_btl_verbs\.so$')" 1 \
        "$on: the component is there"

    tap_run "$on: module load, and what it says" 120 in_root "$root" '
        . /usr/share/modules/init/bash
        module avail verbs; module load verbs && module list &&
            ompi_info --param btl verbs --level 9 | grep btl_verbs_mode && verbs_info --help'
    tap_run "$on: a job without any option" 200 in_root "$root" "
        . /usr/share/modules/init/bash
        module load verbs
        TOP='$TOP' BUILD='${lines[0]}' PREFIX=/nonexistent VRB_TEST_RUN='${VRB_TEST_RUN:-}' \
            '$TOP/tests/lib/vrbrun' --pml none --link roce --timeout 90 --counters /tmp/counters \
            --mca btl_verbs_show_map 1 -- '${lines[0]}/tests/mpi/pingpong' && cat /tmp/counters"
    tap_like "$TAP_OUT" 'map: host node0 rank 0 .*RoCE.* MTU' "$on: it goes over verbs"
    tap_like "$TAP_OUT" '^PASS' "$on: with the right bytes"
    tap_like "$TAP_OUT" '^node0\.shca1\.send [1-9]' "$on: the device counted them"
    tap_run "$on: a program reads the job's counters" 200 in_root "$root" "
        . /usr/share/modules/init/bash
        module load verbs
        TOP='$TOP' BUILD='${lines[0]}' PREFIX=/nonexistent VRB_TEST_RUN='${VRB_TEST_RUN:-}' \
            '$TOP/tests/lib/vrbrun' --pml none --ranks 3 --timeout 90 -- \
            '${lines[0]}/benchmarks/vrb_memory'"

    tap_run "$on: apt-get purge" 120 in_root "$root" 'apt-get -qy purge openmpi-verbs'
    files "$root" >"$TAP_TMP/after"
    tap_is "$(comm -3 "$TAP_TMP/before" "$TAP_TMP/after")" "" "$on: nothing of it is left"
    rm -rf --one-file-system "$root"
done
tap_done
