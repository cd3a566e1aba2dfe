"""What one command line gave that is needed beyond its verb: by hints, by errors and by the JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from pylaunch.model.argv import Argv


@dataclass
class Invocation:
    """One call of `pylaunch`. The boundary makes it, options fill it, and the boundary reads it at the end."""

    verb: str = ""
    inventory: Argv = ()
    """The words that named the inventory, as they were typed: ("-i", "../cluster.ini"); none without them."""

    source: Path | None = None
    """The inventory that those words mean."""

    as_json: bool = False
    document: Mapping[str, object] | None = None
    """What the verb has to say, for --json; printed once, at the end."""

    is_stream: bool = False
    """One document a line was printed already, so the last one is a line, too."""


def current() -> Invocation:
    """The invocation whose verb runs now; an empty one where none does."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Invocation) if context is not None else None) or Invocation()
