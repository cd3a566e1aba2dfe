"""What the specifications of `pylaunch verify` came to, read from the JUnit report that pytest writes. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass

_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}


@dataclass(frozen=True)
class SpecificationResult:
    """One specification on one host."""

    host: str | None
    role: str | None
    specification: str
    outcome: str
    """passed, failed, skipped, or error: it could not be judged."""

    message: str
    """Why it did not pass; the first line of what pytest says."""

    evidence: tuple[str, ...] = ()
    """The lines after it, all of them."""


def results(junit: str) -> Iterator[SpecificationResult]:
    """Every result in a report, in the order in which the specifications ran."""
    for case in ElementTree.fromstring(junit).iter("testcase"):
        own = {each.get("name", ""): each.get("value", "") for each in case.iter("property")}
        told = next((each for each in case if each.tag in _OUTCOMES), None)
        message = (told.get("message") or told.text or "").strip().splitlines() if told is not None else []
        yield SpecificationResult(
            own.get("host"),
            own.get("role"),
            f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}",
            "passed" if told is None else _OUTCOMES[told.tag],
            message[0] if message else "",
            () if told is None else _evidence(told.text or ""),
        )


def _evidence(text: str) -> tuple[str, ...]:
    """What pytest says below the first line, without the source of the specification and what it says of operands."""
    lines = text.strip().splitlines()
    told = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
    return tuple(line for line in told[1:] if line.strip() and not line.startswith(("assert ", "+ ", " + ")))
