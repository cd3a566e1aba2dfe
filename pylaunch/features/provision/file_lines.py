"""Lines of files that tasks changed, or would change in check mode. Pure."""

import difflib
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.transport.runner import TaskChange


@dataclass(frozen=True)
class FileDifference:
    """A change of one file, as the lines of a unified diff."""

    role: str
    path: str
    lines: tuple[str, ...]


def file_lines(changes: Iterable[TaskChange]) -> dict[str, tuple[FileDifference, ...]]:
    """Return the lines that differ in each file, by host; hosts without changes of lines are omitted."""
    found: dict[str, list[FileDifference]] = {}
    for change in changes:
        found.setdefault(change.host, []).extend(_lines(change))
    return {host: tuple(each) for host, each in found.items() if each}


def _lines(change: TaskChange) -> Iterator[FileDifference]:
    for diff in change.diffs:
        before, after = diff.get("before"), diff.get("after")
        # Some modules name the path in a header: "/etc/hosts (content)".
        path = str(diff.get("path") or diff.get("before_header") or "").partition(" (")[0]
        if path and isinstance(before, str) and isinstance(after, str):
            names = (path if before else "/dev/null", path)
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, n=1, lineterm="")
            if difference := tuple(lines):
                yield FileDifference(change.role, path, difference)
