# Runs the programs that benchmarks/compare measures with, and reads their output.
# SPDX-License-Identifier: BSD-3-Clause

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

import instruction_count as counting

# What is measured: sizes of one pair's half round trip, of its bandwidth and its message rate with
# 64 messages under way, and of an all-to-all of four ranks.
TESTS = {
    "lat": {"sizes": "0,8,64,512,1K,4K,8K,16K,64K,256K,1M", "program": "latency", "ranks": 2,
            "field": "p50_us", "osu": ("osu_latency", 1), "imb": ("PingPong", 2)},
    "bw": {"sizes": "8,64,1K,8K,64K,256K,1M,4M", "program": "bw", "ranks": 2,
           "field": "p50_mbps", "osu": ("osu_bw", 1), "imb": ("Uniband", 2)},
    "mr": {"sizes": "8", "program": "mbw_mr", "ranks": 2, "field": "p50_messages_per_s",
           "osu": ("osu_mbw_mr", 2), "imb": ("Uniband", 3)},
    "a2a": {"sizes": "8,1K,64K", "program": "alltoall", "ranks": 4, "field": "p50_us",
            "osu": ("osu_alltoall", 1), "imb": ("Alltoall", 4)},
}

# What makes vrbrun use a peer.
VRBRUN = {
    "verbs": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "rc"],
    "verbs-ud": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "ud"],
    "verbs-auto": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "auto"],
    "ucx": ["--pml", "ucx"],
    "openib": ["--btl", "self,openib"],
    "tcp": ["--btl", "self,tcp"],
    "ofi": ["--pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include"],
}
PEERS = list(VRBRUN) + ["raw"]
RAW_PROGRAMS = ["ib_send_lat", "ib_write_bw", "ib_send_bw"]  # of perftest

# What cannot run here, and why.
IMPOSSIBLE = {
    ("openib", "roce"): "Debian's Open MPI builds btl/openib without a connection manager for RoCE "
                        "that needs no rdma_cm device",
}


class Setup:
    """Where things are, how jobs are started, and what went wrong so far."""

    def __init__(self, budget_ms, real_time, device="software", originals=None):
        self.top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        self.build = os.environ.get("BUILD", os.path.join(self.top, "_build"))
        self.prefix = os.environ.get("PREFIX", os.path.join(self.top, "_inst"))
        self.budget_ms = budget_ms
        self.device = device
        self.originals = originals or {}  # {"osu": folder, "imb": folder}
        self.failures = []
        self.dry_run = False
        # SCHED_RR: a rank that spins under SCHED_FIFO starves the threads of its peers; it would
        # not reach the other hosts of an allocation
        self.real_time = real_time and device == "software" and (
            shutil.which("chrt") is not None and subprocess.run(
                ["chrt", "-r", "10", "true"], capture_output=True, check=False).returncode == 0)
        self.softhca = os.path.join(self.build, ".libs", "libsofthca.so")

    def problem(self):
        needed = [self.program("latency"),
                  os.path.join(self.prefix, "lib", "openmpi", "mca_btl_verbs.so")]
        if self.device == "software":
            needed.append(self.softhca)
        for path in needed:
            if not os.path.exists(path):
                return "no %s: run ./quickstart or make install first" % path
        for kind, folder in self.originals.items():
            if not find_program(folder, "osu_latency" if kind == "osu" else "IMB-MPI1"):
                return "no %s below %s" % ("osu_latency" if kind == "osu" else "IMB-MPI1", folder)
        return None

    def leave_out(self, peers):
        """Drops the peers whose programs are missing; returns the others and a line on each."""
        missing = [p for p in RAW_PROGRAMS if shutil.which(p) is None] if "raw" in peers else []
        if not missing:
            return peers, []
        return [p for p in peers if p != "raw"], [
            "no %s, so the raw device is not measured (install the package perftest)"
            % " ".join(missing)]

    def program(self, name):
        return os.path.join(self.build, "benchmarks", "vrb_" + name)

    def short(self, text):
        """Without the folders that only this machine has."""
        text = text.replace(self.build + "/", "_build/").replace(self.top + "/", "")
        return re.sub(re.escape(tempfile.gettempdir()) + r"/tmp\w+", "TMP", text)

    def fail(self, what, output):
        # lines of dashes say nothing
        lines = [line.strip() for line in output.splitlines() if line.strip("- \t")]
        text = self.short(what + ": " + (" / ".join(lines[-3:]) if lines else "no output"))
        if text not in self.failures:  # every round fails alike
            self.failures.append(text)


