"""Somebody who types command lines of the documentation into a shell, in a directory of their own."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.waiting import wait_until

DEADLINE_S = 300.0
_FOLLOWS = re.compile(r" (-f|--watch)\b")


class Reader:
    """Types lines into bash in `directory`, where `pylaunch` is the program `command`."""

    def __init__(self, directory: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.home = directory.with_name("home")
        self.programs = directory.with_name("bin")
        for made in (self.directory, self.home, self.programs):
            made.mkdir()
        self.has_program("pylaunch", f'exec {shlex.join(command)} "$@"')
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self._env = {**os.environ, **environment, "PATH": path}
        self._typed = 0

    def has_program(self, name: str, shell: str) -> None:
        """Put a program of these shell commands into PATH."""
        (self.programs / name).write_text(f"#!/bin/sh\n{shell}\n")
        (self.programs / name).chmod(0o755)

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
        return typed.wait(DEADLINE_S)

    @property
    def _output(self) -> Path:
        return self.directory.with_name(f"output-{self._typed}")

    @property
    def sees(self) -> str:
        """The output of the last line."""
        return self._output.read_text(errors="replace")
