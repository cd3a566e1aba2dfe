"""Processes that a rank has started: the kernel shows what each waits for, and py-spy its stack on request."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pylaunch import protocol
from pylaunch.protocol import examination as bounds
from tests.agent.controller import Controller, Node, task
from tests.agent.test_examination import UP, program, views
from tests.agent.test_py_spy import put_beside
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
        assert [(child.name, child.state, child.threads, child.note) for child in view.children] == [
            ("python3", "S", (), ""), ("python3", "S", (), "")
        ]  # fmt: skip
        assert controller.pid(0) not in {child.pid for child in view.children}


def test_a_stopped_child_does_not_make_its_rank_a_stopped_one(node: Node, tmp_path: Path) -> None:
    source = "import os, time\nif os.fork() == 0: os.kill(os.getpid(), 19)\n" + UP + "time.sleep(600)"
    controller = node.up(task(tmp_path, program(tmp_path, source)))
    view = listed(controller, lambda found: [child.state for child in found] == ["T"])
    assert (view.pid, view.state, view.source) == (controller.pid(0), "S", "helper")


def test_py_spy_reads_the_children_where_it_is_installed(node: Node, tmp_path: Path) -> None:
    words = [put_beside(tmp_path, None), *program(tmp_path, FORKS + UP + "train()")[1:]]
    controller = node.up(task(tmp_path, words))

    def has_stacks(found: Sequence[protocol.ChildProcess]) -> bool:
        return waits(found) == [("futex",), ("clock_nanosleep",)] and all(child.threads for child in found)

    view = listed(controller, has_stacks)
    assert view.source == "helper"
    functions = [
        [frame.function for frame in thread.frames if "train.py" in frame.path]
        for child in view.children
        for thread in child.threads
    ]
    assert functions == [["worker", "<module>"], ["helper", "<module>"]]
    assert not any(child.threads for child in listed(controller, bool, progress=True).children), (
        "a person asks for them"
    )


def test_a_py_spy_that_hangs_delays_nothing_beyond_the_request(node: Node, tmp_path: Path) -> None:
    words = [put_beside(tmp_path, "#!/bin/sh\nexec sleep 600\n"), *program(tmp_path, FORKS + UP + "train()")[1:]]
    controller = node.up(task(tmp_path, words))
    view = views(controller, within_s=1.0)[0]
    assert [child.note for child in view.children] == ["no answer of py-spy in 1 s"] * 2
    assert view.pid == controller.pid(0)


def test_the_list_of_children_is_bounded_and_counts_all(node: Node, tmp_path: Path) -> None:
    source = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(600)\n" + UP + "time.sleep(600)"
    controller = node.up(task(tmp_path, program(tmp_path, source)))
    view = views(controller)[0]
    assert (len(view.children), view.child_count) == (bounds.MOST_CHILDREN, 20)


def test_views_that_are_recorded_before_a_stop_list_no_children(node: Node, tmp_path: Path) -> None:
    fails = "until [ -e fail ]; do sleep 0.02; done; exit 1"
    controller = node.up(task(tmp_path, program(tmp_path, FORKS + UP + "train()"), fails))
    (tmp_path / "fail").touch()
    controller.until(protocol.Finished)
    recorded = [
        view for view in controller.all(protocol.RankView) if view.serial == protocol.UNASKED and view.rank == 0
    ]
    assert [(view.children, view.child_count) for view in recorded] == [((), 0)]
