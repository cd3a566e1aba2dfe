"""The only writer to stdout and stderr. stdout is data, stderr is talk; nothing depends on colour or on a terminal.

A terminal gets text that `sanitise` made safe, with colours where it takes them; a file or a pipe gets text as it is.
While lines are `drawn`, other output to the terminal appears above them. rich is imported when a board or a table is
drawn, and not before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from pylaunch.errors import UsageError
from pylaunch.model.text.quantity import duration
from pylaunch.model.text.sanitise import RESET, rank_output, visible, visible_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MARKS = (
    (re.compile(r"(\s*)(error:|FAIL\b)"), "1;31"),
    (re.compile(r"(\s*)(warning:|warn\b|\?\?\?\?)"), "33"),
    (re.compile(r"(\s*)(hint:|fix:)"), "36"),
)
"""Words at the beginning of a line that a terminal shows in colour."""


NARROWEST = 16
"""Columns are not folded below this width."""


class _Door:
    """State that all writers share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.live: Live | None = None


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


def data(text: str, out: TextIO | None = None) -> None:
    """Print text that may be piped to stdout, or to `out`."""
    stream = out or sys.stdout
    write(stream, _sentences(stream, text.removesuffix("\n")))


def json_data(value: object) -> None:
    """Print `value` as JSON to stdout, for `--json`."""
    data(json.dumps(value, indent=2, default=str))


def json_line(value: object, out: TextIO | None = None) -> None:
    """Print `value` as one line of JSON to stdout, or to `out`, for a stream of documents."""
    data(json.dumps(value, default=str), out)


def rank_lines(stream: TextIO, lines: Iterable[tuple[str, str]]) -> None:
    """Print lines of ranks, each after its prefix. Raises OSError when the reader is gone."""
    text = "".join(f"{_one_line(stream, prefix)}{_of_rank(stream, line)}\n" for prefix, line in lines)
    write(stream, text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout; on a terminal, cells of several words are folded to its width."""
    if not is_terminal(sys.stdout):
        write(sys.stdout, _aligned([columns, *rows]))
        return
    printer = _rich(sys.stdout)
    with printer.capture() as printed:
        printer.print(table_of(columns, rows), crop=False)
    write(sys.stdout, "".join(f"{line.rstrip()}\n" for line in printed.get().splitlines()))


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    from rich.cells import cell_len  # noqa: PLC0415

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in padded)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without lines. Cells with spaces are folded between words where the width is too small."""
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [[visible_line(cell) for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, head in enumerate(columns):
        cells = [row[at] for row in (columns, *rows)]
        narrowest = max(NARROWEST, *(cell_len(word) for cell in cells for word in cell.split(" ")))
        made.add_column(Text(head), min_width=min(narrowest, max(map(cell_len, cells))))
    for row in rows:
        made.add_row(*map(Text, row))
    return made


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
    """Write whole lines to `stream`, above what is drawn on the same terminal. `text` is sanitised already."""
    with _DOOR.lock:
        if _DOOR.live is None or not is_terminal(stream):
            stream.write(_encodable(stream, text))
            stream.flush()
            return
        from rich.segment import Segment, Segments  # noqa: PLC0415

        _DOOR.live.console.print(Segments([Segment(_encodable(stream, text))]), end="", crop=False)


@contextlib.contextmanager
def drawn(lines: Callable[[], Sequence[str] | Table], every_s: float) -> Iterator[None]:
    """Show the result of `lines` at the bottom of stderr during the block, again every `every_s` seconds.

    The first time is after that time: what is over before costs no import of rich. A background job of the shell draws
    nothing, and nothing stays at the end.
    """
    is_over = threading.Event()

    def begin() -> None:
        from rich.live import Live  # noqa: PLC0415

        live = Live(
            console=_rich(sys.stderr), refresh_per_second=1 / every_s, transient=True, redirect_stdout=False,
            redirect_stderr=False, get_renderable=lambda: _fitting(lines()),
        )  # fmt: skip
        with _DOOR.lock:
            if not is_over.is_set():
                _DOOR.live = live
                live.start(refresh=True)
                live.console.show_cursor(True)  # A program that is killed would leave it hidden.

    timer = threading.Timer(every_s, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        is_over.set()
        timer.cancel()
        with _DOOR.lock:
            if _DOOR.live is not None:
                _DOOR.live.stop()
            _DOOR.live = None


@contextlib.contextmanager
def working(text: str) -> Iterator[Callable[[str | Callable[[], str]], None]]:
    """Show `text` on a terminal with the time that has passed.

    The function that is returned changes the text; a callable is evaluated at each update.
    """
    since = time.monotonic()
    shown: list[Callable[[], str]] = [lambda: text]

    def change(to: str | Callable[[], str]) -> None:
        shown[0] = to if callable(to) else lambda: to

    if not is_drawable():
        yield change
        return
    with drawn(lambda: [f"{shown[0]()} ({duration(time.monotonic() - since)})"], 0.5):
        yield change


def _rich(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415

    width = width_of(stream) if is_terminal(stream) else 1 << 16
    return Console(
        file=stream, width=None if stream is sys.stderr else width, markup=False, emoji=False, highlight=False,
        no_color=not has_colour(stream), force_terminal=is_terminal(stream), legacy_windows=False,
    )  # fmt: skip


def _fitting(shown: Sequence[str] | Table) -> Table | Text:
    """Return what fits the terminal, in as many rows as lines; nothing for a background job."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not _is_in_foreground():
        return Text()
    if isinstance(shown, Table):
        return shown
    columns, rows = size_of(sys.stderr)
    fitting = [Text(visible_line(line), no_wrap=True) for line in shown[: max(1, rows - 1)]]
    for line in fitting:
        line.truncate(columns - 1, overflow="ellipsis")
    return Text("\n", style="dim").join(fitting)


def _is_in_foreground() -> bool:
    """Return False for a background job; a terminal of another session may be drawn on."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return True


def _encodable(stream: TextIO, text: str) -> str:
    """Return `text` with escapes in place of characters that the encoding of the stream lacks."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding, stream.errors or "strict")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


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
