# The report of benchmarks/compare as a list of blocks, and as Markdown.
# SPDX-License-Identifier: BSD-3-Clause

import statistics

LINKS = {"ib": "InfiniBand", "roce": "RoCEv2", "real": "This fabric"}
NAMES = {"verbs": "verbs (rc)", "verbs-ud": "verbs (ud)", "verbs-auto": "verbs (auto)",
         "ucx": "pml/ucx (rc)", "openib": "btl/openib", "tcp": "btl/tcp", "ofi": "libfabric",
         "raw": "raw device"}

BIASES = """\
- The device is the software HCA of `tests/softhca`. What it costs is not what hardware costs.
- An RDMA read, an RDMA write and a send above about 1 KiB cost the initiator a system call
  (`process_vm_readv`/`process_vm_writev`, about 2 us). A small send does not: it travels in
  shared memory. Designs that write small messages by RDMA (openib's and UCX's eager rings) look
  worse here than on hardware.
- The initiator moves all data, so a transfer costs its processor time that a real HCA would take
  over; bandwidth is that of one core copying memory, and nothing overlaps.
- There is no wire: latency is software only, which makes differences between transports larger,
  in proportion, than on hardware.
- `btl/tcp` runs over the loopback device, the raw device over the same software HCA.
- libfabric's connections (`verbs;ofi_rxm`) need the kernel's rdma_cm device, which the software
  HCA has not; `mtl/ofi` runs over datagrams (`verbs;ofi_rxd`) here, as verbs (ud) does.
"""

TITLES = (("lat", "Half round trip in us", 1.0, "`ib_send_lat`"),
          ("bw", "Bandwidth in 10^6 bytes/s, 64 messages under way", 1.0, "`ib_write_bw`"),
          ("mr", "Million messages/s, one pair, 64 under way", 1e-6, "`ib_send_bw`"),
          ("a2a", "All-to-all of four ranks in us", 1.0, None))

# key, figure, unit, factor, peer to compare with, aim (negative: at most, else at least so often)
AIMS = (("lat 8", "8 B half round trip", "us", 1, "ucx", -1.0),
        ("mr 8", "8 B message rate", "M/s", 1e-6, "ucx", 2.0),
        ("bw 65536", "64 KiB bandwidth", "MB/s", 1, "ucx", 1.0),
        ("bw 1048576", "1 MiB bandwidth", "MB/s", 1, "ucx", 1.0),
        ("bw 65536", "64 KiB bandwidth", "MB/s", 1, "raw", 0.95),
        ("bw 1048576", "1 MiB bandwidth", "MB/s", 1, "raw", 0.95),
        ("a2a 1024", "1 KiB all-to-all, 4 ranks", "us", 1, "ucx", -1.0))
AIM_HEADER = ["figure", "result", "ratio", "aim", "verbs", "compared with"]


def values_of(run, link, peer, key):
    return run["results"].get(link, {}).get(peer, {}).get(key) or []


def median(run, link, peer, key):
    values = values_of(run, link, peer, key)
    return statistics.median(values) if values else None


def number(value, digits=None):
    if value is None:
        return "-"
    if digits is None:
        digits = 2 if value < 100 else 0
    return "{:,.{}f}".format(value, digits).replace(",", " ")


def ratio(value, base):
    return "-" if not value or not base else "%.2f" % (value / base)


