# Counts the user-space instructions of single operations with callgrind, split by what ran them.
# SPDX-License-Identifier: BSD-3-Clause

import collections
import os
import re
import shutil
import tempfile

# What benchmarks/vrb_instructions does; after each of them it calls after_NAME, which makes
# callgrind write a dump.
OPERATIONS = ["send", "receive", "idle"]

# Whose instructions are ours: what a change here can make better or worse.
OURS = "component and core"

# Seconds. Starting up is what takes long: valgrind translates all of Open MPI and UCX once.
LIMIT = 300


def where(path):
    """The part of the software that an object belongs to."""
    name = os.path.basename(path)
    for pattern, part in (("mca_btl_verbs", OURS), ("mca_pml_ob1", "MPI"),
                          ("libsofthca", "verbs library (software HCA)"),
                          ("libibverbs", "verbs library (software HCA)"),
                          ("libmpi", "MPI"), ("libopen-", "MPI"), ("mca_", "MPI"),
                          ("libuc", "UCX"), ("libibuc", "UCX")):
        if name.startswith(pattern):
            return part
    return "UCX" if "/ucx/" in path else "libc and others"


def counted(setup, peer, link="ib", size=8, messages=20):
    """Instructions of one operation at rank 0: {"send": {part: count}, ...}, or None."""
    import compare_measure as measure  # it imports us

    program = os.path.join(setup.build, "benchmarks", "vrb_instructions")
    if not shutil.which("valgrind") or not os.path.exists(program):
        return None
    callgrind = ["valgrind", "--tool=callgrind", "--collect-atstart=no"]
    for operation in OPERATIONS:
        callgrind += ["--toggle-collect=measured_" + operation, "--dump-before=after_" + operation]
    with tempfile.TemporaryDirectory() as folder:
        # UCX's memory hooks and error handlers do not work under valgrind, nor matter to 8 bytes
        if measure.run_mpi(setup, link, measure.VRBRUN[peer] + [
                "--env", "UCX_HANDLE_ERRORS=none", "--env", "UCX_MEM_EVENTS=n"],
                callgrind + ["--callgrind-out-file=%s/%%q{OMPI_COMM_WORLD_RANK}" % folder,
                             program, str(messages), str(size)],
                timed=False, limit=LIMIT) is None:
            return None
        return {what: usual(dumps(folder, "after_" + what)) for what in OPERATIONS}


def dumps(folder, trigger):
    """The counts of each dump of rank 0."""
    found = []
    for name in os.listdir(folder):
        if name.startswith("0."):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as dump:
                text = dump.read()
            if "Trigger: --dump-before=" + trigger in text:
                found.append(split(text))
    return found


def usual(found):
    """What most operations cost. A receive whose message was late has polled more often, and every
    32nd posts receive buffers again: a median would do on a quiet machine, but not on a busy one."""
    def ours(parts):
        return parts.get(OURS, 0)

    # a message that came along with an earlier one cost its receive nothing
    found = [parts for parts in found if ours(parts)] or found
    if not found:
        return {}
    common = collections.Counter(ours(parts) for parts in found).most_common()
    cost = min(cost for cost, times in common if times == common[0][1])
    alike = sorted((parts for parts in found if ours(parts) == cost),
                   key=lambda parts: sum(parts.values()))
    return alike[len(alike) // 2]


def split(text):
    """Instructions of a callgrind dump by the part of the software that ran them."""
    parts, names, current, skip = {}, {}, "", False
    for line in text.splitlines():
        # a name is spelt out once: ob=(3) /usr/lib/libx.so, later ob=(3); cob= is a callee's
        name = re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line)
        if name:
            if name.group(3):
                names[name.group(2)] = name.group(3)
            if name.group(1) == "ob":
                current = names.get(name.group(2), "")
        elif line.startswith("calls="):
            skip = True  # what follows is the callee's cost, which stands elsewhere too
        elif re.match(r"[+*\-\d]", line):
            cost = line.split()
            if not skip and len(cost) > 1:
                part = where(current)
                parts[part] = parts.get(part, 0) + int(cost[1])
            skip = False
    return parts
