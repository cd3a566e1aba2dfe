"""Bounds on the events of one node in the record of a run, by kind and by plan. Pure.

A node that lies, or that is broken, can send messages without end: the record and the terminal must not fill.
"""

from collections import Counter
from collections.abc import Iterable

from pylaunch.model.run import Event, EventKind

MOST_CONTACTS = 200
"""Losses of contact to one node, and returns, that are recorded."""

MOST_HANGS = 100
"""Reports of hangs, and of their ends, that are recorded: they follow from signs of life that nodes report."""

_ONCE = (EventKind.RANK_STARTED, EventKind.FIRST_LINE, EventKind.RANK_ENDED)
_CONTACT = (EventKind.CONTACT_LOST, EventKind.CONTACT_REGAINED)
_HANG = (EventKind.HANG, EventKind.ADVANCING)


class EventBounds:
    """Events of one attempt that were recorded so far."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._unheard: dict[str, set[str]] = {}

    def admits(self, event: Event) -> bool:
        """Count `event`; return True if it is within the bounds. Each rank starts and ends once in an attempt."""
        key, most = _bound(event)
        self._counts[key] += 1
        return most is None or self._counts[key] <= most

    def notice(self, event: Event) -> str:
        """Return a line for a person when `event` is the first one beyond its bound; "" otherwise."""
        key, most = _bound(event)
        if event.kind in _ONCE or most is None or self._counts[key] != most + 1:
            return ""
        where = f" of {event.host}" if event.kind in _CONTACT else ""
        return f"note: {most} events {event.kind.value}{where} are recorded; further ones are not"

    def new_unheard(self, host: str, others: Iterable[str]) -> list[str]:
        """Return those of `others`, hosts of the run, that `host` reports as unheard for the first time."""
        known = self._unheard.setdefault(host, set())
        new = sorted({*others} - known)
        known.update(new)
        return new


def _bound(event: Event) -> tuple[tuple[object, ...], int | None]:
    """Return the key under which `event` is counted, and the number that is recorded; None for all."""
    if event.kind in _ONCE:
        return (event.kind, event.rank), 1
    if event.kind in _CONTACT:
        return (event.kind, event.host), MOST_CONTACTS
    if event.kind in _HANG:
        return (event.kind,), MOST_HANGS
    return (event.kind,), None
