"""The runtime of the probe: readers run in child processes with deadlines.

A reader that hangs or dies costs its own reading only. A process costs more than most readings, so children take the
readers one after the other from a common queue, and a further child begins only while a reader waits or works for
long. A question is named "reader", or "reader#label" where one reader is asked several questions.

Prints one JSON object: {"time", "seconds", "readings": {name: {"value": …, "seconds"} | {"unmeasured": why, …}}};
with "silent" where the deadline has passed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any, Mapping, Sequence

from pylaunch.agent.probe.registry import DEADLINE_S, FAILURES, READERS, Reader, reader_of
from pylaunch.agent.shared.text import stat_of

Readers = Mapping[str, Reader[Any, Any]]

PATIENCE_S = 0.02
"""Time that a reader may wait, for a program or a device, before a further child takes the next readers."""

LONG_S = 0.2
"""The same for a reader that computes. On a host whose processors are busy, further children would not help."""

_INDEX = struct.Struct("=H")


class _Child:
    """Process that takes readings from `queue` until that is empty.

    It writes two lines for each: which one it takes, with its monotonic time, and then the text of the reading.
    """

    def __init__(self, queue: int, names: Sequence[str], questions: Mapping[str, Any], readers: Readers) -> None:
        self._names = names
        self._readers = readers
        self._received = b""
        self.current: int | None = None
        """Index of the reading that it takes; None before the first."""

        self._begun = time.monotonic()
        self.pipe, writing = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            return
        # A child stuck in the kernel must not keep the SSH channel open.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.setpgid(0, 0)
        os.close(self.pipe)  # Or it would wait for itself to read, once the probe was killed.
        try:
            with os.fdopen(writing, "wb") as out:
                while taken := os.read(queue, _INDEX.size):
                    index = _INDEX.unpack(taken)[0]
                    begun = time.monotonic()
                    out.write(b"%d %r\n" % (index, begun))
                    out.flush()  # With the reading before it.
                    name = names[index]
                    text = json.dumps(_taken(readers[reader_of(name)], questions[name], begun))
                    out.write(text.encode() + b"\n")
        finally:
            os._exit(0)

    @property
    def _deadline_s(self) -> float:
        return DEADLINE_S if self.current is None else _deadline(self._readers, self._names[self.current])

    @property
    def until(self) -> float:
        """Monotonic time at which its reader counts as silent."""
        return self._begun + self._deadline_s

    def receive(self, found: dict[str, str]) -> bool:
        """Add the readings that have arrived to `found`. Return False at the end of the output."""
        chunk = os.read(self.pipe, 1 << 18)
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            if self.current is None:
                index, begun = line.split()
                self.current, self._begun = int(index), float(begun)
            else:
                found[self._names[self.current]] = line.decode()
                self.current = None
        return bool(chunk)

    def end(self, found: dict[str, str]) -> None:
        """Wait for the process, whose output has ended. The reader that was running has died."""
        os.close(self.pipe)
        os.waitpid(self.pid, 0)
        if self.current is not None:
            found[self._names[self.current]] = _unmeasured("its reader died", time.monotonic() - self._begun)

    def abandon(self, found: dict[str, str]) -> None:
        """Kill the process and its children without waiting. The running reader counts as silent."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # It got no processor so far, and is in our group.
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        if self.current is not None:
            limit = self._deadline_s
            found[self._names[self.current]] = _unmeasured(f"no answer within {limit:g} s", limit, silent=True)

    def holds_others(self, now: float) -> bool:
        """Return True if another child should take the next readers: this one waits, or works for long."""
        spent = now - self._begun
        return spent >= LONG_S or (spent >= PATIENCE_S and _waits(self.pid))


def _waits(pid: int) -> bool:
    """Return True unless the process works or would, if it had a processor."""
    return stat_of(pid)[:1] != ["R"]


def _taken(reader: Reader[Any, Any], question: Any, begun: float) -> dict[str, Any]:
    found: dict[str, Any]
    try:
        found = {"value": reader(question)}
    except FAILURES as error:
        found = {"unmeasured": str(error) or type(error).__name__}
    return {**found, "seconds": round(time.monotonic() - begun, 4)}


def _unmeasured(why: str, seconds: float, *, silent: bool = False) -> str:
    return json.dumps({"unmeasured": why, "seconds": round(seconds, 4), **({"silent": True} if silent else {})})


def readings(questions: Mapping[str, Any], readers: Readers = READERS) -> dict[str, str]:
    """Return the reading of every question as JSON text. Those with the longest deadlines begin first."""
    names = sorted(
        (name for name in questions if reader_of(name) in readers), key=lambda name: -_deadline(readers, name)
    )
    found: dict[str, str] = {}
    queue, filling = os.pipe()
    os.write(filling, b"".join(_INDEX.pack(index) for index in range(len(names))))
    os.close(filling)
    polled = select.poll()
    polled.register(queue, select.POLLIN)
    children: dict[int, _Child] = {}
    while True:
        has_more = any(events & select.POLLIN for _, events in polled.poll(0))
        now = time.monotonic()
        if has_more and all(child.holds_others(now) for child in children.values()):
            child = _Child(queue, names, questions, readers)
            children[child.pipe] = child
        if not children:
            break
        left = min(child.until for child in children.values()) - now
        ready, _, _ = select.select(list(children), [], [], max(0.0, min(left, PATIENCE_S) if has_more else left))
        now = time.monotonic()
        if late := [pipe for pipe, child in children.items() if pipe not in ready and child.until <= now]:
            ready += select.select(late, [], [], 0.0)[0]  # What arrived while this process was held up is not late.
        for pipe, child in list(children.items()):
            if pipe in ready:
                if child.receive(found):
                    continue
                child.end(found)
            elif child.until <= now:
                child.abandon(found)
            else:
                continue
            del children[pipe]
    os.close(queue)
    lost = {name: "its reader died" if name in names else "this probe has no such reader" for name in questions}
    return {name: found.get(name) or _unmeasured(lost[name], 0.0) for name in questions}


def _deadline(readers: Readers, name: str) -> float:
    return readers[reader_of(name)].deadline_s


def main(questions: Mapping[str, Any]) -> None:
    """Print the readings for `questions` (reader → question) and exit."""
    begun = time.monotonic()
    taken = ", ".join(f"{json.dumps(name)}: {text}" for name, text in readings(questions).items())
    head = f'"time": {time.time()!r}, "seconds": {time.monotonic() - begun!r}'
    sys.stdout.write(f'{{{head}, "readings": {{{taken}}}}}\n')
    sys.stdout.flush()
    os._exit(0)  # Nothing needs a cleanup, which takes milliseconds.
