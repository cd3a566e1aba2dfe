"""Decode what a node answered against a type: within the bounds of `untrusted_json`, and nothing but what was asked."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pylaunch.agent.shared import untrusted_json
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError
from pylaunch.transport.pipes import MOST

T = TypeVar("T")

MALFORMED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError,
)  # fmt: skip
"""What reading an answer raises that has another shape than it should. Only for pure code that reads one host's answer:
what it raises is then about that host."""


class NotAnAnswerError(Exception):
    """A node answered something else than it was asked; the message says what."""


def decoded(text: str | bytes, kind: type[T], max_size: int = MOST) -> T:
    """Return the JSON in `text` as a `kind`, a type that msgspec knows. Raises NotAnAnswerError."""
    try:
        return msgspec.convert(untrusted_json.parse(text, max_size), kind)
    except (UntrustedJsonError, msgspec.ValidationError) as error:
        raise NotAnAnswerError(f"{error}: {shown(text)}") from None


def shown(text: str | bytes) -> str:
    """The beginning of an answer, for a complaint about it."""
    said = text[:200].decode("utf-8", "replace") if isinstance(text, bytes) else text[:200]
    return repr(said + ("…" if len(text) > len(said) else ""))


def what_is_wrong(error: Exception) -> str:
    """One of MALFORMED in a few words."""
    return f"{type(error).__name__}: {str(error)[:200]}"
