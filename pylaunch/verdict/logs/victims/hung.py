"""Runs that hung until a signal to their launcher, or their own watchdog, ended them: a lock, a file, an end. Pure.

Only what the ranks of a run cannot show in passing counts: who stops a healthy run may do so at any line.
"""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue, default
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import frame_in, is_of_library
from pylaunch.verdict.logs.victims.rank_ends import AT_WORK, LONGEST_LINE

LEAST = 3
"""Lines in a row that wait for the same file."""

_LOCKS = re.compile(r"\b(?:flock|lockf)\(")
_BLOCKS = re.compile(r"\b(?:flock|lockf|acquire|accept|recv|input|waitpid|communicate)\(|\.(?:get|join)\(\)")
"""Calls that wait for something else than a rank: for a lock of a file long, for the rest also in passing."""

_WAITS = re.compile(r"(?i)\bwait(?:s|ing|ed)? (?:for|until) (?:file )?(?P<path>/[^\s'\",;:]{2,300})")
_OVER = re.compile(
    r"(?i)\b(?:training|job|run|work|loop|main|all (?:steps|epochs|batches))\b.{0,12}"
    r"\b(?:finished|done|completed?|over)\b"
)
"""Words of a rank after its last step."""


def where_it_hung(match: LogMatch, facts: LogFacts) -> Clue | None:
    """Return where a run stood when its launcher got the signal of `match`; None if it may have made progress."""
    return _blocked(facts) or _of_file(match, facts) or _over(match, facts)


def _blocked(facts: LogFacts) -> Clue | None:
    """Return the only rank that SIGINT met in a call that waits for something else than a rank."""
    units = [unit for scan in facts.scans for unit in scan.exceptions if unit.chain[-1].type == "KeyboardInterrupt"]
    stood = {unit.origin.rank: unit.chain[-1] for unit in units if unit.origin.rank is not None}
    blocked = {rank: each for rank, each in stood.items() if not each.call and _BLOCKS.search(each.source)}
    if len(blocked) != 1 or stood.keys() == blocked.keys():
        return None
    ((rank, raised),) = blocked.items()
    is_lock = _LOCKS.search(raised.source) is not None
    cause, confidence = ("data-wait", Confidence.MEDIUM) if is_lock else ("rank-absent", Confidence.LOW)
    text = f"rank {rank} alone was blocked in {raised.source[:120]!r} ({raised.place}) when SIGINT ended the run"
    return Clue(cause, text, confidence, (rank,), because="the traceback of its KeyboardInterrupt")


def _of_file(match: LogMatch, facts: LogFacts) -> Clue | None:
    before = [line.text for line in facts.by_file[match.file].tail if line.line < match.line]
    waits = [_WAITS.search(text) for text in before if "death signal" not in text and "closing signal" not in text]
    paths = {"" if each is None else each["path"] for each in waits[-LEAST:]}
    if len(waits) < LEAST or len(paths) != 1 or "" in paths:
        return None
    text = f"the ranks waited for {paths.pop()}, which was not there when a signal ended the run"
    return Clue("file-missing", text, Confidence.MEDIUM, because="their last lines")


def _over(match: LogMatch, facts: LogFacts) -> Clue | None:
    """Return that the processes did not exit after all ranks had printed the end of their work."""
    last, before = facts.ends.last, [each for each in facts.by_file[match.file].tail if each.line < match.line]
    ended = [line.text for line in last.values() if line.line < match.line and _OVER.search(line.text)]
    if not last or len(ended) < len(last) or facts.own_exceptions:
        return None
    dump = next((each.line for each in before if "(most recent call first)" in each.text), match.line)
    frames = [frame_in(line.text) for line in before if line.line > dump]
    own = next((each for each in frames if each and not is_of_library(each)), "")
    text = f"the ranks had ended their work, but a process did not exit{f': a thread stands at {own}' if own else ''}"
    because = f"the last line of a rank is {visible_line(ended[0])[:LONGEST_LINE]!r}"
    return Clue("program-error", text, Confidence.MEDIUM, because=because)


def own_watchdog(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the work at which the watchdog of a program met a rank, if the line before its first one shows work."""
    first = facts.of(match.signature.id)[0]
    before = [line.text for line in facts.by_file[first.file].tail if line.line < first.line][-1:]
    if not before or not AT_WORK.search(before[0]):
        return default(match, Confidence.LOW)
    text = f"the program's own watchdog ended it while a rank was at work: {visible_line(before[0])[:LONGEST_LINE]!r}"
    return Clue("rank0-long-work", text, Confidence.MEDIUM, role=Role.ROOT, because="the line before the watchdog's")
