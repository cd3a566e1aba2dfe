"""Who is told what happens during a run: the record, and the person."""

from __future__ import annotations

from typing import Protocol

from pylaunch.model.run import Event
from pylaunch.model.usage import NodeUsage


class Watcher(Protocol):
    """Told as things happen; must not block."""

    def event(self, event: Event) -> None:
        """Something happened to the run."""

    usage_every_s: float
    """How often it wants to know what nodes are busy with, in seconds; 0 is never."""

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Whole lines that `stream` ("3.out", "launcher.err") wrote on `host`, seen there at `time` on our clock."""

    def usage(self, host: str, reading: NodeUsage) -> None:
        """What `host` is busy with."""

    def phase(self, text: str) -> None:
        """What is being waited for now."""
