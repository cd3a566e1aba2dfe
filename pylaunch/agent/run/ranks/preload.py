"""Preload of one run: its template works beside the checks, and its ranks replace those at the ordinary gate."""

from __future__ import annotations

import time
from collections.abc import Callable

from pylaunch import protocol
from pylaunch.agent.run.ranks.template import ForkedRanks, NotForked, Template, unmet_condition
from pylaunch.agent.run.ranks.worker_group import WorkerGroup
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.record import Record

LONGEST_REASON = 300
UNFINISHED = "the imports were not finished at the release"


class Preload:
    """Preload that the task requests, until its one report. The ranks at the ordinary gate are the alternative."""

    def __init__(
        self, workers: WorkerGroup, record: Record, loop: EventLoop, on_forked: Callable[[ForkedRanks], None]
    ) -> None:
        self._began = time.monotonic()
        self._mask = workers.mask
        self._record = record
        self._loop = loop
        self._on_forked = on_forked
        self._template: Template | None = None
        ranks = workers.rank_forks()
        reason = unmet_condition(workers.task, ranks)
        if not reason:
            try:
                self._template = Template(workers.task, ranks, record.directory)
                loop.watch(self._template.channel, self._advance)
                return
            except OSError as error:
                reason = f"no template: {error.strerror or error}"
        self._report(reason)

    def end(self) -> None:
        """End a preload that is not finished: the ranks start in the ordinary way, or not at all."""
        if self._template is not None:
            self._loop.forget(self._template.channel)
            self._close(self._template, UNFINISHED)

    def _advance(self) -> None:
        template = self._template
        assert template is not None
        self._loop.forget(template.channel)
        news = template.advance()
        if news is None:
            self._loop.watch(template.channel, self._advance)
            return
        if isinstance(news, ForkedRanks):
            self._on_forked(news)
        self._close(template, news.reason if isinstance(news, NotForked) else "")

    def _close(self, template: Template, reason: str) -> None:
        self._template = None
        template.end()
        self._report(reason)

    def _report(self, reason: str) -> None:
        shown = " ".join(self._mask.hide_in(reason).split())[:LONGEST_REASON]
        self._record.append(protocol.Preloaded(time.monotonic() - self._began, shown))
