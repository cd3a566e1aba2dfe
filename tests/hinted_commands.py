"""Commands in the hints that pylaunch prints: each is one that pylaunch accepts."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from unittest import mock

import click

from pylaunch.cli import main
from pylaunch.errors import ExitCode

_HINT = re.compile(r"(?:hint|fix): (.*(?:\n {6}\S.*)*)")
_COMMAND = re.compile(rf"\bpylaunch (?=(?:{'|'.join(main.VERBS)})\b)")
_END = re.compile(r"\n|;|&&|,\s|\s\(|\sor\s|\?$|\s…")
"""Ends of a command inside a sentence."""


def hinted_commands(printed: str) -> Iterator[list[str]]:
    """Yield the words after `pylaunch` of each command in the hints of `printed`."""
    for hint in _HINT.findall(printed):
        yield from commands_in(hint)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words after `pylaunch` of each command in a sentence."""
    for rest in _COMMAND.split(text)[1:]:
        yield shlex.split(_END.split(rest)[0], comments=True)


def must_be_accepted(words: list[str]) -> None:
    """Fail unless pylaunch parses the command line: its verb, options, values and arguments."""
    printed = io.StringIO()
    with mock.patch.object(click.Command, "invoke", return_value=None), contextlib.redirect_stderr(printed):
        code = main.run(words)
    assert code != ExitCode.USAGE, f"a hint is refused: pylaunch {shlex.join(words)}\n{printed.getvalue()}"


def hints_must_be_accepted(printed: str) -> None:
    """Fail unless each command in the hints of `printed` is accepted."""
    for words in hinted_commands(printed):
        must_be_accepted(words)
