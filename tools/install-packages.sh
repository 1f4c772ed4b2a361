#!/bin/bash
# Installs the Debian packages of one or more sections of tools/packages.txt that are missing.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tools/install-packages.sh [--check] SECTION...
#
# With --check it installs nothing: it prints what is missing and exits 1 if anything is.
# It says nothing when nothing is missing. Elsewhere than on Debian and its like it does nothing:
# ./configure then tells what it lacks.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
check=0
sections=()
for arg in "$@"; do
    case $arg in
    --check) check=1 ;;
    -*)
        echo "usage: tools/install-packages.sh [--check] SECTION..." >&2
        exit 2
        ;;
    *) sections+=("$arg") ;;
    esac
done
if [ ${#sections[@]} -eq 0 ]; then
    echo "usage: tools/install-packages.sh [--check] SECTION..." >&2
    exit 2
fi

packages_of() {
    awk -v section="$1" '
        /^# \[/ { in_section = ($2 == "[" section "]"); found += in_section; next }
        /^#/ || /^ *$/ { next }
        in_section { print $1 }
        END { exit !found }' "$here/packages.txt"
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || exit 0

missing=()
for section in "${sections[@]}"; do
    if ! list=$(packages_of "$section"); then
        echo "install-packages.sh: no section [$section] in tools/packages.txt" >&2
        exit 2
    fi
    for package in $list; do
        status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)
        [ "$status" = installed ] || missing+=("$package")
    done
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ $check -eq 1 ]; then
    echo "${missing[*]}"
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root=(sudo)
    else
        echo "Packages are missing and only root can install them. Run this, then try again:" >&2
        echo "    apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

echo "Installing packages: ${missing[*]}"
log=$(mktemp "${TMPDIR:-/tmp}/verbs-apt.XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
# Another apt on the machine is waited for, ten minutes at most.
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=600)
{
    "${as_root[@]}" "${apt[@]}" update
    "${as_root[@]}" "${apt[@]}" install --no-install-recommends "${missing[@]}"
} >"$log" 2>&1 </dev/null
status=$?
if [ $status -ne 0 ]; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
