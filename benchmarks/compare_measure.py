# Runs the programs that benchmarks/compare measures with, and reads their output.
# SPDX-License-Identifier: BSD-3-Clause

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile

import instruction_count as counting

DEFAULT_PEERS = ["verbs", "ucx", "openib", "tcp", "raw"]
PEERS = DEFAULT_PEERS + ["verbs-ud", "verbs-auto"]
LAT_SIZES = ["0", "8", "1K", "8K", "64K"]
BW_SIZES = ["1K", "8K", "64K", "1M", "4M"]
RATE_SIZES = ["8"]

# What makes vrbrun use a peer; openib has no connection manager for RoCE in Debian's build.
VRBRUN = {
    "verbs": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "rc"],
    "verbs-ud": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "ud"],
    "verbs-auto": ["--btl", "self,verbs", "--mca", "btl_verbs_mode", "auto"],
    "ucx": ["--pml", "ucx"],
    "openib": ["--btl", "self,openib"],
    "tcp": ["--btl", "self,tcp"],
}

RAW_PROGRAMS = ["ib_send_lat", "ib_write_bw", "ib_send_bw"]  # of perftest


class Setup:
    """Where things are, and what went wrong so far."""

    def __init__(self, budget_ms, real_time):
        self.top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        self.build = os.environ.get("BUILD", os.path.join(self.top, "_build"))
        self.prefix = os.environ.get("PREFIX", os.path.join(self.top, "_inst"))
        self.budget_ms = budget_ms
        self.failures = []
        # SCHED_RR: a rank that spins under SCHED_FIFO starves the threads of its peers
        self.real_time = real_time and shutil.which("chrt") is not None and subprocess.run(
            ["chrt", "-r", "10", "true"], capture_output=True, check=False).returncode == 0
        self.pingpong = os.path.join(self.build, "benchmarks", "vrb_pingpong")
        self.softhca = os.path.join(self.build, ".libs", "libsofthca.so")

    def problem(self):
        for path in (self.pingpong, self.softhca,
                     os.path.join(self.prefix, "lib", "openmpi", "mca_btl_verbs.so")):
            if not os.path.exists(path):
                return "no %s: run ./quickstart or make install first" % path
        return None

    def leave_out(self, peers):
        """Drops the peers whose programs are missing; returns the others and a line on each."""
        missing = [p for p in RAW_PROGRAMS if shutil.which(p) is None] if "raw" in peers else []
        if not missing:
            return peers, []
        return [p for p in peers if p != "raw"], [
            "no %s, so the raw device is not measured (install the package perftest)"
            % " ".join(missing)]

    def fail(self, what, output):
        # lines of dashes say nothing; a reader elsewhere has other folders
        lines = [line.strip() for line in output.splitlines() if line.strip("- \t")]
        text = what + ": " + (" / ".join(lines[-3:]) if lines else "no output")
        text = text.replace(self.build + "/", "_build/").replace(self.top + "/", "")
        temporary = re.escape(tempfile.gettempdir()) + r"/tmp\w+"
        text = re.sub(temporary, "TMP", text)
        if text not in self.failures:  # every round fails alike
            self.failures.append(text)


def prefixed(setup, command):
    return (["chrt", "-r", "10"] if setup.real_time else []) + command


def run_mpi(setup, link, options, program, ranks=2, timed=True, limit=60):
    """Output of an MPI job on two hosts, or None."""
    command = (prefixed(setup, []) if timed else []) + [
        os.path.join(setup.top, "tests", "lib", "vrbrun"), "--ranks", str(ranks),
        "--hosts", "2", "--link", link, "--timeout", str(limit)] + options + ["--"] + program
    environment = dict(os.environ, BUILD=setup.build, PREFIX=setup.prefix, TOP=setup.top)
    # two ranks on two cores need not yield, and a yield is a system call
    if timed and ranks == 2:
        environment.setdefault("VRB_CORES", str((os.cpu_count() or 1) + 1))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        setup.fail(" ".join(command[-6:]) + " (%s)" % link, done.stdout + done.stderr)
        return None
    return done.stdout


def run_peer(setup, peer, link):
    """One round: {(test, size): microseconds or 10^6 bytes/s or messages/s}, keys as text."""
    if peer == "raw":
        return run_raw(setup, link)
    if peer == "openib" and link == "roce":
        return {}
    found = {}
    for test, sizes in (("lat", LAT_SIZES), ("bw", BW_SIZES), ("mr", RATE_SIZES)):
        output = run_mpi(setup, link, VRBRUN[peer], [
            setup.pingpong, "-t", test, "-s", ",".join(sizes), "-b", str(setup.budget_ms),
            "--json"])
        if output is None:
            continue
        # the transport may print something before it
        match = re.search(r'^\{"benchmark".*^\]\}$', output, re.M | re.S)
        for row in json.loads(match.group(0))["results"] if match else []:
            field = {"lat": "p50_us", "bw": "p50_mbps", "mr": "p50_msgs"}[test]
            found["%s %d" % (test, row["size"])] = row[field]
    return found


# ---- raw device ------------------------------------------------------------------------------

def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def perftest(setup, link, program, arguments):
    """Server on node0 and client on node1; the client's output, or None."""
    fabric = "compare-%d" % os.getpid()
    device = "shca0" if link == "ib" else "shca1"
    command = prefixed(setup, ["timeout", "60", program, "-d", device, "-F", "-p",
                               str(free_port())] + arguments)

    def environment(host):
        return dict(os.environ, LD_PRELOAD=setup.softhca, SOFTHCA_FABRIC=fabric,
                    SOFTHCA_HOST=host, SOFTHCA_HOSTNAME=host)

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
    for size in ("8", "1024", "65536"):
        row = last_row(perftest(setup, link, "ib_send_lat", ["-s", size, "-n", "2000"]))
        if row:
            found["lat " + size] = float(row[4])  # t_typical, the median
    for size, count in (("65536", "2000"), ("1048576", "300"), ("4194304", "100")):
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


def extras(setup):
    return {"memory": memory(setup),
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
            "ucx": package("libucx0"), "perftest": package("perftest"),
            "rdma-core": package("libibverbs1"), "gcc": first_line("gcc", "--version"),
            "revision": revision if re.match(r"[0-9a-f]+|v\d", revision) else "?",
            "load": "%.1f" % os.getloadavg()[0]}
