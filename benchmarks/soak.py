"""Kill processes at random while jobs run, and check that every run ends as expected and leaves nothing on any node.

    .venv/bin/python benchmarks/soak.py [--rounds 100] [--nodes 3] [--seed 1]

Needs root, for the lab. A round is one run with one fault, and must end with the outcome that the fault deserves, the
right node or rank named, and no process, socket or held port of any run on any node. Prints a line for each round that
went wrong, and in the end how each kind went: rounds, wrong ones, seconds from the fault to the end of the last node
(median, worst). Exit code 1 if any round was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode

PORT = 29500
WORKDIR = "/tmp"
JOB = "echo up $RANK; while [ ! -e /tmp/soak-go ]; do sleep 0.1; done"
DEADLINE_S = 60.0

LOOK = """
import glob, os
for path in glob.glob("/proc/[0-9]*"):
    try:
        env = open(path + "/environ", "rb").read()
        words = open(path + "/cmdline", "rb").read().split(b"\\0")
    except OSError:
        continue
    marks = dict(word.split(b"=", 1) for word in env.split(b"\\0") if b"=" in word)
    if b"PYLAUNCH_RANK" in marks:
        is_rank = os.getsid(int(path[6:])) == int(path[6:])
        print("rank" if is_rank else "child", path[6:], marks[b"PYLAUNCH_RANK"].decode())
    elif b"PYLAUNCH_RUN" in marks:
        print("other", path[6:], 0)
    elif any(word.endswith(b".pyz") for word in words):
        pid = int(path[6:])
        print("relay" if os.getsid(pid) == pid else "agent", pid, 0)
    elif words[0].startswith(b"sshd: root@"):
        print("session", path[6:], 0)
for path in glob.glob("/var/tmp/pylaunch-0/runs/*/*.sock"):
    print("socket", 0, path)
"""


@dataclass(frozen=True)
class Found:
    """A process or socket of pylaunch on a node."""

    node: str
    kind: str
    pid: int
    detail: str


def look(node: LabNode) -> list[Found]:
    """Return ranks, agents, relays, sshd's sessions and sockets on `node`."""
    lines = node.run("python3", "-c", LOOK).stdout.splitlines()
    words = (line.split(" ", 2) for line in lines)
    return [Found(node.name, kind, int(pid), detail) for kind, pid, detail in words]


def leftovers(lab: Lab) -> list[Found]:
    """Return processes, ports and sockets that must not exist between runs."""
    found = [each for node in lab for each in look(node) if each.kind != "session"]
    for node in lab:
        if node.run("ss", "-ltnH", f"sport = :{PORT}").stdout.strip():
            found.append(Found(node.name, "port", 0, str(PORT)))
    return found


