"""Bounds on texts and lists in the messages of a node, which become lines of the record and of the terminal. Pure."""

from __future__ import annotations

from pylaunch import protocol
from pylaunch.base.dataclass import replace

MOST_LAST_LINES = 64
MOST_LEFTOVERS = 256
LONGEST = 4000
"""Characters of a line or a reason. An agent sends shorter ones."""


def shortened(message: object) -> object:
    """Return `message` with texts and lists within the bounds."""
    match message:
        case protocol.RankEnded():
            lines = _cut_lines(message.last_lines)
            return replace(message, last_lines=lines, error=_cut(message.error), symptom=_cut(message.symptom))
        case protocol.LauncherEnded():
            return replace(message, last_lines=_cut_lines(message.last_lines), symptom=_cut(message.symptom))
        case protocol.Stopping():
            return replace(message, reason=_cut(message.reason))
        case protocol.Preloaded():
            return replace(message, reason=_cut(message.reason))
        case protocol.Finished():
            leftovers = [_cut(each) for each in message.leftovers[:MOST_LEFTOVERS]]
            return replace(message, leftovers=leftovers, unreadable=_cut(message.unreadable))
        case protocol.Skipped():
            return replace(message, path=_cut(message.path), reason=_cut(message.reason))
        case protocol.Failed():
            return replace(message, message=_cut(message.message))
        case protocol.PeersTried():
            return replace(message, ends={host: _cut(end) for host, end in message.ends.items()})
    return message


def _cut(text: str) -> str:
    return text[:LONGEST]


def _cut_lines(lines: list[str]) -> list[str]:
    return [_cut(line) for line in lines[-MOST_LAST_LINES:]]
