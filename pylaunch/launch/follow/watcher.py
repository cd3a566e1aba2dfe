"""The interface through which a run reports: events, output, load and progress; and the values that it passes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Protocol

from pylaunch.agent import wire
from pylaunch.model.rank_view import RankView
from pylaunch.model.run import Event
from pylaunch.model.size import shown_size
from pylaunch.model.usage import NodeUsage, RankStep

DENIED = os.strerror(errno.EACCES)
LIVE_LAG = 16 << 20
"""Bytes of one log that may wait for a live reader; beyond that, the oldest are skipped."""


class Watcher(Protocol):
    """Receives everything about a run as it happens. Its methods must not block."""

    def event(self, event: Event) -> None:
        """Receive an event of the run."""

    usage_every_s: float
    """Interval in seconds at which nodes report their load; 0 is never."""

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Receive whole lines of `stream` ("3.out", "launcher.err") on `host`; `time` is on the controller's clock."""

    def usage(self, host: str, reading: NodeUsage) -> None:
        """Receive the load of `host`."""

    def rank_view(self, view: RankView) -> None:
        """Receive the view of a rank that its node took before it stopped the rank."""

    def message(self, text: str) -> None:
        """Receive a line of progress."""


def node_usage(reported: wire.Usage, to_ours: Callable[[float], float]) -> NodeUsage:
    """Return the load that a node reports; `to_ours` converts its times to the controller's clock."""
    steps = tuple(RankStep(mark.rank, mark.step, to_ours(mark.time), mark.total) for mark in reported.steps)
    return NodeUsage(**{**vars(reported), "steps": steps})


def skipped_line(host: str, skipped: wire.Skipped) -> str:
    """Return the line that is printed in place of output that was skipped."""
    if skipped.reason:
        repair = f"; on {host}: chmod 700 {skipped.reason.rpartition(': ')[0]}" if DENIED in skipped.reason else ""
        return f"warning: {host}: output cannot be read from here on: {skipped.reason}{repair}"
    source = skipped.stream.partition(".")[0]
    return f"{host}:{source} | … {shown_size(skipped.offset - skipped.start)} skipped, in {host}:{skipped.path}"
