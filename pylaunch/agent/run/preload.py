"""Preload of one run: its template works beside the checks, and its ranks replace those at the ordinary gate."""

from __future__ import annotations

import time

from pylaunch.agent import wire
from pylaunch.agent.run.kept_template import KeptTemplate
from pylaunch.agent.run.template import ForkedRanks, NotForked, Template, unmet_condition
from pylaunch.agent.run.worker_group import WorkerGroup
from pylaunch.agent.shared.event_loop import EventLoop
from pylaunch.agent.shared.layout import base_of
from pylaunch.agent.shared.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

UNFINISHED = "the imports were not finished at the release"
GONE = "the template of the previous attempt has ended"


class Preload:
    """Preload that the task requests, until its one report. The ranks at the ordinary gate are the alternative."""

    def __init__(
        self,
        workers: WorkerGroup,
        record: Record,
        loop: EventLoop,
        on_forked: Callable[[ForkedRanks, KeptTemplate | None], None],
        warm: KeptTemplate | None,
    ) -> None:
        self._began = time.monotonic()
        self._task = workers.task
        self._mask = workers.mask
        self._record = record
        self._loop = loop
        self._on_forked = on_forked
        self._template: Template | None = None
        self._is_warm = False
        self._cold = GONE if base_of(self._task.run) != self._task.run else ""
        """Reason why a restart imports again."""

        self._ranks = workers.rank_forks()
        reason = unmet_condition(self._task, self._ranks)
        if warm is not None:
            self._cold = reason or warm.problem(self._task, self._ranks)
            if self._cold:
                warm.end()
                warm = None
        if reason:
            self._report(reason)
        else:
            self._begin(warm)

    def _begin(self, warm: KeptTemplate | None) -> None:
        self._is_warm = warm is not None
        try:
            self._template = Template(self._task, self._ranks, self._record.directory, warm)
        except OSError as error:
            reason = f"no template: {error.strerror or error}"
            if self._is_warm:
                self._cold = reason
                self._begin(None)
            else:
                self._report(reason)
        else:
            self._loop.watch(self._template.channel, self._advance)

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
        if isinstance(news, NotForked) and self._is_warm:
            self._cold = news.reason
            template.end()
            self._begin(None)
            return
        if isinstance(news, ForkedRanks):
            self._on_forked(news, template.kept)
        self._close(template, news.reason if isinstance(news, NotForked) else "")

    def _close(self, template: Template, reason: str) -> None:
        self._template = None
        template.end()
        self._report(reason)

    def _report(self, reason: str) -> None:
        seconds = time.monotonic() - self._began
        cold = "" if reason or self._is_warm else self._cold
        self._record.append(wire.Preloaded(seconds, self._mask.hide_in(reason), self._mask.hide_in(cold)))
