#!/bin/bash
# group: MPI jobs under faults: registration, connection, dead peers, bad parameters, and silence
# timeout: 600
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=../lib/hosts.sh
. "$TOP/tests/lib/hosts.sh"
# shellcheck source=../lib/mpi.sh
. "$TOP/tests/lib/mpi.sh"

mpi_needs pingpong
program=$BUILD/tests/mpi

# One clear sentence of ours, whoever says it: the core's log, the help texts, Open MPI.
OURS='verbs'

# --- memory registration ----------------------------------------------------------------------

for link in ib roce; do
    # Only regions as long as the messages; the component's own pools are made of other sizes.
    mpi_pass "registration of user buffers always fails, $link: messages are copied" --link $link \
        --fault 'reg_mr.fail min=40k max=900k' \
        -- pingpong --max-size 900K --iterations 1 --kinds 0x0a
    mpi_pass "registration fails every third time, $link: each message finds a way" --link $link \
        --fault 'reg_mr.fail min=40k max=900k every=3' -- random --iterations 6 --max-size 900K
done
mpi_pass "registration fails, incast of 80 KiB" --ranks 4 --fault 'reg_mr.fail min=70k max=90k' \
    -- incast --size 80K --iterations 3
mpi_pass "read-only pages where registration fails" --fault 'reg_mr.fail min=40k max=5m every=2' \
    -- readonly --iterations 1

# --- limits of the device and of locked memory ------------------------------------------------

tap_fails "no completion queue: the job ends" 60 mpi_job --fault 'create_cq.fail' \
    -- pingpong --size 8
tap_like "$TAP_OUT" "$OURS.*(create|make|completion queue|CQ).*(ENOMEM|Cannot allocate|memory)" \
    "no completion queue: the message names the cause"
tap_fails "no queue pair at all: the job ends" 60 mpi_job --fault 'create_qp.fail' \
    -- pingpong --size 8
tap_like "$TAP_OUT" "$OURS.*(queue pair|QP).*(ENOMEM|Cannot allocate|memory)" \
    "no queue pair at all: the message names the cause"
tap_fails "no RC queue pair: the job ends" 60 mpi_job --fault 'create_qp.fail type=rc' \
    -- pingpong --size 8
tap_like "$TAP_OUT" "$OURS.*(queue pair|QP).*(ENOMEM|Cannot allocate|memory)" \
    "no RC queue pair: the message names the cause"
mpi_pass "no SRQ: the receive queues are the peers' own" --fault 'create_srq.fail' \
    -- pingpong --iterations 1 --max-size 100K
tap_fails "an RC queue pair that cannot be connected: the job ends" 60 mpi_job \
    --fault 'modify_qp.fail type=rc' -- pingpong --size 8
tap_like "$TAP_OUT" "$OURS.*(EINVAL|Invalid argument)" \
    "an RC queue pair that cannot be connected: the message names the cause"
