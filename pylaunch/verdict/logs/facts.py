"""Facts across the logs of all ranks: versions, progress of collectives, silent ranks, order in time. Pure."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

from pylaunch.base.dataclass import dataclass
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import KeptLine, LogMatch, LogScan
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import ExceptionUnit, continues, lines_inside
from pylaunch.verdict.logs.victims.rank_ends import RankEnds, rank_ends
from pylaunch.verdict.logs.victims.timeouts import CollectiveTimeouts, collective_timeouts

NEAR_LINES = 60
"""A cause is at most this many lines before the end of its log, or `FOLLOWED_LINES` before the next sign of failure."""

FOLLOWED_LINES = 400
_PROCESSES = 65_536


@dataclass(frozen=True)
class LogFacts:
    """Content of all logs together."""

    scans: Sequence[LogScan]

    @cached_property
    def matches(self) -> list[LogMatch]:
        """All matches, in the order of the logs and their lines."""
        return [match for scan in self.scans for match in scan.matches]

    @cached_property
    def by_file(self) -> dict[str, LogScan]:
        """Log by name."""
        return {scan.file: scan for scan in self.scans}

    @cached_property
    def ids(self) -> frozenset[str]:
        """Signatures that were found."""
        return frozenset(match.signature.id for match in self.matches)

    def of(self, signature: str) -> list[LogMatch]:
        """Return the matches of a signature."""
        return self._by_signature.get(signature, [])

    @cached_property
    def _by_signature(self) -> dict[str, list[LogMatch]]:
        found: dict[str, list[LogMatch]] = defaultdict(list)
        for match in self.matches:
            found[match.signature.id].append(match)
        return dict(found)

    @cached_property
    def ranks(self) -> frozenset[int]:
        """Ranks that wrote a line or are named in one."""
        found = {rank for scan in self.scans for rank in scan.ranks}
        found |= {scan.origin.rank for scan in self.scans if scan.origin.rank is not None}
        found |= {match.origin.rank for match in self.matches if match.origin.rank is not None}
        return frozenset(rank for rank in found if rank < _PROCESSES)

    @cached_property
    def failures(self) -> dict[str, list[int]]:
        """Lines with a sign of failure, by file: roots, symptoms, wrappers and exceptions."""
        lines: dict[str, list[int]] = defaultdict(list)
        for match in self.matches:
            if match.signature.role in (Role.ROOT, Role.SYMPTOM, Role.WRAPPER):
                lines[match.file].append(match.line)
        for scan in self.scans:
            lines[scan.file] += [raised.line for unit in scan.exceptions for raised in unit.chain]
        return {file: sorted(numbers) for file, numbers in lines.items()}

    def is_fatal(self, file: str, line: int) -> bool:
        """Return True unless the log continues normally after the line: then the program survived it."""
        scan = self.by_file[file]
        if scan.lines - line <= NEAR_LINES:
            return True
        failures, reach = self.failures.get(file, []), line
        at = bisect_right(failures, line)
        if at < len(failures) and failures[at] <= line + FOLLOWED_LINES:
            reach = self._reaches[file][at]
        return scan.lines - reach <= FOLLOWED_LINES

    @cached_property
    def _reaches(self) -> dict[str, list[int]]:
        """Last line of the series of failures without a gap to which each one in `failures` belongs, by file."""
        found = {}
        for file, numbers in self.failures.items():
            reaches = list(numbers)
            for at in range(len(numbers) - 2, -1, -1):
                if numbers[at + 1] <= numbers[at] + FOLLOWED_LINES:
                    reaches[at] = reaches[at + 1]
            found[file] = reaches
        return found

    def is_in_exception(self, file: str, line: int) -> bool:
        """Return True if a line is within a traceback or its chain."""
        return self._exceptions[file](line)

    @cached_property
    def _exceptions(self) -> dict[str, Callable[[int], bool]]:
        return {scan.file: lines_inside(scan.exceptions) for scan in self.scans}

    @property
    def ended_by_signal(self) -> bool:
        """True if all reported ends are by SIGSEGV, SIGBUS or SIGKILL: an exception would end with an exit code."""
        return bool(self.ids & _SIGNALS) and not self.ids & _EXIT_CODES

    def is_handled(self, file: str, line: int) -> bool:
        """Return True for a line of an exception that a logger printed, and that its process survived."""
        return self._handled[file](line)

    def is_continued(self, match: LogMatch) -> bool:
        """Return True for a line with words of a program that continues, after which its process printed others.

        Not for the exception of a traceback: whoever raised it did not know what the program does then.
        """
        last = self.by_file[match.file].last.get(match.origin)
        is_later = last is not None and last.line > match.line
        return is_later and continues(match.text) and not self.is_in_exception(match.file, match.line)

    @cached_property
    def _handled(self) -> dict[str, Callable[[int], bool]]:
        return {scan.file: lines_inside(self._handled_in(scan)) for scan in self.scans}

    def _handled_in(self, scan: LogScan) -> list[ExceptionUnit]:
        warned = [each for each in scan.exceptions if each.is_warned and self._goes_on(scan, each)]
        logged = [each for each in scan.exceptions if each.is_logged]
        if not logged or any(_FAILS.search(line.text) for line in scan.tail[-LAST_LINES:]):
            return warned
        is_logged = lines_inside(logged)
        last = max((line for line in self.failures[scan.file] if not is_logged(line)), default=0)
        return warned + [each for each in logged if each.line > last and scan.lines - each.last >= LAST_LINES]

    def _goes_on(self, scan: LogScan, unit: ExceptionUnit) -> bool:
        last = scan.last.get(unit.origin)
        is_of_one = unit.origin.rank is not None or len(scan.ranks) < 2
        return is_of_one and last is not None and last.line > unit.last and not _AT_EXIT.match(last.text)

    def is_survived(self, file: str, line: int, origin: Origin) -> bool:
        """Return True if the process, or enough of the processes in the log, made progress after the line.

        Prints without a time count only if there were some before the line, too: Python may flush them at the exit.
        """
        scan = self.by_file[file]
        if any(each.file == file and each.line > line for each in self.of("benchmark-result")):
            return True
        is_process = origin.rank is not None or len(scan.ranks) < 2  # Else several processes have this origin.
        if (origin in scan.progress and is_process) or (origin.rank is not None and len(scan.progress) > 1):
            numbers, enough = scan.progress.get(origin, []), 1
        else:
            numbers, enough = self._progress[file], max(4, len(scan.ranks))
        later = len(numbers) - bisect_right(numbers, line)
        return later >= enough and (scan.times_progress or later < len(numbers))

    def steps_after(self, file: str, line: int) -> int:
        """Return the number of lines with progress after a line, of those near the end of its log."""
        return len(self._progress[file]) - bisect_right(self._progress[file], line)

    @cached_property
    def _progress(self) -> dict[str, list[int]]:
        """Lines with progress of all processes, by file."""
        return {scan.file: sorted(itertools.chain(*scan.progress.values())) for scan in self.scans}

    @cached_property
    def ends(self) -> RankEnds:
        """Victims, ranks without an error, and the rank that ended first."""
        return rank_ends(self.scans, self.matches)

    @cached_property
    def timeouts(self) -> CollectiveTimeouts:
        """Collective time-outs of all ranks."""
        return collective_timeouts(self.matches, self.scans)


_AT_EXIT = re.compile(r"\[?[WEF]\d{4} |Exception ignored")
"""Lines that native code, or Python itself, prints when a process ends."""

_SIGNALS = {"elastic-sigsegv", "elastic-sigbus", "elastic-sigkill", "slurm-task-killed"}
_EXIT_CODES = {"elastic-exitcode", "ds-returncode", "slurm-task-exit", "mpi-abort", "elastic-sigabrt"}

LAST_LINES = 3
_FAILS = re.compile(
    r"(?i)\b(?:rc|exit(?:ed)?(?: with)?(?: code| status)?)[ :=]{1,3}-?[1-9]|fail|error|abort|fatal|died|timed out"
)
"""Words at the end of a log that report a failure."""


def is_before(one: LogMatch | KeptLine, other: LogMatch | KeptLine) -> bool | None:
    """Return True if a line was written before another; None if nothing shows it."""
    if one.time and other.time and one.time.zone == other.time.zone and one.time.seconds != other.time.seconds:
        return one.time.seconds < other.time.seconds
    return one.line < other.line if one.file == other.file else None
