"""A person's request to end a run, kept in the run's directory: this node prepares no further attempt of that run.

Between two attempts no supervisor lives, so that only a file can tell the next one. Attempts of a run are named
`RUN`, `RUN.1`, `RUN.2`, …
"""

from __future__ import annotations

from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.layout import NodeRoot, RunDirectory
from pylaunch.agent.shared.record import note

FILE = "stop-requested"
CODE = "stop-requested"
"""Of the reason with which a node refuses an attempt of a run that was stopped."""

LONGEST = 1000


def keep(directory: RunDirectory, reason: str) -> None:
    """Remember that a person asked for the end of this run."""
    try:
        rank_files.replace(directory.file(FILE), reason[:LONGEST].encode("utf-8", "replace"))
    except OSError as error:
        note(f"the request to stop run {directory.run} cannot be kept: {error.strerror}")


def requested(root: NodeRoot, run: str) -> str | None:
    """Why a person asked for the end of `run` or an earlier attempt of it; None when nobody did."""
    base = run.partition(".")[0]
    for directory in root.all_runs():
        if directory.run.partition(".")[0] == base:
            try:
                return rank_files.read(directory.file(FILE), LONGEST).decode("utf-8", "replace")
            except OSError:
                continue
    return None
