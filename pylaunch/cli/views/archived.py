"""An archive of a run: its path on stdout, and what it lacks."""

from __future__ import annotations

from pylaunch.cli import console
from pylaunch.model.size import shown_size
from pylaunch.workflows.collect import RunArchive


def show(made: RunArchive) -> None:
    """Print the path, the size and what was left out."""
    for line in made.left_out:
        console.say(f"left out: {line}")
    console.data(str(made.file))
    console.say(f"run {made.run}: {len(made.names)} files, {shown_size(made.size)}, secrets masked")


def as_json(made: RunArchive) -> dict[str, object]:
    """Return the archive as data."""
    return {
        "run": made.run,
        "archive": str(made.file),
        "bytes": made.size,
        "files": list(made.names),
        "left_out": list(made.left_out),
    }
