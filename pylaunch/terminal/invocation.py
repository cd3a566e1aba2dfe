"""Facts of one command line that hints, errors and the JSON document need."""

from collections.abc import Mapping
from pathlib import Path

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError
from pylaunch.model.text.argv import Argv


@dataclass
class Invocation:
    """One call of `pylaunch`: `main` creates it, options fill it, and `main` reads it at the end."""

    verb: str = ""
    inventory: Argv = ()
    """Words that named the inventory, as typed: ("-i", "../cluster.ini"); empty without them."""

    source: Path | None = None
    """Path of that inventory."""

    has_slurm_nodes: bool = False
    """Its hosts are nodes of a Slurm job, on which this user provisions nothing."""

    as_json: bool = False
    document: Mapping[str, object] | None = None
    """Document of the verb for --json, printed at the end."""

    printed_error: PylaunchError | None = None
    """Error that the background process of this command has printed: it belongs to the document."""

    is_stream: bool = False
    """Documents are printed one a line."""


def current() -> Invocation:
    """Return the invocation that runs; an empty one outside of a command."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Invocation) if context is not None else None) or Invocation()