def find_program(folder, name):
    """A program of that name in the folder or below it: OSU's are in mpi/pt2pt and the like."""
    for where, _, names in sorted(os.walk(folder)):
        if name in names and os.access(os.path.join(where, name), os.X_OK):
            return os.path.join(where, name)
    return None


def in_allocation():
    return "SLURM_JOB_ID" in os.environ


def options_of(setup, peer):
    """vrbrun's options for a peer; libfabric's endpoint differs by device."""
    options = list(VRBRUN[peer])
    if peer == "ofi":
        # ofi_rxm needs the kernel's rdma_cm, which the software HCA has not
        options.append("verbs;ofi_rxd" if setup.device == "software" else "verbs;ofi_rxm")
    elif peer == "ucx" and setup.device != "software":
        options += ["--ucx-tls", "rc,ud,self"]
    return options


def mpi_command(setup, link, options, program, ranks=2, timed=True, limit=60):
    command = ["chrt", "-r", "10"] if timed and setup.real_time else []
    command += [os.path.join(setup.top, "tests", "lib", "vrbrun"), "--ranks", str(ranks),
                "--timeout", str(limit)]
    if setup.device == "software":
        command += ["--hosts", "2", "--link", link]
    else:
        command += ["--no-softhca"]
        if in_allocation():  # mpirun takes Slurm's hosts; the ranks of a pair go to different ones
            command += ["--arg", "--map-by", "--arg", "node"]
    return command + options + ["--"] + program


def run_mpi(setup, link, options, program, ranks=2, timed=True, limit=60):
    """Output of an MPI job on two hosts, or None."""
    command = mpi_command(setup, link, options, program, ranks, timed, limit)
    if setup.dry_run:
        print(setup.short(" ".join(command)))
        return None
    environment = dict(os.environ, BUILD=setup.build, PREFIX=setup.prefix, TOP=setup.top)
    # two ranks on two cores need not yield, and a yield is a system call
    if timed and ranks == 2:
        environment.setdefault("VRB_CORES", str((os.cpu_count() or 1) + 1))
    # in a session of its own: Ctrl-C is ours, and vrbrun gets the time to end its job
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment, start_new_session=True) as job:
        try:
            output, errors = job.communicate()
        except KeyboardInterrupt:
            job.terminate()
            job.communicate()
            raise
    if job.returncode != 0:
        setup.fail(" ".join(command[-6:]) + " (%s)" % link, output + errors)
        return None
    return output


def bytes_of(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def own_figures(output, field):
    """{size: figure} of one of our programs; the transport may print something before it."""
    match = re.search(r'^\{"benchmark".*^\]\}$', output, re.M | re.S)
    rows = json.loads(match.group(0))["results"] if match else []
    return {row["size"]: row[field] for row in rows}


def table_figures(output, column):
    """{size: figure} of a table of OSU's or IMB's: lines of numbers that begin with the size."""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) > column and re.match(r"\s*\d+(\s+[\d.]+)+\s*$", line):
            found[int(words[0])] = float(words[column])
    return found


def program_of(setup, test):
    """Command line of a test's program, and what reads its output."""
    what = TESTS[test]
    sizes = [bytes_of(size) for size in what["sizes"].split(",")]
    if "osu" in setup.originals:
        name, column = what["osu"]
        return ([find_program(setup.originals["osu"], name) or name, "-m",
                 "%d:%d" % (max(1, min(sizes)), max(sizes)), "-i", "300", "-x", "30"],
                lambda output: table_figures(output, column))
    if "imb" in setup.originals:
        name, column = what["imb"]
        return ([find_program(setup.originals["imb"], "IMB-MPI1"), "-iter", "300", "-msglog",
                 "0:%d" % (max(sizes).bit_length() - 1), name],
                lambda output: table_figures(output, column))
    return ([setup.program(what["program"]), "-m", what["sizes"], "-b", str(setup.budget_ms),
             "--json"],
            lambda output: own_figures(output, what["field"]))


