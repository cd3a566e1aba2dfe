"""Ends of the ranks as the logs show them: victims, ranks without an error, and the rank that ended first. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from signal import Signals

from pylaunch.base.dataclass import dataclass
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import KeptLine, LogMatch, LogScan
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.traceback import continues

FIRST_END = ("first-end", "first-end-of-step", "rank-exit")
"""Signatures of a launcher's report about the rank that ended first."""

AGENT = "agent-failed"
"""Signature of the torchrun of a node about the rank of its own that ended first."""

STOPS = "launcher-stops"
"""Signature of a launcher that ends the other ranks."""

WORLD = "world-size"
"""Signature of the number of ranks: logs of a part of them show no rank that stands out."""

_TERMINATED = re.compile(r"rank {1,8}: (\d{1,7}) \(local_rank: \d{1,7}\) exitcode {1,4}: -15 ")
LONGEST_LINE = 160
AFTER = 2
"""Lines that the process of an uncaught exception may still print."""


@dataclass(frozen=True)
class FirstEnd:
    """Rank that a launcher saw end first."""

    rank: int
    code: int
    """Exit code; the negative number of a signal."""


@dataclass(frozen=True)
class RankEnds:
    """Ranks of a run by what their lines show of their end."""

    victims: frozenset[int]
    """Ranks that waited until a timeout, or lost a connection."""

    silent: tuple[int, ...]
    """Ranks that wrote a line, or are numbered among those that did, and are no victims."""

    last: dict[int, KeptLine]
    """Last line of each rank near the end of its log."""

    erring: frozenset[int]
    """Ranks that end with an exception."""

    stopped: frozenset[int]
    """Ranks that ended by the SIGTERM of torchrun, after the first end."""

    first: FirstEnd | None

    is_anonymous: bool
    """Exceptions or texts of victims are in a log that does not show their rank."""

    def ended_after(self, match: LogMatch) -> bool:
        """Return True if the rank of a line, which is no exception, printed afterwards that it ended in order."""
        line = None if match.origin.rank is None or match.exception is not None else self.last.get(match.origin.rank)
        return line is not None and line.line > match.line and ENDED.search(line.text) is not None

    errors: dict[int, KeptLine]
    """Last line of each rank that has the form of an error, where the search kept such lines."""

    def shown_last(self, rank: int) -> str:
        """Return the clause with the last line of a rank; "" without one."""
        line = self.last.get(rank)
        return "" if line is None else f"; its last line is {visible_line(line.text)[:LONGEST_LINE]!r}"


def rank_ends(scans: Sequence[LogScan], matches: Sequence[LogMatch]) -> RankEnds:
    """Return the ends of all ranks."""
    origins = [origin for scan in scans for origin in (scan.origin, *scan.last)]
    origins += [match.origin for match in matches]
    number = _numbering(origins)
    symptoms = [(number(each.origin), each) for each in matches if each.signature.role is Role.SYMPTOM]
    units = [unit for scan in scans for unit in scan.exceptions if not LAUNCHER.search(unit.chain[-1].type)]
    lost = [unit for unit in units if ABOUT_OTHERS.search(unit.chain[-1].text)]
    victims = frozenset(
        rank for rank in (*(rank for rank, _ in symptoms), *(number(each.origin) for each in lost)) if rank is not None
    )
    last: dict[int, KeptLine] = {}
    for line in (line for scan in scans for line in scan.last.values()):
        if (rank := number(line.origin)) is not None:
            last[rank] = line
    present = {rank for origin in origins if (rank := number(origin)) is not None} | {*last}
    present |= {rank for scan in scans for rank in scan.writers}
    if victims and len(scans) == 1 and scans[0].origin.rank is None:
        present |= set(range(max(present) + 1))  # One log that ranks share is the log of all of them.
    present |= set(range(max((int(each.groups["world"]) for each in matches if each.signature.id == WORLD), default=0)))
    is_anonymous = any(number(unit.origin) is None for unit in units) or any(
        rank is None and each.signature.page == "collectives" for rank, each in symptoms
    )
    erring = {
        rank
        for unit in units
        if (rank := number(unit.origin)) is not None
        and (rank not in last or last[rank].line <= unit.last + (0 if unit.is_warned else AFTER))
    }
    silent = tuple(sorted(present - victims - erring))
    errors: dict[int, KeptLine] = {}
    for line in (line for scan in scans for line in scan.errors):
        if (rank := number(line.origin)) is not None and not continues(line.text):
            errors[rank] = line
    ended = _TERMINATED.findall(" ".join(line.text for scan in scans for line in scan.tail))
    stopped, first = frozenset(int(rank) for rank in ended), _first_end(matches, last)
    return RankEnds(victims, silent, last, frozenset(erring), stopped, first, is_anonymous, errors)


