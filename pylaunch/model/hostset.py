"""Host names as people write and read them: `gpu[01-03,07]` is gpu01, gpu02, gpu03 and gpu07."""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import TypeVar

T = TypeVar("T")

MOST_NAMES = 1 << 16

_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")
_IPV6 = re.compile(r"\[[\da-fA-F.]*:[\da-fA-F:.]*\](?::\d+)?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def fold(hosts: Iterable[str]) -> str:
    """Return `hosts` as one short text, numbers as ranges: {"n1", "n2", "n3", "x"} → "n[1-3],x".

    Only the last number of a name is folded; zero padding is kept ("gpu07" is not "gpu7").
    """
    plain: list[str] = []
    series: dict[tuple[str, str, int], set[int]] = {}
    for host in sorted(set(hosts)):
        match = _NUMBERED.match(host)
        if match is None:
            plain.append(host)
            continue
        prefix, digits, suffix = match.groups()
        width = len(digits) if digits.startswith("0") else 0
        series.setdefault((prefix, suffix, width), set()).add(int(digits))
    # "08", "09" and "10" are one padded series: numbers that fill the width join it.
    for (prefix, suffix, width), numbers in list(series.items()):
        if width and (wider := series.get((prefix, suffix, 0))):
            joined = {number for number in wider if len(str(number)) == width}
            numbers |= joined
            wider -= joined
    parts = [_fold_series(*key, numbers) for key, numbers in series.items() if numbers]
    return ",".join(sorted([*plain, *parts]))


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last of each row of adjacent numbers."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans


def fold_ranks(ranks: Iterable[int]) -> str:
    """Return `ranks` as one short text, with ranges: "0-2,5"."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _spans(ranks))


def named_ranks(ranks: Collection[int]) -> str:
    """Return "rank 3" or "ranks 0-2,5"; "" for none."""
    return f"rank{'s' if len(ranks) > 1 else ''} {fold_ranks(ranks)}" if ranks else ""


def alike(items: Mapping[str, Iterable[T]]) -> list[tuple[str, T]]:
    """Return each item once with the folded hosts that have it, in the order of first occurrence."""
    hosts: dict[T, list[str]] = {}
    for host, things in items.items():
        for thing in things:
            hosts.setdefault(thing, []).append(host)
    return [(fold(names), thing) for thing, names in hosts.items()]


def _fold_series(prefix: str, suffix: str, width: int, numbers: set[int]) -> str:
    texts = [
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in _spans(numbers)
    ]
    if len(numbers) == 1:
        return f"{prefix}{texts[0]}{suffix}"
    return f"{prefix}[{','.join(texts)}]{suffix}"


def expand(text: str) -> tuple[str, ...]:
    """Return the host names that `text` means, in the order written, without repeats.

    Names are separated by commas; `[1-3,7]` counts, keeping zero padding. `[2001:db8::1]:22` is an address with a port.
    Raises ValueError with the offending piece when a bracket or range is malformed.
    """
    names: dict[str, None] = {}
    count = 0
    for piece in _split_outside_brackets(text):
        if _IPV6.fullmatch(piece):
            names[piece] = None
            continue
        parts = _BRACKETS.split(piece)  # Each second one is what a pair of brackets contains.
        if any("[" in part or "]" in part for part in parts[::2]):
            raise ValueError(f"unbalanced bracket in {piece!r}")
        ranges = [_ranges(inside, piece) for inside in parts[1::2]]
        count += math.prod(sum(numbers.stop - numbers.start for numbers, _ in each) for each in ranges)
        if count > MOST_NAMES:
            raise ValueError(f"{text!r} stands for more than {MOST_NAMES} hosts")
        numbers = [[f"{number:0{width}d}" for series, width in each for number in series] for each in ranges]
        for chosen in itertools.product(*numbers):
            words = itertools.zip_longest(parts[::2], chosen, fillvalue="")
            names["".join(itertools.chain.from_iterable(words))] = None
    return tuple(names)


def _split_outside_brackets(text: str) -> list[str]:
    pieces, depth, current = [], 0, ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            pieces.append(current)
            current = ""
        else:
            current += character
    pieces.append(current)
    return [piece.strip() for piece in pieces if piece.strip()]


def _ranges(inside: str, piece: str) -> list[tuple[range, int]]:
    """Return the numbers of a pair of brackets, each range with the width of its numbers. Raises ValueError."""
    found = []
    for item in inside.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"expected numbers like [1-3,7], got [{inside}] in {piece!r}")
        numbers = range(int(first), int(last or first) + 1)
        if numbers.stop <= numbers.start:
            raise ValueError(f"range {item.strip()} counts down in {piece!r}")
        found.append((numbers, len(first) if first.startswith("0") else 0))
    return found


def is_address(text: str) -> bool:
    """Return True for an IP address, with or without an interface (fe80::1%eth0), and False for a name."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
