"""Decode JSON that another party wrote: a node, a rank, another user. Standard library only.

The input is bounded in size and depth, numbers are finite and fit 64 bits, and strings can be written as UTF-8 with
`surrogateescape`. So later formatting, arithmetic and encoding of the values cannot fail.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 32
"""Nested arrays and objects. Our deepest document has 8."""

_INT_LIMIT = 1 << 63
_NOT_ENCODABLE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class UntrustedJsonError(ValueError):
    """The text is not JSON within the bounds of this module; the message is the reason."""


def parse(text: str | bytes, max_size: int) -> Any:
    """Return the value of `text`, which has at most `max_size` bytes (characters, for a str).

    Raises UntrustedJsonError.
    """
    if len(text) > max_size:
        raise UntrustedJsonError(f"longer than {max_size} bytes")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise UntrustedJsonError("nested too deeply") from None
    except ValueError as error:
        raise UntrustedJsonError(str(error)) from None
    return _bounded(value, MAX_DEPTH)


def parse_object(text: str | bytes, max_size: int) -> dict[str, Any]:
    """Return the value of `text`, which must be an object. Raises UntrustedJsonError."""
    value = parse(text, max_size)
    if not isinstance(value, dict):
        raise UntrustedJsonError(f"expected an object, got {type(value).__name__}")
    return value


def _refuse_constant(name: str) -> Any:
    raise UntrustedJsonError(f"{name} is not a number")


def _bounded(value: Any, depth: int) -> Any:
    """Return `value` with encodable strings. Raises UntrustedJsonError for a value out of bounds."""
    if isinstance(value, str):
        return value if value.isascii() else _NOT_ENCODABLE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UntrustedJsonError("a number is too large")
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
        raise UntrustedJsonError("an integer does not fit 64 bits")
    if isinstance(value, (list, dict)) and depth == 0:
        raise UntrustedJsonError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_bounded(each, depth - 1) for each in value]
    if isinstance(value, dict):
        return {_bounded(name, depth - 1): _bounded(each, depth - 1) for name, each in value.items()}
    return value
