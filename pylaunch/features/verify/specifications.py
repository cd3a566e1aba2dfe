"""Results of the specifications of `pylaunch verify`, from the JUnit report of pytest. Pure."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

from pylaunch.base.dataclass import dataclass

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
    """Why it did not pass: the first line of pytest's report."""

    evidence: tuple[str, ...] = ()
    """The lines after the reason."""


def results(junit: str) -> Iterator[SpecificationResult]:
    """Return every result in a report, in the order in which the specifications ran."""
    for case in ElementTree.fromstring(junit).iter("testcase"):
        own = {each.get("name", ""): each.get("value", "") for each in case.iter("property")}
        verdict = next((each for each in case if each.tag in _OUTCOMES), None)
        message = (verdict.get("message") or verdict.text or "").strip().splitlines() if verdict is not None else []
        yield SpecificationResult(
            own.get("host"),
            own.get("role"),
            f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}",
            "passed" if verdict is None else _OUTCOMES[verdict.tag],
            message[0] if message else "",
            () if verdict is None else _evidence(verdict.text or ""),
        )


def _evidence(text: str) -> tuple[str, ...]:
    """Return pytest's report below the first line, without source lines and details of operands."""
    lines = text.strip().splitlines()
    report = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
    return tuple(line for line in report[1:] if line.strip() and not line.startswith(("assert ", "+ ", " + ")))
