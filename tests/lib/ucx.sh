# shellcheck shell=bash
# Runs of ucx_perftest on the software HCA, shared by the UCX test groups.
# SPDX-License-Identifier: BSD-3-Clause
#
#   ucx_device LINK             the device that UCX is to use
#   ucx_pair LINK TLS SECONDS ARGS...   one run of ucx_perftest between two simulated hosts
#
# Source tap.sh and pair.sh before. UCX needs ud_verbs beside rc_verbs to wire up its connections.

ucx_device() {
    case $1 in
    ib) echo shca0:1 ;;
    *) echo shca1:1 ;;
    esac
}

ucx_pair() {
    local link=$1 tls=$2 seconds=$3
    shift 3
    vrb_pair --link "$link" --env "UCX_TLS=$tls" --env "UCX_NET_DEVICES=$(ucx_device "$link")" \
        --env UCX_WARN_UNUSED_ENV_VARS=n --env UCX_HANDLE_ERRORS=none "$seconds" \
        ucx_perftest -p @PORT -f "$@" -- ucx_perftest -p @PORT -f "$@" @SERVER
}
