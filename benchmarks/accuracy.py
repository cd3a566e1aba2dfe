"""Drill every fault on lab nodes with all frameworks, and write docs/reference/accuracy.md.

    .venv/bin/python benchmarks/accuracy.py [--seed N] [--keep NAME] [FAULT...]

Needs root, for the lab, and 40 minutes. The ranks with faults are chosen by the seed, which the page names. `--keep`
uses or makes the lab of that name and leaves it up. With names of faults, only these are exercised and no page is
written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from lab import spec
from lab.lab import TOOL, Lab
from pylaunch.store.files import project_environment

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs/reference/accuracy.md"
HEAD = """\
# Accuracy of verdicts

Every fault of the drill (`python -m lab drill`) on a lab of three nodes with one rank each: {when},
PyTorch, JAX, accelerate and DeepSpeed on CPUs, 2 cores for all nodes and the controller, defaults of
`pylaunch start` but `--on-hang stop`.
`benchmarks/accuracy.py --seed {seed}` repeats it and writes this page. The rank with the fault is chosen at random
among those after rank 0; names that end in `rank0` have it there.
[The lab](../contributing/lab.md) explains the columns.

The faults and the rules were written by the same people, and rules were mended after earlier drills: other faults may
fare worse. GPUs, NCCL and InfiniBand are not part of it.

"""
COLUMNS = (
    "runs", "drills", "detected", "right cause", "right name", "named nobody", "accused wrongly", "median / worst s",
    "left something",
)  # fmt: skip
EFFECTS = {"ends": "a rank or node ends", "hangs": "ranks do not advance", "healthy": "healthy, 10 of them slow"}


def provisioned(lab: Lab, directory: Path) -> None:
    """Provision the nodes with every framework, as the README does."""
    wheels = directory / "wheels"
    requirements = directory / "requirements.txt"
    frameworks = EXAMPLES / "requirements-frameworks.txt"
    deepspeed = next(line for line in frameworks.read_text().splitlines() if line.startswith("deepspeed=="))
    wheel = ("wheel", "--quiet", "--no-deps", "--disable-pip-version-check", "--wheel-dir", str(wheels), deepspeed)
    subprocess.run((sys.executable, "-m", "pip", *wheel), env={**os.environ, "DS_BUILD_OPS": "0"}, check=True)
    requirements.write_text(f"-r {frameworks}\n--find-links {wheels}\n")
    inventory = ("-i", str(lab.inventory))
    version = lab.nodes[0].run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
    lock = ("env", "lock", *inventory, "--python", version, str(requirements))
    everywhere = "/var/tmp/wheels"
    lab.inventory.write_text(f"{lab.inventory.read_text()}\n[cluster:vars]\npython_env_index={everywhere}\n")
    subprocess.run(lab.command(*lock), env={**os.environ, **lab.environment}, check=True)
    lines = str(project_environment(lab.inventory) / "requirements.lock")
    download = ("download", "--no-deps", "--only-binary", ":all:", "--python-version", version, "--dest", str(wheels))
    subprocess.run((sys.executable, "-m", "pip", *download, "--find-links", str(wheels), "-r", lines), check=True)
    for words in (("push", *inventory, str(wheels), everywhere), ("provision", *inventory)):
        subprocess.run(lab.command(*words), env={**os.environ, **lab.environment}, check=True)


def drilled(lab: Lab, seed: int, names: list[str]) -> dict[str, Any]:
    """Run the drills; their lines go to stderr."""
    words = (*TOOL, "drill", "--lab", lab.spec.name, "--seed", str(seed), "--json", *names)
    done = subprocess.run(words, env={**os.environ, **lab.environment}, stdout=subprocess.PIPE, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def table(drills: list[dict[str, Any]]) -> Iterable[str]:
    """Yield the lines of the page below its head."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for effect, words in EFFECTS.items():
        of = [each for each in drills if each["effect"] == effect]
        seconds = sorted(each["seconds"] for each in of if each["seconds"] is not None)
        named = [each["named"] for each in of]
        right = [sum(each[column] for each in of) for column in ("detected", "right_cause")]
        counts = (len(of), *right, *(named.count(naming) for naming in ("right", "nobody", "wrong")))
        shown = f"{median(seconds):.1f} / {seconds[-1]:.1f}" if seconds else ""
        left = sum(bool(each["leftovers"]) for each in of)
        yield f"| {words} | {' | '.join(map(str, counts))} | {shown} | {left} |"
    nodes = [each for each in drills if each["effect"] == "ends" and each["kind"] == "node-lost"]
    if nodes:
        lost = sorted(each["seconds"] for each in nodes)
        yield ""
        yield (
            f"The seconds of the first row include {len(nodes)} nodes that were lost (median {median(lost):.1f}): "
            "a node is silent for `--node-timeout` (10 s) before it is lost."
        )
    yield ""
    yield "## Each drill"
    yield ""
    yield "| fault | right | s | verdict |"
    yield "|---|---|---|---|"
    for each in drills:
        seconds = "" if each["seconds"] is None else f"{each['seconds']:.1f}"
        wrong = [] if each["detected"] else ["not detected"] if each["effect"] != "healthy" else ["false alarm"]
        wrong += [] if each["right_cause"] or wrong else ["cause"]
        wrong += (
            {"right": [], "nobody": ["names nobody"], "wrong": ["accuses wrongly"]}[each["named"]] if not wrong else []
        )
        reason = each["reason"].replace("|", "\\|")[:160]
        yield f"| `{each['fault']}` | {'yes' if each['right'] else ', '.join(wrong)} | {seconds} | {reason} |"


def with_logs(page: str, before: str) -> str:
    """Return the new page with the part about logs of the page before it (benchmarks/explain_accuracy.py)."""
    _, heading, part = before.partition("## Logs from outside")
    return f"{page.rstrip()}\n\n{heading}{part}" if heading else page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", metavar="NAME")
    parser.add_argument("faults", nargs="*")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    name = given.keep or f"accuracy{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="pylaunch-accuracy-") as directory:
        shared = Path(directory)
        if name not in spec.names():
            lab = Lab.up(name, nodes=3, share=[EXAMPLES])
            provisioned(lab, shared)
        lab = Lab.load(name)
        try:
            document = drilled(lab, seed, given.faults)
        finally:
            if not given.keep:
                lab.down()
    page = HEAD.format(seed=seed, when=document["time"][:10]) + "\n".join(table(document["drills"])) + "\n"
    print(page)
    if not given.faults and not document["skipped"]:
        PAGE.write_text(with_logs(page, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
