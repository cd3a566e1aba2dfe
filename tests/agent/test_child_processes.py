"""Processes that a rank has started: the kernel shows what each waits for."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Controller, Node, task
from tests.agent.test_examination import UP, program
from tests.waiting import wait_until

FORKS = """
import os, threading, time
def worker(lock):
    lock.acquire()
def helper():
    time.sleep(600)
lock = threading.Lock()
lock.acquire()
for function, arguments in ((helper, ()), (worker, (lock,))):
    if os.fork() == 0:
        function(*arguments)
def train():
    time.sleep(600)
"""


def listed(
    controller: Controller, is_whole: Callable[[Sequence[protocol.ChildProcess]], bool], *, progress: bool = False
) -> protocol.RankView:
    """Return a view of rank 0 whose children are as `is_whole` requires."""

    def answer() -> list[protocol.RankView]:
        serial = len(controller.all(protocol.Examined)) + 1
        controller.send(protocol.Examine(serial, progress=progress, within_s=10.0))
        while controller.until(protocol.Examined).serial != serial:
            pass
        (view,) = (each for each in controller.all(protocol.RankView) if each.serial == serial)
        return [view] if is_whole(view.children) else []

    (view,) = wait_until(answer, "a view of the children")
    return view


def waits(children: Sequence[protocol.ChildProcess]) -> list[tuple[str, ...]]:
    return [child.waits for child in children]


def test_children_are_listed_with_what_they_wait_for_and_those_at_a_lock_precede(node: Node, tmp_path: Path) -> None:
    controller = node.up(task(tmp_path, program(tmp_path, FORKS + UP + "train()")))
    for progress in (False, True):
        view = listed(controller, lambda found: waits(found) == [("futex",), ("clock_nanosleep",)], progress=progress)
        assert view.child_count == 2
        assert [(child.name, child.state) for child in view.children] == [("python3", "S"), ("python3", "S")]
        assert controller.pid(0) not in {child.pid for child in view.children}
