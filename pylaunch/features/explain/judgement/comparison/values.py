"""Values that ranks print in one line of a start: one that differs explains what the ranks disagree in. Pure.

Addresses, sizes and ids of a launch name a cause where the start failed; other settings support causes that texts name.
"""

import re
from collections.abc import Iterator, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.comparison.beside import Party, PrintedLine, Shapes
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.verdict.logs.scan import LogScan

MOST_TIMES = 2
"""Lines of one form that a rank prints at a start."""

MOST_FOUND = 2
_OF_LAUNCH = re.compile(
    r"(?:--)?(?:\w{0,12}[_-])?(?:world(?:[_-]?size)?|nnodes|num[_-](?:processes|nodes|hosts)|nproc\w{0,12}|ranks"
    r"|rdzv[_-]?(?:id|endpoint)|(?:run|job)[_-]?id|master(?:[_-](?:addr|port))?|coordinator(?:[_-]address)?|endpoint|store"
    r"|rendezvous)$"
)
_ADDRESS = re.compile(r"(?:tcp://|->)?(?!0\.0\.0\.0)[A-Za-z\d.-]{3,120}:\d{2,5}/?$")
_LISTENS = re.compile(
    r"(?i)\b(?:listen\w{0,4}|bound|bind|serv\w{0,4}|local|own|my|from|peer\w?|metrics|profil\w{0,4})\b"
)
_OF_ONE = re.compile(
    r"(?:.{0,30}[_-])?(?:pid|tid|rank|host|hostname|node|device|gpu|cuda|port|seed|time|ts|elapsed|took|in|after|loss|lr"
    r"|at|ip|uuid|thread|core|cores|cpu|cpus|numa|free|used|memory|mem|worker|process|shard|part|offset|stage|slot|index)$"
)
"""Words before values that may differ between ranks."""

_MEASURED = re.compile(
    r"[+-]?\d{1,12}\.\d{1,12}(?:e[+-]?\d{1,3})?$|[\d.]{1,12}(?:[smun]{1,2}|%|[KMGT]i?B|[\w]{1,8}/s)$"
)
_SETTING = re.compile(
    r"(?:.{0,30}[_-])?(?:vocab\w{0,8}|shape|dtype|precision|layers|hidden|dim|heads|adapters|param\w{0,8}|hash|sha\w{0,4}"
    r"|digest|checksum|version|revision|commit|step|epoch|batches|total|grid|tokens|types|size|length|buckets?|tensors|keys)$"
)
_DISAGREES = re.compile(
    r"(?i)(?=.{0,300}\b(?:ranks?|hosts?|nodes?|process(?:es)?|workers?|devices|peers?|sync\w{0,40}|global\w{0,40}))"
    r".{0,300}(?:\bmismatch|\bdiffer|\bnot (?:the same|equal|identical|consistent)|\binconsistent|\bdisagree|\bunequal)"
)
"""Words of an exception about what the ranks do not have in common."""

_OF_TWO = 2


@dataclass(frozen=True)
class _Difference:
    name: str
    odd: tuple[PrintedLine, ...]
    usual: PrintedLine
    parties: tuple[Party, ...]
    """Those that differ from a majority; () where there is none."""

    of_launch: bool

    @property
    def text(self) -> str:
        names = {each.name: line for each, line in zip(self.parties, self.odd, strict=False)}
        if names:
            return f"{', '.join(names)} differs: {self.odd[0].shown}, the others {self.usual.shown}"
        return f"one prints {self.odd[0].shown}, another {self.usual.shown}"


def read(shapes: Shapes, scans: Sequence[LogScan]) -> Iterator[Indication]:
    """Yield the differences between start lines."""
    found = sorted(_differences(shapes), key=lambda each: (not each.of_launch, not _SETTING.match(each.name)))
    disagrees = any(
        _DISAGREES.match(raised.text) for scan in scans for unit in scan.exceptions for raised in unit.chain
    )
    for each in found[:MOST_FOUND]:
        ranks = tuple(sorted(party.rank for party in each.parties if party.rank is not None))
        first, others = each.odd[0].excerpt, (each.usual.excerpt,)
        if each.of_launch:
            yield Indication("launcher-config", f"the launch differs between the ranks: {each.text}", first, 0,
                             Confidence.MEDIUM, ranks=ranks, others=others, fails=True, of_victims=True)  # fmt: skip
            continue
        yield Indication("collective-mismatch", each.text, first, ranks=ranks, others=others, is_beside=True)
        named = Confidence.MEDIUM if disagrees and _SETTING.match(each.name) else None
        yield Indication(
            "model-differs", each.text, first, 0, named, ranks=ranks, others=others, fails=True, is_beside=True
        )


def _differences(shapes: Shapes) -> Iterator[_Difference]:
    for parties in shapes.values():
        if len(parties) < _OF_TWO or max(map(len, parties.values())) > MOST_TIMES:
            continue
        last = {party.name: (party, lines[-1]) for party, lines in parties.items()}
        for at, (name, _) in enumerate(next(iter(last.values()))[1].values):
            answers = {party: line.values[at][1] for party, (_, line) in last.items()}
            if (found := _difference(name, answers, last)) is not None:
                yield found
                break


def _difference(name: str, answers: dict[str, str], last: dict[str, tuple[Party, PrintedLine]]) -> _Difference | None:
    division = majority(answers)
    values = set(answers.values())
    if len(values) != _OF_TWO or any(_MEASURED.match(each) for each in values):
        return None
    shown = next(iter(last.values()))[1].line.text
    is_address = all(_ADDRESS.match(each) for each in values) and not _LISTENS.search(shown)
    of_launch = is_address or _OF_LAUNCH.match(name) is not None
    if not of_launch and (_OF_ONE.match(name) or any(each in values for each in last)):
        return None
    if division.usual is None:
        is_setting = of_launch or _SETTING.match(name)
        is_own = all(
            answers[each] in (str(party.rank), f"{party.rank or 0}/{_OF_TWO}") for each, (party, _) in last.items()
        )
        if len(answers) != _OF_TWO or not is_setting or is_own:
            return None
        (_, one), (_, other) = last.values()
        return _Difference(name, (one,), other, (), of_launch)
    (_, odd), *_ = division.odd
    if len(division.usual_hosts) < _OF_TWO or len(odd) > max(1, len(division.usual_hosts) // 2):
        return None
    is_one_port = is_address and len({each.rpartition(":")[2] for each in values}) < _OF_TWO
    if is_one_port and not all(last[each][0].rank for each in odd):
        return None  # Rank 0 may listen at another name.
    return _Difference(name, tuple(last[each][1] for each in odd), last[division.usual_hosts[0]][1],
                       tuple(last[each][0] for each in odd), of_launch)  # fmt: skip
