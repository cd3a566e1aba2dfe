"""The JSON document of a command: the envelope around the content of a verb, and the forms in it.

    schema_version   grows when a field is removed or changes its meaning; fields are added at any time
    verb, time       command, and the time of the document
    exit_code        exit code of the command
    error            null, or {message, evidence, hint, exit_code}
    …                content of the verb

A set of hosts is a list of their names. Data of each host is a list of objects with `host` and `unreachable`, which is
null, or the reason why the host did not answer. A moment is ISO 8601 with its zone.
"""

import time
from collections.abc import Iterable, Mapping
from typing import TextIO

from pylaunch.errors import PylaunchError
from pylaunch.model.clock import in_utc
from pylaunch.terminal import console
from pylaunch.terminal.options import Invocation, current

SCHEMA_VERSION = 1


def show(content: Mapping[str, object]) -> None:
    """Set the content of the verb, which is printed with the exit code at the end."""
    current().document = content


def begin_stream() -> None:
    """Print each document of this command on one line, also that of an error."""
    current().is_stream = True


def line(content: Mapping[str, object], out: TextIO, invocation: Invocation) -> None:
    """Print one document of a stream on one line, now."""
    console.json_line({**_envelope(invocation, None, None), **content}, out)


def close(invocation: Invocation, code: int, error: PylaunchError | None) -> None:
    """Print the document of a command that has ended with --json and has content or an error.

    An error alone is one line: an option may be refused before the verb could begin a stream.
    """
    if invocation.as_json and (invocation.document is not None or error is not None):
        is_line = invocation.is_stream or invocation.document is None
        show_one = console.json_line if is_line else console.json_data
        show_one({**_envelope(invocation, code, error), **(invocation.document or {})})


def _envelope(invocation: Invocation, code: int | None, error: PylaunchError | None) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "verb": invocation.verb,
        "time": moment(time.time()),
        "exit_code": code,
        "error": None if error is None else _error(error),
    }


def _error(error: PylaunchError) -> dict[str, object]:
    return {
        "message": error.message,
        "evidence": list(error.evidence),
        "hint": error.hint,
        "exit_code": int(error.exit_code),
    }


def moment(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601, to the millisecond."""
    return in_utc(seconds).isoformat(timespec="milliseconds")


def hosts(
    names: Iterable[str], unreachable: Mapping[str, str], known: Mapping[str, Mapping[str, object]]
) -> list[dict[str, object]]:
    """Return one entry for each host: its `known` data, and the reason why it did not answer."""
    return [{"host": name, "unreachable": unreachable.get(name), **known.get(name, {})} for name in names]
