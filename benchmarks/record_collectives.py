"""Record the views of real gloo ranks with one fault each, for the tests of the analysis across ranks.

    .venv/bin/python benchmarks/record_collectives.py PYTHON_WITH_TORCH DIRECTORY [FAULT ...]

Starts three or four ranks of benchmarks/faulty_ranks.py on loopback for each fault, asks them twice, 1 s apart, and
writes DIRECTORY/FAULT.json: a list of two samples, each a list of `RankView`.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from pylaunch.agent.evidence.examination import decoded_answer
from pylaunch.agent.in_rank.answers import Places, rows
from pylaunch.protocol.examination import Collective, RankView

SETTLES_S = 3.0
APART_S = 1.0
ANSWERS_S = 2.0
SCRIPT = Path(__file__).with_name("faulty_ranks.py")
JOB = Path("/opt/job")
FAULTS = (
    "skips_and_waits", "skips_and_continues", "other_operation", "rank_0_deviates", "inverse_order", "loads_data",
    "opens_file", "reads_terminal", "no_barrier", "receives_in_circle", "starts_asynchronous", "chain_of_groups",
    "is_healthy", "is_stopped", "pair_differs",
)  # fmt: skip
WORLDS = {"pair_differs": 2, "chain_of_groups": 4}


def main() -> None:
    """Record all faults, or those named."""
    python, target, *names = sys.argv[1:]
    JOB.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, JOB / "train.py")
    for number, fault in enumerate(names or FAULTS):
        with tempfile.TemporaryDirectory() as scratch:
            samples = record(python, fault, 29800 + number, Path(scratch))
            Path(target, f"{fault}.json").write_bytes(msgspec.json.format(msgspec.json.encode(samples), indent=1))
        print(fault, flush=True)


class RecordedRank:
    """A process, the descriptor that asks it, and the one on which it answers."""

    def __init__(self, python: str, fault: str, port: int, rank: int, scratch: Path) -> None:
        ask_end, self.ask = os.pipe()
        self.answer, answer_end = os.pipe()
        env = {
            "RANK": str(rank), "WORLD_SIZE": str(WORLDS.get(fault, 3)), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"],
        }  # fmt: skip
        words = (python, str(JOB / "train.py"), fault, str(ask_end), str(answer_end), str(scratch))
        self.process = subprocess.Popen(words, env=env, pass_fds=(ask_end, answer_end), stdin=subprocess.PIPE)
        os.close(ask_end)
        os.close(answer_end)
        self.rank, self.scratch, self.asked = rank, scratch, 0

    def await_ready(self) -> None:
        """Wait until the rank has joined the others."""
        assert os.read(self.answer, 1), f"rank {self.rank} ended"

    def request(self) -> None:
        """Ask for a dump."""
        self.asked += 1
        os.write(self.ask, b".")

    def view(self) -> RankView:
        """Return the view after `request`."""
        now = time.time()
        readable, _, _ = select.select([self.answer], [], [], ANSWERS_S)
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        view: dict[str, Any] = {
            "rank": self.rank, "host": f"n{self.rank + 1}", "time": now, "uncertainty_s": 0.001,
            "pid": self.process.pid, "state": stat[0], "cpu_s": cpu_s, "source": "",
            "note": f"no answer in {ANSWERS_S:g} s",
        }  # fmt: skip
        if readable:
            os.read(self.answer, 1)
            stem = self.scratch / f"{self.rank}-{self.asked}"
            answered = json.loads(stem.with_suffix(".json").read_text())
            view |= {"source": "helper", "note": "", "threads": answered["threads"], "groups": answered["groups"]}
            view["collectives"] = [asdict(each) for each in _calls(stem.with_suffix(".pickle").read_bytes())[-12:]]
        return msgspec.convert(view, RankView)


def _calls(dump: bytes) -> list[Collective]:
    """Return the calls in a dump of one of these ranks, as an agent decodes them."""
    places = Places()
    calls = rows(pickle.loads(dump)["entries"], places)
    answer = {"frames": places.rows, "threads": [], "groups": [], "collectives": calls, "note": "", "meeting": []}
    return decoded_answer(json.dumps({**answer, "handles": ""}).encode()).collectives


def record(python: str, fault: str, port: int, scratch: Path) -> list[list[RankView]]:
    """Start the ranks, ask twice, end them."""
    ranks = [RecordedRank(python, fault, port, rank, scratch) for rank in range(WORLDS.get(fault, 3))]
    try:
        for rank in ranks:
            rank.await_ready()
        time.sleep(SETTLES_S)
        if fault == "is_stopped":
            os.kill(ranks[1].process.pid, signal.SIGSTOP)
        samples = []
        for _ in range(2):
            for rank in ranks:
                rank.request()
            samples.append([rank.view() for rank in ranks])
            time.sleep(APART_S)
        return samples
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.wait()


if __name__ == "__main__":
    main()
