"""The runtime of the probe: each reader runs in a child process of its own with a deadline.

A reader that hangs or dies costs its own reading only. A question is named "reader", or "reader#label" where one
reader is asked several questions.

Prints one JSON object: {"time", "seconds", "readings": {name: {"value": …, "seconds"} | {"unmeasured": why, …}}};
with "silent" where the deadline has passed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Mapping

from pylaunch.agent.probe.registry import READERS, Reader, reader_of


class _Child:
    """Process of one reader."""

    def __init__(self, reader: Reader[Any, Any], question: Any) -> None:
        self.begun = time.monotonic()
        self.output = b""
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
            out.write(json.dumps(_taken(reader, question)).encode())
        os._exit(0)

    def ended(self) -> dict[str, Any]:
        """Return its reading, once its pipe is closed."""
        os.close(self.pipe)
        os.waitpid(self.pid, 0)
        seconds = round(time.monotonic() - self.begun, 4)
        if not self.output:
            return {"unmeasured": "its reader died", "seconds": seconds}
        return {**json.loads(self.output), "seconds": seconds}

    def abandoned(self, deadline_s: float) -> dict[str, Any]:
        """Kill the reader and its children without waiting, and return the reading of a timeout."""
        os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return {"unmeasured": f"no answer within {deadline_s:g} s", "silent": True, "seconds": deadline_s}


def _taken(reader: Reader[Any, Any], question: Any) -> dict[str, Any]:
    try:
        return {"value": reader(question)}
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return {"unmeasured": str(error) or type(error).__name__}


def readings(
    questions: Mapping[str, Any], readers: Mapping[str, Reader[Any, Any]] = READERS
) -> dict[str, dict[str, Any]]:
    """Return the reading of every question, all taken at once."""
    found: dict[str, dict[str, Any]] = {}
    children = {}
    limits = {}
    for name, question in questions.items():
        reader = readers.get(reader_of(name))
        if reader is not None:
            children[name] = _Child(reader, question)
            limits[name] = reader.deadline_s
        else:
            found[name] = {"unmeasured": "this probe has no such reader", "seconds": 0.0}
    while children:
        now = time.monotonic()
        left = {name: child.begun + limits[name] - now for name, child in children.items()}
        ready, _, _ = select.select([child.pipe for child in children.values()], [], [], max(0.0, min(left.values())))
        for name, child in list(children.items()):
            if child.pipe in ready:
                chunk = os.read(child.pipe, 1 << 16)
                child.output += chunk
                if not chunk:
                    found[name] = children.pop(name).ended()
            elif left[name] <= 0:
                found[name] = children.pop(name).abandoned(limits[name])
    return {name: found[name] for name in questions}


def main(questions: Mapping[str, Any]) -> None:
    """Print the readings for `questions` (reader → question)."""
    begun = time.monotonic()
    taken = readings(questions)
    json.dump({"time": time.time(), "seconds": time.monotonic() - begun, "readings": taken}, sys.stdout)
    print()
