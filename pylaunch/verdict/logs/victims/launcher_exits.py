"""Reports of launchers about the ranks that ended: a signal that no failure and no stop precedes is the end. Pure.

Where a launcher's time limit ended a run, the rank that stood at another line than all others held them up.
"""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue, default
from pylaunch.verdict.logs.scan import KeptLine, LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.rank_ends import AT_WORK, LONGEST_LINE

LIMIT = "launcher-limit"
EXITS = ("rank-exit", "process-exits", LIMIT)
"""Signatures of such reports."""

ANY_LEVEL = (*EXITS, "prompt-unanswered")
"""Signatures of lines that count whatever level is in them."""

STOPS = "launcher-stops"
"""Signature of a launcher that ends the other ranks."""

_STOPPED = "stopped-from-outside"
_SIGNALS = {
    1: (_STOPPED, "SIGHUP: its terminal or session went away"), 2: (_STOPPED, "SIGINT"), 15: (_STOPPED, "SIGTERM"),
    9: ("killed", "SIGKILL"), 4: ("native-crash", "SIGILL"), 7: ("native-crash", "SIGBUS"),
    8: ("native-crash", "SIGFPE"), 11: ("native-crash", "SIGSEGV"),
}  # fmt: skip
"""Signals without a message of their own: after SIGABRT, a message is in the log."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HELD = re.compile(r"(?i)\b(?:acquir\w{1,4}|lock\w{0,4}|wait\w{0,4} for|(?:re)?filling|open\w{0,4}|connect\w{0,4})\b")
"""Words of a rank that waits for a file, a lock or a server."""

_OF_A_SHELL = 128


def read_exit(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal that ended the rank which a launcher reports first; else a report without a cause."""
    if match.signature.id == LIMIT:
        return _read_stall(match, facts) or default(match)
    named = {name.rstrip("2"): value for name, value in match.groups.items()}
    code = int(named["code"])
    if code == 0:
        return Clue("unexplained", match.signature.means, Confidence.LOW, role=Role.BENIGN)
    signal = code if "by_signal" in named else -code if code < 0 else code - _OF_A_SHELL
    before = [each for name in (*EXITS, STOPS) for each in facts.of(name) if _is_failure(each)]
    is_first = all(each.file != match.file or each.line >= match.line for each in before)
    if signal not in _SIGNALS or not is_first or (signal == 1 and not _has_ended_with(facts, _OF_A_SHELL + 1)):
        return default(match)
    cause, how = _SIGNALS[signal]
    if "rank" not in named:
        return Clue(cause, f"process {named['name']} was ended by {how}", Confidence.MEDIUM, role=Role.ROOT)
    rank = int(named["rank"])
    because = "the launcher reports it as the first end"
    return Clue(
        cause,
        f"rank {rank} was ended by {how}{facts.ends.shown_last(rank)}",
        Confidence.MEDIUM,
        (rank,),
        Role.ROOT,
        because,
    )


def _read_stall(match: LogMatch, facts: LogFacts) -> Clue | None:
    """Return the one rank whose last line before the time limit is another one than that of all others."""
    last: dict[int, KeptLine] = {}
    for line in facts.by_file[match.file].tail:
        if line.line < match.line and line.origin.rank is not None:
            last[line.origin.rank] = line
    shapes: dict[str, list[int]] = {}
    for rank, line in last.items():
        shapes.setdefault(_NUMBER.sub("#", line.text), []).append(rank)
    order = sorted(shapes.values(), key=len)
    if len(order) != 2 or len(order[0]) != 1 or len(order[1]) < 2:
        return None
    rank = order[0][0]
    shown = visible_line(last[rank].text)[:LONGEST_LINE]
    cause = "data-wait" if AT_WORK.search(shown) or _HELD.search(shown) else "rank-absent"
    text = f"rank {rank} stood at another line than the others until the launcher's time limit: {shown!r}"
    because = f"{named_ranks(tuple(sorted(order[1])))} stood at one and the same line"
    return Clue(cause, text, Confidence.MEDIUM, (rank,), Role.ROOT, because)


def _is_failure(report: LogMatch) -> bool:
    return report.groups.get("code", report.groups.get("code2")) != "0"


def _has_ended_with(facts: LogFacts, code: int) -> bool:
    """Return True if a log ends with the report of a code: -1 alone may be no signal."""
    return any(f" {code}" in line.text for scan in facts.scans for line in scan.tail[-3:])
