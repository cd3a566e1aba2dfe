"""The runtime of the probe: each reader runs in a child process with a deadline.

A reader that hangs or dies costs its own reading only. A question is named "reader", or "reader#label" where one reader
is asked several questions.

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
from typing import Any, Mapping, Sequence

from pylaunch.agent.probe.registry import FAILURES, READERS, Reader, reader_of

Readers = Mapping[str, Reader[Any, Any]]


class _Child:
    """Process that answers one question: it writes the text of the reading, and ends."""

    def __init__(self, reader: Reader[Any, Any], question: Any, others: Sequence[_Child]) -> None:
        self._deadline_s = reader.deadline_s
        self._begun = time.monotonic()
        self._received = b""
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
        for each in (self, *others):
            os.close(each.pipe)  # Or it would wait for itself to read, once the probe was killed.
        try:
            with os.fdopen(writing, "wb") as out:
                out.write(json.dumps(_taken(reader, question, self._begun)).encode())
        finally:
            os._exit(0)

    @property
    def until(self) -> float:
        """Monotonic time at which the reader counts as silent."""
        return self._begun + self._deadline_s

    def receive(self) -> bool:
        """Add what has arrived of the reading; return False at its end."""
        chunk = os.read(self.pipe, 1 << 18)
        self._received += chunk
        return bool(chunk)

    def end(self) -> str:
        """Wait for the process, whose output has ended; return the reading."""
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if status == 0 and self._received:
            return self._received.decode()
        return _unmeasured("its reader died", time.monotonic() - self._begun)

    def abandon(self) -> str:
        """Kill the process and its children without waiting; return the reading of a silent reader."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # It got no processor so far, and is in our group.
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return _unmeasured(f"no answer within {self._deadline_s:g} s", self._deadline_s, silent=True)


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
    """Return the reading of every question as JSON text."""
    found = dict.fromkeys(questions, _unmeasured("this probe has no such reader", 0.0))
    asked = {name: readers[reader_of(name)] for name in questions if reader_of(name) in readers}
    children: dict[str, _Child] = {}
    for name, reader in asked.items():
        children[name] = _Child(reader, questions[name], [*children.values()])
    while children:
        left = min(child.until for child in children.values()) - time.monotonic()
        pipes = [child.pipe for child in children.values()]
        ready, _, _ = select.select(pipes, [], [], max(0.0, left))
        now = time.monotonic()
        if late := [child.pipe for child in children.values() if child.pipe not in ready and child.until <= now]:
            ready += select.select(late, [], [], 0.0)[0]  # What arrived while this process was held up is not late.
        for name, child in list(children.items()):
            if child.pipe in ready and child.receive():
                continue
            if child.pipe in ready or child.until <= now:
                found[name] = child.end() if child.pipe in ready else child.abandon()
                del children[name]
    return found


def main(questions: Mapping[str, Any]) -> None:
    """Print the readings for `questions` (reader → question) and exit."""
    begun = time.monotonic()
    taken = ", ".join(f"{json.dumps(name)}: {text}" for name, text in readings(questions).items())
    head = f'"time": {time.time()!r}, "seconds": {time.monotonic() - begun!r}'
    sys.stdout.write(f'{{{head}, "readings": {{{taken}}}}}\n')
    sys.stdout.flush()
    os._exit(0)  # Nothing needs a cleanup, which takes milliseconds.
