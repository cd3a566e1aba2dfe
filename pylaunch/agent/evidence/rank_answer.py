"""Decode what a rank reports of itself: the answer of its helper thread, and what faulthandler writes. Pure.

A rank can write anything. An answer of another shape raises ValueError; lists and texts are cut to the bounds of
`protocol.examination`.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping, Sequence

from pylaunch import protocol
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.protocol import examination as bounds

MOST_BYTES = 512 << 10
"""Size of an answer of a rank."""

MODULE = "/in_rank/questions.py"
"""End of the path of the module whose thread answers: its own stack is omitted."""

_HEADER = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$')

NUMBERS = ("RANK", "WORLD_SIZE")
"""Variables that a launcher gives to each of its ranks."""


@dataclass(frozen=True)
class RankAnswer:
    """Stacks and collectives that a rank reports."""

    threads: list[protocol.ThreadStack]
    groups: list[protocol.ProcessGroup]
    collectives: list[protocol.Collective]
    note: str = ""
    place: tuple[str, ...] = ()
    """Rank and world size of its default process group; () without one."""

    handles: str = ""
    """Exception that the main thread handles."""


def decoded_answer(line: bytes) -> RankAnswer:
    """Return the answer of a helper thread. Raises ValueError for anything else."""
    body = untrusted_json.parse_object(line, MOST_BYTES)
    try:
        frames = [
            protocol.Frame(_text(function), _text(path), count(number))
            for function, path, number in at_most(body["frames"], bounds.MOST_FRAMES)
        ]

        def places(given: Any, most: int) -> tuple[protocol.Frame, ...]:
            return tuple([frames[number] for number in map(count, at_most(given, most)) if number < len(frames)])

        threads = [
            protocol.ThreadStack(_text(name), is_main is True, places(stack, bounds.MOST_STACK_FRAMES))
            for name, is_main, stack in at_most(body["threads"], bounds.MOST_THREADS)
        ]
        groups = [
            protocol.ProcessGroup(_text(name), _text(words), tuple(map(count, at_most(ranks, bounds.MOST_GROUP_RANKS))))
            for name, words, ranks in at_most(body["groups"], bounds.MOST_GROUPS)
        ]
        collectives = [
            _collective(row, lambda site: places(site, bounds.MOST_SITE_FRAMES))
            for row in at_most(body["collectives"], bounds.MOST_COLLECTIVES)
        ]
        place = tuple(map(_text, at_most(body["place"], len(NUMBERS))))
        note, handles = _text(body["note"]), _text(body["handles"])
        return RankAnswer(threads, groups, collectives, note, place, handles)
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected stacks and collectives: {error}") from None


def _collective(row: Any, site: Callable[[Any], tuple[protocol.Frame, ...]]) -> protocol.Collective:
    group, sequence, operation, inputs, outputs, dtypes, is_retired, is_p2p, age_s, call_site = row
    return protocol.Collective(
        _text(group), count(sequence), _text(operation), _shapes(inputs), _shapes(outputs),
        tuple(map(_text, at_most(dtypes, bounds.MOST_TENSORS))), is_retired is True, is_p2p is True,
        None if age_s is None else _seconds(age_s), site(call_site),
    )  # fmt: skip


def _shapes(given: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(
        [tuple(map(count, at_most(shape, bounds.MOST_TENSORS))) for shape in at_most(given, bounds.MOST_TENSORS)]
    )


def at_most(given: Any, most: int) -> list[Any]:
    if not isinstance(given, list):
        raise TypeError(f"a list instead of {type(given).__name__}")
    return given[:most]


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"a text instead of {type(given).__name__}")
    return given[-bounds.LONGEST_TEXT :]


def count(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"a number instead of {type(given).__name__}")
    return max(0, min(given, bounds.LARGEST_COUNT))


def _seconds(given: Any) -> float:
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"seconds instead of {type(given).__name__}")
    return float(given)


def is_other_rank(place: Sequence[str], given: Mapping[str, str]) -> bool:
    """Return True if the script made its default group with another rank or world size (`place`) than `given`."""
    return any(value != given[name] for name, value in zip(NUMBERS, place) if name in given)


def stacks_of_faulthandler(text: str) -> RankAnswer:
    """Return the last threads of what faulthandler wrote. It lists the main thread last and does not name threads."""
    threads: list[tuple[str, list[protocol.Frame]]] = []
    for line in text.splitlines()[-bounds.MOST_FRAMES :]:
        header, frame = _HEADER.match(line), _FRAME.match(line)
        if header is not None:
            threads.append(((header[2] or "")[: bounds.LONGEST_TEXT], []))
        elif frame is not None and threads and len(threads[-1][1]) < bounds.MOST_STACK_FRAMES:
            number = int(frame[2][:9]) if frame[2].isdigit() else 0
            threads[-1][1].append(protocol.Frame(_text(frame[3]), _text(frame[1]), number))
    found = [
        protocol.ThreadStack(name, is_main=False, frames=tuple(frames))
        for name, frames in threads
        if frames and not any(frame.path.endswith(MODULE) for frame in frames)
    ]
    if found:
        found.insert(0, protocol.ThreadStack("MainThread", is_main=True, frames=found.pop().frames))
    return RankAnswer(found[: bounds.MOST_THREADS], [], [])
