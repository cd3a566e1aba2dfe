"""Collectives of a rank from a dump of torch's flight recorder: JSON or pickle, of gloo or NCCL. Pure.

Dumps of gloo have no usable list of groups (torch 2.13: one key "", the last group wins), and their operations never
reach the state "completed": `retired` is the only sign of an end there. NCCL retires an operation that timed out, too,
so there the state decides.
"""

import json
import re
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.protocol.examination import Collective, Frame, ProcessGroup
from pylaunch.verdict.hangs import plain_pickle

MOST_ENTRIES = 20_000
MOST_FRAMES = 64
MOST_GROUPS = 4096
MOST_TENSORS = 256
MOST_RANKS = 1 << 16
MOST_MEMBERS = 1 << 20
"""Ranks of all groups together."""

LONGEST_TEXT = 500

_NUMBER = re.compile(r"\d{1,9}")


class DumpRefusedError(ValueError):
    """The dump is no flight recorder dump."""


@dataclass(frozen=True)
class FlightRecord:
    """Content of one dump."""

    groups: tuple[ProcessGroup, ...]
    collectives: tuple[Collective, ...]
    """Oldest first."""


def read_json(text: str | bytes, now_ns: int | None = None) -> FlightRecord:
    """Return the content of `_dump_fr_trace_json` or of a worker server. Raises DumpRefusedError."""
    if len(text) > plain_pickle.MOST_BYTES:
        raise DumpRefusedError(f"longer than {plain_pickle.MOST_BYTES} bytes")
    try:
        return read(json.loads(text), now_ns)
    except (ValueError, RecursionError) as error:
        raise DumpRefusedError(str(error)) from None


def read_pickle(data: bytes, now_ns: int | None = None) -> FlightRecord:
    """Return the content of `_dump_fr_trace` or of a file of NCCL's watchdog. Raises DumpRefusedError."""
    try:
        return read(plain_pickle.load(data), now_ns)
    except plain_pickle.PickleRefusedError as error:
        raise DumpRefusedError(str(error)) from None


def read(dump: Any, now_ns: int | None = None) -> FlightRecord:
    """Return the content of a decoded dump; `now_ns`, on the rank's clock, gives the ages. Raises DumpRefusedError."""
    if not isinstance(dump, dict):
        raise DumpRefusedError("expected an object with entries")
    entries = _dicts(dump.get("entries"))[-MOST_ENTRIES:]
    groups = list(_groups(dump.get("pg_config")))
    known = {group.name for group in groups}
    for entry in entries:
        name, description = _group_of(entry)
        if name not in known and len(groups) < MOST_GROUPS:
            known.add(name)
            groups.append(ProcessGroup(name, description, ()))
    return FlightRecord(tuple(groups), tuple(_collective(entry, now_ns) for entry in entries))


def _groups(config: Any) -> list[ProcessGroup]:
    found: list[ProcessGroup] = []
    left = MOST_MEMBERS
    for key, each in list(config.items())[:MOST_GROUPS] if isinstance(config, dict) else ():
        if isinstance(key, str) and key and isinstance(each, dict):
            ranks = each.get("ranks")
            text = ranks[: 8 * min(left, MOST_RANKS)] if isinstance(ranks, str) else ""
            numbers = _NUMBER.findall(text) or _numbers(ranks)[:left]
            members = tuple(sorted({int(number) for number in numbers}))[:left]
            left -= len(members)
            found.append(ProcessGroup(_text(each.get("name")) or key[:LONGEST_TEXT], _text(each.get("desc")), members))
    return found


def _group_of(entry: dict[str, Any]) -> tuple[str, str]:
    pair = entry.get("process_group")
    if isinstance(pair, (list, tuple)) and len(pair) == 2:
        return _text(pair[0]), _text(pair[1])
    return str(_number(entry.get("pg_id"))), ""


def _collective(entry: dict[str, Any], now_ns: int | None) -> Collective:
    backend, _, operation = _text(entry.get("profiling_name")).rpartition(":")
    created = _number(entry.get("time_created_ns"))
    is_retired = entry.get("retired") is True
    is_p2p = entry.get("is_p2p") is True
    return Collective(
        group=_group_of(entry)[0],
        sequence=0 if is_p2p else _number(entry.get("collective_seq_id")),
        operation=operation,
        input_sizes=_sizes(entry.get("input_sizes")),
        output_sizes=_sizes(entry.get("output_sizes")),
        dtypes=tuple(_text(each) for each in _items(entry.get("input_dtypes"))[:MOST_TENSORS]),
        is_retired=is_retired if backend == "gloo" else _text(entry.get("state")) == "completed",
        is_p2p=is_p2p,
        age_s=max(0.0, (now_ns - created) / 1e9) if now_ns is not None and created else None,
        call_site=tuple(_frame(each) for each in _dicts(entry.get("frames"))[:MOST_FRAMES]),
    )


def _frame(frame: dict[str, Any]) -> Frame:
    return Frame(_text(frame.get("name")), _text(frame.get("filename")), _number(frame.get("line")))


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(_numbers(each)) for each in _items(value)[:MOST_TENSORS] if isinstance(each, (list, tuple)))


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in _items(value) if isinstance(each, dict)]


def _numbers(value: Any) -> list[int]:
    return [each for each in _items(value)[:MOST_RANKS] if isinstance(each, int)]


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0


def _text(value: Any) -> str:
    """Return a text that can be encoded."""
    return value[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
