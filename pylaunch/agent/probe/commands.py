"""Output of programs of this host, as the probe's user or as root."""

from __future__ import annotations

import os
import subprocess

DEADLINE_S = 20


def run_as_root(words: list[str], sudo_password: str | None) -> str:
    """Return the output of a program run as root: through sudo for other users, with the password if there is one."""
    if os.geteuid() == 0:
        return run(words)
    if sudo_password is None:
        return run(["sudo", "--non-interactive", *words])
    # Through stdin: other users can read argv and the environment.
    return run(["sudo", "--stdin", "--prompt=", *words], stdin=f"{sudo_password}\n")


def run(words: list[str], stdin: str = "") -> str:
    """Return stdout and stderr of a program, whatever its exit status."""
    ended = subprocess.run(
        words,
        input=stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEADLINE_S,
        check=False,
        env=dict(os.environ, LC_ALL="C"),
    )
    return ended.stdout.decode("utf-8", "replace")