def size_name(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return "%d %s" % (size >> shift, unit)
    return "%d B" % size


def peers_of(run, link):
    return [p for p in NAMES if run["results"].get(link, {}).get(p)]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |",
             "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def sizes_of(run, link, test):
    return sorted({int(key.split()[1]) for peer in run["results"].get(link, {}).values()
                   for key in peer if key.split()[0] == test})


def figures(run, link, test, scale):
    """Header and rows of one test's table: median and range of the rounds."""
    peers = [p for p in peers_of(run, link)
             if any(key.split()[0] == test for key in run["results"][link][p])]
    rows = []
    for size in sizes_of(run, link, test):
        key = "%s %d" % (test, size)
        row = [size_name(size)]
        for peer in peers:
            values = [value * scale for value in values_of(run, link, peer, key)]
            text = number(statistics.median(values) if values else None)
            if values and min(values) != max(values):
                text += " (%s .. %s)" % (number(min(values)), number(max(values)))
            row.append(text)
        row.append(ratio(median(run, link, "verbs", key), median(run, link, "ucx", key)))
        rows.append(row)
    return ["size"] + [NAMES[p] for p in peers] + ["verbs (rc) / ucx"], rows


def overlap(run, link, key, other):
    """The rounds of both overlap: this run does not tell which of the two is faster."""
    ours, theirs = (values_of(run, link, p, key) for p in ("verbs", other))
    return min(ours) <= max(theirs) and min(theirs) <= max(ours)


def aims(run):
    """What users ask first: is it as fast as the best known transport on this device?"""
    rows = []
    for link in run["results"]:
        for key, what, unit, factor, other, aim in AIMS:
            ours, theirs = (median(run, link, p, key) for p in ("verbs", other))
            if not ours or not theirs:
                continue
            good = ours <= -aim * theirs if aim < 0 else ours >= aim * theirs
            rows.append([
                what + ", " + LINKS[link],
                ("met" if good else "missed") +
                (", spreads overlap" if overlap(run, link, key, other) else ""),
                ratio(ours, theirs), "at %s %s" % ("most" if aim < 0 else "least",
                                                   number(abs(aim))),
                "%s %s" % (number(ours * factor), unit),
                "%s: %s" % (NAMES[other], number(theirs * factor))])
    return rows


def memory_blocks(memory):
    rows = [["each process after MPI_Init", number(memory["start_bytes"] / 1048576) + " MiB",
             "below 16 MiB", "met" if memory["start_bytes"] < 16 << 20 else "missed"],
            ["first message to any peer", number(memory["first_peer_bytes"] / 1048576) + " MiB",
             "", ""],
            ["each further connected peer", number(memory["peer_bytes"] / 1024) + " KiB",
             "below 64 KiB", "met" if memory["peer_bytes"] < 64 << 10 else "missed"]]
    return [("h2", "Registered memory"), ("table", ["figure", "measured", "aim", "result"], rows),
            ("p", "Counted by the component (`btl_verbs` performance variables of MPI_T); the "
             "program is `benchmarks/vrb_memory`.")]


def side_blocks(extras):
    """What a job pays that does not use verbs, and what a computation hides."""
    rows, (base, idle) = [], (extras.get("shared_memory", {}).get(key) or [] for key in ("without", "idle"))
    if base and idle:
        cost = statistics.median(idle) / statistics.median(base)
        same = min(idle) <= max(base) and min(base) <= max(idle)
        rows.append(["8 B through shared memory beside an idle verbs", "%s us (%s .. %s)" % tuple(
            number(f(idle)) for f in (statistics.median, min, max)), "without: %s us (%s .. %s)" % tuple(
                number(f(base)) for f in (statistics.median, min, max)), "%.2f" % cost, "at most 1.02",
                     ("met" if cost <= 1.02 else "missed") + (", spreads overlap" if same else "")])
    hidden = extras.get("overlap") or {}
    if hidden.get("verbs") and hidden.get("ucx"):
        ours, theirs = (statistics.median(hidden[p]) for p in ("verbs", "ucx"))
        rows.append(["1 MiB transfer hidden by a computation", "%.0f %%" % ours,
                     "%s: %.0f %%" % (NAMES["ucx"], theirs), "-", "at least 95 %",
                     "met" if ours >= 95 else "missed"])
    if not rows:
        return []
    return [("h2", "Beside other work"),
            ("table", ["figure", "verbs", "compared with", "ratio", "aim", "result"], rows),
            ("p", "`vrb_latency` on one host, rounds interleaved, and `vrb_isend`, whose overlap is the average "
             "of sender and receiver. On the software HCA the receiver copies a long message itself when it "
             "next calls MPI, so little of its half can be hidden.")]


def instruction_blocks(counted):
    counted = {p: {what: i[what] for what in ("send", "receive")} for p, i in counted.items() if i}
    if not counted:
        return []
    parts = sorted({part for i in counted.values() for what in i.values() for part in what})
    rows = [["one " + what] + [number(sum(i[what].values()), 0) for i in counted.values()]
            for what in ("send", "receive")]
    rows += [["of both: " + part] + [
        number(sum(what.get(part, 0) for what in i.values()), 0) for i in counted.values()]
             for part in parts]
    return [("h2", "Instructions of an 8 B message"),
            ("table", ["user-space instructions"] + [NAMES[p] for p in counted], rows),
            ("p", "Counted by callgrind around `MPI_Send` and around an `MPI_Recv` whose message "
             "has arrived, so that waiting is not counted; what most of 20 calls took "
             "(`benchmarks/instructions`). The aim for component and core together is 350.")]


def facts(run):
    machine = run["machine"]
    programs = ", ".join("the originals of %s in `%s`" % (kind.upper(), folder)
                         for kind, folder in run["originals"].items())
    return [["date, revision", "%s, %s" % (run["date"], machine["revision"])],
            ["command", "`%s`" % run["command"]],
            ["rounds", "%d of %d, interleaved; %d s in all; %d ms for each size" % (
                run["rounds_done"], run["rounds"], run["seconds"], run["budget_ms"])],
            ["programs", programs or "`vrb_latency`, `vrb_bw`, `vrb_mbw_mr`, `vrb_alltoall`"],
            ["scheduling", "`chrt -r 10`" if run["real_time"] else "normal priority"],
            ["processor", machine["cpu"]],
            ["system", "%s, Linux %s, load %s" % (machine["system"], machine["kernel"],
                                                  machine["load"])],
            ["Open MPI, UCX, libfabric", "%s, %s, %s" % (machine["mpi"], machine["ucx"],
                                                         machine.get("libfabric", "?"))],
            ["perftest, rdma-core", "%s, %s" % (machine["perftest"], machine["rdma-core"])],
            ["compiler", machine["gcc"]]]


def link_blocks(run, link):
    blocks = [("h2", LINKS[link])]
    for test, title, scale, raw in TITLES:
        header, rows = figures(run, link, test, scale)
        if not rows:
            continue
        if test in ("lat", "bw"):
            blocks.append(("plot", link, test, title))
        blocks += [("p", title + (" (raw device: %s):" % raw if raw else ":")),
                   ("table", header, rows)]
    return blocks


def blocks_of(run):
    """The report: ("h1", text), ("p", text), ("table", header, rows), ("list", lines),
    ("plot", link, test, title), ("pre", text)."""
    blocks = [("h1", "Performance"),
              ("p", "Made by `benchmarks/compare`; every figure below comes from one run of it. Do "
               "not edit: run it again.")]
    if not run["finished"]:
        blocks.append(("p", "The run was interrupted: the report is made of the rounds that there "
                       "were."))
    rows = aims(run)
    if rows:
        blocks.append(("table", AIM_HEADER, rows))
    average = "averages of the original programs" if run["originals"] else (
        "the median of single iterations")
    biases = "" if run["device"] == "real" else BIASES
    biases += ("- Every figure is the median over the rounds of %s; in brackets the range of the "
               "rounds.\n" % average)
    blocks.append(("h2", "What to know of these figures"))
    blocks.append(("list", [" ".join(item.split()) for item in biases[2:].split("\n- ")]))
    for link in run["results"]:
        blocks += link_blocks(run, link)
    if run["extras"].get("memory"):
        blocks += memory_blocks(run["extras"]["memory"])
    blocks += side_blocks(run["extras"])
    blocks += instruction_blocks(run["extras"].get("instructions") or {})
    if rows:
        blocks += [("h2", "Why some aims are missed"),
                   ("p", "docs/message-cost.md tells where the instructions and the time go, and what was tried.")]
    blocks += [("h2", "How it was measured"), ("table", ["what", "value"], facts(run))]
    if run["impossible"] or run["failures"]:
        blocks += [("h2", "What did not run"),
                   ("list", run["impossible"] +
                    ["`%s`" % failure.replace("`", "'") for failure in run["failures"]])]
    blocks += [("h2", "To repeat it"), ("pre", run["command"]),
               ("p", "One job for each peer:"), ("pre", "\n".join(run["examples"]))]
    return blocks


def wrapped(text, indent):
    """Lines of at most 100 characters, as the other documents have."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 100 - len(indent):
            lines.append(line)
            line = word
        else:
            line = (line + " " + word).strip()
    return ("\n" + indent).join(lines + [line])


def markdown(run):
    parts = []
    for block in blocks_of(run):
        kind, text = block[0], block[1]
        if kind in ("h1", "h2"):
            parts.append("#" * int(kind[1]) + " " + text + "\n")
        elif kind == "p":
            parts.append(wrapped(text, "") + "\n")
        elif kind == "table":
            parts.append(table(block[1], block[2]))
        elif kind == "list":
            parts.append("".join("- " + wrapped(item, "  ") + "\n" for item in text))
        elif kind == "pre":
            parts.append("```\n" + text + "\n```\n")
    return "\n".join(parts)


def headline(run):
    return "".join("%-40s %-14s %-24s (%s times, aim %s: %s)\n" % (
        row[0], row[4], row[5], row[2], row[3], row[1]) for row in aims(run))
