"""Stop request of a person, kept in a file of the run: this node refuses further attempts of that run.

It is a file because no supervisor runs between two attempts. Attempts of a run are named `RUN`, `RUN.1`, `RUN.2`, …
"""

from __future__ import annotations

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.record import note
from pylaunch.base.layout import NodeRoot, RunDirectory

FILE = "stop-requested"
CODE = "stop-requested"
"""Code of the refusal of an attempt of a stopped run."""

LONGEST = 1000


def keep(directory: RunDirectory, reason: str) -> None:
    """Write the stop request of this run."""
    try:
        rank_files.replace(directory.file(FILE), reason[:LONGEST].encode("utf-8", "replace"))
    except OSError as error:
        note(f"the request to stop run {directory.run} cannot be kept: {error.strerror}")


def requested(root: NodeRoot, run: str) -> str | None:
    """Return the reason of a stop request for `run` or another attempt of it; None without one."""
    base = run.partition(".")[0]
    for directory in root.all_runs():
        if directory.run.partition(".")[0] == base:
            try:
                return rank_files.read(directory.file(FILE), LONGEST).decode("utf-8", "replace")
            except OSError:
                continue
    return None