def run_peer(setup, peer, link, tests):
    """One round: {"lat 8": microseconds or 10^6 bytes/s or messages/s, ...}"""
    if (peer, link) in IMPOSSIBLE:
        return {}
    if peer == "raw":
        return run_raw(setup, link)
    found = {}
    for test in tests:
        program, figures = program_of(setup, test)
        output = run_mpi(setup, link, options_of(setup, peer), program,
                         ranks=TESTS[test]["ranks"], limit=90)
        wanted = {bytes_of(size) for size in TESTS[test]["sizes"].split(",")}
        for size, value in (figures(output) if output else {}).items():
            if size in wanted:
                found["%s %d" % (test, size)] = value
    return found


# ---- raw device ------------------------------------------------------------------------------

def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def prefixed(setup, command):
    return (["chrt", "-r", "10"] if setup.real_time else []) + command


def perftest_on_hosts(setup, program, arguments):
    """In an allocation: server on its first host, client on its second; otherwise on this machine."""
    hosts = ["127.0.0.1", "127.0.0.1"]
    port, start = str(free_port()), [[], []]
    if in_allocation():
        try:
            listed = subprocess.run(["scontrol", "show", "hostnames"], capture_output=True,
                                    text=True, check=False).stdout.split()
        except OSError:
            listed = []
        if len(listed) < 2:
            setup.fail(program, "the allocation has less than two hosts (scontrol show hostnames)")
            return None
        hosts = listed[:2]
        start = [["srun", "--overlap", "-N1", "-n1", "-w", host] for host in hosts]
    command = ["timeout", "60", program, "-F", "-p", port] + arguments
    if setup.dry_run:
        print(" ".join(start[0] + command) + " &\n" + " ".join(start[1] + command + hosts[:1]))
        return None
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(start[0] + command, stdout=log, stderr=subprocess.STDOUT) as server:
            for _ in range(20):
                client = subprocess.run(start[1] + command + hosts[:1], capture_output=True,
                                        text=True, check=False)
                if client.returncode == 0 or "Couldn't connect" not in client.stdout + client.stderr:
                    break
                time.sleep(0.5)
            if client.returncode != 0:
                server.terminate()
                setup.fail(program, client.stdout + client.stderr)
                return None
    return client.stdout


def perftest(setup, link, program, arguments):
    """Server on node0 and client on node1; the client's output, or None."""
    fabric = "compare-%d" % os.getpid()
    device = "shca0" if link == "ib" else "shca1"
    if setup.device != "software":
        return perftest_on_hosts(setup, program, arguments)
    command = prefixed(setup, ["timeout", "60", program, "-d", device, "-F", "-p",
                               str(free_port())] + arguments)

    def environment(host):
        return dict(os.environ, LD_PRELOAD=setup.softhca, SOFTHCA_FABRIC=fabric,
                    SOFTHCA_HOST=host, SOFTHCA_HOSTNAME=host)

    if setup.dry_run:
        print(setup.short(" ".join(command)) + " &\n" + " ".join(command + ["127.0.0.1"]))
        return None
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                              env=environment("node0")) as server:
            output = None
            for _ in range(50):  # until the server listens
                client = subprocess.run(command + ["127.0.0.1"], capture_output=True, text=True,
                                        check=False, env=environment("node1"))
                output = client.stdout + client.stderr
                if client.returncode == 0 or "Couldn't connect" not in output:
                    break
            else:
                server.terminate()
            if client.returncode != 0:
                server.terminate()
                setup.fail("%s (%s)" % (program, link), output)
                return None
    return client.stdout


def last_row(output):
    rows = re.findall(r"^[ \t]*\d+[ \t]+\d+[ \t]+[\d. \t]+$", output or "", re.M)
    return rows[-1].split() if rows else None


