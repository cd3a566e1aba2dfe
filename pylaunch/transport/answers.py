"""Decode the JSON that a node sends: within the bounds of `untrusted_json`, and only as the expected type."""

from typing import TypeVar

import msgspec

from pylaunch.base import untrusted_json
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.model.text import typed_json
from pylaunch.transport.pipes import MOST

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
