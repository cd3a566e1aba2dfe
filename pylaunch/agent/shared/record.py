"""What a run leaves on its node: its events, as the wire messages they were, and how it ended.

A full disk costs the record, never the run: what cannot be written is said once in the agent's log.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from pylaunch.agent import wire
from pylaunch.agent.shared import processes, rank_files, untrusted_json
from pylaunch.agent.shared.layout import RunDirectory

EVENTS = (
    wire.Released, wire.RankStarted, wire.RankEnded, wire.LauncherEnded, wire.Stopping, wire.PeersUnheard,
    wire.Finished,
)  # fmt: skip
"""What a supervisor writes down."""

MAX_EVENTS = 100_000

RESERVE = "reserve"
RESERVE_SIZE = 256 << 10


@dataclass(frozen=True)
class NodeOutcome:
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
        self._unwritten: list[bytes] = []
        """Lines that had no room; they are written when the run is over and the reserve is free."""

    def append(self, event: object) -> None:
        """Remember `event` and write it down."""
        self.events.append(event)
        self._unwritten.append(wire.encode(event))
        self._write_events()

    def _write_events(self) -> None:
        before = b"" if self._complains else b"\n"  # The last line may be torn.
        try:
            rank_files.append(self.directory.file("events.jsonl"), before + b"".join(self._unwritten))
        except OSError as error:
            self._complain(error)
        else:
            self._unwritten.clear()

    def keep_task(self, task: wire.NodeTask) -> None:
        """Write down what was asked for, and since when this node is up."""
        self._keep_reserve()
        self._write("boot", processes.boot_id().encode() + b"\n")
        self._write("task.json", wire.encode(wire.Prepare(task)))

    def close(self, outcome: NodeOutcome) -> None:
        """Write down how it ended. From here on the run is over."""
        with contextlib.suppress(OSError):
            os.unlink(self.directory.file(RESERVE))
        if self._unwritten:
            self._write_events()
        body = {"run": outcome.run, "outcome": outcome.outcome, "message": outcome.message, "time": outcome.time}
        self._write("outcome.json", json.dumps(body).encode() + b"\n")

    def _keep_reserve(self) -> None:
        """Room and an inode for the end of the record, whatever ranks fill."""
        try:
            descriptor = rank_files.open_regular(self.directory.file(RESERVE), os.O_WRONLY | os.O_CREAT)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_SIZE)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._complain(error)

    def _write(self, name: str, content: bytes) -> None:
        try:
            rank_files.replace(self.directory.file(name), content)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if self._complains:
            self._complains = False
            note(f"the record of run {self.directory.run} is incomplete: {error}")


def note(text: str) -> None:
    """A line for the agent's own log, which may lie on the disk that is full."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")


def read_events(directory: RunDirectory) -> list[object]:
    """The events of a run that is over, in order; lines cut short by a crash or a full disk are left out.

    A rank can write this file, too: what no supervisor writes here is left out, and so is all beyond MAX_EVENTS.
    """
    events: list[object] = []
    try:
        with open(rank_files.open_regular(directory.file("events.jsonl")), "rb") as source:
            while len(events) < MAX_EVENTS and (line := source.readline(wire.MAX_LINE)):
                with contextlib.suppress(wire.WireError):
                    event = wire.decode(line)
                    if isinstance(event, EVENTS):
                        events.append(event)
    except OSError:
        return []
    return events


def read_task(directory: RunDirectory) -> wire.NodeTask | None:
    """What the run was asked to do here; None when it never came so far, or when something else wrote the file."""
    try:
        asked = wire.decode(rank_files.read_whole(directory.file("task.json"), wire.MAX_LINE))
    except (OSError, wire.WireError):
        return None
    return asked.task if isinstance(asked, wire.Prepare) and asked.task.run == directory.run else None


def read_outcome(directory: RunDirectory) -> NodeOutcome | None:
    """How the run ended; None when its supervisor was killed before it could say, or the node lost its power then."""
    try:
        content = rank_files.read_whole(directory.file("outcome.json"), wire.MAX_LINE)
        return wire.from_fields(NodeOutcome, untrusted_json.parse_object(content, wire.MAX_LINE))
    except (OSError, ValueError, wire.WireError):
        return None
