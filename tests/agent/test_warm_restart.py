"""Restart whose ranks are forked from the template that the failed attempt left on the node."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent import wire
from pylaunch.agent.run.preload import GONE
from pylaunch.agent.shared import processes
from tests.agent.controller import Controller, Node, gone, is_alive, task
from tests.waiting import wait_until

PYTHON = os.path.realpath("/usr/bin/python3")
LIBRARY = """
import os, sys
with open(os.environ["COUNTED"], "a") as counted:
    counted.write("x")
print("imported")
"""
SCRIPT = """
import json, os, sys, time
had = "counting" in sys.modules
import counting
rank, attempt = int(os.environ["RANK"]), os.environ.get("TORCHELASTIC_RESTART_COUNT")
names = ("PYLAUNCH_RUN", "MASTER_PORT", "WORLD_SIZE", "ONLY_FIRST", "PYLAUNCH_RANK_FILES", "PYLAUNCH_HOSTFILE")
shown = {name: os.environ.get(name) for name in names}
with open("/proc/self/environ", "rb") as source:
    marked = [word for word in source.read().split(b"\\0") if word.startswith(b"PYLAUNCH_RUN=")][0].decode()
files = sorted(os.readlink("/proc/self/fd/" + each) for each in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + each))
print(json.dumps([had, rank, attempt, shown, marked, files, os.getppid()]), flush=True)
if attempt != "2":
    other_has_printed = os.environ["COUNTED"] + "." + attempt
    if rank == 0:
        while not os.path.exists(other_has_printed):
            time.sleep(0.01)
        sys.exit(3)
    open(other_has_printed, "x").close()
    time.sleep(600)
