"""Measure how long `start --sync` ships new code that nodes pass on, beside the controller alone. Needs root.

python benchmarks/sync_compared.py [--nodes 1,3,8] [--size 48MiB] [--uplink 100] [--fast]

The controller sends 100 Mbit/s and nodes receive 1 Gbit/s; with --fast, nothing is limited. The seconds are those that
the record of the run has as `ship`. Then the start is repeated without a change, and with a change of a few bytes.
Last is the processor time of a node during the first start, of all its processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import on_lab
import push_compared

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.model.text.size import parse_size

ALONE = (
    "from pylaunch.runs.sync import ship; ship.LEAST_SAVED = 1 << 60\n"
    "import sys; sys.argv[0] = 'pylaunch'\nfrom pylaunch.cli.main import main; main()"
)
WAYS = {"passed on": on_lab.PYLAUNCH, "controller alone": (sys.executable, "-c", ALONE)}


def main() -> None:
    """Print the seconds of each way for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1,3,8")
    parser.add_argument("--size", default="48MiB")
    parser.add_argument("--uplink", type=float, default=push_compared.UPLINK_MBPS, help="Mbit/s")
    parser.add_argument("--fast", action="store_true")
    asked = parser.parse_args()
    numbers = [int(word) for word in asked.nodes.split(",")]
    with on_lab.lab(max(numbers)) as inventory, tempfile.TemporaryDirectory() as directory:
        lab = Lab.load(f"bench{os.getpid()}") if asked.fast else push_compared.shaped(asked.uplink)
        names = load_cluster(inventory).names
        work = Path(directory)
        on_lab.pylaunch("start", "-i", str(inventory), "--workdir", "/", "--framework", "command", "--", "/bin/true")
        print(f"{'seconds':<20}{'nodes':>6}{'new':>8}{'unchanged':>11}{'changed':>9}{'of a processor':>16}", flush=True)
        for number in numbers:
            for way, words in WAYS.items():
                (work / "weights").write_bytes(os.urandom(parse_size(asked.size)))
                seconds, cost, used = [], 0.0, processor_s(lab)
                for step in ("new", "new", "changed"):
                    (work / "step").write_text(step)
                    seconds.append(shipped_s((*words, "start", "-i", str(inventory)), names[:number], work))
                    cost = cost or (processor_s(lab) - used) / number
                new, unchanged, changed = seconds
                print(f"{way:<20}{number:>6}{new:>8.2f}{unchanged:>11.2f}{changed:>9.2f}{cost:>16.2f}", flush=True)


def processor_s(lab: Lab) -> float:
    """Return the processor time that all nodes have used so far."""
    texts = [Path(node.cgroup.directory, "cpu.stat").read_text() for node in lab]
    return sum(int(text.split()[1]) for text in texts) / 1e6


def shipped_s(start: tuple[str, ...], names: tuple[str, ...], work: Path) -> float:
    """Start a job that does nothing with the code in `work`; return the seconds that shipping took."""
    words = ("--limit", ",".join(names), "--framework", "command", "--sync", str(work), "--", "/bin/true")
    subprocess.run((*start, *words), check=True, capture_output=True)
    events = [event for event in on_lab.newest_events() if event.get("host") is None]
    return float(next(event["seconds"]["ship"] for event in events if "ship" in event.get("seconds", {})))


if __name__ == "__main__":
    main()
