"""Read a pickle that consists of plain containers, texts and numbers. Nothing in it is ever called.

NCCL's watchdog writes its dumps as pickles. `pickle.load` would execute what a pickle names, so this is an interpreter
of the 30 opcodes that such a dump needs; a pickle with any other opcode is refused.
"""

import io
import pickletools
from typing import Any

MOST_BYTES = 64 << 20
"""Bytes of a dump: 20,000 entries with stacks are about 5 MB."""

MOST_NODES = 5_000_000
"""Values of a dump; one that is shared counts as often as it is reached. 20,000 entries with stacks have 3 million."""

MOST_DEPTH = 16
"""Containers within each other: a dump has five."""

LARGEST = 1 << 64

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
        for count, (opcode, argument, position) in enumerate(pickletools.genops(io.BytesIO(data))):
            if opcode.name == "STOP":
                return _bounded(machine.stack.pop())
            if count > MOST_NODES:
                raise ValueError(f"more than {MOST_NODES} values")
            machine.run(opcode.name, argument, position)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise PickleRefusedError(str(error) or type(error).__name__) from None
    raise PickleRefusedError("no end")


def _bounded(value: Any) -> Any:
    """Return `value`. Raises ValueError where it is deeper or larger than a dump is.

    A pickle of a few bytes can share one value so often that no walk through it ends.
    """
    left, depth = MOST_NODES, 0
    level: list[Any] = [[value]]
    while level:
        if depth > MOST_DEPTH:
            raise ValueError(f"containers within each other, more than {MOST_DEPTH}")
        inner: list[Any] = []
        for each in level:
            items = tuple(each.values() if isinstance(each, dict) else each)
            left -= len(items)
            if left < 0:
                raise ValueError(f"more than {MOST_NODES} values")
            inner += [item for item in items if isinstance(item, (dict, list, tuple))]
        level, depth = inner, depth + 1
    return value


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any, position: int | None) -> None:
        """Execute one opcode. Raises ValueError for one that is not plain."""
        stack = self.stack
        if name in _VALUES:
            if isinstance(argument, int) and abs(argument) > LARGEST:
                raise ValueError(f"a number with more than 64 bits at byte {position}")
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
    """Return a dictionary. Raises ValueError for keys of other types: the hash of a deep tuple is a recursion in C."""
    keys = items[::2]
    if any(type(key) not in (str, int) for key in keys):
        raise ValueError("a key that is neither text nor a number")
    return dict(zip(keys, items[1::2], strict=True))


def _of_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__}")
    return value