class WrongError(Exception):
    """A round did not end as expected."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > until:
            raise WrongError(f"not within {DEADLINE_S:g} s: {what}")
        select.select([], [], [], 0.05)


class Round:
    """One run, from its start to the proof that nothing is left."""

    def __init__(self, lab: Lab, directory: Path, chance: random.Random) -> None:
        self.lab = lab
        self.chance = chance
        self._file = directory / "output"
        for node in lab:
            node.run("rm", "-f", "/tmp/soak-go")
        words = (
            "start",
            "-i",
            str(lab.inventory),
            "--workdir",
            WORKDIR,
            "--framework",
            "command",
            "--",
            "sh",
            "-c",
            JOB,
        )
        with self._file.open("wb") as sink:
            self.controller = subprocess.Popen(
                lab.command(*words), env={**os.environ, **lab.environment}, stdin=subprocess.DEVNULL, stdout=sink,
                stderr=sink,
            )  # fmt: skip
        wait_for(
            lambda: self.output.count("| up ") == len(lab.nodes) or self.controller.poll() is not None, "the start"
        )
        if self.controller.poll() is not None:
            raise WrongError(f"the start failed: {self.output}")

    @property
    def output(self) -> str:
        return self._file.read_text(errors="replace")

    def victim(self, kind: str) -> Found:
        """Return a random process of this kind."""
        node = self.chance.choice(self.lab.nodes)
        return self.chance.choice([found for found in look(node) if found.kind == kind])

    def kill(self, found: Found) -> None:
        self.lab[found.node].run("kill", "-KILL", str(found.pid), check=False)

    def go(self) -> None:
        """Let the ranks exit with 0."""
        for node in self.lab:
            node.run("touch", "/tmp/soak-go")

    def ends(self, code: int, *texts: str) -> None:
        """Check that the controller ends with `code` and prints `texts`."""
        try:
            ended = self.controller.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise WrongError(f"no end within {DEADLINE_S:g} s: {self.output[-2000:]}") from None
        self._must(ended, code, self.output, texts)

    def attached(self, code: int, *texts: str) -> None:
        """Check that pylaunch attach ends with `code` and prints `texts`."""
        done = self.lab.pylaunch("attach", timeout_s=DEADLINE_S)
        self._must(done.returncode, code, done.stdout + done.stderr, texts)

    def _must(self, ended: int, code: int, output: str, texts: tuple[str, ...]) -> None:
        missing = [text for text in texts if text not in output]
        if ended != code or missing:
            raise WrongError(f"exit code {ended}, expected {code}; missing: {missing}; output: {output[-2000:]}")

    def close(self) -> None:
        """Kill the controller, if it still runs."""
        self.controller.kill()
        self.controller.wait()


def rank_killed(this: Round) -> None:
    rank = this.victim("rank")
    this.kill(rank)
    this.ends(ExitCode.JOB_FAILED, f"rank {rank.detail} on {rank.node} was killed by SIGKILL", "clean")


def agent_killed(this: Round) -> None:
    agent = this.victim("agent")
    this.kill(agent)
    this.ends(ExitCode.JOB_FAILED, f"{agent.node} answers, but the agent of run", "clean")


def session_killed(this: Round) -> None:
    session = this.victim("session")
    this.kill(session)
    wait_for(lambda: f"{session.node}: reached again" in this.output, f"{session.node} is reached again")
    this.go()
    this.ends(ExitCode.DONE, "clean")


def controller_killed_and_attached(this: Round) -> None:
    this.close()
    this.go()
    this.attached(ExitCode.DONE, "exited with code 0")


def controller_and_rank_killed(this: Round) -> None:
    this.close()
    rank = this.victim("rank")
    this.kill(rank)
    wait_for(lambda: not any(found.kind == "rank" for node in this.lab for found in look(node)), "all nodes stop")
    this.attached(ExitCode.JOB_FAILED, f"rank {rank.detail} on {rank.node} was killed by SIGKILL")


def controller_and_agent_killed(this: Round) -> None:
    this.close()
    agent = this.victim("agent")
    this.kill(agent)
    wait_for(lambda: not any(found.kind == "rank" for node in this.lab for found in look(node)), "all nodes stop")
    this.attached(ExitCode.JOB_FAILED, f"{agent.node} answers, but the agent of run")


def interrupted(this: Round) -> None:
    this.controller.send_signal(signal.SIGINT)
    this.ends(ExitCode.INTERRUPTED, "clean")


FAULTS: dict[str, Callable[[Round], None]] = {
    "rank killed": rank_killed,
    "agent killed": agent_killed,
    "ssh session killed": session_killed,
    "controller killed, attached": controller_killed_and_attached,
    "controller and rank killed": controller_and_rank_killed,
    "controller and agent killed": controller_and_agent_killed,
    "Ctrl-C": interrupted,
}


@dataclass
class Tally:
    """Results of the rounds of one kind."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0


def play(lab: Lab, directory: Path, fault: str, chance: random.Random) -> float:
    """Run one round and return the seconds from the fault to the end. Raises WrongError."""
    this = Round(lab, directory, chance)
    try:
        began = time.monotonic()
        FAULTS[fault](this)
        seconds = time.monotonic() - began
    finally:
        this.close()
    wait_for(lambda: not leftovers(lab), "nothing is left on any node")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    chance = random.Random(seed)
    tallies = {fault: Tally() for fault in FAULTS}
    with (
        Lab.up(f"soak{os.getpid()}", nodes=arguments.nodes) as lab,
        tempfile.TemporaryDirectory(prefix="pylaunch-soak-") as directory,
    ):
        for number in range(arguments.rounds):
            fault = chance.choice(list(FAULTS))
            try:
                tallies[fault].seconds.append(play(lab, Path(directory), fault, chance))
            except WrongError as error:
                tallies[fault].wrong += 1
                left = [f"{each.node} {each.kind} {each.pid} {each.detail}" for each in leftovers(lab)]
                print(json.dumps({"round": number, "fault": fault, "wrong": str(error), "left": left}), flush=True)
                lab.pylaunch("stop", "--all", "--now", timeout_s=DEADLINE_S)
    show(tallies, seed)
    return 1 if any(tally.wrong for tally in tallies.values()) else 0


def show(tallies: dict[str, Tally], seed: int) -> None:
    print(f"{f'seed {seed}':32}{'rounds':>8}{'wrong':>8}{'median s':>10}{'worst s':>10}")
    for fault, tally in tallies.items():
        count = len(tally.seconds) + tally.wrong
        times = f"{statistics.median(tally.seconds):10.2f}{max(tally.seconds):10.2f}" if tally.seconds else ""
        print(f"{fault:32}{count:8}{tally.wrong:8}{times}")


if __name__ == "__main__":
    sys.exit(main())
