# Makes the Markdown report of benchmarks/compare.
# SPDX-License-Identifier: BSD-3-Clause

import statistics

LINKS = {"ib": "InfiniBand", "roce": "RoCEv2"}
NAMES = {"verbs": "verbs", "verbs-ud": "verbs (ud)", "verbs-auto": "verbs (auto)",
         "ucx": "pml/ucx (rc)", "openib": "btl/openib", "tcp": "btl/tcp", "raw": "raw device"}

BIASES = """\
The device is the software HCA of `tests/softhca`. What it costs is not what hardware costs:

- An RDMA read, an RDMA write and a send above about 1 KiB cost the initiator a system call
  (`process_vm_readv`/`process_vm_writev`, about 2 us here). A small send does not: it travels in
  shared memory. Designs that write small messages by RDMA (openib's and UCX's eager rings) look
  worse here than on hardware.
- The initiator moves all data, so a transfer costs its processor time that a real HCA would take
  over; bandwidth is that of one core copying memory, and nothing overlaps.
- There is no wire: latency is software only, which makes differences between transports larger,
  in proportion, than on hardware.
- `btl/tcp` runs over the loopback device, the raw device over the same software HCA.
- Averages on a busy machine say little, so every figure is the median of single iterations, and
  the tables hold the median over the rounds; the spread is the range of the rounds' medians.
"""


def median(run, link, peer, key):
    values = run["results"].get(link, {}).get(peer, {}).get(key)
    return statistics.median(values) if values else None


def spread(run, link, peer, key):
    values = run["results"].get(link, {}).get(peer, {}).get(key)
    return (min(values), max(values)) if values else None


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


def keys_of(run, link, test):
    sizes = {int(key.split()[1]) for peer in run["results"].get(link, {}).values()
             for key in peer if key.split()[0] == test}
    return sorted(sizes)


def figures(run, link, test, scale=1.0):
    peers = peers_of(run, link)
    header = ["size"] + [NAMES[p] for p in peers] + ["verbs / ucx"]
    rows = []
    for size in keys_of(run, link, test):
        key = "%s %d" % (test, size)
        row = [size_name(size)]
        for peer in peers:
            value = median(run, link, peer, key)
            low_high = spread(run, link, peer, key)
            text = number(value * scale if value is not None else None)
            if low_high and low_high[0] != low_high[1]:
                text += " (%s .. %s)" % tuple(number(v * scale) for v in low_high)
            row.append(text)
        row.append(ratio(median(run, link, "verbs", key), median(run, link, "ucx", key)))
        rows.append(row)
    return table(header, rows)


def overlap(run, link, key):
    """The rounds of both overlap: this run does not tell which of the two is faster."""
    ours, theirs = (spread(run, link, p, key) for p in ("verbs", "ucx"))
    return ours[0] <= theirs[1] and theirs[0] <= ours[1]


def aims(run):
    """What users ask first: is it as fast as the best known transport on this device?"""
    rows = []
    for link in run["results"]:
        for key, what, at_most in (("lat 8", "8 B half round trip", 1.2),
                                   ("bw 1048576", "1 MiB bandwidth", None)):
            ours, theirs = (median(run, link, p, key) for p in ("verbs", "ucx"))
            if not ours or not theirs:
                continue
            good = ours <= at_most * theirs if at_most else ours >= theirs
            aim = "at most %.1f times pml/ucx" % at_most if at_most else "at least pml/ucx"
            unit = "us" if at_most else "MB/s"
            rows.append([what + ", " + LINKS[link], "%s %s" % (number(ours), unit),
                         "%s %s" % (number(theirs), unit), ratio(ours, theirs), aim,
                         ("met" if good else "missed") +
                         (", spreads overlap" if overlap(run, link, key) else "")])
    return rows


AIM_HEADER = ["figure", "verbs", "pml/ucx", "ratio", "aim", "result"]


