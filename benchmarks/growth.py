"""Measure how the cost of `check` and `start` for the controller grows with the number of hosts, on lab nodes.

    .venv/bin/python benchmarks/growth.py [--hosts 3,16,32,64] [--runs 5] [--model 256,1000]
        [--agents-per-node 32] [--start-only]

Needs root, for the lab: one of the largest size, of which each row uses the first nodes, over connections that are
open. With --agents-per-node, each lab node is that many hosts: a port of its sshd for each, and files of its own. So
256 hosts fit into eight lab nodes, each host with its SSH connection, its agent and its rank. A row has medians:
seconds from Enter to the prompt; processor seconds of pylaunch and its ssh clients, and of the shared connections (one
ssh process per host, which stays); the most open descriptors of pylaunch, ssh clients, and MiB of memory of pylaunch
and of all its ssh processes. Below, a line through the rows and its values for larger clusters. The nodes share the
processors of this machine, so the seconds from Enter to the prompt are theirs, too; the processor time and the memory
are the controller's own. The last table has the seconds of each phase of `start`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from on_lab import PYLAUNCH, lab, newest_events

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.store.files import project_known_hosts
from pylaunch.transport.openssh.sharing import control_directory

FIRST_PORT = 2201
MOST_PORTS = 16
"""On which one sshd listens."""

LOOK_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
VERBS: Mapping[str, tuple[str, ...]] = {
    "check": ("check",), "start": ("start", "--framework", "command", "--workdir", "/"),
}  # fmt: skip

SHARED = ("--node-timeout", "60")
"""Of a start whose hosts are parts of a lab node: 256 agents on the processors of one machine answer late."""


@dataclass(frozen=True)
class Cost:
    """One call of a verb."""

    seconds: float
    processor: float
    shared: float
    """Processor seconds of the shared connections."""

    descriptors: float
    clients: float
    memory: float
    ssh_memory: float


HEAD = ("seconds", "CPU s", "shared CPU s", "descriptors", "ssh clients", "MiB", "MiB of ssh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="3,16,32,64")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--model", default="256,1000")
    parser.add_argument("--agents-per-node", type=int, default=1)
    parser.add_argument("--start-only", action="store_true")
    arguments = parser.parse_args()
    verbs = ["start"] if arguments.start_only else [*VERBS]
    sizes, model = ([int(each) for each in text.split(",")] for text in (arguments.hosts, arguments.model))
    each = arguments.agents_per_node
    with lab(-(-max(sizes) // each)) as inventory:
        where = inventory if each == 1 else shared(inventory, each)
        found, phases = measured(where, sizes, arguments.runs, verbs, SHARED if each > 1 else ())
    for verb in verbs:
        table(f"{verb:>6} hosts", HEAD, {size: found[verb, size] for size in sizes}, model)
    names = list(phases[min(sizes)])
    print("\n start phases" + "".join(f"{name:>14}" for name in names))
    for size in sizes:
        line(str(size), [phases[size][name] for name in names], digits=3)
    print(f"\nprocessors: {os.cpu_count()}, load average at the end: {os.getloadavg()[0]:.1f}")


def shared(inventory: Path, each: int) -> Path:
    """Return an inventory in which each node of a lab is `each` hosts: one is reached at each port of its sshd."""
    nodes = load_cluster(inventory).hosts
    ports = range(FIRST_PORT, FIRST_PORT + each)
    hosts = [(node, port) for port in ports for node in nodes]
    names = {f"n{number}": node.address for number, (node, _) in enumerate(hosts, start=1)}
    keys = dict(line.split(maxsplit=1) for line in project_known_hosts(inventory).read_text().splitlines())
    for node in Lab.load(f"bench{os.getpid()}"):
        for first in range(0, each, MOST_PORTS):  # An sshd of its own for so many ports.
            words = [word for port in ports[first : first + MOST_PORTS] for word in ("-p", str(port))]
            node.run("/usr/sbin/sshd", "-o", "AddressFamily=inet", "-o", "PidFile=none", *words)
        node.write(
            "/etc/hosts",
            "".join(["127.0.0.1 localhost\n", *(f"{address} {name}\n" for name, address in names.items())]),
        )
    found = inventory.with_name("shared") / "cluster.ini"
    found.parent.mkdir()
    lines = [
        f"{name} ansible_host={node.address} ansible_port={port} ansible_user=root"
        f" ansible_ssh_private_key_file={node.ssh.private_key} pylaunch_node_root=/var/lib/pylaunch-{name}"
        for name, (node, port) in zip(names, hosts, strict=True)
    ]
    found.write_text("\n".join(["[cluster]", *lines, ""]))
    known = project_known_hosts(found)
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text("".join(f"[{node.address}]:{port} {keys[node.address]}\n" for node, port in hosts))
    return found


def measured(
    inventory: Path, sizes: Sequence[int], runs: int, verbs: Sequence[str], of_start: Sequence[str]
) -> tuple[dict[tuple[str, int], Cost], dict[int, dict[str, float]]]:
    """Return the median cost of every verb for every size, and the seconds of each phase of a start; all take turns."""
    calls = {(verb, size): (VERBS[verb][0], "-i", str(inventory), "--limit", f"n[1-{size}]", *VERBS[verb][1:])
             for verb in verbs for size in sizes}  # fmt: skip
    costs: dict[tuple[str, int], list[Cost]] = {call: [] for call in calls}
    starts: dict[int, list[Mapping[str, float]]] = {size: [] for size in sizes}
    for turn in range(runs + 1):
        for (verb, size), words in calls.items():
            cost = called((*words, *of_start, "--", "true") if verb == "start" else words)
            print(f"turn {turn}, {verb} of {size}: {cost.seconds:.1f} s", file=sys.stderr, flush=True)
            if turn and verb == "start":
                starts[size].append(start_seconds())
            if turn:  # The first one opens the connections and installs the agent.
                costs[verb, size].append(cost)
    phases = {
        size: {phase: statistics.median(each[phase] for each in found) for phase in found[0]}
        for size, found in starts.items()
    }
    return {
        call: Cost(*map(statistics.median, zip(*map(astuple, each), strict=True))) for call, each in costs.items()
    }, phases


def start_seconds() -> Mapping[str, float]:
    """Return the seconds of each phase of the newest start."""
    return next(event["seconds"] for event in newest_events() if "skew" in event["seconds"])


def masters() -> Iterator[int]:
    """Yield the processes of this machine that hold a shared connection of pylaunch."""
    directory = str(control_directory()).encode()
    for process in Path("/proc").iterdir():
        try:
            title = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ssh: " + directory) and b"[mux]" in title:
            yield int(process.name)


def called(words: Sequence[str], others: Callable[[], Iterable[int]] = masters) -> Cost:
    """Run pylaunch to its end and return what it cost; `others` finds the processes whose cost is reported beside."""
    before = seconds_of(others())
    enter = time.monotonic()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 -- read only after a failure
    process = subprocess.Popen((*PYLAUNCH, *words), stdout=subprocess.DEVNULL, stderr=errors)
    most = [0.0] * 4
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        clients = children(process.pid)
        now = (descriptors(process.pid), len(clients), memory([process.pid]), memory([*clients, *others()]))
        most = [max(pair) for pair in zip(most, now, strict=True)]
        time.sleep(LOOK_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        errors.seek(0)
        print(errors.read().decode(errors="replace")[-4000:])
        raise SystemExit(f"pylaunch {' '.join(words)}: exit code {process.returncode}")
    seconds = time.monotonic() - enter
    return Cost(seconds, usage.ru_utime + usage.ru_stime, seconds_of(others()) - before, *most)


def seconds_of(pids: Iterable[int]) -> float:
    """Return the processor time of processes."""
    return sum(sum(map(int, stat(pid)[11:13])) for pid in pids) / TICKS


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; zeros for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def children(pid: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue
    return found


def descriptors(pid: int) -> int:
    """Return the number of open descriptors of a process."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def memory(pids: Sequence[int]) -> float:
    """Return the memory of processes in MiB, pages that several share divided among them."""
    found = 0
    for pid in pids:
        try:
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return found / 1024


def table(name: str, head: Sequence[str], costs: Mapping[int, Cost], model: Sequence[int]) -> None:
    """Print the costs by number of hosts, the cost of one more host, and those of larger clusters."""
    print(f"\n{name:>12}" + "".join(f"{column:>14}" for column in head))
    for size, cost in costs.items():
        line(str(size), astuple(cost))
    lines = [fitted([*costs], [getattr(cost, field.name) for cost in costs.values()]) for field in fields(Cost)]
    line("+1", [slope for _, slope in lines], digits=4)
    for size in model:
        line(f"~{size}", [begin + slope * size for begin, slope in lines])


def fitted(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Return the value for no host and the value for one more, of the line through the measured ones."""
    line = statistics.linear_regression(sizes, values)
    return line.intercept, line.slope


def line(name: str, values: Sequence[float], digits: int = 2) -> None:
    """Print a row."""
    print(f"{name:>12}" + "".join(f"{value:14.{digits}f}" for value in values))


if __name__ == "__main__":
    main()
