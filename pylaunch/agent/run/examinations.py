"""Requests for views of the ranks, and for facts of the node, that are under way: of controllers and before a stop."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from pylaunch import protocol
from pylaunch.agent.evidence import py_spy
from pylaunch.agent.evidence.examination import NO_HELPER, NO_THREAD, Examination, ExaminedRun
from pylaunch.agent.evidence.node_facts import NodeFacts
from pylaunch.agent.run.worker_group import WorkerGroup
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import RunDirectory

Deliver = Callable[[List[protocol.RankView], Optional[protocol.HostEvidence]], None]
"""Takes the views of the ranks, and the facts of the node if the request includes them."""

MOST = 16
"""Requests at a time: of further ones, the oldest gets what has arrived."""


@dataclass(frozen=True)
class PendingRequest:
    """A request that is not answered yet."""

    examination: Examination
    facts: protocol.HostEvidence | None
    deliver: Deliver

    def next_deadline(self) -> float:
        """Return the time at which the request must be continued even if nothing happens."""
        return time.monotonic() if self.examination.is_done else self.examination.next_deadline()


class Examinations:
    """Requests that are not answered yet."""

    def __init__(self, workers: WorkerGroup, facts: NodeFacts, directory: RunDirectory, loop: EventLoop) -> None:
        self._workers = workers
        self._facts = facts
        task = workers.task
        interpreters = [*task.launcher[:1], *(word for rank in task.ranks for word in rank.argv[:1])]
        self._run = ExaminedRun(
            loop, directory, workers.streams(), workers.mask, task.run, workers.root.path, py_spy.program(interpreters),
            NO_HELPER if task.rank_thread else NO_THREAD, workers.given,
        )  # fmt: skip
        self._under_way: list[PendingRequest] = []

    def begin(self, request: protocol.Examine, deliver: Deliver, now: float) -> None:
        """Examine all ranks that run; `deliver` gets their views, perhaps before this returns."""
        if len(self._under_way) >= MOST:
            self._answer(self._under_way[0])
        facts = self._facts.read(self._workers.pids, request.serial) if request.node else None
        examination = Examination(self._run, request)
        self._under_way.append(PendingRequest(examination, facts, deliver))
        examination.begin({rank: pid for pid, rank in self._workers.pids.items() if rank is not None}, now)
        self._deliver()

    def next_deadline(self) -> float | None:
        """Return the time at which `advance` must be called even if nothing happens."""
        return min((each.next_deadline() for each in self._under_way), default=None)

    def advance(self, now: float) -> None:
        """Continue, and answer the requests that are over."""
        for each in self._under_way:
            each.examination.advance(now)
        self._deliver()

    def end(self) -> None:
        """Answer all of them now."""
        for each in list(self._under_way):
            self._answer(each)

    def _deliver(self) -> None:
        for over in [each for each in self._under_way if each.examination.is_done]:
            self._answer(over)

    def _answer(self, request: PendingRequest) -> None:
        """Answer `request` with what has arrived."""
        self._under_way.remove(request)
        request.examination.end()
        request.deliver(request.examination.views, request.facts)
