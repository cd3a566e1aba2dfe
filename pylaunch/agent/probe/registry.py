"""The readers of the probe by name. A reader reports one thing about this host and changes nothing.

A reader that finds nothing to look at returns None. One that cannot look raises OSError, ValueError, LookupError or
subprocess.SubprocessError with the reason. Modules with readers are sent to a host when it is asked and never
installed there; loading a module registers its readers.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, TypeVar

Question = TypeVar("Question")
Value = TypeVar("Value")

DEADLINE_S = 5.0
"""For a reader that sets none: far above the time that any takes on a healthy host."""


class ReadingKey(str, Generic[Value]):
    """Name of a reading, typed by its value."""


class Reader(ReadingKey[Value], Generic[Question, Value]):
    """Name of a reader, with the function that answers its questions and the deadline of an answer."""

    look: Callable[[Question], Value]
    deadline_s: float

    def __new__(cls, name: str, look: Callable[[Question], Value], deadline_s: float) -> Reader[Question, Value]:
        self = super().__new__(cls, name)
        self.look, self.deadline_s = look, deadline_s
        return self

    def __call__(self, question: Question) -> Value:
        return self.look(question)

    def ask(self, question: Question, label: str = "") -> dict[str, Any]:
        """Return a question for `runtime.readings`. With labels, one host is asked several of one reader."""
        return {self + "#" + label if label else str(self): question}


READERS: dict[str, Reader[Any, Any]] = {}


def reader(
    name: str, deadline_s: float = DEADLINE_S
) -> Callable[[Callable[[Question], Value]], Reader[Question, Value]]:
    """Register the decorated function as the reader `name`."""

    def register(look: Callable[[Question], Value]) -> Reader[Question, Value]:
        found = READERS[name] = Reader(name, look, deadline_s)
        return found

    return register


def reader_of(name: str) -> str:
    """Return the reader that a question's name ("reader" or "reader#label") is for."""
    return name.partition("#")[0]
