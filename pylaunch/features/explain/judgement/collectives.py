"""Collectives of the ranks beside each other: NCCL's log of its calls, and Horovod's and torch's lists of ranks. Pure.

Time-outs of collectives are compared in `timeouts.py`. Forms: https://github.com/ROCm/rccl/issues/429 (opCount),
https://github.com/horovod/horovod/issues/534 and https://github.com/horovod/horovod/issues/336 (lists of ranks).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indication import (
    OF_A_REPORT,
    Excerpts,
    Indication,
    LogExcerpt,
    LogForm,
    ranks_in,
)
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.model.hostset import named_ranks

CALL = LogForm(
    "nccl-call",
    ("opCount ",),
    re.compile(
        r"(?:^|[\s\]>])(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,9}):\d{1,9} \[(?P<device>\w{1,7})\] NCCL INFO "
        r"(?P<operation>[A-Z]\w{1,30}): opCount (?P<number>[0-9a-f]{1,16}) sendbuff \S{1,30} recvbuff"
        r" \S{1,30} count (?P<count>\d{1,20})"
        r" datatype (?P<type>\d{1,3}) op \d{1,3} root (?P<root>-?\d{1,6})"
        r" comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<world>\d{1,6})\]"
    ),
    most=256,
)
NCCL_INIT = LogForm(
    "nccl-init",
    (" - Init ",),
    re.compile(
        r"(?:^|[\s\]>])(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,9}):\d{1,9} \[\w{1,7}\] NCCL INFO "
        r"(?:ncclCommInit\w{0,20} )?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,6}) n[rR]anks"
        r" (?P<world>\d{1,6}) cudaDev"
        r" \d{1,3}.{0,60}?busId (?P<bus>[0-9a-f]{1,16})"
        r"(?: commId (?P<id>0x[0-9a-f]{1,16}))? - Init (?P<state>START|COMPLETE)"
    ),
    most=256,
)
STALLED = LogForm(
    "horovod-stalled",
    ("missing ranks: ", "ready ranks: "),
    re.compile(r"\[(?:missing|ready) ranks: [\d, ]{1,400}\]"),
    most=32,
)
MISSING = LogForm("horovod-missing", ("Missing ranks:",), re.compile(r"^Missing ranks:"), follows=64, most=OF_A_REPORT)
FORMS = (CALL, NCCL_INIT, STALLED, MISSING)

_TENSOR = re.compile(r"(?P<name>[^\s,\[\]]{1,300}) \[(?P<kind>missing|ready) ranks: (?P<ranks>[\d, ]{1,400})\]")
_OF_RANK = re.compile(r"^(?P<rank>\d{1,6}): ?\[(?P<tensors>.{1,900})")
_ONE_SIDED = ("Send", "Recv", "AllToAll", "AllToAllv", "Gather", "Scatter")
"""Operations whose arguments may differ between ranks."""

_MOST_SHOWN = 3
_Comm = tuple[str, str, str]
"""Host, process and address of a communicator."""


@dataclass(frozen=True)
class NcclCall:
    """Collective that a process called, as NCCL logs it."""

    operation: str
    count: str
    type: str

    def __str__(self) -> str:
        return f"{self.operation} of {self.count} elements (type {self.type})"


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield the ranks that call another collective than the others, or none."""
    yield from _of_calls(excerpts.get(CALL.id, ()), excerpts.get(NCCL_INIT.id, ()))
    yield from _of_horovod(excerpts)


def _of_calls(lines: Sequence[LogExcerpt], starts: Sequence[LogExcerpt]) -> Iterator[Indication]:
    ranks = {_comm(line): (line.groups.get("id", ""), int(line.groups["rank"])) for line in starts}
    groups: dict[str, list[LogExcerpt]] = {}
    for line in lines:
        if line.groups["operation"] not in _ONE_SIDED:
            known = ranks.get(_comm(line), ("", 0))[0]
            groups.setdefault(known or f"nranks={line.groups['world']}", []).append(line)
    for name, members in groups.items():
        parties: dict[_Comm, dict[int, list[LogExcerpt]]] = {}
        for line in members:
            parties.setdefault(_comm(line), {}).setdefault(int(line.groups["number"], 16), []).append(line)
        is_sure = not name.startswith("nranks=")
        processes = {(host, pid) for host, pid, _ in parties}
        if is_sure or (len(parties) == len(processes) <= int(members[0].groups["world"])):
            yield from _of_group(parties, {comm: rank for comm, (_, rank) in ranks.items()}, is_sure=is_sure)


def _comm(line: LogExcerpt) -> _Comm:
    return line.groups["host"], line.groups["pid"], line.groups["comm"]


def _of_group(
    parties: Mapping[_Comm, Mapping[int, Sequence[LogExcerpt]]], ranks: Mapping[_Comm, int], *, is_sure: bool
) -> Iterator[Indication]:
    """Yield the first number at which the processes of one communicator call different collectives."""
    numbers: dict[int, dict[_Comm, Sequence[LogExcerpt]]] = {}
    for party, calls in parties.items():
        for number, lines in calls.items():
            numbers.setdefault(number, {})[party] = lines
    for number, at in sorted(numbers.items()):
        if len(at) < 2 or any(len({_call(line) for line in lines}) > 1 for lines in at.values()):
            continue
        names = {_party(party, lines[0], ranks): lines[0] for party, lines in at.items()}
        if len(names) < len(at):
            continue
        division = majority({name: _call(line) for name, line in names.items()})
        if not division.odd:
            continue
        odd = [name for _, members in division.odd for name in members]
        if division.usual is not None:
            others = f"{', '.join(division.usual_hosts[:_MOST_SHOWN])} {division.usual}"
            text = f"at operation {number} {_listed(division.odd[:1])}, and {others}"
            named = tuple(
                sorted(ranks[party] for party in at if party in ranks and _party(party, at[party][0], ranks) in odd)
            )
        else:
            text, named = f"at operation {number} processes call different collectives: {_listed(division.odd)}", ()
        sure = Confidence.HIGH if is_sure else Confidence.MEDIUM
        shown = [names[name] for name in odd[:2]] + [names[name] for name in division.usual_hosts[:1]]
        yield Indication("collective-mismatch", text, shown[0], 0, sure, ranks=named, others=tuple(shown[1:]),
                         because="operation, size or type differ at one opCount")  # fmt: skip
        return


def _call(line: LogExcerpt) -> NcclCall:
    return NcclCall(line.groups["operation"], line.groups["count"], line.groups["type"])


def _party(party: _Comm, line: LogExcerpt, ranks: Mapping[_Comm, int]) -> str:
    return f"rank {ranks[party]}" if party in ranks else f"{party[0]} GPU {line.groups['device']}"


def _listed(groups: Iterable[tuple[NcclCall, Sequence[str]]]) -> str:
    listed = [
        f"{', '.join(members[:_MOST_SHOWN])} {'calls' if len(members) == 1 else 'call'} {call}"
        for call, members in groups
    ]
    return "; ".join(listed[:_MOST_SHOWN])


def _of_horovod(excerpts: Excerpts) -> Iterator[Indication]:
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
