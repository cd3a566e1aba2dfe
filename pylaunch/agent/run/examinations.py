"""Examinations of the ranks of a run that are under way, for controllers and before a stop."""

from __future__ import annotations

from typing import Callable

from pylaunch.agent import wire
from pylaunch.agent.evidence.examination import Examination, ExaminedRun
from pylaunch.agent.run.worker_group import WorkerGroup
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.layout import RunDirectory

MOST = 16
"""Examinations at a time: of further ones, the oldest gets what has arrived."""


class Examinations:
    """Examinations that are not over yet."""

    def __init__(self, workers: WorkerGroup, directory: RunDirectory, loop: EventLoop) -> None:
        self._workers = workers
        self._run = ExaminedRun(loop, directory, workers.streams(), workers.mask)
        self._under_way: list[tuple[Examination, Callable[[list[wire.RankExamined]], None]]] = []

    def begin(self, request: wire.Examine, deliver: Callable[[list[wire.RankExamined]], None], now: float) -> None:
        """Examine all ranks that run; `deliver` gets their views, perhaps before this returns."""
        if len(self._under_way) >= MOST:
            self._under_way[0][0].end()
        examination = Examination(self._run, request)
        self._under_way.append((examination, deliver))
        examination.begin({rank: pid for pid, rank in self._workers.pids.items() if rank is not None}, now)
        self._deliver()

    def next_deadline(self) -> float | None:
        """Return the time at which `advance` must be called even if nothing happens."""
        return min((each.next_deadline() for each, _ in self._under_way), default=None)

    def advance(self, now: float) -> None:
        """Continue, and deliver the views of those that are over."""
        for examination, _ in self._under_way:
            examination.advance(now)
        self._deliver()

    def end(self) -> None:
        """End all of them now."""
        for examination, _ in self._under_way:
            examination.end()
        self._deliver()

    def _deliver(self) -> None:
        for over in [each for each in self._under_way if each[0].is_done]:
            self._under_way.remove(over)
            over[1](over[0].views)
