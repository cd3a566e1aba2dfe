"""Output of programs of this host, as the probe's user or as root."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pylaunch.agent.shared.programs import ended


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
