"""Start lines of ranks beside each other: rank, world size and address of the coordinator, as any program prints them.

Pure. Ranks that differ in what all must share are a mistake of the launch, whatever the ranks print when they give up.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pylaunch.features.explain.judgement.indication import Excerpts, Indication, LogExcerpt, LogForm
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.model.hostset import named_ranks

ANNOUNCED = LogForm(
    "announced-rank",
    ("rank=", "RANK=", "rank: ", "as process "),
    re.compile(
        r"(?i)\brank[=:] ?(?P<rank>\d{1,6})\b.{0,60}?\bworld(?:_size)?[=:] ?(?P<world>\d{1,6})\b"
        r"(?:.{0,80}?\b(?:master(?:_addr)?|coordinator|store)[=:] ?(?:tcp://)?(?P<address>[\w.-]{1,120}:\d{2,5})\b)?"
        r"|\bcoordinator (?:at )?(?P<address2>[\w.-]{1,120}:\d{2,5})"
        r" as process (?P<rank2>\d{1,6}) of (?P<world2>\d{1,6})\b"
    ),
    most=8,
)
FORMS = (ANNOUNCED,)

MOST_RANKS = 4096


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield what the start lines of the ranks contradict each other in."""
    lines = excerpts.get(ANNOUNCED.id, ())
    ranks: dict[int, list[LogExcerpt]] = {}
    for line in lines:
        ranks.setdefault(int(_value(line, "rank")), []).append(line)
    if len(lines) < 2 or len(ranks) > MOST_RANKS:
        return
    worlds = {rank: {_value(line, "world") for line in found} for rank, found in ranks.items()}
    if any(len(values) > 1 for values in worlds.values()):
        return  # They are numbers of several groups.
    yield from _of_worlds({rank: next(iter(values)) for rank, values in worlds.items()}, ranks)
    addresses = {rank: address for rank, found in ranks.items() if (address := _value(found[-1], "address"))}
    yield from _of_addresses(addresses, ranks)


def _value(line: LogExcerpt, name: str) -> str:
    return line.groups.get(name) or line.groups.get(f"{name}2", "")


def _of_worlds(worlds: Mapping[int, str], lines: Mapping[int, Sequence[LogExcerpt]]) -> Iterator[Indication]:
    if len(set(worlds.values())) > 1:
        listed = ", ".join(f"{size} on rank {rank}" for rank, size in sorted(worlds.items())[:4])
        text = f"the ranks were started with different world sizes: {listed}"
        yield _differing(text, {str(rank): size for rank, size in worlds.items()}, lines)
        return
    world = int(next(iter(worlds.values())))
    missing = tuple(sorted(set(range(min(world, MOST_RANKS))) - set(worlds)))
    if outside := [rank for rank in worlds if rank >= world]:
        text = f"{named_ranks(tuple(sorted(outside)))} started in a world of {world}, whose ranks are 0 to {world - 1}"
        text += f"; {named_ranks(missing)} did not start" if missing else ""
        line = lines[outside[0]][0]
        yield Indication("launcher-config", text, line, 0, Confidence.HIGH, ranks=tuple(sorted(outside)), fails=True)
        return
    for rank, found in lines.items():
        hosts = {line.origin.host: line for line in found}
        if missing and len(hosts) > 1 and None not in hosts:
            text = f"{' and '.join(sorted(str(each) for each in hosts))} both start as rank {rank}"
            yield Indication(
                "duplicate-launch", text, found[0], 0, Confidence.HIGH, others=tuple(found[1:3]), fails=True
            )
            return
    if missing and 2 * len(missing) <= len(worlds) and max(Counter(map(len, lines.values()))) == 1:
        text = f"{len(worlds)} of {world} ranks printed their start line: {named_ranks(missing)} did not"
        last = max((found[-1] for found in lines.values()), key=lambda line: line.line)
        yield Indication("rank-missing", text, last, 0, Confidence.MEDIUM, ranks=missing, fails=True)


def _of_addresses(addresses: Mapping[int, str], lines: Mapping[int, Sequence[LogExcerpt]]) -> Iterator[Indication]:
    """Yield ranks with another address than the majority; rank 0 may listen at another name with the same port."""
    if len(addresses) < 3 or len(set(addresses.values())) < 2:
        return
    division = majority({str(rank): address for rank, address in addresses.items()})
    odd = [int(name) for _, names in division.odd for name in names]
    if len(division.usual_hosts) < 2 or division.usual is None:
        return
    usual_port = division.usual.rpartition(":")[2]
    if odd == [0] and addresses[0].rpartition(":")[2] == usual_port:
        return
    listed = ", ".join(f"rank {rank} uses {addresses[rank]}" for rank in sorted(odd)[:3])
    text = f"the ranks use different addresses of the coordinator: {listed}, the others {division.usual}"
    yield _differing(text, {str(rank): address for rank, address in addresses.items()}, lines)


def _differing(text: str, values: Mapping[str, str], lines: Mapping[int, Sequence[LogExcerpt]]) -> Indication:
    division = majority(dict(values))
    odd = tuple(sorted(int(name) for _, names in division.odd for name in names))
    has_majority = len(division.usual_hosts) > 1
    shown = [lines[rank][-1] for rank in ((*odd[:2],) if odd else tuple(sorted(lines))[:2])]
    shown += [lines[int(name)][-1] for name in division.usual_hosts[:1]]
    ranks = odd if has_majority else ()
    others = tuple(shown[1:])
    return Indication("launcher-config", text, shown[0], 0, Confidence.MEDIUM, ranks=ranks, others=others, fails=True)
