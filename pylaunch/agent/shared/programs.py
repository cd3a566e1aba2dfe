"""Run programs of this node, as this user or as root, and find them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

DEADLINE_S = 20.0
OBEYS_S = 1.0
"""Seconds for a program to end after SIGKILL."""


class ProgramEnd:
    """Result of a program. `status` is its exit code, or the negative number of the signal that ended it."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.output = output
        self.errors = errors


def ended(
    words: Sequence[str],
    *,
    stdin: str = "",
    joined: bool = False,
    deadline_s: float = DEADLINE_S,
    environment: Mapping[str, str] | None = None,
) -> ProgramEnd:
    """Run a program to its end, in the locale C. `joined`: its errors are part of its output, in order.

    Raises FileNotFoundError or PermissionError if the program cannot be started, TimeoutError if it runs for longer
    than `deadline_s`; then it is killed.
    """
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C", **(environment or {})},
    )
    try:
        output, errors = process.communicate(stdin.encode(), deadline_s)
    except subprocess.TimeoutExpired:
        process.kill()
        # A program that waits in a driver obeys much later, if ever.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(OBEYS_S)
        raise TimeoutError(f"no answer from {words[0]} within {deadline_s:g} s") from None
    return ProgramEnd(process.returncode, output.decode("utf-8", "replace"), (errors or b"").decode("utf-8", "replace"))


def path_of(program: str, search: str | None = None) -> str | None:
    """Return the path of a program in the directories `search`, else of PATH; None if it is not there.

    A name with a slash is a path itself.
    """
    directories = os.environ.get("PATH", os.defpath) if search is None else search
    for directory in [""] if "/" in program else directories.split(os.pathsep):
        path = os.path.join(directory, program)
        if os.path.exists(path) and os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def run_as_root(words: Sequence[str], sudo_password: str | None) -> str:
    """Return the output of a program run as root: through sudo for other users, with the password if there is one."""
    if os.geteuid() == 0:
        return output_of(words)
    if sudo_password is None:
        return output_of(["sudo", "--non-interactive", *words])
    # Through stdin: other users can read argv and the environment.
    return output_of(["sudo", "--stdin", "--prompt=", *words], stdin=f"{sudo_password}\n")


def output_of(words: Sequence[str], stdin: str = "") -> str:
    """Return stdout and stderr of a program, whatever its exit status. Raises as `ended` does."""
    return ended(words, stdin=stdin, joined=True).output
