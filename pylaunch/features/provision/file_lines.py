"""Lines of files that tasks changed, or would change in check mode. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.features.provision.manifest import NO_RECORD, OTHER_INPUTS, Change
from pylaunch.transport.runner import Failure, PlaybookResult, TaskChange


@dataclass(frozen=True)
class FileDifference:
    """A change of one file, as the lines of a unified diff."""

    role: str
    path: str
    lines: tuple[str, ...]

    @property
    def count(self) -> str:
        """Added and removed lines: "+1 -2"."""
        bodies = self.lines[2:]
        added, removed = (sum(line.startswith(sign) for line in bodies) for sign in "+-")
        return f"+{added} -{removed}"


def file_lines(changes: Iterable[TaskChange]) -> dict[str, tuple[FileDifference, ...]]:
    """Return the lines that differ in each file, by host; hosts without changes of lines are omitted."""
    found: dict[str, list[FileDifference]] = {}
    for change in changes:
        found.setdefault(change.host, []).extend(_lines(change))
    return {host: tuple(each) for host, each in found.items() if each}


def _lines(change: TaskChange) -> Iterator[FileDifference]:
    for diff in change.diffs:
        before, after = diff.get("before"), diff.get("after")
        path = _path(diff)
        if path and isinstance(before, str) and isinstance(after, str):
            names = (path if before else "/dev/null", path)
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, n=1, lineterm="")
            if difference := tuple(lines):
                yield FileDifference(change.role, path, difference)


def _path(diff: Mapping[str, Any]) -> str:
    """Return the path of a difference, or that of its header: "/etc/hosts (content)"."""
    return str(diff.get("path") or diff.get("before_header") or "").partition(" (")[0]


def _how(diff: Mapping[str, Any]) -> str:
    before = diff.get("before")
    if isinstance(before, Mapping):
        return "missing" if before.get("state") == "absent" else "attributes differ"
    return "content differs"


def planned(found: Iterable[Change], host: str, result: PlaybookResult) -> tuple[Change, ...]:
    """Return the changes of `host`: those that its manifest shows, then those that check mode adds.

    That a role has no record, or other inputs, is a change of its own only where check mode reports none.
    """
    known = [change for change in found if change.subject not in (NO_RECORD, OTHER_INPUTS)]
    drifted = {change.role for change in known}
    paths = {(change.role, change.subject) for change in known}
    added: list[Change] = []
    for task in result.changes:
        if task.host == host:
            files = {_path(diff): _how(diff) for diff in task.diffs if _path(diff)}
            added += [Change(task.role, path, how) for path, how in files.items() if (task.role, path) not in paths]
            if not files and task.role not in drifted:
                added.append(Change(task.role, task.task, "would change"))
    added += [_failing(failure) for failure in result.failures if failure.host == host]
    explained = {change.role for change in (*known, *added)}
    return (
        *known,
        *dict.fromkeys(added),
        *(each for each in found if each not in known and each.role not in explained),
    )


def _failing(failure: Failure) -> Change:
    return Change(failure.role, failure.task, f"would fail: {failure.message.splitlines()[0]}")
