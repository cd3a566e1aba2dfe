"""Readers of the probe by name. A reader reports one fact of this host and changes nothing.

A reader without a subject on this host returns None. A reader that fails raises one of FAILURES with the reason. The
controller sends modules with readers to a host with its questions; they are never installed. Loading a module registers
its readers.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, TypeVar

Question = TypeVar("Question")
Value = TypeVar("Value")
R = TypeVar("R", bound="Reader[Any, Any]")

FAILURES = (OSError, ValueError, LookupError)
"""Errors of a reader that are an answer."""

DEADLINE_S = 5.0
"""Default deadline: far longer than any reader takes on a healthy host."""


READERS: dict[str, Reader[Any, Any]] = {}


class ReadingKey(str, Generic[Value]):
    """Name of a reading, typed by its value."""


class Reader(ReadingKey[Value], Generic[Question, Value]):
    """Name of a reader, with the function that answers its questions and the deadline of an answer."""

    look: Callable[[Question], Value]
    deadline_s: float
    module: str

    def __new__(cls: type[R], name: str, look: Callable[[Any], Any], deadline_s: float) -> R:
        self = super().__new__(cls, name)
        self.look, self.deadline_s, self.module = look, deadline_s, look.__module__
        READERS[name] = self
        return self

    def __call__(self, question: Question) -> Value:
        return self.look(question)

    def ask(self, question: Question, label: str = "") -> dict[str, Any]:
        """Return a question for `runtime.readings`. Labels permit several questions for one reader."""
        return {self + "#" + label if label else str(self): question}


def reader(
    name: str, deadline_s: float = DEADLINE_S
) -> Callable[[Callable[[Question], Value]], Reader[Question, Value]]:
    """Register the decorated function as the reader `name`."""

    return lambda look: Reader(name, look, deadline_s)


def reader_of(name: str) -> str:
    """Return the reader that a question's name ("reader" or "reader#label") is for."""
    return name.partition("#")[0]