"""  # noqa: E501


class Attempts:
    """Attempts of one run of two ranks, whose first rank fails until the third attempt."""

    def __init__(self, node: Node, directory: Path) -> None:
        self.node = node
        self.directory = directory
        (directory / "library").mkdir()
        self.module = directory / "library" / "counting.py"
        self.module.write_text(LIBRARY)
        self.script = directory / "train.py"
        self.script.write_text(SCRIPT)
        self.counted = directory / "counted"
        self.counted.touch()

    def task(self, number: int, *more: str, **variables: str | None) -> wire.NodeTask:
        words = [PYTHON, "-u", str(self.script), *more]
        run = f"r1.{number}" if number else "r1"
        common = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(self.module.parent), "COUNTED": str(self.counted),
            "ONLY_FIRST": None if number else "1", **variables,
        }  # fmt: skip
        env = {name: value for name, value in common.items() if value is not None}
        asked = task(self.directory, words, words, run=run, env=env, preload=["counting"], keep_template=True)
        for rank in asked.ranks:
            own = {"RANK": rank.rank, "WORLD_SIZE": 2 + number, "TORCHELASTIC_RESTART_COUNT": number}
            rank.env.update({name: str(value) for name, value in own.items()}, MASTER_PORT="@port@")
        return asked

    def prepared(self, asked: wire.NodeTask) -> Controller:
        controller = self.node.prepared(asked)
        assert controller.until(wire.Preloaded).reason == ""
        return controller

    def play(self, asked: wire.NodeTask) -> Controller:
        """Return the controller of an attempt that is over."""
        controller = self.prepared(asked)
        controller.send(wire.Follow({}, None), wire.Release(0.0, rendezvous_port=23000 + asked.ranks[0].rank))
        list(controller.rest())
        (finished,) = controller.all(wire.Finished)
        assert finished.leftovers == []
        return controller

    def members(self) -> list[int]:
        """Return the processes with the command line of the ranks: ranks and templates."""
        return [each.pid for each in processes.mine() if str(self.script) in each.command and is_alive(each.pid)]

    def template(self) -> int:
        """Return the process that waits for the next attempt."""
        (pid,) = self.members()
        return pid

    def nothing_stays(self) -> None:
        wait_until(lambda: not self.members(), "the end of every process of the run")


@pytest.fixture
def attempts(node: Node, tmp_path: Path) -> Attempts:
    return Attempts(node, tmp_path)


def cold(controller: Controller) -> str:
    """Return the reason why the ranks of this attempt imported again; "" if they did not."""
    (preloaded,) = controller.all(wire.Preloaded)
    return preloaded.cold


def lines_of(controller: Controller, rank: int) -> tuple[str, Any]:
    first, second = controller.text(f"{rank}.out").splitlines()
    return first, json.loads(second)


def test_the_ranks_of_three_attempts_share_one_import(attempts: Attempts) -> None:
    supervisors, templates = set(), set()
    for number in range(3):
        controller = attempts.play(attempts.task(number))
        assert cold(controller) == ""
        supervisor = attempts.node.supervisor(controller)
        supervisors.add(supervisor)
        run = f"r1.{number}" if number else "r1"
        for rank in range(2):
            output, (had, own, attempt, shown, marked, files, parent) = lines_of(controller, rank)
            assert (output, had, own, attempt, parent) == ("imported", True, rank, str(number), supervisor)
            assert shown["PYLAUNCH_RUN"] == run
            assert marked == f"PYLAUNCH_RUN={run}"
            assert (shown["WORLD_SIZE"], shown["MASTER_PORT"]) == (str(2 + number), "23000")
            assert shown["ONLY_FIRST"] == (None if number else "1")
            assert shown["PYLAUNCH_HOSTFILE"].endswith(f"/{run}/hostfile")
            assert not [each for each in files if f"/runs/{run}/" not in each and "/runs/" in each]
        if number < 2:
            templates.add(attempts.template())
    assert attempts.counted.read_text() == "x"
    assert len(supervisors) == len(templates) == 1
    attempts.nothing_stays()
    gone(*supervisors)
    assert json.loads(attempts.node.ask("clean").stdout) == {"removed": [], "left": [], "stopped": []}


def test_a_template_between_two_attempts_holds_nothing_of_the_first(attempts: Attempts) -> None:
    controller = attempts.play(attempts.task(0))
    (finished,) = controller.all(wire.Finished)
    template = attempts.template()
    assert f"without the template for the next attempt (pid {template})" in finished.checked[0]

    def kinds() -> list[str]:
        return sorted(name.partition("[")[0] for name in processes.open_files(template) or [])

    wait_until(lambda: kinds() == ["/dev/null"] * 3 + ["socket:"], "nothing but the channel to its agent")
    assert len(list(Path(f"/proc/{template}/task").iterdir())) == 1
    waiting = processes.read(template).parent
    assert waiting == attempts.node.supervisor(controller)
    wait_until(lambda: "stand-by" in processes.read(waiting).command, "the wait for the next attempt")
    root = str(attempts.node.root / "runs")
    wait_until(lambda: len(processes.open_files(waiting) or []) <= 5, "the descriptors of the wait")
    named = [name for name in processes.open_files(waiting) or [] if name.startswith(root)]
    assert set(named) == {f"{root}/r1/agent.log"}


@pytest.mark.parametrize("how", ["clean", "kill", "kill the agent", "other caller"])
def test_a_template_that_nobody_takes_ends(attempts: Attempts, how: str) -> None:
    controller = attempts.play(attempts.task(0))
    template = attempts.template()
    waiting = attempts.node.supervisor(controller)
    wait_until(lambda: "stand-by" in processes.read(waiting).command, "the wait for the next attempt")
    if how == "clean":
        cleaned = json.loads(attempts.node.ask("clean").stdout)
        assert any(f"pid {template} " in each for each in cleaned["removed"])
    elif how == "kill":
        os.kill(template, signal.SIGKILL)
    elif how == "kill the agent":
        os.kill(waiting, signal.SIGKILL)
    else:
        other = attempts.node.open("r1.3")
        other.until(wire.Hello)
        other.disconnect()
        attempts.node.ask("clean")
    gone(template, waiting)


@pytest.mark.parametrize("how", ["success", "by hand", "not kept"])
def test_a_template_ends_with_an_attempt_that_none_follows(attempts: Attempts, how: str) -> None:
    asked = attempts.task(2 if how == "success" else 0)
    if how == "not kept":
        asked = dataclasses.replace(asked, keep_template=False)
    if how == "by hand":
        attempts.script.write_text("import time; print('up', flush=True); time.sleep(600)")
        controller = attempts.prepared(asked)
        controller.send(wire.Follow({}, None), wire.Release(0.0, rendezvous_port=23000))
        while "up\n" not in controller.text("0.out"):
            controller.until(wire.Output)
        controller.send(wire.Stop(1.0, "enough", by_hand=True))
        list(controller.rest())
    else:
        controller = attempts.play(asked)
    assert controller.all(wire.Finished)[0].leftovers == []
    assert attempts.members() == []
    gone(attempts.node.supervisor(controller))


def test_ranks_import_again_where_a_module_has_changed_right_after_its_import(attempts: Attempts) -> None:
    mends = "with open(__file__, 'a') as own:\n    own.write('# mended\\n')\n"
    attempts.module.write_text(LIBRARY + mends)
    attempts.play(attempts.task(0))
    after = attempts.play(dataclasses.replace(attempts.task(2), run="r1.1"))
    assert "counting.py has changed" in cold(after)
    assert attempts.counted.read_text() == "xx"
    attempts.nothing_stays()


CHANGES = {
    "a variable of C code": "OMP_NUM_THREADS has changed and is read when a process starts",
    "a variable that the import uses": "the import uses COUNTED, a variable of one rank",
    "the command line": "the command line of the ranks has changed",
    "the module": "counting.py has changed",
    "the template has ended": GONE,
    "the interpreter": "the command line of the ranks has changed",
}


@pytest.mark.parametrize("what", CHANGES)
def test_ranks_import_again_after_a_change_of(attempts: Attempts, tmp_path: Path, what: str) -> None:
    controller = attempts.play(attempts.task(0))
    template, waiting = attempts.template(), attempts.node.supervisor(controller)
    asked = attempts.task(2)
    if what == "a variable of C code":
        asked = attempts.task(2, OMP_NUM_THREADS="1")
    elif what == "a variable that the import uses":
        asked = attempts.task(2, COUNTED=str(tmp_path / "other"))
    elif what == "the command line":
        asked = attempts.task(2, "--lr", "3")
    elif what == "the module":
        attempts.module.write_text(LIBRARY + "\n# mended\n")
    elif what == "the template has ended":
        os.kill(template, signal.SIGKILL)
        gone(waiting)
    else:
        other = tmp_path / "python"
        other.symlink_to(PYTHON)
        for rank in asked.ranks:
            rank.argv[0] = str(other)
    asked = dataclasses.replace(asked, run="r1.1")
    after = attempts.play(asked)
    assert CHANGES[what] in cold(after)
    assert [lines_of(after, rank)[1][:2] for rank in range(2)] == [[True, 0], [True, 1]]
    imports = attempts.counted.read_text() + (tmp_path / "other").read_text() if what.endswith("uses") else "xx"
    assert imports == "xx"
    gone(template)
    attempts.nothing_stays()
