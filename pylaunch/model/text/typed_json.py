"""JSON and plain values as typed ones, from any thread.

msgspec learns a type at its first use. Two threads that do so at the same time for a type with an enumeration crash the
process (segmentation fault with msgspec 0.22), so this is the only place where types are learnt: one thread at a time.
"""

import threading
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_LEARNING = threading.Lock()
_DECODERS: dict[object, msgspec.json.Decoder[Any]] = {}


def decoded(content: bytes | str, kind: type[T]) -> T:
    """Return the JSON text `content` as a `kind`. Raises msgspec.DecodeError."""
    with _LEARNING:
        decoder: msgspec.json.Decoder[T] | None = _DECODERS.get(kind)
        if decoder is None:
            decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(content)


@overload
def converted(value: object, kind: type[T]) -> T: ...
@overload
def converted(value: object, kind: UnionType) -> Any: ...
def converted(value: object, kind: Any) -> Any:
    """Return `value`, made of lists, dicts and scalars, as a `kind`. Raises msgspec.ValidationError."""
    with _LEARNING:
        return msgspec.convert(value, kind)  # noqa: TID251 -- the one place that learns types
