"""What a run leaves on its node: its events, as the wire messages they were, and how it ended.

A full disk costs the record, never the run: what cannot be written is said once in the agent's log.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from pylaunch.agent import wire
from pylaunch.agent.layout import RunDirectory


@dataclass(frozen=True)
class Outcome:
    """How a run ended on this node."""

    run: str
    outcome: str
    """finished, refused or aborted."""

    message: str
    """Why, where no rank was ever started; else ""."""

    time: float


class Record:
    """Everything that happened in a run so far. Every reader keeps its own place in `events`."""

    def __init__(self, directory: RunDirectory) -> None:
        self.events: list[object] = []
        self.directory = directory
        self._complains = True

    def append(self, event: object) -> None:
        """Remember `event` and write it down."""
        self.events.append(event)
        try:
            with open(self.directory.file("events.jsonl"), "ab") as sink:
                sink.write(wire.encode(event))
        except OSError as error:
            self._complain(error)

    def keep_task(self, task: wire.NodeTask) -> None:
        """Write down what was asked for."""
        self._write("task.json", wire.encode(wire.Prepare(task)))

    def close(self, outcome: Outcome) -> None:
        """Write down how it ended. From here on the run is over."""
        body = {"run": outcome.run, "outcome": outcome.outcome, "message": outcome.message, "time": outcome.time}
        self._write("outcome.json", json.dumps(body).encode() + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        aside = self.directory.file(name + ".new")
        try:
            with open(aside, "wb") as sink:
                sink.write(content)
            os.replace(aside, self.directory.file(name))
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if self._complains:
            self._complains = False
            note(f"the record of run {self.directory.run} is incomplete: {error}")


def note(text: str) -> None:
    """A line for the agent's own log, which may lie on the disk that is full."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "surrogateescape") + b"\n")


def read_events(directory: RunDirectory) -> list[object]:
    """The events of a run that is over, in order; lines cut short by a crash or a full disk are left out."""
    events = []
    try:
        with open(directory.file("events.jsonl"), "rb") as source:
            for line in source:
                with contextlib.suppress(wire.WireError):
                    events.append(wire.decode(line))
    except FileNotFoundError:
        return []
    return events


def read_task(directory: RunDirectory) -> wire.NodeTask | None:
    """What the run was asked to do here; None when it never came so far, or when another version wrote it."""
    try:
        with open(directory.file("task.json"), "rb") as source:
            asked = wire.decode(source.read())
    except (FileNotFoundError, wire.WireError):
        return None
    return asked.task if isinstance(asked, wire.Prepare) else None


def read_outcome(directory: RunDirectory) -> Outcome | None:
    """How the run ended; None when its supervisor was killed before it could say, or the node lost its power then."""
    try:
        with open(directory.file("outcome.json"), "rb") as source:
            return wire.from_fields(Outcome, json.loads(source.read()))
    except (FileNotFoundError, ValueError, wire.WireError):
        return None
