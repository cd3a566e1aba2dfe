"""Ranks that Horovod lists as missing, by tensor. Pure.

Time-outs of collectives are compared in `timeouts.py`. Forms: https://github.com/horovod/horovod/issues/534 and
https://github.com/horovod/horovod/issues/336.
"""

import re
from collections.abc import Iterator, Mapping

from pylaunch.features.explain.judgement.indication import (
    OF_A_REPORT,
    Excerpts,
    Indication,
    LogForm,
    ranks_in,
)
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks

STALLED = LogForm(
    "horovod-stalled",
    ("missing ranks: ", "ready ranks: "),
    re.compile(r"\[(?:missing|ready) ranks: [\d, ]{1,400}\]"),
    most=32,
)
MISSING = LogForm("horovod-missing", ("Missing ranks:",), re.compile(r"^Missing ranks:"), follows=64, most=OF_A_REPORT)
FORMS = (STALLED, MISSING)

_TENSOR = re.compile(r"(?P<name>[^\s,\[\]]{1,300}) \[(?P<kind>missing|ready) ranks: (?P<ranks>[\d, ]{1,400})\]")
_OF_RANK = re.compile(r"^(?P<rank>\d{1,6}): ?\[(?P<tensors>.{1,900})")


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield what Horovod's report of stalled tensors says: ranks that none of them has, or ranks with other tensors."""
    missing: dict[str, set[int]] = {}
    ready: dict[str, set[int]] = {}
    lines = [*excerpts.get(STALLED.id, ()), *excerpts.get(MISSING.id, ())]
    for line in excerpts.get(STALLED.id, ()):
        for found in _TENSOR.finditer(line.lines[0]):
            (missing if found["kind"] == "missing" else ready)[found["name"]] = ranks_in(found["ranks"])
    for block in excerpts.get(MISSING.id, ()):
        for row in block.lines[1:]:
            if (of_rank := _OF_RANK.match(row)) is None:
                break
            for tensor in of_rank["tensors"].rstrip("]. ").split(","):
                if name := tensor.strip():
                    missing.setdefault(name, set()).add(int(of_rank["rank"]))
    if not lines:
        return
    apart = _apart(missing) or _apart(ready)
    if apart is not None:
        (one, some), (other, rest) = apart
        verb = "miss" if _apart(missing) else "wait for"
        text = f"ranks submit different tensors: {named_ranks(some)} {verb} {one}, {named_ranks(rest)} {verb} {other}"
        few, many = sorted((some, rest), key=len)
        named = tuple(sorted(few)) if verb == "wait for" and len(many) > len(few) and len(few) + len(many) > 2 else ()
        yield Indication(
            "collective-mismatch",
            text,
            lines[0],
            0,
            Confidence.MEDIUM,
            ranks=named,
            others=tuple(lines[1:3]),
            may_end=True,
        )
    elif missing:
        absent = set.intersection(*missing.values())
        if absent:
            text = f"{named_ranks(absent)} did not submit {next(iter(missing))}, for which the others wait"
            yield Indication(
                "rank-absent",
                text,
                lines[0],
                0,
                Confidence.MEDIUM,
                ranks=tuple(sorted(absent)),
                others=tuple(lines[1:3]),
                may_end=True,
            )


def _apart(tensors: Mapping[str, set[int]]) -> tuple[tuple[str, set[int]], tuple[str, set[int]]] | None:
    """Return two tensors whose ranks have nothing in common."""
    first = next(iter(tensors.items()), None)
    other = next((each for each in tensors.items() if first is not None and not each[1] & first[1]), None)
    return None if first is None or other is None else (first, other)
