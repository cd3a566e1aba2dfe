"""Measure the start of the agent on a node, with and without compiled modules.

    .venv/bin/python benchmarks/agent_start.py [--runs 21] [--python /usr/bin/python3]

Prints milliseconds of processor time of `agent.pyz runs`, the two in turns.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

from pylaunch.runs.prepare.launch import build


def main() -> None:
    """Measure and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--python", default="/usr/bin/python3")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as made:
        archives = {"compiled before": Path(made) / "kept.pyz", "compiled each time": Path(made) / "bare.pyz"}
        for archive in archives.values():
            archive.write_bytes(build().data)
        tag = subprocess.run(
            [asked.python, "-c", "import sys; print(sys.implementation.cache_tag)"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        (Path(made) / f"bare.pyz.{tag}").mkdir()  # Nothing can be kept there.
        seconds: dict[str, list[float]] = {name: [] for name in archives}
        for turn in range(asked.runs + 1):
            for name, archive in archives.items():
                took = processor_seconds(asked.python, "-I", "-S", str(archive), "runs", "--root", f"{made}/root")
                if turn > 0:  # The first turn compiles.
                    seconds[name].append(took)
    for name, found in seconds.items():
        print(f"{name:20}{1000 * statistics.median(found):7.0f}{1000 * max(found):7.0f}")


def processor_seconds(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
