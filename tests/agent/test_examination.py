"""Views of ranks: what a rank was doing, as its agent reports it on request and before it stops the rank."""

from __future__ import annotations

from pathlib import Path

from pylaunch.agent import wire
from tests.agent.controller import Controller, Node, task

PYTHON = "/usr/bin/python3"
LONG_S = 5.0
"""Time for an answer on a busy machine; a rank that answers is not waited for any longer than it takes."""


def program(tmp_path: Path, source: str, name: str = "train.py") -> list[str]:
    """Return the words that run `source` as a script."""
    script = tmp_path / name
    script.write_text(source)
    return [PYTHON, str(script)]


def until_up(controller: Controller, count: int = 1) -> None:
    """Wait until `count` ranks have written "up"."""
    while sum(output.text.count("up\n") for output in controller.all(wire.Output)) < count:
        controller.until(wire.Output)


def views(
    controller: Controller, serial: int = 1, *, within_s: float = LONG_S, call_sites: bool = False
) -> dict[int, wire.RankExamined]:
    """Ask for the views of all ranks and return them by rank."""
    controller.send(wire.Examine(serial, call_sites=call_sites, within_s=within_s))
    while (done := controller.until(wire.Examined)).serial != serial:
        pass
    found = [view for view in controller.all(wire.RankExamined) if view.serial == serial]
    assert sorted(view.rank for view in found) == sorted(done.ranks)
    return {view.rank: view for view in found}


def stack(view: wire.RankExamined, number: int = 0) -> list[str]:
    """Return the functions of a thread, innermost first; the main thread is the first one."""
    return [view.frames[each].function for each in view.threads[number].frames]


def test_a_python_rank_shows_the_stacks_of_its_threads_by_name(node: Node, tmp_path: Path) -> None:
    source = """
import threading, time
def load(): time.sleep(600)
def train(): time.sleep(600)
threading.Thread(target=load, name="loader", daemon=True).start()
print("up", flush=True)
train()
"""
    controller = node.started(task(tmp_path, program(tmp_path, source)))
    until_up(controller)
    view = views(controller)[0]
    assert (view.source, view.note, view.state) == ("helper", "", "S")
    assert view.threads[0].is_main
    assert stack(view) == ["train", "<module>"]
    assert view.frames[view.threads[0].frames[0]].path == str(tmp_path / "train.py")
    assert {thread.name for thread in view.threads} == {"MainThread", "loader"}


def test_a_rank_that_is_no_python_program_is_described_by_the_kernel(node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, "echo up; exec sleep 600"))
    until_up(controller)
    view = views(controller, within_s=10.0)[0]
    assert (view.source, view.note, view.threads) == ("", "no stacks: not a Python program", [])
    assert (view.state, view.syscall) == ("S", "clock_nanosleep")
