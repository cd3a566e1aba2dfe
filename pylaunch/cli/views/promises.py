"""Results of `pylaunch verify`: promises that are not kept, by hosts, with reason and next step. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.finding_lines import INDENT
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.provision.specifications import SpecificationResult

MOST_LINES = 12
_MARKS = {"failed": "FAIL", "error": "????", "skipped": "skip"}
_PREFIX = re.compile(r"^(?:Failed|AssertionError|Skipped): ")
_COMMAND = re.compile(
    r"""CommandResult\(backend=<[^>]*>, exit_status=\d+, command=b(['"])(?P<command>.*?)\1, """
    r"""_stdout=b(['"]).*?\3, _stderr=b(['"])(?P<stderr>.*?)\4\)"""
)
"""Answer of a command as testinfra prints it, with an address that differs from host to host."""

_HOSTS = "\0"
"""Stands for the host's own name in a message, so that equal messages of several hosts are one."""


@dataclass(frozen=True)
class _Kind:
    """Properties of results that are shown together."""

    outcome: str
    role: str | None
    promise: str
    """"" for skipped ones, which are only counted."""

    message: str
    evidence: tuple[str, ...]


def lines(results: Iterable[SpecificationResult], inventory: str) -> list[str]:
    """Return the lines of results that did not pass, skipped ones last."""
    kinds: dict[_Kind, list[SpecificationResult]] = {}
    for each in results:
        if each.outcome != "passed":
            kinds.setdefault(_kind(each), []).append(each)
    ordered = sorted(kinds.items(), key=lambda item: list(_MARKS).index(item[0].outcome))
    return [line for kind, found in ordered for line in _shown(kind, found, inventory)]


def summary(results: Sequence[SpecificationResult], hosts: int, seconds: str) -> str:
    """The last line: "54 promises on 3 hosts in 12 s: 49 kept, 2 not kept, 3 skipped"."""
    counts = {outcome: sum(each.outcome == outcome for each in results) for outcome in _MARKS}
    words = {"failed": "not kept", "error": "could not be judged", "skipped": "skipped"}
    kept = len(results) - sum(counts.values())
    parts = [f"{kept} kept", *(f"{count} {words[outcome]}" for outcome, count in counts.items() if count)]
    of = f"{len(results)} promise{'s' * (len(results) != 1)} on {hosts} host{'s' * (hosts != 1)}"
    return f"{of} in {seconds}: {', '.join(parts) if kept < len(results) else 'all kept'}"


def _kind(result: SpecificationResult) -> _Kind:
    promise = result.specification.partition(".")[2].removeprefix("test_").replace("_", " ")
    message = _COMMAND.sub(r"\g<command>: \g<stderr>", _PREFIX.sub("", result.message))
    if result.host is not None:
        message = re.sub(rf"(?<![\w-]){re.escape(result.host)}(?![\w-])", _HOSTS, message)
    is_skipped = result.outcome == "skipped"
    return _Kind(result.outcome, result.role, "" if is_skipped else promise, message, result.evidence)


def _shown(kind: _Kind, found: Sequence[SpecificationResult], inventory: str) -> list[str]:
    names = {each.host: None for each in found if each.host is not None}
    hosts = fold(names) if names else "all hosts"
    reason = kind.message.replace(_HOSTS, hosts)
    role = f"  [{kind.role}]" if kind.role else ""
    if kind.outcome == "skipped":
        promises = len({each.specification for each in found})
        return [f"skip  {hosts}: {promises} promise{'s' * (promises != 1)}: {reason}{role}"]
    rest = len(kind.evidence) - MOST_LINES
    return [
        f"{_MARKS[kind.outcome]}  {hosts}: {kind.promise}{role}",
        f"{INDENT}| {reason}",
        *(f"{INDENT}| {line}" for line in kind.evidence[:MOST_LINES]),
        *([f"{INDENT}| and {rest} more lines"] if rest > 0 else []),
        f"{INDENT}fix: {_fix(kind, list(names), inventory)}",
    ]


def _fix(kind: _Kind, hosts: Sequence[str], inventory: str) -> str:
    roles = ("--roles", kind.role) if kind.role else ()
    limit = ("--limit", fold(hosts)) if hosts else ()
    return quoted(("pylaunch", "provision", "-i", inventory, *roles, *limit))