LAUNCHER = re.compile(
    r"ChildFailedError|CalledProcessError|SignalException|ProcessRaisedException|ProcessExitedException"
)
"""Exceptions of launchers."""


ABOUT_OTHERS = re.compile(
    r"(?i)time.?out|timed out|\bpeer|connect|refused|reset by|broken.?pipe|\bEOF|\bclosed\b|unreachable|rendezvous"
    r"|barrier|\bjoined\b|deadline|socket|keyboardinterrupt|SIGTERM"
)
"""Words of an exception about other processes."""


def _numbering(origins: Sequence[Origin]) -> Callable[[Origin], int | None]:
    """Return the function from an origin to its rank: the local one where no line shows that they differ."""
    both = [each for each in origins if each.rank is not None and each.local is not None]
    is_local = bool(both) and all(each.rank == each.local for each in both)

    def number(origin: Origin) -> int | None:
        return origin.local if origin.rank is None and is_local else origin.rank

    return number


def _first_end(matches: Sequence[LogMatch], printed: Mapping[int, KeptLine]) -> FirstEnd | None:
    """Return the rank whose end a launcher reports as the first; None if several launchers disagree.

    srun and mpirun report ends in their order; the torchrun of each node reports its first one with the time. Without
    such a report, the local rank counts of the only torchrun, if a rank of this number printed a line.
    """
    own = [match for match in matches if match.signature.id == AGENT and int(match.groups["rank"]) in printed]
    reports = [match for match in matches if match.signature.id in FIRST_END and match.groups.get("code") != "0"]
    timed = sorted((match for match in reports if "time" in match.groups), key=lambda match: match.groups["time"])
    if len({match.groups["rank"] for match in timed}) > 1 and timed[0].groups["time"] == timed[1].groups["time"]:
        return None
    own = own if len({match.groups["agent"] for match in own}) == 1 else []
    if not (chosen := next(iter(timed or reports or own), None)):
        return None
    named = {name.rstrip("23"): value for name, value in chosen.groups.items()}
    code = int(named["code"]) if "code" in named else -SIGNAL_NUMBERS.get(named["signal"], 0)
    return FirstEnd(int(named["rank"]), code)


SIGNAL_NUMBERS = {
    "Killed": 9, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Terminated": 15, "Hangup": 1,
    "Illegal instruction": 4, "Floating point exception": 8, "User defined signal 1": 10, "User defined signal 2": 12,
    **{str(number): number for number in range(1, 32)}, **{each.name: each.value for each in Signals},
}  # fmt: skip
"""Numbers of signals by the words of a shell, by their digits and by their names."""

_STOPPED = "stopped-from-outside"
SIGNALS = {
    1: (_STOPPED, "SIGHUP: its terminal or session went away"), 2: (_STOPPED, "SIGINT"), 15: (_STOPPED, "SIGTERM"),
    9: ("killed", "SIGKILL"), 4: ("native-crash", "SIGILL"), 7: ("native-crash", "SIGBUS"),
    8: ("native-crash", "SIGFPE"), 11: ("native-crash", "SIGSEGV"),
    10: (_STOPPED, "SIGUSR1, for which it has no handler"), 12: (_STOPPED, "SIGUSR2, for which it has no handler"),
}  # fmt: skip
"""Causes and words of signals without a message of their own: after SIGABRT, a message is in the log."""


ENDED = re.compile(
    r"(?i)\b(?:finish(?:ed)?|completed|(?<!to )(?<!rendezvous )complete|saved (?:final|last)"
    r"|done|exit(?:ing|ed)? (?:with )?(?:code )?0|success(?:fully)?"
    r"|bye|early[- ]stop\w{0,4}|all (?:steps|epochs))"
    r"\b(?![: ]{1,2}(?:(?:global |micro-?)?(?:step|batch|iter(?:ation)?)\b|\d+/\d))"
)
"""Words of a rank that ended in order, not those of a step."""

AT_WORK = re.compile(
    r"(?i)\b(?:saving|saves|(?:down|up)?load(?:ing|s)|evaluat(?:ing|es|ion)|validat(?:ing|es|ion)|prepar(?:ing|es)"
    r"|tokeniz(?:ing|es)|index(?:ing|es)|build(?:ing|s)|pre-?process(?:ing|es)|generating|generates|caching|compil(?:ing|es)"
    r"|convert(?:ing|s)|merging|export(?:ing|s)|read(?:ing|s)|writ(?:ing|es)|scan(?:ning|s)|copy(?:ing)|extract(?:ing|s)"
    r"|pack(?:ing|s)|shuffl(?:ing|es)|count(?:ing|s)|comput(?:ing|es)|fetch(?:ing|es)|serializ(?:ing|es))\b|\d{1,3}%\|"
)
"""Words of a rank that works on something while others wait for it."""
