"""Runs every reader in a child of its own with a deadline of its own: one that hangs costs itself and nobody else.

A question is named by its reader, or by "reader#label" where one reader is asked several questions.

Prints one JSON object: {"time", "seconds", "readings": {reader: {"value": …, "seconds"} | {"unmeasured": why, …}}};
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
from typing import Any, Callable, Mapping

Reader = Callable[[Any], Any]

DEADLINE_S = 5.0
"""For a reader that names none: far above what any takes on a healthy host."""


class _Child:
    """One reader at work."""

    def __init__(self, reader: Reader, question: Any) -> None:
        self.begun = time.monotonic()
        self.said = b""
        self.pipe, writing = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            return
        # A child that stays behind, stuck in the kernel, must not keep the SSH channel open.
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os.setpgid(0, 0)
        with os.fdopen(writing, "wb") as out:
            out.write(json.dumps(_answer(reader, question)).encode())
        os._exit(0)

    def ended(self) -> dict[str, Any]:
        """What it said, once its pipe is closed."""
        os.close(self.pipe)
        os.waitpid(self.pid, 0)
        seconds = round(time.monotonic() - self.begun, 4)
        if not self.said:
            return {"unmeasured": "its reader died", "seconds": seconds}
        return {**json.loads(self.said), "seconds": seconds}

    def abandoned(self, deadline_s: float) -> dict[str, Any]:
        """It takes too long: kill it and all that it started, and do not wait for what cannot be killed."""
        os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return {"unmeasured": f"no answer within {deadline_s:g} s", "silent": True, "seconds": deadline_s}


def _answer(reader: Reader, question: Any) -> dict[str, Any]:
    try:
        return {"value": reader(question)}
    except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
        return {"unmeasured": str(error) or type(error).__name__}


def readings(
    readers: Mapping[str, Reader], questions: Mapping[str, Any], deadlines: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """The reading of every reader that `questions` names, all taken at once."""
    found: dict[str, dict[str, Any]] = {}
    children = {}
    limits = {name: deadlines.get(name.partition("#")[0], DEADLINE_S) for name in questions}
    for name, question in questions.items():
        reader = readers.get(name.partition("#")[0])
        if reader is not None:
            children[name] = _Child(reader, question)
        else:
            found[name] = {"unmeasured": "this probe has no such reader", "seconds": 0.0}
    while children:
        now = time.monotonic()
        left = {name: child.begun + limits[name] - now for name, child in children.items()}
        ready, _, _ = select.select([child.pipe for child in children.values()], [], [], max(0.0, min(left.values())))
        for name, child in list(children.items()):
            if child.pipe in ready:
                chunk = os.read(child.pipe, 1 << 16)
                child.said += chunk
                if not chunk:
                    found[name] = children.pop(name).ended()
            elif left[name] <= 0:
                found[name] = children.pop(name).abandoned(limits[name])
    return {name: found[name] for name in questions}


def main(readers: dict[str, Reader], questions: str, deadlines: dict[str, float]) -> None:
    """Print the readings that `questions` (JSON: reader → question) asks for."""
    begun = time.monotonic()
    taken = readings(readers, json.loads(questions), deadlines)
    json.dump({"time": time.time(), "seconds": time.monotonic() - begun, "readings": taken}, sys.stdout)
    print()
