"""Somebody who types command lines of the documentation into a shell, in a directory that no node sees."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from lab.lab import Lab
from tests.documents import hints_must_be_accepted
from tests.waiting import wait_until

DEADLINE_S = 600.0
"""A provision of two nodes takes minutes on a busy machine."""
_FOLLOWS = re.compile(r" (-f|--watch)\b")


class Reader:
    """Types lines into bash in `directory`, where `pylaunch` is the program of this checkout."""

    def __init__(self, lab: Lab, directory: Path, **environment: str) -> None:
        self.directory = directory / "project"
        self._programs = directory / "bin"
        for made in (self.directory, self._programs):
            made.mkdir()
        self.has_program("pylaunch", *lab.command())
        path = f"{self._programs}{os.pathsep}{os.environ['PATH']}"
        self._env = {**os.environ, **lab.environment, **environment, "PATH": path}
        self._typed = 0
        (self.directory / "cluster.ini").write_text(lab.inventory.read_text())

    def has_program(self, name: str, *words: str) -> None:
        """Put a program that executes `words` into PATH."""
        program = self._programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)

    def types(self, line: str) -> subprocess.Popen[bytes]:
        """Start a command line."""
        self._typed += 1
        with self._output.open("wb") as out:
            return subprocess.Popen(
                ("bash", "-c", f"set -o pipefail; {line}"), cwd=self.directory, env=self._env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def types_to_its_end(self, line: str) -> int:
        """Type a line and return its exit code."""
        return self.ends(line, self.types(line))

    def ends(self, line: str, typed: subprocess.Popen[bytes]) -> int:
        """Return the exit code of a line; Ctrl-C ends one that follows a run, once there is output."""
        if _FOLLOWS.search(line):
            wait_until(lambda: self.sees or typed.poll() is not None, "output", DEADLINE_S)
            typed.send_signal(signal.SIGINT)
        code = typed.wait(DEADLINE_S)
        hints_must_be_accepted(self.sees)
        return code

    @property
    def _output(self) -> Path:
        return self.directory.with_name(f"output-{self._typed}")

    @property
    def sees(self) -> str:
        """The output of the last line."""
        return self._output.read_text(errors="replace")
