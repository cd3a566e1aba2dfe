"""Record of a run on its node: its task, its events as messages, its outcome, and a person's request to stop it.

A full disk costs the record, never the run: the first failed write is logged in the agent's log.
The stop request is a file because no supervisor runs between two attempts, which are named `RUN`, `RUN.1`, `RUN.2`, …
"""

from __future__ import annotations

import contextlib
import json
import os

from pylaunch import protocol
from pylaunch.agent.shared import processes, rank_files
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot, RunDirectory

EVENTS = (
    protocol.Released, protocol.RankStarted, protocol.RankEnd,
    protocol.Stopping, protocol.HostEvidence, protocol.RankView,
    protocol.Finished,
)  # fmt: skip
"""Events that a supervisor records."""

MAX_EVENTS = 100_000

RESERVE = "reserve"
RESERVE_SIZE = 256 << 10


@dataclass(frozen=True)
class NodeOutcome:
    """Outcome of a run on this node."""

    outcome: str
    """finished, refused or aborted."""

    message: str
    """Reason why no rank was started; "" if one was."""


class Record:
    """Events of a run so far. Each reader keeps its own position in `events`."""

    def __init__(self, directory: RunDirectory) -> None:
        self.events: list[object] = []
        self.directory = directory
        self._complains = True
        self._unwritten: list[bytes] = []
        """Lines that did not fit on the disk, written once the run is over and the reserve is released."""

    def append(self, event: object) -> None:
        """Add `event` and write it to the disk."""
        self.events.append(event)
        self._unwritten.append(protocol.encode(event))
        self._write_events()

    def _write_events(self) -> None:
        before = b"" if self._complains else b"\n"  # The last line may be torn.
        try:
            rank_files.append(self.directory.file("events.jsonl"), before + b"".join(self._unwritten))
        except OSError as error:
            self._complain(error)
        else:
            self._unwritten.clear()

    def keep_task(self, task: protocol.NodeTask) -> None:
        """Write the task and the boot id of this node."""
        self._keep_reserve()
        self._write("boot", processes.boot_id().encode() + b"\n")
        self._write("task.json", protocol.encode(protocol.Prepare(task)))

    def close(self, outcome: NodeOutcome) -> None:
        """Write the outcome. From here on the run is over."""
        with contextlib.suppress(OSError):
            os.unlink(self.directory.file(RESERVE))
        if self._unwritten:
            self._write_events()
        self._write("outcome.json", json.dumps(vars(outcome)).encode() + b"\n")

    def _keep_reserve(self) -> None:
        """Reserve space and an inode for the end of the record, in case ranks fill the disk."""
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
    """Write a line to the agent's own log, which may be on a full disk."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")


def read_events(directory: RunDirectory) -> list[object]:
    """Return the events of a finished run in order, without lines that a crash or a full disk cut short.

    A rank can write to this file. Messages that no supervisor writes are omitted, and so is everything after the first
    MAX_EVENTS events.
    """
    events: list[object] = []
    try:
        with open(rank_files.open_regular(directory.file("events.jsonl")), "rb") as source:
            while len(events) < MAX_EVENTS and (line := source.readline(protocol.MAX_LINE)):
                with contextlib.suppress(protocol.WireError):
                    event = protocol.decode(line)
                    if isinstance(event, EVENTS):
                        events.append(event)
    except OSError:
        return []
    return events


def read_task(directory: RunDirectory) -> protocol.NodeTask | None:
    """Return the task of the run on this node; None if there is none or the file is not a task of this run."""
    try:
        message = protocol.decode(rank_files.read_whole(directory.file("task.json"), protocol.MAX_LINE))
    except (OSError, protocol.WireError):
        return None
    return message.task if isinstance(message, protocol.Prepare) and message.task.run == directory.run else None


def read_outcome(directory: RunDirectory) -> NodeOutcome | None:
    """Return the outcome of the run; None if its supervisor was killed, or the node went down, before writing it."""
    try:
        content = rank_files.read_whole(directory.file("outcome.json"), protocol.MAX_LINE)
        return protocol.from_fields(NodeOutcome, untrusted_json.parse_object(content, protocol.MAX_LINE))
    except (OSError, ValueError, protocol.WireError):
        return None


STOP_REQUEST = "stop-requested"
STOP_REQUESTED = "stop-requested"
"""Code of the refusal of an attempt of a stopped run."""

LONGEST_REASON = 1000


def keep_stop_request(directory: RunDirectory, reason: str) -> None:
    """Write the stop request of this run."""
    try:
        rank_files.replace(directory.file(STOP_REQUEST), reason[:LONGEST_REASON].encode("utf-8", "replace"))
    except OSError as error:
        note(f"the request to stop run {directory.run} cannot be kept: {error.strerror}")


def stop_requested(root: NodeRoot, run: str) -> str | None:
    """Return the reason of a stop request for `run` or another attempt of it; None without one."""
    base = run.partition(".")[0]
    for directory in root.all_runs():
        if directory.run.partition(".")[0] == base:
            try:
                return rank_files.read(directory.file(STOP_REQUEST), LONGEST_REASON).decode("utf-8", "replace")
            except OSError:
                continue
    return None
