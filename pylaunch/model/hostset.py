"""Host names as people write and read them: `gpu[01-03,07]` is gpu01, gpu02, gpu03 and gpu07."""

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
    if "[" in text and (count := _count(text)) > MOST_NAMES:
        raise ValueError(f"{text!r} stands for {count} hosts; at most {MOST_NAMES} can be named so")
    names: dict[str, None] = {}
    for piece in _split_outside_brackets(text):
        for name in _expand_one(piece):
            names[name] = None
    return tuple(names)


def _count(text: str) -> int:
    """Count the names that `text` means without expanding them. Malformed brackets count as one."""
    return sum(math.prod(map(_length, _BRACKETS.findall(piece))) for piece in _split_outside_brackets(text))


def _length(inside: str) -> int:
    pairs = (item.strip().partition("-") for item in inside.split(","))
    bounds = [(first, last or first) for first, _, last in pairs]
    if not all(first.isdecimal() and last.isdecimal() for first, last in bounds):
        return 1
    return max(1, sum(int(last) - int(first) + 1 for first, last in bounds))


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


def _expand_one(piece: str) -> list[str]:
    if _IPV6.fullmatch(piece):
        return [piece]
    match = _BRACKETS.search(piece)
    if match is None:
        if "[" in piece or "]" in piece:
            raise ValueError(f"unbalanced bracket in {piece!r}")
        return [piece]
    head, tail = piece[: match.start()], piece[match.end() :]
    return [head + number + rest for number in _numbers(match.group(1), piece) for rest in _expand_one(tail) or [""]]


def _numbers(inside: str, piece: str) -> list[str]:
    numbers: list[str] = []
    for item in inside.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"expected numbers like [1-3,7], got [{inside}] in {piece!r}")
        last = last or first
        if int(last) < int(first):
            raise ValueError(f"range {item.strip()} counts down in {piece!r}")
        width = len(first) if first.startswith("0") else 0
        numbers += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def is_address(text: str) -> bool:
    """Return True for an IP address, with or without an interface (fe80::1%eth0), and False for a name."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
