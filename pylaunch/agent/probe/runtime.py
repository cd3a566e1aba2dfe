"""The runtime of the probe: readers run in child processes with deadlines, all at once.

A reader that hangs or dies costs its own reading only. Quick readers share one child, because a process costs more
than they do; after one that hangs or dies there, those behind it run in children of their own. A question is named
"reader", or "reader#label" where one reader is asked several questions.

Prints one JSON object: {"time", "seconds", "readings": {name: {"value": …, "seconds"} | {"unmeasured": why, …}}};
with "silent" where the deadline has passed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any, Iterable, Mapping

from pylaunch.agent.probe.registry import READERS, Reader, failures, reader_of


class _Child:
    """Process that reads `names` one after the other, and writes each reading as one line."""

    def __init__(self, names: Iterable[str], questions: Mapping[str, Any], readers: Mapping[str, Reader[Any, Any]]):
        self.waiting = list(names)
        self._readers = readers
        self._begun = time.monotonic()
        self._output = b""
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
        with os.fdopen(writing, "wb") as out:
            for name in self.waiting:
                out.write(json.dumps(_taken(readers[reader_of(name)], questions[name])).encode() + b"\n")
                out.flush()
        os._exit(0)

    @property
    def _deadline_s(self) -> float:
        """Deadline of the reader that is running."""
        return self._readers[reader_of(self.waiting[0])].deadline_s if self.waiting else 1.0

    @property
    def until(self) -> float:
        """Monotonic time at which the reader that is running counts as silent."""
        return self._begun + self._deadline_s

    def receive(self, found: dict[str, dict[str, Any]]) -> bool:
        """Add the readings that have arrived to `found`. Return False at the end of the output."""
        chunk = os.read(self.pipe, 1 << 16)
        *lines, self._output = (self._output + chunk).split(b"\n")
        for line in lines:
            found[self.waiting.pop(0)] = {**json.loads(line), "seconds": self._seconds()}
            self._begun = time.monotonic()
        return bool(chunk)

    def end(self, found: dict[str, dict[str, Any]]) -> None:
        """Wait for the process, whose output has ended. The reader that was running has died."""
        os.close(self.pipe)
        os.waitpid(self.pid, 0)
        if self.waiting:
            found[self.waiting.pop(0)] = {"unmeasured": "its reader died", "seconds": self._seconds()}

    def abandon(self, found: dict[str, dict[str, Any]]) -> None:
        """Kill the process and its children without waiting. The reader that was running is silent."""
        os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        if self.waiting:
            limit = self._deadline_s
            why = {"unmeasured": f"no answer within {limit:g} s", "silent": True, "seconds": limit}
            found[self.waiting.pop(0)] = why

    def _seconds(self) -> float:
        return round(time.monotonic() - self._begun, 4)


def _taken(reader: Reader[Any, Any], question: Any) -> dict[str, Any]:
    try:
        return {"value": reader(question)}
    except failures() as error:
        return {"unmeasured": str(error) or type(error).__name__}


def readings(
    questions: Mapping[str, Any], readers: Mapping[str, Reader[Any, Any]] = READERS
) -> dict[str, dict[str, Any]]:
    """Return the reading of every question, all taken at once."""
    found: dict[str, dict[str, Any]] = {}
    quick, others = [], []
    for name in questions:
        if reader_of(name) not in readers:
            found[name] = {"unmeasured": "this probe has no such reader", "seconds": 0.0}
        elif readers[reader_of(name)].is_quick:
            quick.append(name)
        else:
            others.append(name)
    children = [_Child(names, questions, readers) for names in (*([name] for name in others), quick) if names]
    while children:
        left = min(child.until for child in children) - time.monotonic()
        ready, _, _ = select.select([child.pipe for child in children], [], [], max(0.0, left))
        for child in list(children):
            if child.pipe in ready:
                if child.receive(found):
                    continue
                child.end(found)
            elif child.until <= time.monotonic():
                child.abandon(found)
            else:
                continue
            children.remove(child)
            children += [_Child([name], questions, readers) for name in child.waiting]
    return {name: found[name] for name in questions}


def main(questions: Mapping[str, Any]) -> None:
    """Print the readings for `questions` (reader → question)."""
    begun = time.monotonic()
    taken = readings(questions)
    json.dump({"time": time.time(), "seconds": time.monotonic() - begun, "readings": taken}, sys.stdout)
    print()
