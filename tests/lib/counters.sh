# shellcheck shell=bash
# Reading what `softhca-ctl counters` wrote.
# SPDX-License-Identifier: BSD-3-Clause
#
#   vrb_counter FILE NAME   the sum over all devices of counter NAME (send, write, read, atomic,
#                           ud_send, ...), or the hits of a fault point (fault.ud.drop)

vrb_counter() {
    awk -v name="$2" '
        $1 == name || substr($1, length($1) - length(name)) == "." name { sum += $2 }
        END { printf "%d\n", sum }' "$1"
}
