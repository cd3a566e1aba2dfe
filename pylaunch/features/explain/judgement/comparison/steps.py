"""Steps of ranks beside each other: another number of batches, a batch that a rank skipped, a loop that it left. Pure.

Ranks that count differently fall out of step in their collectives, whatever the others print when they give up.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pylaunch.features.explain.judgement.comparison.beside import Party, PrintedLine, Shapes
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.verdict.logs.victims.rank_ends import ENDED

LEAST = 3
"""Lines of one form that show that a rank counts."""

_COUNTS = re.compile(
    r"(?:\w{1,20}[_-])?(?:micro)?(?:step|iter(?:ation)?|it|batch|update|round|sample|chunk|shard|item)s?$"
)
_NUMBER = re.compile(r"(?P<number>\d{1,9})(?:/(?P<total>\d{1,9}))?$")
_AMOUNT = re.compile(
    r"(?i)(?<![\w./-])(\d{1,9}) (?:micro)?(?:batches|steps|iterations|updates|shards)\b"
    r"|\b(?:num|number|len|total)\b.{0,20}\b(?:batches|steps|iterations|loader|dataloader)\b.{0,20}?[=:] ?(\d{1,9})\b"
)
_SKIPS = re.compile(
    r"(?i)\bskip\w{0,5}\b.{0,30}\b(?:batch|step|iteration|update|shard)|\b(?:batch|step|iteration|update)\b.{0,60}\bskip"
    r"|\bno (?:more )?(?:data|samples|batches|shards|rows|records)\b|\bout of (?:data|batches)\b"
    r"|\bexhausted\b|\bran out\b"
    r"|\b(?:shard|dataset|partition|split)\b.{0,30}\bempty\b|\bempty\b.{0,30}\b(?:shard|dataset|partition|split)"
    r"|\bnothing (?:left )?to do\b|\b(?:0|zero) (?:samples|batches|rows|records|items)\b"
)
"""Words of a rank that counts less than the others."""

_LEAVES = re.compile(
    r"(?i)\b(?:epoch|loop|training|data|batches|steps)\b.{0,30}\b(?:finished|done|over|complete|end(?:ed|s)?)\b"
)


def read(shapes: Shapes) -> Iterator[Indication]:
    """Yield how the ranks count differently."""
    found = next(_found(shapes), None)
    if found is None:
        return
    text, lines, parties = found
    ranks = tuple(sorted(each.rank for each in parties if each.rank is not None))
    shown, others = lines[0].excerpt, tuple(each.excerpt for each in lines[1:3])
    yield Indication(
        "uneven-data", text, shown, 0, Confidence.MEDIUM, ranks=ranks, others=others, fails=True, of_victims=True
    )
    yield Indication("collective-mismatch", text, shown, ranks=ranks, others=others, is_beside=True)


Found = tuple[str, Sequence[PrintedLine], Sequence[Party]]


def _found(shapes: Shapes) -> Iterator[Found]:
    counting = [found for parties in shapes.values() if len(found := _counted(parties)) > 1]
    for of_all in counting:
        yield from _totals({party: _numbers(lines)[-1][1] for party, lines in of_all.items()}, _last(of_all))
    for parties in (each for each in shapes.values() if max(map(len, each.values())) < LEAST):
        amounts = {party: each for party, line in _last(parties).items() if (each := _AMOUNT.search(line.line.text))}
        yield from _totals({party: int(each[1] or each[2]) for party, each in amounts.items()}, _last(parties))
    known = {party for of_all in counting for party in of_all}
    if not known or len({party for parties in shapes.values() for party in parties}) < 2:
        return
    of_one = (each for parties in shapes.values() if len(parties) == 1 for each in parties.items())
    alone = [(party, line) for party, lines in of_one for line in lines]
    lasts = [{party: _numbers(lines)[-1][0] for party, lines in of_all.items()} for of_all in counting]
    behind = {party for numbers in lasts for party, number in numbers.items() if number < max(numbers.values())}
    known = {party for party in known if party.rank != 0 or party in behind}  # Programs let rank 0 alone report.
    for party, line in alone:
        if _SKIPS.search(line.line.text) and party in known:
            yield f"{party.name} alone prints {line.shown}", (line,), (party,)
    for of_all in counting:
        yield from _gaps(of_all)
    for party, line in alone:
        if party in known and (ENDED.search(line.line.text) or _LEAVES.search(line.line.text)):
            of_all = next(each for each in counting if party in each)
            rest = [lines[-1] for other, lines in of_all.items() if other != party]
            if rest and line.line.line > of_all[party][-1].line.line:
                yield f"{party.name} left the loop before the others: {line.shown}", (line, *rest[:1]), (party,)


def _last(of_all: Mapping[Party, Sequence[PrintedLine]]) -> dict[Party, PrintedLine]:
    return {party: lines[-1] for party, lines in of_all.items()}


def _counted(parties: Mapping[Party, Sequence[PrintedLine]]) -> dict[Party, Sequence[PrintedLine]]:
    """Return the lines of those that count in one form; {} if it has no number of a step."""
    if max(map(len, parties.values())) < LEAST:
        return {}
    return {party: lines for party, lines in parties.items() if _numbers(lines)}


def _numbers(lines: Sequence[PrintedLine]) -> list[tuple[int, int | None]]:
    """Return the steps and the totals in lines; [] if these do not count."""
    found = []
    for line in lines:
        value = next((value for name, value in line.values if _COUNTS.match(name)), "")
        if (matched := _NUMBER.match(value)) is None:
            return []
        found.append((int(matched["number"]), int(matched["total"]) if matched["total"] else None))
    return found


def _totals(totals: Mapping[Party, int | None], lines: Mapping[Party, PrintedLine]) -> Iterator[Found]:
    if len(totals) < 2 or None in totals.values() or len(set(totals.values())) < 2:
        return
    division = majority({party.name: total for party, total in totals.items()})
    by_name = {party.name: party for party in totals}
    odd = [by_name[name] for _, names in division.odd for name in names]
    listed = ", ".join(f"{total} on {', '.join(names[:4])}" for total, names in division.odd[:3])
    usual = "" if division.usual is None else f", {division.usual} on the others"
    shown = [lines[each] for each in (*odd[:2], *(by_name[name] for name in division.usual_hosts[:1]))]
    named = odd if len(division.usual_hosts) > 1 else []
    yield f"the ranks have different numbers of steps: {listed}{usual}", shown, named


def _gaps(of_all: Mapping[Party, Sequence[PrintedLine]]) -> Iterator[Found]:
    """Yield the first number that one rank left out of its series, and all others printed."""
    numbers = {party: [number for number, _ in _numbers(lines)] for party, lines in of_all.items()}
    printed = Counter(number for own in numbers.values() for number in set(own))
    for party, own in numbers.items():
        strides = Counter(after - before for before, after in itertools.pairwise(own))
        if len(own) < LEAST + 1 or len(numbers) <= 2:
            continue
        stride = strides.most_common(1)[0][0]
        for at, (before, after) in enumerate(itertools.pairwise(own)):
            if stride > 0 and after == before + 2 * stride and printed[before + stride] == len(numbers) - 1:
                lines = of_all[party]
                text = (
                    f"{party.name} left out step {before + stride}, which all others printed, between {lines[at].shown}"
                )
                yield f"{text} and {lines[at + 1].shown}", lines[at : at + 2], (party,)
                break
