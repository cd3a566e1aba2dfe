"""Decode the readings in the answer of a host: each against the type that its reader returns."""

import functools
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

from pylaunch.agent.probe.registry import READERS, ReadingKey, reader_of
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.model.text import typed_json
from pylaunch.protocol.readings import devices
from pylaunch.protocol.readings import hosts as other_readings
from pylaunch.transport.process import MOST

T = TypeVar("T")

MALFORMED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError,
)  # fmt: skip
"""Exceptions of code that reads an answer of an unexpected shape. Catch them only around pure code that reads one
host's answer, so that the exception concerns that host."""


class NotAnAnswerError(Exception):
    """A node sent something other than the expected answer."""


def decoded(text: str | bytes, kind: type[T], max_size: int = MOST) -> T:
    """Return the JSON in `text` as a `kind`, a type that msgspec knows. Raises NotAnAnswerError."""
    try:
        return typed_json.converted(untrusted_json.parse(text, max_size), kind)
    except (UntrustedJsonError, msgspec.ValidationError) as error:
        raise NotAnAnswerError(f"{error}: {quoted_answer(text)}") from None


def quoted_answer(text: str | bytes) -> str:
    """Return the beginning of an answer, to quote in an error."""
    start = text[:200].decode("utf-8", "replace") if isinstance(text, bytes) else text[:200]
    return repr(start + ("…" if len(text) > len(start) else ""))


def what_is_wrong(error: Exception) -> str:
    """Return one of MALFORMED as a short text."""
    return f"{type(error).__name__}: {str(error)[:200]}"


V = TypeVar("V")
_TYPES = {**vars(typing), **vars(devices), **vars(other_readings)}


@dataclass(frozen=True)
class Unmeasured:
    """A reader could not look, and why."""

    reason: str
    silent: bool = False
    """It gave no answer within its deadline and was killed."""


class Reading(msgspec.Struct):
    """One reading as the runtime on the host sends it."""

    seconds: float
    value: Any = msgspec.UNSET
    unmeasured: str | None = None
    silent: bool = False


def readings(answered: Mapping[str, Any], asked: Iterable[str]) -> dict[str, Reading]:
    """Return the readings that were `asked` for, values not yet decoded. Raises one of MALFORMED."""
    found = typed_json.converted(answered["readings"], dict[str, Reading])
    for name in asked:
        if found[name].unmeasured is None and found[name].value is msgspec.UNSET:
            raise ValueError(f"no value of {name}")
    return {name: found[name] for name in asked}


def decoded_reading(name: str, reading: Reading) -> Any | Unmeasured:
    """Return the value of a reading as the type that its reader returns, or Unmeasured. Raises one of MALFORMED."""
    if reading.unmeasured is not None:
        return Unmeasured(reading.unmeasured, silent=reading.silent)
    return typed_json.converted(reading.value, value_type(READERS[reader_of(name)].look))


def values(answered: Mapping[str, Any], asked: Iterable[str]) -> dict[str, Any | Unmeasured]:
    """Return the decoded readings that were `asked` for. Raises one of MALFORMED."""
    return {name: decoded_reading(name, reading) for name, reading in readings(answered, asked).items()}


def value(found: Mapping[str, Any | Unmeasured], reader: ReadingKey[V]) -> V | Unmeasured:
    """Return the decoded reading of `reader`, typed."""
    reading: V | Unmeasured = found[reader]
    return reading


@functools.cache
def value_type(function: Callable[..., Any]) -> Any:
    """Return the type that a reader's function returns."""
    return get_type_hints(function, localns=_TYPES)["return"]
