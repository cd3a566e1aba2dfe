"""Measure how long `provision` installs a new environment that hosts pass on, beside the controller alone. Needs root.

python benchmarks/provision_compared.py [--nodes 1,3,8] [--size 200MB] [--alone 1,3,8]

The controller sends 100 Mbit/s and nodes receive 1 Gbit/s. The environment is one wheel with random bytes, and uv. The
seconds are those from calling `provision --roles python_env` to its end; nodes have no environment then. `--alone`:
numbers of nodes for which the controller alone is measured, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import on_lab
import push_compared

from pylaunch.inventory import load_cluster
from pylaunch.model.text.size import parse_size

ALONE = (
    "from pylaunch.provision.environments import spread_archive; spread_archive.LEAST_SAVED = 1 << 60\n"
    "import sys; sys.argv[0] = 'pylaunch'\nfrom pylaunch.cli.main import main; main()"
)
WAYS = {"passed on": on_lab.PYLAUNCH, "controller alone": (sys.executable, "-c", ALONE)}


def main() -> None:
    """Print the seconds of each way for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1,3,8")
    parser.add_argument("--alone", default="1,3,8")
    parser.add_argument("--size", default="200MB")
    asked = parser.parse_args()
    numbers = [int(word) for word in asked.nodes.split(",")]
    alone = [int(word) for word in asked.alone.split(",") if word]
    with on_lab.lab(max(numbers)) as inventory, tempfile.TemporaryDirectory() as directory:
        wheel = write_wheel(Path(directory), parse_size(asked.size))
        requirements = Path(directory, "requirements.txt")
        requirements.write_text(f"{wheel}\n")
        on_lab.pylaunch("env", "lock", str(requirements), "-i", str(inventory))
        lab = push_compared.shaped()
        names = load_cluster(inventory).names
        print(f"{'seconds':<20}{'nodes':>6}{'all':>8}", flush=True)
        for number in numbers:
            for way, words in WAYS.items():
                if way == "passed on" or number in alone:
                    seconds = provisioned_s(words, inventory, names[:number])
                    print(f"{way:<20}{number:>6}{seconds:>8.1f}", flush=True)
                    for node in lab.nodes[:number]:
                        node.run("rm", "-r", "/opt/pylaunch")


def write_wheel(directory: Path, size: int) -> Path:
    """Write a wheel with one file of random bytes."""
    path = directory / "weights-1.0-py3-none-any.whl"
    metadata = {
        "METADATA": "Metadata-Version: 2.1\nName: weights\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: benchmark\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "weights/blob,,\n"
        + "".join(f"weights-1.0.dist-info/{n},,\n" for n in ("METADATA", "WHEEL", "RECORD")),
    }
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("weights/blob", os.urandom(size))
        for name, text in metadata.items():
            wheel.writestr(f"weights-1.0.dist-info/{name}", text)
    return path


def provisioned_s(provision: tuple[str, ...], inventory: Path, names: tuple[str, ...]) -> float:
    """Return the seconds that `provision` takes."""
    words = ("provision", "-i", str(inventory), "--limit", ",".join(names), "--roles", "python_env")
    begun = time.perf_counter()
    ended = subprocess.run((*provision, *words), check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    print("".join(f"  {line}\n" for line in ended.stderr.splitlines() if "sent" in line), end="", flush=True)
    return seconds


if __name__ == "__main__":
    main()
