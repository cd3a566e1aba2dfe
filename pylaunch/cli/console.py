"""stdout is data, stderr is talk. Nothing here depends on colour or on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table


def silence(stream: TextIO) -> None:
    """Nobody reads `stream` any more (`pylaunch … | head`): what is still written to it goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Talk(Console):
    """Goes on when nobody listens, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        silence(sys.stderr)


class _Listing(Console):
    """Leaves it to the one boundary what it means that nobody reads, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


talk = _Talk(stderr=True, highlight=False, soft_wrap=True)
"""For people: progress, prefixes, summaries, errors. Goes to stderr."""


def say(line: str, *, style: str | None = None) -> None:
    """One line to the person. `line` is printed as it is: brackets in it are not markup."""
    talk.print(line, style=style, markup=False)


def data(text: str) -> None:
    """Text that may be piped, to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def json_data(value: object) -> None:
    """`value` as JSON to stdout, for `--json`."""
    data(json.dumps(value, indent=2, default=str))


def json_line(value: object) -> None:
    """`value` as one line of JSON to stdout, for a `--json` that goes on."""
    data(json.dumps(value, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A listing to stdout: aligned columns, never cut when piped."""
    grid = Table(*columns, box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*row)
    width = None if sys.stdout.isatty() else 10_000
    out = _Listing(file=sys.stdout, highlight=False, markup=False, width=width)
    out.print(grid)
