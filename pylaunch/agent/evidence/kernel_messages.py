"""Kernel messages since the agent prepared the run, from /dev/kmsg. The agent reads it without waiting."""

from __future__ import annotations

import errno
import functools
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator

from pylaunch import protocol
from pylaunch.agent.shared import cgroups
from pylaunch.agent.shared.event_loop import Part
from pylaunch.base import kernel_log
from pylaunch.base.dataclass import replace

KMSG = "/dev/kmsg"
LONGEST_RECORD = 8192
MOST_PER_LOOK = 500
"""Records that one look reads: a flood of messages must not delay the agent. Each takes some microseconds."""

KEPT = 48
"""Messages of the table that are kept, the newest ones."""

LOOK_S = 1.0
MAX_TEXT = 300


class KernelLog(Part):
    """Reader of the messages that the kernel logs from now on."""

    def __init__(self, path: str = KMSG) -> None:
        self.missing = ""
        """Reason why messages could not be read; "" if all were."""

        self._descriptor: int | None = None
        self._kept: deque[protocol.KernelEvent] = deque(maxlen=KEPT)
        self._killed: set[int] = set()
        self._next = 0.0
        self._looked_at = time.time()
        self._knows_pids = cgroups.sees_all_pids()
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.missing = f"kernel messages cannot be read: {path}: {error.strerror}"

    @property
    def messages(self) -> list[protocol.KernelEvent]:
        """Messages so far, oldest first."""
        return list(self._kept)

    def tick(self, now: float) -> None:
        """Read new messages, if a second has passed since the last look."""
        if now >= self._next:
            self._next = now + LOOK_S
            self.read()

    def read(self) -> None:
        """Read new messages, at most MOST_PER_LOOK."""
        if self._descriptor is None:
            return
        before, self._looked_at = self._looked_at, time.time()
        try:
            for record in _records(self._descriptor, MOST_PER_LOOK):
                if record is None:
                    self.missing = "kernel messages were lost: the kernel's buffer was overwritten"
                else:
                    self._keep(record, before)
        except OSError as error:
            self.missing = f"{KMSG}: {error.strerror}"

    def has_killed_for_memory(self, pid: int) -> bool:
        """Return True if the kernel reported since the preparation that it killed `pid` for lack of memory."""
        self.read()
        return pid in self._killed

    def end(self) -> Iterable[str]:
        """Read no further messages."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        return ()

    def _keep(self, record: bytes, since: float) -> None:
        """Keep a record if it is in the table. Its time is at least `since`, the last look."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        age_s = now - _stamp(record, now)
        at = min(max(time.time() - age_s, since), time.time())
        event = parse(record.partition(b";")[2].partition(b"\n")[0].decode("utf-8", "replace"), at)
        if event is None:
            return
        if event.kind == kernel_log.OOM_KILL and event.pid is not None and self._knows_pids:
            if event.pid in self._killed:
                return
            self._killed.add(event.pid)
        self._kept.append(event if self._knows_pids else replace(event, pid=None))


def _records(descriptor: int, most: int) -> Iterator[bytes | None]:
    """Yield at most `most` of the records that are there; None for overwritten ones. Raises OSError."""
    for _ in range(most):
        try:
            record = os.read(descriptor, LONGEST_RECORD)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            yield None
        else:
            if not record:
                return
            yield record


def parse(text: str, at: float) -> protocol.KernelEvent | None:
    """Return the event of a kernel message; None for one that is not in the table."""
    for kind, pattern in _compiled():
        found = pattern.search(text)
        if found is not None:
            groups = found.groupdict()
            pid, code = (None if groups.get(name) is None else int(groups[name][:9]) for name in ("pid", "code"))
            return protocol.KernelEvent(kind, at, text[:MAX_TEXT], groups.get("device") or "", code, pid)
    return None


@functools.lru_cache(maxsize=None)
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in kernel_log.TABLE]


def _stamp(record: bytes, unknown: float) -> float:
    """Return the time of a record on the monotonic clock; `unknown` for one without."""
    stamp = record.partition(b";")[0].split(b",")[2:3]
    return int(stamp[0]) / 1e6 if stamp and stamp[0].isdigit() else unknown
