# shellcheck shell=bash
# Situations of addresses (tests/addr/NAME.ini), shared by the groups verbs-info and mpi-addr.
# SPDX-License-Identifier: BSD-3-Clause
#
#   situation_names          all of them, one a line
#   situation_link NAME      ib, roce or all: which devices of the hosts it is about
#   situation_text NAME      what it is, in words
#   situation_info NAME HOST [OPTIONS]   verbs_info on node HOST of that fabric

SITUATIONS=$TOP/tests/addr

situation_names() {
    basename -s .ini "$SITUATIONS"/*.ini
}

situation_link() {
    sed -n 's/^# link: //p' "$SITUATIONS/$1.ini"
}

situation_text() {
    sed -n '1s/^# //p' "$SITUATIONS/$1.ini"
}

situation_info() {
    local name=$1 host=$2 link
    shift 2
    link=$(situation_link "$name")
    [ "$link" != all ] || link=''
    SOFTHCA_FABRIC=info-$name-$$ SOFTHCA_CONF=$SITUATIONS/$name.ini SOFTHCA_DEVS=$link \
        SOFTHCA_HOST=node$host SOFTHCA_HOSTNAME=node$host \
        LD_PRELOAD=$BUILD/.libs/libsofthca.so "$BUILD/tools/verbs_info" "$@"
}
