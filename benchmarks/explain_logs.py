"""Time and memory of `pylaunch explain` on the logs of many ranks: one file for each rank, and all ranks interleaved.

.venv/bin/python benchmarks/explain_logs.py --ranks 64 --megabytes 100 --runs 3
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STEP = "2026-11-22 10:{:02d}:{:02d},{:03d} INFO trainer: step {} loss={:.4f} tokens/s={:.1f} grad={:.3f} mem=41.2GiB\n"
INFO = "n{}:{}:{} [{}] NCCL INFO Channel {:02d}/0 : {}[{}] -> {}[{}] [send] via NET/IB/0/GDRDMA\n"
TIMEOUT = (
    "[E1122 10:59:59.{:06d} ProcessGroupNCCL.cpp:616] [Rank {}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=3127, OpType=ALLREDUCE, NumelIn=37748736, NumelOut=37748736, Timeout(ms)=600000) ran for 600027 "
    "milliseconds before timing out.\n"
)
CRASH = 'Traceback (most recent call last):\n  File "/srv/train.py", line 41, in <module>\n    main()\n{}: boom\n'


def lines_of(rank: int, size: int, ranks: int) -> Iterator[str]:
    """Yield the lines of one rank: NCCL's start, training, and a failure of rank 37 that the others wait for."""
    chosen = random.Random(rank)
    written = 0
    for each in range(400):
        line = INFO.format(rank // 8, 88213, 88390, rank % 8, each % 16, rank, rank % 8, each % ranks, 0)
        written += len(line)
        yield line
    step = 0
    while written < size:
        line = STEP.format(step // 60 % 60, step % 60, step % 1000, step, chosen.random(), chosen.random() * 1e4, 1.0)
        written += len(line)
        step += 1
        yield line
    yield CRASH.format("ValueError") if rank == 37 % ranks else TIMEOUT.format(rank, rank)


def write(root: Path, ranks: int, size: int) -> None:
    """Write a log for each rank and one of all ranks. A process reports at least the memory of the one that started it.

    So no more than a line of each rank is kept.
    """
    with contextlib.ExitStack() as files:
        together = files.enter_context((root / "interleaved.log").open("w"))
        own = [files.enter_context((root / "each" / f"rank_{rank}.log").open("w")) for rank in range(ranks)]
        for lines in itertools.zip_longest(*(lines_of(rank, size, ranks) for rank in range(ranks))):
            for rank, line in enumerate(lines):
                if line is not None:
                    own[rank].write(line)
                    text = line.removesuffix("\n").split("\n")
                    together.write("".join(f"[rank{rank}]: {each}\n" for each in text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        size = asked.megabytes * 1_000_000 // asked.ranks
        (root / "each").mkdir()
        write(root, asked.ranks, size)
        for name in ("each", "interleaved.log"):
            taken = [measured(root / name) for _ in range(asked.runs)]
            seconds = [each[0] for each in taken]
            print(f"{name}: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s, "
                  f"processor {min(each[1] for each in taken):.1f} s, {max(each[2] for each in taken)} MiB; "
                  f"{taken[0][3]}")  # fmt: skip


def measured(path: Path) -> tuple[float, float, int, str]:
    """Return the seconds, those of the processor, the largest resident size in MiB and the verdict of one run."""
    reader, writer = os.pipe()
    began = time.monotonic()
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_CLOSE, reader)]
    argv = [sys.executable, "-m", "pylaunch", "explain", "--json", str(path)]
    child = os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions)
    os.close(writer)
    with os.fdopen(reader) as output:
        document = json.load(output)
    _, status, usage = os.wait4(child, 0)
    assert status == 0
    first = document["causes"][0]
    processor = usage.ru_utime + usage.ru_stime
    return time.monotonic() - began, processor, usage.ru_maxrss // 1024, f"{first['cause']} {first['ranks']}"


if __name__ == "__main__":
    main()
