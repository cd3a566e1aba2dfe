"""Reports of launchers about the ranks that ended: a signal that no failure and no stop precedes is the end. Pure."""

from __future__ import annotations

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.reading import Clue, default
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role

EXITS = ("rank-exit", "process-exits")
"""Signatures of such reports."""

STOPS = "launcher-stops"
"""Signature of a launcher that ends the other ranks."""

_STOPPED = "stopped-from-outside"
_SIGNALS = {
    1: (_STOPPED, "SIGHUP: its terminal or session went away"), 2: (_STOPPED, "SIGINT"), 15: (_STOPPED, "SIGTERM"),
    9: ("killed", "SIGKILL"), 4: ("native-crash", "SIGILL"), 7: ("native-crash", "SIGBUS"),
    8: ("native-crash", "SIGFPE"), 11: ("native-crash", "SIGSEGV"),
}  # fmt: skip
"""Signals without a message of their own: after SIGABRT, a message is in the log."""

_OF_A_SHELL = 128


def read_exit(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal that ended the rank which a launcher reports first; else a report without a cause."""
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
    line = facts.ends.last.get(rank)
    last = "" if line is None else f"; its last line is {line.text[:160]!r}"
    because = "the launcher reports it as the first end"
    return Clue(cause, f"rank {rank} was ended by {how}{last}", Confidence.MEDIUM, (rank,), Role.ROOT, because)


def _is_failure(report: LogMatch) -> bool:
    return report.groups.get("code", report.groups.get("code2")) != "0"


def _has_ended_with(facts: LogFacts, code: int) -> bool:
    """Return True if a log ends with the report of a code: -1 alone may be no signal."""
    return any(f" {code}" in line.text for scan in facts.scans for line in scan.tail[-3:])
