"""Read a pickle that consists of plain containers, texts and numbers. Nothing in it is ever called.

NCCL's watchdog writes its dumps as pickles. `pickle.load` would execute what a pickle names, so this is an interpreter
of the 30 opcodes that such a dump needs; a pickle with any other opcode is refused.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any

MOST_BYTES = 64 << 20
"""Bytes of a dump: 20,000 entries with stacks are about 5 MB."""

_IGNORED = frozenset({"PROTO", "FRAME"})
_VALUES = frozenset(
    {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
     "SHORT_BINUNICODE", "BINUNICODE8"}
)  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class PickleRefusedError(ValueError):
    """The pickle is damaged, too long, or contains more than plain values."""


class _Mark:
    """Begin of the items of a container."""


def load(data: bytes) -> Any:
    """Return the value of the pickle `data`. Raises PickleRefusedError."""
    if len(data) > MOST_BYTES:
        raise PickleRefusedError(f"longer than {MOST_BYTES} bytes")
    machine = _Machine()
    try:
        for opcode, argument, position in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return machine.stack.pop()
            machine.run(opcode.name, argument, position)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise PickleRefusedError(str(error) or type(error).__name__) from None
    raise PickleRefusedError("no end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any, position: int | None) -> None:
        """Execute one opcode. Raises ValueError for one that is not plain."""
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            stack.append(tuple(self._popped(_TUPLES[name])))
        elif name == "MARK":
            stack.append(_Mark)
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[argument])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name not in _IGNORED:
            self._build(name, position)

    def _build(self, name: str, position: int | None) -> None:
        stack = self.stack
        if name in ("TUPLE", "LIST"):
            stack.append(tuple(self._marked()) if name == "TUPLE" else self._marked())
        elif name == "DICT":
            stack.append(_dict_of(self._marked()))
        elif name in ("APPEND", "APPENDS"):
            items = self._popped(1) if name == "APPEND" else self._marked()
            _of_type(list, stack[-1]).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._popped(2) if name == "SETITEM" else self._marked()
            _of_type(dict, stack[-1]).update(_dict_of(items))
        else:
            raise ValueError(f"opcode {name} at byte {position} is not allowed in a flight recorder dump")

    def _popped(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("too few values")
        kept = len(self.stack) - count
        items = self.stack[kept:]
        del self.stack[kept:]
        return items

    def _marked(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _Mark:
                items = self.stack[index + 1 :]
                del self.stack[index:]
                return items
        raise ValueError("no mark")


def _dict_of(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _of_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__}")
    return value
