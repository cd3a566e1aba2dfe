"""The only writer to stdout and stderr. stdout is data, stderr is talk; nothing depends on colour or on a terminal.

A terminal gets text that `sanitise` made safe, with colours where it takes them; a file or a pipe gets text as it is.
While a `LiveArea` is drawn, other output to the terminal appears above it.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO

import click

from pylaunch.errors import UsageError
from pylaunch.model.text.sanitise import RESET, rank_output, visible, visible_line
from pylaunch.terminal import columns as layout

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MARKS = (
    (re.compile(r"(\s*)(error:|FAIL\b)"), "1;31"),
    (re.compile(r"(\s*)(warning:|warn\b|\?\?\?\?)"), "33"),
    (re.compile(r"(\s*)(hint:|fix:)"), "36"),
)
"""Words at the beginning of a line that a terminal shows in colour."""


class Area(Protocol):
    """Lines at the bottom of the terminal, below the text that is written."""

    def erase(self) -> None:
        """Erase the lines."""

    def draw(self) -> None:
        """Write the lines at the cursor."""


class _Door:
    """State that all writers share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.area: Area | None = None


_DOOR = _Door()


def is_terminal(stream: TextIO) -> bool:
    """Return True for a terminal."""
    return stream.isatty()


def is_drawable() -> bool:
    """Return True when stderr is a terminal that can move its cursor."""
    return is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Return True for a terminal with colours, unless NO_COLOR is set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def silence(stream: TextIO) -> None:
    """Discard further output to `stream`, whose reader is gone (`pylaunch … | head`)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(text: str, *, style: str | None = None) -> None:
    """Print lines to stderr: progress, summaries, errors. Continues when the reader is gone."""
    _to_stderr(_sentences(sys.stderr, text, style))


def quote(lines: Iterable[str], *, indent: str = "  ") -> None:
    """Print lines of a rank to stderr, indented."""
    _to_stderr("".join(f"{indent}{_of_rank(sys.stderr, line)}\n" for line in lines))


def data(text: str) -> None:
    """Print text that may be piped to stdout."""
    write(sys.stdout, _sentences(sys.stdout, text.removesuffix("\n")))


def json_data(value: object) -> None:
    """Print `value` as JSON to stdout, for `--json`."""
    data(json.dumps(value, indent=2, default=str))


def json_line(value: object) -> None:
    """Print `value` as one line of JSON to stdout, for a stream of documents."""
    data(json.dumps(value, default=str))


def rank_lines(stream: TextIO, lines: Iterable[tuple[str, str]]) -> None:
    """Print lines of ranks, each after its prefix. Raises OSError when the reader is gone."""
    text = "".join(f"{_one_line(stream, prefix)}{_of_rank(stream, line)}\n" for prefix, line in lines)
    write(stream, text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout; on a terminal, cells of several words are folded to its width."""
    out = sys.stdout
    cells = [[_one_line(out, cell) for cell in row] for row in rows]
    head, *lines = layout.aligned(columns, cells, width_of(out) if is_terminal(out) else None)
    write(out, "\n".join([_styled(out, head, "bold"), *lines]) + "\n")


def confirm(question: str) -> bool:
    """Ask a yes-or-no question; an empty line means no. Raises UsageError when stdin ends without an answer."""
    try:
        return click.confirm(visible(question), default=False, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            say("")
            raise UsageError("no answer: stdin is not a terminal", hint="--yes does not ask") from None
        raise


def password(prompt: str) -> str:
    """Ask for a password, which is not shown."""
    answer: str = click.prompt(visible(prompt), hide_input=True, err=True)
    return answer


def size_of(stream: TextIO) -> os.terminal_size:
    """Return the columns and rows of the terminal behind `stream`."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except OSError:
        return os.terminal_size((80, 24))
    return os.terminal_size((size.columns or 80, size.lines or 24))


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal behind `stream`."""
    return size_of(stream).columns


def write(stream: TextIO, text: str) -> None:
    """Write whole lines to `stream`, above the area at the bottom of the same terminal. `text` is sanitised already."""
    with _DOOR.lock:
        if _DOOR.area is None or not is_terminal(stream):
            put(stream, text)
            return
        _DOOR.area.erase()
        put(stream, text)
        _DOOR.area.draw()


def put(stream: TextIO, text: str) -> None:
    """Write `text` as it is; characters that the encoding of the stream lacks become escapes."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def lay(area: Area) -> None:
    """Draw `area` below all output from now on."""
    with _DOOR.lock:
        _DOOR.area = area
        area.draw()


def redraw(area: Area) -> None:
    """Redraw `area`, if it is shown."""
    with _DOOR.lock:
        if _DOOR.area is area:
            area.erase()
            area.draw()


def lift(area: Area) -> None:
    """Remove `area`, if it is shown."""
    with _DOOR.lock:
        if _DOOR.area is area:
            area.erase()
            _DOOR.area = None


def _to_stderr(text: str) -> None:
    try:
        write(sys.stderr, text)
    except BrokenPipeError:
        silence(sys.stderr)


def _sentences(stream: TextIO, text: str, style: str | None = None) -> str:
    if not is_terminal(stream):
        return text + "\n"
    return "".join(f"{_styled(stream, line, style)}\n" for line in visible(text).split("\n"))


def _one_line(stream: TextIO, value: str) -> str:
    return visible_line(value) if is_terminal(stream) else value


def _of_rank(stream: TextIO, line: str) -> str:
    return rank_output(line, colours=has_colour(stream)) if is_terminal(stream) else line


def _styled(stream: TextIO, line: str, style: str | None = None) -> str:
    if not has_colour(stream) or not line:
        return line
    if style is not None:
        return f"\x1b[{STYLES[style]}m{line}{RESET}"
    for pattern, code in _MARKS:
        if found := pattern.match(line):
            return f"{found[1]}\x1b[{code}m{found[2]}{RESET}{line[found.end() :]}"
    return line
