"""Readers of the probe by name. A reader reports one fact of this host and changes nothing.

A reader without a subject on this host returns None. A reader that fails raises one of FAILURES with the reason. The
controller sends modules with readers to a host with its questions; they are never installed. Loading a module registers
its readers.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Generic, List, TypeVar

Question = TypeVar("Question")
Value = TypeVar("Value")
R = TypeVar("R", bound="Reader[Any, Any]")
E = TypeVar("E", bound="EachReader[Any, Any]")

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


class EachReader(Reader[List[Question], List[Dict[str, Any]]], Generic[Question, Value]):
    """Reader of many questions of one kind: a reading for each, {"value": …} or {"unmeasured": why}.

    The value is None for a file that does not exist.
    """

    one: Callable[[Question], Value | None]

    def __new__(cls: type[E], name: str, one: Callable[[Any], Any], deadline_s: float) -> E:
        def look(questions: Any) -> Any:
            return [tried(one, each) for each in questions]

        self = super().__new__(cls, name, look, deadline_s)
        self.one, self.module = one, one.__module__
        return self


def reader(
    name: str, deadline_s: float = DEADLINE_S
) -> Callable[[Callable[[Question], Value]], Reader[Question, Value]]:
    """Register the decorated function as the reader `name`."""

    return lambda look: Reader(name, look, deadline_s)


def reader_of_each(
    name: str, deadline_s: float = DEADLINE_S
) -> Callable[[Callable[[Question], Value | None]], EachReader[Question, Value]]:
    """Register the decorated function as the reader `name`, which calls it for each of its questions."""

    return lambda one: EachReader(name, one, deadline_s)


def tried(look: Callable[[Any], Any], question: Any) -> dict[str, Any]:
    """Return {"value": look(question)}, or {"unmeasured": why}; the value is None for a missing file."""
    try:
        return {"value": look(question)}
    except (FileNotFoundError, NotADirectoryError):
        return {"value": None}
    except FAILURES as error:
        return {"unmeasured": str(error) or type(error).__name__}


def reader_of(name: str) -> str:
    """Return the reader that a question's name ("reader" or "reader#label") is for."""
    return name.partition("#")[0]