def extras_section(run):
    text = ""
    memory = run["extras"].get("memory")
    if memory:
        text += "\n## Registered memory\n\n" + table(
            ["figure", "measured", "aim", "result"],
            [["each process after MPI_Init", number(memory["start_bytes"] / 1048576) + " MiB",
              "below 16 MiB", "met" if memory["start_bytes"] < 16 << 20 else "missed"],
             ["first message to any peer", number(memory["first_peer_bytes"] / 1048576) + " MiB",
              "", ""],
             ["each further connected peer", number(memory["peer_bytes"] / 1024) + " KiB",
              "below 64 KiB", "met" if memory["peer_bytes"] < 64 << 10 else "missed"]])
        text += ("\nCounted by the component (`btl_verbs` performance variables of MPI_T); the "
                 "program is `benchmarks/vrb_memory`.\n")
    counted = {p: {what: i[what] for what in ("send", "receive")}
               for p, i in (run["extras"].get("instructions") or {}).items() if i}
    if counted:
        parts = sorted({part for i in counted.values() for what in i.values() for part in what})
        rows = [["one " + what] + [number(sum(i[what].values()), 0) for i in counted.values()]
                for what in ("send", "receive")]
        rows += [["of both: " + part] + [
            number(sum(what.get(part, 0) for what in i.values()), 0) for i in counted.values()]
                 for part in parts]
        text += "\n## Instructions of an 8 B message\n\n" + table(
            ["instructions"] + [NAMES[p] for p in counted], rows)
        text += ("\nCounted by callgrind around `MPI_Send` and around an `MPI_Recv` whose message "
                 "has arrived, so that waiting is not counted; what most of 20 calls took "
                 "(`benchmarks/instructions`).\n")
    return text


def markdown(run):
    machine = run["machine"]
    text = ("# Performance\n\n"
            "Made by `benchmarks/compare`; every figure below comes from one run of it. Do not "
            "edit: run it again.\n\n")
    rows = aims(run)
    if rows:
        text += table(AIM_HEADER, rows) + "\n"
    text += "## How it was measured\n\n" + table(["what", "value"], [
        ["date, revision", "%s, %s" % (run["date"], machine["revision"])],
        ["command", "`%s`" % run["command"]],
        ["rounds", "%d, interleaved; %d s in all; %d ms for each size" % (
            run["rounds"], run["seconds"], run["budget_ms"])],
        ["scheduling", "`chrt -r 10`" if run["real_time"] else "normal priority"],
        ["processor", machine["cpu"]],
        ["system", "%s, Linux %s, load %s" % (machine["system"], machine["kernel"],
                                              machine["load"])],
        ["Open MPI, UCX", "%s, %s" % (machine["mpi"], machine["ucx"])],
        ["perftest, rdma-core", "%s, %s" % (machine["perftest"], machine["rdma-core"])],
        ["compiler", machine["gcc"]]])
    text += "\n" + BIASES
    for link in run["results"]:
        text += "\n## %s\n\nHalf round trip in us (raw device: `ib_send_lat`):\n\n" % LINKS[link]
        text += figures(run, link, "lat")
        text += ("\nBandwidth in 10^6 bytes/s, 64 messages under way (raw device: "
                 "`ib_write_bw`):\n\n")
        text += figures(run, link, "bw")
        text += ("\nMillion messages/s, one pair, 64 under way (raw device: `ib_send_bw`):\n\n")
        text += figures(run, link, "mr", 1e-6)
    text += extras_section(run)
    if run["failures"]:
        text += "\n## What did not run\n\n" + "".join(
            "- `%s`\n" % failure.replace("`", "'") for failure in run["failures"])
    text += ("\n## To repeat it\n\n```\n%s\n```\n\nOne job of it, here 8 B over UCX on RoCEv2:\n\n"
             "```\ntests/lib/vrbrun --link roce --pml ucx -- _build/benchmarks/vrb_pingpong "
             "-t lat -s 8\n```\n" % run["command"])
    return text


def headline(run):
    return "".join("%-34s %-34s (%s, %s)\n" % (
        row[0], "verbs %s, ucx %s" % (row[1], row[2]), row[4], row[5]) for row in aims(run))
