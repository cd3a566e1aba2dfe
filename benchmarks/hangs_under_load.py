"""Seconds until the rank that holds up the others is named, while several runs hang at the same time.

Counted from the release, so imports are included; the seconds without progress are those that the warning states.

Starts --runs runs of three ranks on directories of this machine, each with one hang; needs no root. With --python of an
environment with torch, the ranks meet on gloo and the hangs that need torch take part.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.starts.cluster import made_of_directories

PATIENCE_S = 240.0
LAST_LINES = 6
GUILTY = 1
FRAME = """\
import os, socket, sys, threading, time
from pylaunch.runtime import step
rank = int(os.environ["RANK"])
def wait_for_peers():
    one, other = socket.socketpair()
    one.recv(1)
for number in range(5):
    step(number)
    time.sleep(0.1)
"""
TORCH_FRAME = """\
import datetime, os, sys, threading, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
for number in range(3):
    dist.all_reduce(torch.ones(2))
def wait_for_peers():
    dist.barrier()
"""
LOOP = "def computes():\n    while True:\n        sum(range(1000))\n"
SLEEP = "def sleeps():\n    time.sleep(3600)\n"
LOCK = (
    "import pathlib\nlock = pathlib.Path('build.lock')\nlock.touch()\n"
    "def waits_for_lock():\n    while lock.exists():\n        time.sleep(0.5)\n"
)
WORKER = (
    "held = threading.Lock()\n"
    "class Locked(torch.utils.data.Dataset):\n"
    "    def __len__(self): return 8\n"
    "    def __getitem__(self, number):\n        with held: return number\n"
    "def loads():\n"
    "    held.acquire()\n"
    "    next(iter(torch.utils.data.DataLoader(Locked(), num_workers=1, multiprocessing_context='fork')))\n"
)
ASYNC = "def leaves_async():\n    work = dist.all_reduce(torch.ones(2), async_op=True)\n    time.sleep(3600)\n"
PLAIN_HANGS = {"sleeps": SLEEP, "waits_for_lock": LOCK}
TORCH_HANGS = {**PLAIN_HANGS, "computes": LOOP, "loads": WORKER, "leaves_async": ASYNC}


def script_of(hang: str, *, has_torch: bool) -> str:
    """Return a script of which rank GUILTY hangs in the function `hang`, and the others wait for it."""
    frame, hangs = (TORCH_FRAME, TORCH_HANGS) if has_torch else (FRAME, PLAIN_HANGS)
    return f"{frame}{hangs[hang]}{hang}() if rank == {GUILTY} else wait_for_peers()\n"


def measured(directory: Path, hang: str, python: str, *, has_torch: bool) -> str:
    """Run one hang and return the seconds since the release, those without progress as stated, and the warning.

    Of a run that ends without one: its last lines.
    """
    directory.mkdir()
    cluster = made_of_directories(directory, ["n1", "n2", "n3"])
    script = directory / "train.py"
    script.write_text(script_of(hang, has_torch=has_torch))
    words = ["start", "-i", str(cluster.inventory), "--workdir", str(directory), "--framework", "direct"]
    start = cluster.begin(*words, "--python", python, "--", str(script), stdout=subprocess.DEVNULL)
    assert start.stderr is not None
    timer = threading.Timer(PATIENCE_S, start.send_signal, (signal.SIGINT,))
    timer.start()
    released, found = 0.0, ""
    lines: list[str] = []
    for line in start.stderr:
        lines.append(line.strip())
        if line.startswith("started in"):
            released = time.monotonic()
        elif line.startswith(("warning: hang:", "slow:")):
            is_named = f"rank {GUILTY} on n2" in line
            verdict = "right" if is_named else "wrong"
            silence = re.search(r"\d+ s without", line)
            stated = silence[0] if silence else "no time"
            found = f"{time.monotonic() - released:5.0f} s  {stated:>13} progress  {verdict}  {line.strip()[:90]}"
            if is_named:
                break
    timer.cancel()
    if start.poll() is None:
        start.send_signal(signal.SIGINT)
    start.communicate()
    return found or f"never: {' | '.join(lines[-LAST_LINES:])}"


def main() -> None:
    """Print the time and the text of each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--torch", action="store_true", help="the ranks meet with torch on gloo")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    hangs = [*(TORCH_HANGS if args.torch else PLAIN_HANGS)]
    draw = random.Random(args.seed)
    drawn = [hangs[number % len(hangs)] for number in range(args.runs)]
    draw.shuffle(drawn)

    def run(number: int, hang: str) -> None:
        found = measured(Path(directory) / str(number), hang, args.python, has_torch=args.torch)
        print(f"{hang:16} {found}", flush=True)

    with tempfile.TemporaryDirectory() as directory:
        threads = [threading.Thread(target=run, args=each) for each in enumerate(drawn)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
