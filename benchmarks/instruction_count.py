# Counts the user-space instructions of single operations with callgrind, split by what ran them.
# SPDX-License-Identifier: BSD-3-Clause

import collections
import os
import re
import shutil
import tempfile

# What benchmarks/vrb_instructions does; after each of them it calls after_NAME, which makes
# callgrind write a dump.
OPERATIONS = ["send", "receive", "idle", "alone"]

# Whose instructions are ours: what a change here can make better or worse. Both are in one object;
# the source file of a function tells them apart, what is inlined in it counts as its own.
COMPONENT, CORE = "component", "transport core"
OURS = (COMPONENT, CORE)

# Seconds. Starting up is what takes long: valgrind translates all of Open MPI and UCX once.
LIMIT = 300


def ours(parts):
    return sum(parts.get(part, 0) for part in OURS)


def where(path, source, function):
    """The part of the software that a function of an object belongs to."""
    name = os.path.basename(path)
    if name.startswith("mca_btl_verbs"):
        if "/component/" in source or "/shared/" in source:
            return COMPONENT if "/component/" in source else CORE
        return COMPONENT if function.startswith("mca_btl_verbs") else CORE  # no debug information
    for pattern, part in (("mca_pml_ob1", "MPI"),
                          ("libsofthca", "verbs library (software HCA)"),
                          ("libibverbs", "verbs library (software HCA)"),
                          ("libmpi", "MPI"), ("libopen-", "MPI"), ("mca_", "MPI"),
                          ("libucp", "UCX protocols"), ("libuct", "UCX transports"),
                          ("libuc", "UCX services"), ("libibuc", "UCX transports")):
        if name.startswith(pattern):
            return part
    return "UCX transports" if "/ucx/" in path else "libc and others"


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
    parts, names, current, skip = {}, {}, {"ob": "", "fl": "", "fn": ""}, False
    for line in text.splitlines():
        # a name is spelt out once: ob=(3) /usr/lib/libx.so, later ob=(3); with a c before it, it is
        # a callee's; fi and fe are the files of what is inlined, under the numbers of fl
        name = re.match(r"c?(ob|fl|fi|fe|fn)=\((\d+)\)(?: (.*))?$", line)
        if name:
            kind = "fl" if name.group(1) in ("fi", "fe") else name.group(1)
            if name.group(3):
                names[kind, name.group(2)] = name.group(3)
            if name.group(1) in current and not line.startswith("c"):
                current[kind] = names.get((kind, name.group(2)), "")
        elif line.startswith("calls="):
            skip = True  # what follows is the callee's cost, which stands elsewhere too
        elif re.match(r"[+*\-\d]", line):
            cost = line.split()
            if not skip and len(cost) > 1:
                part = where(current["ob"], current["fl"], current["fn"])
                parts[part] = parts.get(part, 0) + int(cost[1])
            skip = False
    return parts
