"""Facts across the logs of all ranks: versions, progress of collectives, silent ranks, order in time. Pure."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

from pylaunch.base.dataclass import dataclass
from pylaunch.verdict.logs.line import LogTime, Origin
from pylaunch.verdict.logs.scan import LogMatch, LogScan
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import LONGEST_REACH, continues, is_handled, lines_inside
from pylaunch.verdict.logs.victims.rank_ends import RankEnds, rank_ends
from pylaunch.verdict.logs.victims.timeouts import CollectiveTimeouts, collective_timeouts

NEAR_LINES = 60
"""A cause is at most this many lines before the end of its log, or `FOLLOWED_LINES` before the next sign of failure."""

FOLLOWED_LINES = 400
_PROCESSES = 65_536
SMALL_JOB = 8
"""Ranks that one machine has at most, most often."""


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
    def is_of_one_machine(self) -> bool:
        """True if the ranks of a small job connect from loopback addresses, and the logs show no second machine."""
        sizes = [int(found[1]) for match in self.matches if (found := _LOOPBACK.search(match.text))]
        hosts = {match.origin.host for match in self.matches if match.origin.host is not None}
        return bool(sizes) and max(sizes) <= SMALL_JOB and len(hosts) < 2

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

    def is_handled(self, file: str, line: int) -> bool:
        """Return True if a logger printed the exception of a line as a warning, and its process continued."""
        units = self._handled.get(file, [])
        at = bisect_right(units, (line, line + LONGEST_REACH))
        return any(first <= line <= last for first, last in units[max(0, at - 8) : at])

    def is_continued(self, match: LogMatch) -> bool:
        """Return True for a line with words of a program that continues, after which its process printed others.

        Not for the exception of a traceback: whoever raised it did not know what the program does then.
        """
        last = self.by_file[match.file].last.get(match.origin)
        is_later = last is not None and last.line > match.line
        return is_later and continues(match.text) and not self.is_in_exception(match.file, match.line)

    @cached_property
    def _handled(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for scan in self.scans:
            logged = self._survived_logs(scan)
            units = []
            for unit in scan.exceptions:
                last = scan.last.get(unit.origin)
                is_of_one = unit.origin.rank is not None or len(scan.ranks) < 2
                is_later = last is not None and last.line > unit.last and not _AT_EXIT.match(last.text)
                if (is_handled(unit) and is_of_one and is_later) or unit.line in logged:
                    units.append((unit.line, unit.last))
            found[scan.file] = sorted(units)
        return found

    def _survived_logs(self, scan: LogScan) -> set[int]:
        """Return the first lines of exceptions that a logger printed, and that no other failure follows soon.

        Nor the end of the log. Exceptions right after each other are one.
        """
        logged = sorted((each.line, each.last) for each in scan.exceptions if each.is_logged)
        is_logged = lines_inside(each for each in scan.exceptions if each.is_logged)
        plain = [line for line in self.failures.get(scan.file, []) if not is_logged(line)] if logged else []
        later, survived = [line.line for line in scan.tail], set()
        fails = any(_FAILS.search(line.text) for line in scan.tail[-LAST_LINES:])
        reach, after = 0, 0
        for first, last in reversed(logged):
            reach = reach if after and after <= last + SOON else last
            after = first
            at, left = bisect_right(plain, reach), len(later) - bisect_right(later, reach)
            is_followed = at < len(plain) and plain[at] <= reach + SOON
            if not is_followed and left >= LAST_LINES and not (left < SOON and fails):
                survived.add(first)
        return survived

    @property
    def ended_by_signal(self) -> bool:
        """True if all reported ends are by SIGSEGV, SIGBUS or SIGKILL: an exception would end with an exit code."""
        return bool(self.ids & _SIGNALS) and not self.ids & _EXIT_CODES

    def is_survived(self, file: str, line: int, origin: Origin) -> bool:
        """Return True if the process, or enough of the processes in the log, made progress after the line.

        Prints without a time count only if there were some before the line, too: Python may flush them at the exit.
        """
        scan = self.by_file[file]
        if any(each.file == file and each.line > line for each in self.of("benchmark-result")):
            return True
        if origin.rank is None and line in self._partial[file]:
            return False
        is_process = origin.rank is not None or len(scan.ranks) < 2  # Else several processes have this origin.
        if (origin in scan.progress and is_process) or (origin.rank is not None and len(scan.progress) > 1):
            numbers, enough = scan.progress.get(origin, []), 1
        else:
            numbers, enough = self._progress[file], max(4, len(scan.ranks))
        later = len(numbers) - bisect_right(numbers, line)
        return later >= enough and (scan.times_progress or later < len(numbers))

    @cached_property
    def _partial(self) -> dict[str, range]:
        """Lines after which some ranks made progress, and others none, by file."""
        found = {}
        for scan in self.scans:
            last = [numbers[-1] for origin, numbers in scan.progress.items() if origin.rank is not None]
            found[scan.file] = range(min(last) + 1, max(last)) if last else range(0)
        return found

    def steps_after(self, file: str, line: int) -> int:
        """Return the number of lines with progress after a line, of those near the end of its log."""
        numbers = self._progress[file]
        return len(numbers) - bisect_right(numbers, line)

    @cached_property
    def _progress(self) -> dict[str, list[int]]:
        """Lines with progress of all processes, by file."""
        return {scan.file: sorted(itertools.chain(*scan.progress.values())) for scan in self.scans}

    @property
    def made_progress(self) -> bool:
        """True if steps, epochs or losses were printed."""
        return any(scan.made_progress for scan in self.scans)

    @cached_property
    def ends(self) -> RankEnds:
        """Victims, ranks without an error, and the rank that ended first."""
        return rank_ends(self.scans, self.matches)

    @cached_property
    def waiting_places(self) -> dict[str, set[int]]:
        """Lines of the script at which ranks waited for others, with the ranks."""
        found: dict[str, set[int]] = defaultdict(set)
        lines = {(each.file, each.line) for each in self.matches if each.signature.role is Role.SYMPTOM}
        for unit in (unit for scan in self.scans for unit in scan.exceptions):
            for raised in unit.chain:
                if unit.origin.rank is not None and raised.call and (unit.file, raised.line) in lines:
                    found[f"{raised.call} ({raised.place})"].add(unit.origin.rank)
        return found

    @cached_property
    def timeouts(self) -> CollectiveTimeouts:
        """Collective time-outs of all ranks."""
        return collective_timeouts(self.matches, self.scans)


_AT_EXIT = re.compile(r"\[?[WEF]\d{4} |Exception ignored")
"""Lines that native code, or Python itself, prints when a process ends."""

SOON = 10
"""Lines after an exception that a logger printed among which the failure that it caused is reported."""

LAST_LINES = 3
_FAILS = re.compile(
    r"(?i)\b(?:rc|exit(?:ed)?(?: with)?(?: code| status)?)[ :=]{1,3}-?[1-9]|fail|error|abort|fatal|died|timed out"
)
"""Words at the end of a log that report a failure."""

_LOOPBACK = re.compile(r"size=(\d{1,7}), local=\[127\.")
_SIGNALS = {"elastic-sigsegv", "elastic-sigbus", "elastic-sigkill", "slurm-task-killed"}
_EXIT_CODES = {"elastic-exitcode", "ds-returncode", "slurm-task-exit", "mpi-abort", "elastic-sigabrt"}


def is_before(one: tuple[LogTime | None, str, int], other: tuple[LogTime | None, str, int]) -> bool | None:
    """Return True if a line (time, file, number) was written before another; None if nothing shows it."""
    (time, file, line), (time2, file2, line2) = one, other
    if time is not None and time2 is not None and time.zone == time2.zone and time.seconds != time2.seconds:
        return time.seconds < time2.seconds
    return line < line2 if file == file2 else None