def run_raw(setup, link):
    found = {}
    for size in ("8", "64", "1024", "8192", "65536", "1048576"):
        count = "2000" if int(size) < 65536 else "200"
        row = last_row(perftest(setup, link, "ib_send_lat", ["-s", size, "-n", count]))
        if row:
            found["lat " + size] = float(row[4])  # t_typical, the median
    for size, count in (("1024", "5000"), ("8192", "3000"), ("65536", "2000"), ("1048576", "300"),
                        ("4194304", "100")):
        row = last_row(perftest(setup, link, "ib_write_bw", ["-s", size, "-n", count]))
        if row:
            found["bw " + size] = float(row[3]) * 1.048576  # its MB are 2^20 bytes
    row = last_row(perftest(setup, link, "ib_send_bw", ["-s", "8", "-n", "20000"]))
    if row:
        found["mr 8"] = float(row[4]) * 1e6
    return found


# ---- once per report -------------------------------------------------------------------------

def memory(setup):
    """Bytes registered by one process after MPI_Init and for each connected peer, as the
    component's own counters tell."""
    output = run_mpi(setup, "ib", VRBRUN["verbs"],
                     [os.path.join(setup.build, "benchmarks", "vrb_memory"), "--json"], ranks=6, timed=False)
    try:
        return json.loads(re.search(r"^\{.*\}$", output or "", re.M).group(0))
    except (AttributeError, ValueError):
        return None


def examples(setup):
    """Commands that repeat single measurements: one for each peer."""
    commands = []
    for peer in VRBRUN:
        program, _ = program_of(setup, "lat")
        commands.append(setup.short(" ".join(
            "'%s'" % word if ";" in word else word for word in mpi_command(
                setup, "ib", options_of(setup, peer), program, timed=False))))
    return commands


def one_figure(setup, options, program, size, field, limit=60):
    """A figure of two ranks at one size, or None."""
    output = run_mpi(setup, "ib", options,
                     [setup.program(program), "-m", "%d:%d" % (size, size), "-b", "200", "--json"], limit=limit)
    return own_figures(output, field).get(size) if output else None


def beside_shared_memory(setup, rounds=7):
    """Half round trips of 8 B through shared memory, without verbs in the job and beside an idle
    one: {"without": [us, ...], "idle": [us, ...]}, interleaved."""
    found = {"without": [], "idle": []}
    name = "vader" if " 4." in first_line("mpirun", "--version") else "sm"
    for _ in range(rounds):
        for key, more in (("without", ""), ("idle", ",verbs")):
            found[key].append(one_figure(setup, ["--hosts", "1", "--btl", "self," + name + more], "latency", 8, "p50_us"))
    return {key: [value for value in values if value] for key, values in found.items()}


def overlap(setup, rounds=3):
    """Percent of a non-blocking 1 MiB transfer that a computation hides: {peer: [percent, ...]}"""
    found = {"verbs": [], "ucx": []}
    for _ in range(rounds):
        for peer, values in found.items():
            values.append(one_figure(setup, VRBRUN[peer], "isend", 1 << 20, "overlap_percent"))
    return {peer: [value for value in values if value is not None] for peer, values in found.items()}


def extras(setup):
    return {"memory": memory(setup),
            "shared_memory": beside_shared_memory(setup),
            "overlap": overlap(setup),
            "instructions": {peer: counting.counted(setup, peer) for peer in ("verbs", "ucx")}}


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    text = (done.stdout or done.stderr).strip()
    return text.splitlines()[0] if text else "?"


def package(name):
    version = first_line("dpkg-query", "-W", "-f=${Version}", name)
    return version if re.match(r"\d", version) else "?"


def machine(setup):
    cpu = "?"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            cpu = re.search(r"model name\s*: (.*)", info.read()).group(1)
    except (OSError, AttributeError):
        pass
    system = "?"
    try:
        with open("/etc/os-release", encoding="utf-8") as info:
            system = re.search(r'PRETTY_NAME="(.*)"', info.read()).group(1)
    except (OSError, AttributeError):
        pass
    revision = first_line("git", "-C", setup.top, "describe", "--always", "--dirty")
    return {"cpu": "%d x %s" % (os.cpu_count() or 0, cpu), "system": system,
            "kernel": os.uname().release, "mpi": first_line("mpirun", "--version"),
            "ucx": package("libucx0"), "libfabric": package("libfabric1"),
            "perftest": package("perftest"),
            "rdma-core": package("libibverbs1"), "gcc": first_line("gcc", "--version"),
            "revision": revision if re.match(r"[0-9a-f]+|v\d", revision) else "?",
            "load": "%.1f" % os.getloadavg()[0]}
